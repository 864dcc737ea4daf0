#include "bridge/quota.h"

#include "bridge/scheduler/want.h"

#include "api/annotations.h"
#include "api/quantity.h"
#include "api/selector.h"
#include "pool/fedword.h"
#include "pool/quota.h"
#include "slurm/accounts.h"

#include <stdio.h>
#include <string.h>

enum { FRESH_MS = 150000 }; // a hub says its word again each minute

struct quota_look {
	const struct td_settings *s;
	const yyjson_val **tenants; // of this SlurmCluster
	size_t n;
	struct td_arena *arena;
	struct td_slurm_held_list held;
	const yyjson_val *pod;
	int64_t now;
};

static const yyjson_val *find(const struct quota_look *l, const char *name)
{
	for (size_t i = 0; i < l->n && name; i++)
		if (td_streq(td_jstr(l->tenants[i], "metadata.name"), name))
			return l->tenants[i];
	return NULL;
}

// Is t the tenant `top` or below it? A circle of parents ends after as many steps as there are tenants.
static bool within(const struct quota_look *l, const yyjson_val *t, const yyjson_val *top)
{
	for (size_t steps = 0; t && steps <= l->n; steps++) {
		if (t == top)
			return true;
		t = find(l, td_jstr(t, "spec.parent"));
	}
	return false;
}

static int64_t amount(const yyjson_val *v, bool memory)
{
	char digits[32];
	const char *s = yyjson_get_str((yyjson_val *)v);
	int64_t n;
	snprintf(digits, sizeof(digits), "%lld", (long long)yyjson_get_sint((yyjson_val *)v));
	if (!v || td_quantity_ceil(s ? s : digits, &n, NULL))
		return 0;
	return memory ? n >> 20 : n;
}

// What the pod wants of a resource that a quota names, and Slurm's name of it.
static int64_t wanted(const struct quota_look *l, const char *resource, const char **ret_tres)
{
	const yyjson_val *spec = td_jget(l->pod, "spec");
	if (!strcmp(resource, "cpu")) {
		*ret_tres = "cpu";
		return (td_api_pod_request(spec, "cpu") + 999) / 1000;
	}
	if (!strcmp(resource, "memory")) {
		*ret_tres = "mem";
		return (td_api_pod_request(spec, "memory") + (1 << 20) - 1) >> 20;
	}
	for (size_t i = 0; i < l->s->n_gres; i++) {
		const struct td_bridge_gres_map *m = &l->s->gres[i];
		if (strcmp(m->resource, resource) != 0 && strcmp(m->name, resource) != 0)
			continue;
		*ret_tres = td_arena_printf(l->arena, *m->type ? "gres/%s:%s" : "gres/%s", m->name, m->type);
		// A limit without a type counts all types.
		int64_t sum = 0;
		for (size_t k = 0; k < l->s->n_gres; k++)
			if (k == i || (!*m->type && !strcmp(l->s->gres[k].name, m->name)))
				sum += td_api_pod_request(spec, l->s->gres[k].resource);
		return sum;
	}
	return 0;
}

// Says so when this resource of this tenant is in the way; user: the limit of this member of it, else NULL.
static bool in_the_way(const struct quota_look *l, const yyjson_val *t, const char *user, const char *resource,
		       struct td_buf *ret)
{
	bool memory = !strcmp(resource, "memory");
	const char *tres = NULL;
	struct td_pool_quota q = {
		.tenant = td_jstr(t, "metadata.name"),
		.user = user,
		.resource = memory ? "MB of memory" : resource,
		.quota = amount(td_jkey(td_jget(t, user ? "spec.perUser.quota" : "spec.quota"), resource), memory),
		.want = wanted(l, resource, &tres),
		.now = l->now};
	q.limit = q.quota + (user ? 0 : amount(td_jkey(td_jget(t, "spec.borrowing.limit"), resource), memory));
	if (q.want <= 0 || (!user && td_jbool(t, "spec.borrowing.all", false)))
		return false;

