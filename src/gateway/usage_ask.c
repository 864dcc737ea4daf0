// GET /usage: who has used what, as JSON or CSV.
#include "gateway/bills.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

enum { DAYS_DEFAULT = 30, ROWS_MOST = 100000 };

// What the rows tell apart.
struct by {
	bool day, tenant, user, type;
};
struct question {
	struct by by;
	int64_t from, to; // days since 1970
	const char *tenant, *user;
	bool csv;
	const char *currency; // NULL: there are no prices
};

static int day_of(struct td_gateway_ask *q, const char *name, int64_t def, int64_t *ret, struct td_error *err)
{
	const char *s = td_http_query(q->x, name);
	*ret = def;
	return s && !td_day_parse(s, ret)
		       ? td_fail(err, TD_INVALID, "%s=%.40s: give a day, such as 2026-11-01", name, s)
		       : 0;
}

static int read_by(const char *text, struct by *ret, struct td_error *err)
{
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, text ? text : "tenant,user", ',');
	for (size_t i = 0; i < l.n; i++) {
		bool *what = !strcmp(l.v[i], "day")      ? &ret->day
			     : !strcmp(l.v[i], "tenant") ? &ret->tenant
			     : !strcmp(l.v[i], "user")   ? &ret->user
			     : !strcmp(l.v[i], "type")   ? &ret->type
							 : NULL;
		if (!what)
			return td_fail(err, TD_INVALID, "by=%.40s: give some of day, tenant, user, type", l.v[i]);
		*what = true;
	}
	return 0;
}

static int read_wish(struct td_gateway_ask *q, struct question *w, struct td_error *err)
{
	int64_t today = td_real_ms(&td_clock_system) / 1000 / TD_USAGE_DAY_S;
	int r;
	if ((r = day_of(q, "to", today + 1, &w->to, err)) ||
	    (r = day_of(q, "from", w->to - DAYS_DEFAULT, &w->from, err)) ||
	    (r = read_by(td_http_query(q->x, "by"), &w->by, err)))
		return r;
	if (w->from >= w->to)
		return td_fail(err, TD_INVALID, "from must be before to: `to` is the first day that does not count");
	if ((r = td_gateway_wants_csv(q, &w->csv, err)))
		return r;
	w->tenant = td_http_query(q->x, "tenant");
	w->user = td_http_query(q->x, "user");
	return 0;
}

// The rows that are shown, as they are told apart.
static void gather(const struct td_gateway_viewer *v, const struct question *w, const struct td_usage *all,
		   struct td_usage *ret)
{
	const struct td_usage_viewer may = {.user = v->user, .all = v->all, .leads = &v->leads};
	for (size_t i = 0; i < all->n; i++) {
		struct td_usage_row r = all->v[i];
		if (!td_usage_may(&may, r.account, r.user) || (w->user && strcmp(w->user, r.user) != 0))
			continue;
		const struct td_object *t = td_gateway_tenant_of(v, r.account);
		if (w->tenant && !td_streq(w->tenant, t ? t->name : NULL))
			continue;
		char *none = (char *)(uintptr_t)"";
		r.day = w->by.day ? r.day : -1;
		r.account = w->by.tenant ? r.account : none;
		r.user = w->by.user ? r.user : none;
		r.type = w->by.type ? r.type : none;
		td_usage_put(ret, &r);
	}
	td_usage_settle(ret);
}

static void write_sums(const struct question *w, yyjson_mut_doc *d, yyjson_mut_val *o, const struct td_usage_sums *s)
{
	if (w->currency)
		td_jm_set(d, o, "cost", yyjson_mut_real(d, td_gateway_cents(s->cost)));
	td_jm_int(d, o, "jobs", (long long)s->runs);
	td_jm_set(d, o, "gpuHours", yyjson_mut_real(d, td_gateway_hours(s->gpu)));
	td_jm_set(d, o, "cpuHours", yyjson_mut_real(d, td_gateway_hours(s->cpu)));
	td_jm_set(d, o, "wastedGpuHours", yyjson_mut_real(d, td_gateway_hours(s->lost)));
	td_jm_set(d, o, "idleGpuHours", yyjson_mut_real(d, td_gateway_hours(s->idle)));
	td_jm_set(d, o, "waitingHours", yyjson_mut_real(d, td_gateway_hours(s->wait)));
}

