// GET /tenants: what Tenants may hold, what their jobs and pods hold and wait for, and their people.
#include "gateway/jobs.h"
#include "gateway/usage.h"

#include "api/quantity.h"
#include "api/storagequota.h"
#include "slurm/batch.h"
#include "slurm/resource.h"
#include "slurm/states.h"

#include <stdio.h>
#include <string.h>

// What the jobs of one account hold, or wait for, of one TRES.
struct share {
	char *account, *tres;
	bool waits;
	double n;
};
struct shares {
	struct share *v;
	size_t n;
};

static void shares_done(struct shares *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].account);
		free(l->v[i].tres);
	}
	free(l->v);
}

static void add(struct shares *l, const char *account, const char *tres, bool waits, double n)
{
	for (size_t i = 0; i < l->n; i++) {
		struct share *h = &l->v[i];
		if (h->waits == waits && !strcmp(h->account, account) && !strcmp(h->tres, tres)) {
			h->n += n;
			return;
		}
	}
	if ((l->n & (l->n - 1)) == 0)
		l->v = td_realloc(l->v, (l->n ? l->n * 2 : 1) * sizeof(*l->v));
	l->v[l->n++] = (struct share){td_strdup(account), td_strdup(tres), waits, n};
}

// An amount of Slurm's: "4", "2112M". Memory is in MB.
static double amount_of(const char *s)
{
	char *unit;
	double n = strtod(s, &unit);
	switch (*unit) {
	case 'K':
		return n / 1024;
	case 'G':
		return n * 1024;
	case 'T':
		return n * 1048576;
	case 'P':
		return n * 1073741824;
	default:
		return n;
	}
}

// A list of TRES: "cpu=1,mem=100M,gres/gpu=2".
static void add_tres(struct shares *l, const char *account, bool waits, const char *list, double times)
{
	td_auto_strv struct td_strv words = {0};
	td_strv_split(&words, list, ',');
	for (size_t i = 0; i < words.n; i++) {
		char *is = strchr(words.v[i], '=');
		if (!is)
			continue;
		*is = '\0';
		add(l, account, words.v[i], waits, amount_of(is + 1) * times);
	}
}

static int read_jobs(struct td_gateway *g, struct shares *ret, struct td_error *err)
{
	td_auto(td_gateway_seen_unref) struct td_gateway_seen *s = td_gateway_look(g, err);
	td_auto(td_gateway_slurm_unref) struct td_gateway_slurm *l = s ? td_gateway_slurm(g, err) : NULL;
	if (!l)
		return err->code;
	for (size_t i = 0; i < s->jobs.n; i++) {
		const yyjson_val *v = s->jobs.v[i].v;
		td_auto_job struct td_slurm_job j = {0};
		if (td_slurm_job_read(l->client, v, &j, NULL) || td_job_phase(j.states) == TD_PHASE_ENDED)
			continue;
		bool waits = td_job_phase(j.states) == TD_PHASE_WAITING;
		double times = waits && j.array && j.task < 0 ? (double)td_slurm_tasks_count(j.tasks) : 1;
		add(ret, j.account, "jobs", waits, times);
		add_tres(ret, j.account, waits, td_jstr_or(v, waits ? "tres_req_str" : "tres_alloc_str", ""), times);
	}
	return 0;
}

struct all_tenants {
	struct td_gateway_viewer who;
	struct shares all;
	const yyjson_val *sc;
};

// What a Tenant and all below it hold or wait for.
static double sum(const struct all_tenants *view, const struct td_object *top, const char *tres, bool waits)
{
	const struct td_gateway_viewer *v = &view->who;
	const struct shares *l = &view->all;
	double all = 0;
	for (size_t i = 0; i < l->n; i++) {
		const struct share *h = &l->v[i];
		if (h->waits == waits && !strcmp(h->tres, tres) &&
		    td_gateway_tenant_below(v, td_gateway_tenant_of(v, h->account), top->name))
			all += h->n;
	}
	return all;
}

static double quota_of(const yyjson_val *x, bool memory)
{
	int64_t n = yyjson_get_sint((yyjson_val *)(uintptr_t)x);
	if (yyjson_is_str((yyjson_val *)(uintptr_t)x) &&
	    td_quantity_ceil(yyjson_get_str((yyjson_val *)(uintptr_t)x), &n, NULL))
		n = 0;
	return memory ? (double)n / (1 << 20) : (double)n;
}