	struct td_pool_holder *v = td_arena_alloc(l->arena, (l->held.n + 1) * sizeof(*v));
	for (size_t i = 0; i < l->held.n; i++) {
		const struct td_slurm_held *h = &l->held.v[i];
		int64_t count = 0;
		for (size_t k = 0; k < h->n_tres; k++)
			if (!strcmp(h->tres[k].tres, tres))
				count = h->tres[k].count;
		for (size_t k = 0; k < l->n && count > 0; k++)
			if (td_streq(td_jstr(l->tenants[k], "status.account"), h->account) &&
			    (user ? l->tenants[k] == t && td_streq(h->user, user) : within(l, l->tenants[k], t)))
				v[q.n_holders++] = (struct td_pool_holder){h->job, count, h->end};
	}
	q.holders = v;
	if (!td_pool_quota_full(&q))
		return false;
	td_buf_putc(ret, ' ');
	td_pool_quota_words(&q, ret);
	return true;
}

// ---- what Federations leave (status.federation) ----

// What the Tenant's own limits let its account hold of GPUs; -1: they do not say.
static int64_t own_gpus(const yyjson_val *t)
{
	static const char *const names[] = {"nvidia.com/gpu", "gpu"};
	for (size_t i = 0; i < TD_LEN(names) && !td_jbool(t, "spec.borrowing.all", false); i++) {
		const yyjson_val *q = td_jkey(td_jget(t, "spec.quota"), names[i]);
		if (q)
			return amount(q, false) + amount(td_jkey(td_jget(t, "spec.borrowing.limit"), names[i]), false);
	}
	return -1;
}

// Says so when a Federation leaves this account, or this person in it, less than the Tenant's own limits do, and so many
// GPUs more would go beyond.
static bool federation_says(const yyjson_val *t, const char *user, int64_t gpus, struct td_buf *ret)
{
	const yyjson_val *f = td_jget(t, "status.federation"), *c = f;
	const yyjson_val *his = td_jfind(td_jget(f, "users"), "user", user ? user : "");
	int64_t cap = td_jint(f, "gpus", -1), own = own_gpus(t);
	bool person = his && (cap < 0 || td_jint(his, "gpus", 0) <= cap);
	if (person) {
		c = his;
		cap = td_jint(his, "gpus", 0);
	}
	if (cap < 0 || (own >= 0 && own < cap))
		return false;
	bool whole = !person || td_jbool(c, "whole", false);
	int64_t said = 0, age, limit = td_jint(c, "limit", -1), used = td_jint(c, "used", 0);
	td_time_parse(td_jstr_or(f, "said", ""), &said);
	age = td_real_ms(&td_clock_system) - said;
	// Of the limit alone a cap is no lower than what is left of that.
	bool hours = whole && (td_jbool(c, "spent", false) || cap < limit - used || limit < 0);
	// There is room by figures that are not old: another limit is in the way.
	if (age < FRESH_MS && !hours && used + gpus <= limit)
		return false;
	const struct td_fedword_words w = {.federation = td_jstr_or(f, "name", "?"),
					   .team = td_jstr_or(c, "team", "?"),
					   .user = whole ? NULL : user,
					   .why = hours   ? TD_FEDWORD_HOURS
						  : whole ? TD_FEDWORD_TEAM
							  : TD_FEDWORD_PERSON,
					   .gpus = cap,
					   .limit = limit,
					   .used = used,
					   .at = td_jstr(c, "at"),
					   .silent = age >= TD_FEDWORD_SILENT_S * 1000LL};
	td_fedword_say(&w, ret);
	return true;
}

static bool federations(const struct quota_look *l, const yyjson_val *t, const char *user, int64_t gpus,
			struct td_buf *ret)
{
	for (size_t steps = 0; t && steps <= l->n; steps++, user = NULL) {
		if (federation_says(t, user, gpus, ret))
			return true;
		t = find(l, td_jstr(t, "spec.parent"));
	}
	return false;
}