static void send_json(struct td_gateway_ask *q, const struct td_gateway_viewer *v, const struct question *w,
		      const struct td_usage *u)
{
	char text[TD_PERIOD_LEN];
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_day_name(w->from, text);
	td_jm_str(d, root, "from", text);
	td_day_name(w->to, text);
	td_jm_str(d, root, "to", text);
	td_jm_str(d, root, "shows", v->all ? "everybody" : v->leads.n ? "tenants" : "own");
	yyjson_mut_val *list = td_jm_arr(d, root, "rows");
	struct td_usage_sums sum = {0};
	for (size_t i = 0; i < u->n; i++) {
		const struct td_usage_row *r = &u->v[i];
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
		const struct td_object *t = w->by.tenant ? td_gateway_tenant_of(v, r->account) : NULL;
		if (w->by.day) {
			td_day_name(r->day, text);
			td_jm_str(d, o, "day", text);
		}
		if (w->by.tenant) {
			td_jm_str(d, o, "tenant", t ? t->name : NULL);
			td_jm_str(d, o, "account", r->account);
		}
		if (w->by.user)
			td_jm_str(d, o, "user", r->user);
		if (w->by.type)
			td_jm_str(d, o, "gpuType", r->type);
		write_sums(w, d, o, &r->sum);
		td_usage_sums_add(&sum, &r->sum);
	}
	write_sums(w, d, td_jm_obj(d, root, "total"), &sum);
	td_jm_str(d, root, "currency", w->currency);
	td_gateway_send(q, 200, d);
}

static void send_csv(struct td_gateway_ask *q, const struct td_gateway_viewer *v, const struct question *w,
		     const struct td_usage *u)
{
	td_auto_buf struct td_buf b = {0};
	char from[TD_PERIOD_LEN], to[TD_PERIOD_LEN], text[TD_PERIOD_LEN];
	td_day_name(w->from, from);
	td_day_name(w->to, to);
	td_buf_printf(&b, "%s%s%s%sjobs,gpu_hours,cpu_hours,wasted_gpu_hours,waiting_hours%s,idle_gpu_hours\r\n",
		      w->by.day ? "day," : "", w->by.tenant ? "tenant,account," : "", w->by.user ? "user," : "",
		      w->by.type ? "gpu_type," : "", w->currency ? ",cost" : "");
	for (size_t i = 0; i < u->n; i++) {
		const struct td_usage_row *r = &u->v[i];
		const struct td_object *t = w->by.tenant ? td_gateway_tenant_of(v, r->account) : NULL;
		td_day_name(r->day, text);
		if (w->by.day)
			td_gateway_csv(&b, text);
		if (w->by.tenant) {
			td_gateway_csv(&b, t ? t->name : "");
			td_gateway_csv(&b, r->account);
		}
		if (w->by.user)
			td_gateway_csv(&b, r->user);
		if (w->by.type)
			td_gateway_csv(&b, r->type);
		td_buf_printf(&b, "%.0f,%.3f,%.3f,%.3f,%.3f", r->sum.runs, td_gateway_hours(r->sum.gpu),
			      td_gateway_hours(r->sum.cpu), td_gateway_hours(r->sum.lost),
			      td_gateway_hours(r->sum.wait));
		if (w->currency)
			td_buf_printf(&b, ",%.2f", td_gateway_cents(r->sum.cost));
		td_buf_printf(&b, ",%.3f", td_gateway_hours(r->sum.idle));
		td_buf_puts(&b, "\r\n");
	}
	td_auto_free char *name = td_asprintf("attachment; filename=\"usage-%s-%s.csv\"", from, to);
	td_http_add_header(q->x, "Content-Disposition", name);
	td_http_send(q->x, 200, "text/csv; charset=utf-8", td_buf_str(&b), b.len);
}

static int usage(struct td_gateway_ask *q, struct td_error *err)
{
	struct question w = {0};
	td_auto_viewer struct td_gateway_viewer v = {0};
	td_auto_usage struct td_usage all = {0}, shown = {0};
	int r;
	if ((r = read_wish(q, &w, err)) || (r = td_gateway_viewer(q, &v, err)) ||
	    (r = td_gateway_used(q->g, &(const struct td_gateway_span){.from = w.from, .to = w.to},
				 td_gateway_cancel(q), &all, err)))
		return r;
	td_auto_tariff struct td_gateway_tariff t = {0};
	td_gateway_tariff(q->g, &v, &t);
	td_gateway_reckon(&t, &all);
	w.currency = t.all.n ? t.currency : NULL;
	gather(&v, &w, &all, &shown);
	if (shown.n > ROWS_MOST)
		return td_fail(err, TD_INVALID, "that is %zu rows: ask for fewer days, or for less in `by`", shown.n);
	if (w.csv)
		send_csv(q, &v, &w, &shown);
	else
		send_json(q, &v, &w, &shown);
	return 0;
}

const struct td_gateway_op td_gateway_usage_ops[] = {{"usage", usage}, {NULL, NULL}};
