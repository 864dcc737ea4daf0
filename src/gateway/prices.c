#include "gateway/bills.h"

#include <string.h>

enum { HOUR_S = 3600 };

static void list_done(struct td_prices *l)
{
	for (size_t i = 0; i < l->n; i++) {
		for (size_t k = 0; k < l->v[i].n_types; k++)
			free((char *)(uintptr_t)l->v[i].types[k].name);
		free((void *)(uintptr_t)l->v[i].types);
	}
	free((void *)(uintptr_t)l->v);
	*l = (struct td_prices){0};
}

void td_gateway_tariff_done(struct td_gateway_tariff *t)
{
	list_done(&t->all);
	for (size_t i = 0; i < t->n_own; i++) {
		free(t->own[i].account);
		list_done(&t->own[i].prices);
	}
	free(t->own);
	free(t->currency);
	*t = (struct td_gateway_tariff){0};
}

static double amount(const yyjson_val *o, const char *key)
{
	yyjson_val *v = td_jkey(o, key);
	return yyjson_is_num(v) ? yyjson_get_num(v) : -1;
}

static void read_list(yyjson_val *list, struct td_prices *ret)
{
	size_t i, n, k, m, at = 0;
	yyjson_val *v, *name, *x;
	struct td_price *all = td_calloc(yyjson_arr_size(list) + 1, sizeof(*all));
	yyjson_arr_foreach (list, i, n, v) {
		struct td_price *p = &all[at];
		yyjson_val *types = td_jkey(v, "gpuTypes");
		if (!td_day_parse(td_jstr_or(v, "from", ""), &p->from))
			continue;
		at++;
		p->gpu = amount(v, "gpuHour");
		p->cpu = amount(v, "cpuHour");
		struct td_price_type *t = td_calloc(yyjson_obj_size(types) + 1, sizeof(*t));
		yyjson_obj_foreach (types, k, m, name, x)
			t[p->n_types++] = (struct td_price_type){td_strdup(yyjson_get_str(name)), yyjson_get_num(x)};
		p->types = t;
	}
	*ret = (struct td_prices){.v = all, .n = at};
}

// The list of a Tenant, or of the nearest above it that has one; NULL: none has.
static yyjson_val *prices_of(const struct td_gateway_viewer *v, const struct td_object *t)
{
	for (size_t steps = 0; t && steps <= v->n_mine; steps++) {
		yyjson_val *l = td_jget(t->root, "spec.prices");
		if (yyjson_arr_size(l))
			return l;
		t = td_gateway_parent(v->mine, v->n_mine, t);
	}
	return NULL;
}

void td_gateway_tariff(struct td_gateway *g, const struct td_gateway_viewer *v, struct td_gateway_tariff *ret)
{
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(g->clusters, g->o.ns, g->o.cluster);
	yyjson_val *b = sc ? td_jget(sc->root, "spec.billing") : NULL;
	*ret = (struct td_gateway_tariff){.currency = td_strdup(td_jstr_or(b, "currency", "")),
					  .kind = td_period_kind_of(td_jstr(b, "period")),
					  .own = td_calloc(v->n_mine + 1, sizeof(*ret->own))};
	read_list(td_jget(b, "prices"), &ret->all);
	for (size_t i = 0; i < v->n_mine; i++) {
		yyjson_val *l = prices_of(v, v->mine[i]);
		const char *account = td_jstr(v->mine[i]->root, "status.account");
		if (!l || !account)
			continue;
		struct td_gateway_own *o = &ret->own[ret->n_own++];
		o->account = td_strdup(account);
		read_list(l, &o->prices);
	}
}

void td_gateway_reckon(const struct td_gateway_tariff *t, struct td_usage *rows)
{
	for (size_t i = 0; i < rows->n; i++) {
		struct td_usage_row *r = &rows->v[i];
		const struct td_prices *own = NULL;
		for (size_t k = 0; k < t->n_own && !own; k++)
			if (!strcmp(t->own[k].account, r->account))
				own = &t->own[k].prices;
		double gpu = td_price_gpu(own, r->day, r->type), cpu = td_price_cpu(own, r->day);
		if (gpu < 0)
			gpu = td_price_gpu(&t->all, r->day, r->type);
		if (cpu < 0)
			cpu = td_price_cpu(&t->all, r->day);
		r->sum.cost = r->sum.gpu / HOUR_S * (gpu > 0 ? gpu : 0) + r->sum.cpu / HOUR_S * (cpu > 0 ? cpu : 0);
	}
}