static void explain(struct quota_look *l, const char *ns, struct td_buf *ret)
{
	const yyjson_val *t = NULL;
	yyjson_val *k, *x;
	size_t i, n;
	const char *named = td_jkey_str(td_jget(l->pod, "metadata.annotations"), td_annotations[TD_ASKS_ACCOUNT].name);
	// A project that it may be charged to: the words are for those only.
	if (named && td_settings_project(l->s, ns, td_want_person(l->pod), named, NULL) != TD_PROJECT_MAY)
		named = NULL;
	for (i = 0; i < l->n && named && !t; i++)
		if (td_streq(td_jstr(l->tenants[i], "status.account"), named))
			t = l->tenants[i];
	for (i = 0; i < l->n && !t; i++)
		if (td_jfind(td_jget(l->tenants[i], "status.namespaces"), "name", ns))
			t = l->tenants[i];
	struct td_owner o = {0};
	bool owned = t && td_settings_owner_of(l->s, ns, td_want_person(l->pod), &o);
	int64_t gpus = 0;
	for (i = 0; i < l->s->n_gres; i++)
		if (!strcmp(l->s->gres[i].name, "gpu"))
			gpus += td_api_pod_request(td_jget(l->pod, "spec"), l->s->gres[i].resource);
	if (gpus > 0 && federations(l, t, owned ? o.user : NULL, gpus, ret))
		return;
	if (owned && td_jbool(t, "spec.perUser.pods", false))
		yyjson_obj_foreach (td_jget(t, "spec.perUser.quota"), i, n, k, x)
			if (in_the_way(l, t, o.user, yyjson_get_str(k), ret))
				return;
	for (size_t steps = 0; t && steps <= l->n; steps++) {
		yyjson_obj_foreach (td_jget(t, "spec.quota"), i, n, k, x)
			if (in_the_way(l, t, NULL, yyjson_get_str(k), ret))
				return;
		t = find(l, td_jstr(t, "spec.parent"));
	}
}

// The Tenants of this SlurmCluster that have an account. all: owns them.
static const yyjson_val **ours(struct td_bridge *b, struct td_arena *arena, struct td_objects *all, size_t *ret_n)
{
	td_informer_list(b->tenants, NULL, all);
	const yyjson_val **v = td_arena_alloc(arena, (all->n + 1) * sizeof(*v));
	*ret_n = 0;
	for (size_t i = 0; i < all->n; i++) {
		const yyjson_val *t = all->v[i]->root;
		if (td_streq(td_jstr(t, "spec.cluster.namespace"), b->o.ns) &&
		    td_streq(td_jstr(t, "spec.cluster.name"), b->o.cluster) && td_jstr(t, "status.account"))
			v[(*ret_n)++] = t;
	}
	return v;
}

void td_bridge_federation_words(struct td_bridge *b, const struct td_slurm_job *j, struct td_buf *ret)
{
	td_auto_objects struct td_objects all = {0};
	td_auto(td_arena_free) struct td_arena *arena = td_arena_new();
	struct quota_look l = {0};
	if (b->tenants)
		l.tenants = ours(b, arena, &all, &l.n);
	int64_t gpus = td_slurm_tres_of(j->tres_req, "gres/gpu");
	for (size_t i = 0; i < l.n; i++)
		if (td_streq(td_jstr(l.tenants[i], "status.account"), j->account)) {
			federations(&l, l.tenants[i], j->user, gpus ? gpus : 1, ret);
			return;
		}
}

void td_bridge_quota_words(struct td_bridge *b, const struct td_object *pod, struct td_cancel *c, struct td_buf *ret)
{
	td_auto_objects struct td_objects all = {0};
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	td_auto(td_link_unref) struct td_link *link = td_bridge_link(b, NULL);
	td_auto(td_arena_free) struct td_arena *arena = td_arena_new();
	td_auto_strv struct td_strv accounts = {0};
	if (!s || !link || !b->tenants)
		return;
	struct quota_look l = {.s = s, .arena = arena, .pod = pod->root, .now = td_real_ms(b->clock) / 1000};
	l.tenants = ours(b, arena, &all, &l.n);
	for (size_t i = 0; i < l.n; i++)
		td_strv_add(&accounts, td_jstr(l.tenants[i], "status.account"));
	struct td_error e = TD_ERROR_INIT;
	if (l.n && !td_slurm_held(link->slurm, b->o.cluster, &accounts, c, &l.held, &e))
		explain(&l, pod->ns, ret);
	td_slurm_held_done(&l.held);
}