static void write_tenant(const struct all_tenants *v, const struct td_object *t, bool whole, yyjson_mut_doc *d,
			 yyjson_mut_val *o)
{
	const char *account = td_jstr(t->root, "status.account");
	yyjson_val *key, *x, *m;
	size_t i, n;
	td_jm_str(d, o, "name", t->name);
	td_jm_str(d, o, "parent", td_jstr(t->root, "spec.parent"));
	td_jm_str(d, o, "account", account);
	td_jm_int(d, o, "weight", td_jint(t->root, "spec.weight", 1));
	td_jm_str(d, o, "role", td_jstr(td_gateway_member(t, v->who.user), "role"));
	td_jm_int(d, o, "running", (long long)sum(v, t, "jobs", false));
	td_jm_int(d, o, "waiting", (long long)sum(v, t, "jobs", true));
	yyjson_mut_val *all = td_jm_arr(d, o, "resources");
	yyjson_obj_foreach (td_jget(t->root, "spec.quota"), i, n, key, x) {
		const char *name = yyjson_get_str(key);
		bool memory = !strcmp(name, "memory");
		td_auto_free char *tres = NULL;
		if (td_api_storage_word(name)) { // of claims, as the operator counts them
			const yyjson_val *is = td_jfind(td_jget(t->root, "status.storage"), "resource", name);
			yyjson_mut_val *r = yyjson_mut_arr_add_obj(d, all);
			td_jm_str(d, r, "resource", name);
			td_jm_int(d, r, "quota", (long long)quota_of(x, false));
			td_jm_int(d, r, "limit", (long long)quota_of(x, false));
			td_jm_int(d, r, "used", td_jint(is, "used", 0));
			td_jm_int(d, r, "borrowed", 0);
			td_jm_int(d, r, "waiting", 0);
			continue;
		}
		if (td_slurm_resource(v->sc, name, &tres, NULL))
			continue; // its Tenant is not Valid, and says why
		double have = quota_of(x, memory), used = sum(v, t, tres, false),
		       more = quota_of(td_jkey(td_jget(t->root, "spec.borrowing.limit"), name), memory);
		yyjson_mut_val *r = yyjson_mut_arr_add_obj(d, all);
		td_jm_str(d, r, "resource", name);
		td_jm_int(d, r, "quota", (long long)have);
		if (!td_jbool(t->root, "spec.borrowing.all", false))
			td_jm_int(d, r, "limit", (long long)(have + more));
		td_jm_int(d, r, "used", (long long)used);
		td_jm_int(d, r, "borrowed", (long long)(used > have ? used - have : 0));
		td_jm_int(d, r, "waiting", (long long)sum(v, t, tres, true));
	}
	if (!whole)
		return;
	yyjson_mut_val *people = td_jm_arr(d, o, "members");
	yyjson_arr_foreach (td_jget(t->root, "spec.members"), i, n, m) {
		yyjson_mut_val *p = yyjson_mut_arr_add_obj(d, people);
		td_jm_str(d, p, "user", td_jstr(m, "user"));
		td_jm_str(d, p, "role", td_jstr_or(m, "role", "member"));
	}
}

static void all_tenants_done(struct all_tenants *v)
{
	td_gateway_viewer_done(&v->who);
	shares_done(&v->all);
}

static int tenants(struct td_gateway_ask *q, struct td_error *err)
{
	__attribute__((cleanup(all_tenants_done))) struct all_tenants v = {0};
	td_auto(td_object_unref) struct td_object *sc = NULL;
	int r;
	if ((r = td_gateway_viewer(q, &v.who, err)) || (r = read_jobs(q->g, &v.all, err)))
		return r;
	sc = td_informer_get(q->g->clusters, q->g->o.ns, q->g->o.cluster);
	v.sc = sc ? sc->root : NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *list = td_jm_arr(d, yyjson_mut_doc_get_root(d), "tenants");
	for (size_t i = 0; i < v.who.n_mine; i++) {
		const struct td_object *t = v.who.mine[i];
		const char *account = td_jstr(t->root, "status.account");
		// Who leads it sees its people; who is in it sees its figures; others do not see it.
		bool whole = v.who.all || (account && td_strv_has(&v.who.leads, account));
		if (whole || td_gateway_member(t, v.who.user))
			write_tenant(&v, t, whole, d, yyjson_mut_arr_add_obj(d, list));
	}
	td_gateway_send(q, 200, d);
	return 0;
}

const struct td_gateway_op td_gateway_tenant_ops[] = {{"tenants", tenants}, {NULL, NULL}};
