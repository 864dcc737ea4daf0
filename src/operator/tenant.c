// The controller of Tenants: one reconcile, and the statuses.
#include "operator/tenant.h"

#include "api/condition.h"
#include "base/log.h"
#include "slurm/accounting.h"

#include <stdio.h>
#include <string.h>

// AGAIN_MS: how often slurmdbd is looked at, unless that would take more than a hundredth of the time.
enum { AGAIN_MS = 10000, HELD_MS = 3000 };

static char *cluster_key(const struct td_object *tenant)
{
	return td_asprintf("%s/%s", td_jstr_or(tenant->root, "spec.cluster.namespace", ""),
			   td_jstr_or(tenant->root, "spec.cluster.name", ""));
}

static void on_tenant(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_op_tenants *ts = ctx;
	// Our own writes of the status come back as events. What a Project's becomes it shows.
	if (td_op_same_spec(old, now) &&
	    (!td_object_label(now, TD_LABEL_PROJECT) ||
	     td_condition_true(old->root, "Ready") == td_condition_true(now->root, "Ready")))
		return;
	struct td_object *const both[] = {old, now};
	for (size_t i = 0; i < TD_LEN(both); i++)
		if (both[i]) {
			td_auto_free char *key = cluster_key(both[i]);
			td_queue_add(ts->op->tenant_q, key);
		}
}

// A tenant's own object has changed: of which cluster, its tenant says.
static void on_part(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_op_tenants *ts = ctx;
	const struct td_object *const both[] = {old, now};
	for (size_t i = 0; i < TD_LEN(both); i++) {
		const char *name = td_object_label(both[i], TD_LABEL_TENANT);
		td_auto(td_object_unref) struct td_object *t = name ? td_informer_get(ts->tenants, NULL, name) : NULL;
		if (t) {
			td_auto_free char *key = cluster_key(t);
			td_queue_add(ts->op->tenant_q, key);
		}
	}
}

static void all_clusters(struct td_op_tenants *ts)
{
	td_auto_objects struct td_objects all = {0};
	td_informer_list(ts->tenants, NULL, &all);
	for (size_t i = 0; i < all.n; i++) {
		td_auto_free char *key = cluster_key(all.v[i]);
		td_queue_add_after(ts->op->tenant_q, key, 200); // several changes become one
	}
}

static void on_project(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_op_tenants *ts = ctx;
	if (td_op_same_spec(old, now))
		return;
	td_auto_free char *name = td_op_project_tenant(ts, (now ? now : old)->ns);
	td_auto(td_object_unref) struct td_object *t = name ? td_informer_get(ts->tenants, NULL, name) : NULL;
	td_auto_free char *key = t ? cluster_key(t) : NULL;
	if (key)
		td_queue_add(ts->op->tenant_q, key);
	else
		all_clusters(ts);
}

// A hub's word that says nothing new comes each minute.
static void on_word(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_op_tenants *ts = ctx;
	const struct td_object *o = now ? now : old;
	td_auto_free char *key = td_asprintf("%s/%s", o->ns, td_object_label(o, TD_LABEL_FED_LIMITS));
	td_queue_add(ts->op->tenant_q, key);
}

// Claims that come one after the other become one look.
static void on_quota(void *ctx, struct td_object *old, struct td_object *now)
{
	enum { SOON_MS = 300 };
	struct td_op_tenants *ts = ctx;
	const char *name = td_object_label(now ? now : old, TD_LABEL_TENANT);
	td_auto(td_object_unref) struct td_object *t = name ? td_informer_get(ts->tenants, NULL, name) : NULL;
	if (t) {
		td_auto_free char *key = cluster_key(t);
		td_queue_add_after(ts->op->tenant_q, key, SOON_MS);
	}
}

static void on_namespace(void *ctx, struct td_object *old, struct td_object *now)
{
	on_part(ctx, old, now);
	// A tenant may wait for one of this name.
	struct td_op_tenants *ts = ctx;
	if (!old || !now || !td_jequal(td_jget(old->root, "metadata.labels"), td_jget(now->root, "metadata.labels")))
		all_clusters(ts);
}

// ---- status ----

struct status {
	yyjson_mut_doc *d;
	yyjson_mut_val *list;
	const struct td_object *o;
	bool ready;
	const char *reason, *message; // of the first that is not as it should be
};

// Adds a condition. must: without it the tenant is not ready.
static void say(struct status *s, const char *type, bool ok, bool must, const char *reason, const char *message)
{
	const struct td_condition_want w = {.type = type,
					    .status = ok ? "True" : "False",
					    .reason = reason,
					    .message = message,
					    .generation = td_jint(s->o->root, "metadata.generation", 0)};
	td_condition_add(s->d, s->list, td_jget(s->o->root, "status.conditions"), &w, td_real_ms(&td_clock_system));
	if (!ok && must && s->ready) {
		s->ready = false;
		s->reason = reason;
		s->message = message;
	}
}

// The text lives until the pass ends, as every condition's, because Ready repeats one of them.
static const char *joined(struct td_arena *arena, const struct td_strv *l, const char *sep)
{
	td_auto_buf struct td_buf b = {0};
	for (size_t i = 0; i < l->n && b.len < 2048; i++)
		td_buf_printf(&b, "%s%s", i ? sep : "", l->v[i]);
	return td_arena_strdup(arena, td_buf_str(&b));
}

static void federation(struct td_op_tenant_pass *p, const struct td_op_tenant *t, struct status *s)
{
	const char *fix;
	const struct td_op_tenant_cap *c = t->cap ? t->cap : t->user_caps[0];
	bool enforced = td_op_tenant_enforced(p->sc->root, &fix);
	say(s, "FederationLimits", enforced && !c->silent, false,
	    !enforced   ? "NotEnforced"
	    : c->silent ? "HubSilent"
			: "HeldBack",
	    td_arena_printf(
		    p->arena, "Federation %s: %s", c->federation,
		    !enforced   ? "what its jobs hold counts in its team's limit and is not held back here: set "
				  "spec.accounting.enforce: limits in the SlurmCluster"
		    : c->silent ? "its hub has said nothing for an hour, so what it said last holds, and at least "
				  "this cluster's part by its weight; who has left the federation takes the hub out "
				  "of spec.federation.hubs of the SlurmCluster"
				: "what goes beyond its team's limit over all members waits (status.federation)"));
}

static void conditions(struct td_op_tenant_pass *p, size_t at, struct status *s)
{
	struct td_op_tenant *t = &p->v[at];
	const struct td_pool_verdict *v = &t->verdict;
	const char *problems = joined(p->arena, &t->problems, "; ");

	say(s, "Valid", v->valid, true, v->valid ? "Valid" : v->reason,
	    v->valid ? "the object can be used" : v->message);
	if (!v->valid && !v->waits) // what waits for the object need not wait any longer
		say(s, "Stalled", true, false, v->reason, v->message);
	if (v->valid || t->deleting) {
		const char *fine = "the account is in place";
		if (t->others)
			fine = td_arena_printf(p->arena, "%s; users that somebody else has added: %s", fine, t->others);
		say(s, "AccountReady", !t->slurm, true, t->slurm ? t->slurm_reason : "InPlace",
		    t->slurm ? t->slurm : fine);
		say(s, "NamespacesReady", !t->problems.n, true, t->problems.n ? "NotUsable" : "InPlace",
		    t->problems.n ? problems : "the namespaces are in place");
	}
	if (p->sc) {
		const char *fix;
		bool enforced = td_op_tenant_enforced(p->sc->root, &fix);
		say(s, "QuotaEnforced", enforced, false, enforced ? "Enforced" : "NotEnforced",
		    enforced ? "what goes beyond the quota waits" : fix);
		if (td_op_tenant_filter(p, at) && !td_op_tenant_filter_kept(p->sc->root))
			say(s, "JobsFiltered", false, false, "NotEnforced",
			    "spec.seccompProfile: pods have it, and native jobs that name another account have not, "
			    "because the SlurmCluster keeps nobody to his accounts: set spec.accounting.enforce: "
			    "limits there");
	}
	if (p->sc && (t->cap || t->n_user_caps))
		federation(p, t, s);
	say(s, "QuotaFits", !v->warning, false, v->warning ? "Oversubscribed" : "Fits",
	    v->warning ? v->warning : "the quotas below add up to no more than this one");
	if (t->unknown.n)
		say(s, "MembersKnown", false, true, "MembersUnknown",
		    td_arena_printf(
			    p->arena,
			    "Slurm does not know %s: add them to spec.users of the SlurmCluster, or take them out",
			    joined(p->arena, &t->unknown, ", ")));
	if (t->storage_fault || t->faceless)
		say(s, "PeopleKnown", false, t->storage_fault != NULL, t->storage_fault ? "NoPods" : "NoUid",
		    t->storage_fault
			    ? t->storage_fault
			    : td_arena_printf(
				      p->arena,
				      "spec.storage.mode: %.1024s have no uid in spec.users of the SlurmCluster, "
				      "so no pod of theirs is taken: add them there",
				      t->faceless));
	if (p->ts->op->image && !p->ts->op->mutates && td_jstr(t->o->root, "spec.storage.mode"))
		say(s, "PodsCompleted", false, false, "NotServed",
		    "spec.storage.mode: the API server serves no MutatingAdmissionPolicy (Kubernetes 1.36 does, 1.34 "
		    "and "
		    "1.35 when told to), so its people write into their pods themselves what they are refused without");
	if (t->strange.n)
		say(s, "GroupsKnown", false, false, "Unknown",
		    td_arena_printf(p->arena,
				    "spec.resourceGroups: the SlurmCluster has no group %s: add it to its "
				    "spec.resourceGroups (spec.storageGroups, of storage), or take it out here",
				    joined(p->arena, &t->strange, ", ")));
	if (p->p[at].closed && !t->deleting)
		say(s, "Open", false, false, "OutsideValidity",
		    "spec.validity: it takes no new jobs now, and its pods wait");
	if (t->deleting)
		say(s, "Deleting", false, true, t->held_reason ? t->held_reason : "Leaving",
		    t->held ? t->held : "it is being taken apart");
}

static int write_status(struct td_op_tenant_pass *p, size_t at, struct td_error *err)
{
	struct td_op_tenant *t = &p->v[at];
	yyjson_val *old = td_jget(t->o->root, "status");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_int(d, o, "observedGeneration", td_jint(t->o->root, "metadata.generation", 0));
	bool placed = t->verdict.valid && !t->slurm;
	if (placed || t->had_account) { // what was in force stays so while something is wrong
		td_jm_str(d, o, "account", placed ? t->account : td_jstr(old, "account"));
		td_jm_bool(d, o, "adopted", placed ? t->adopted : td_jbool(old, "adopted", false));
		td_jm_str(d, o, "partition", placed ? t->partition : td_jstr(old, "partition"));
	}
	if (placed) {
		yyjson_mut_val *list = td_jm_arr(d, o, "namespaces");
		for (size_t i = 0; i < t->granted.n; i++) {
			yyjson_mut_val *x = yyjson_mut_arr_add_obj(d, list);
			td_jm_str(d, x, "name", t->granted.v[i]);
			td_jm_str(d, x, "user", t->pod_user);
		}
	} else if (td_jget(old, "namespaces")) {
		td_jm_copyval(d, o, "namespaces", td_jget(old, "namespaces"));
	}
	td_jm_str(d, o, "qos", placed ? t->qos : td_jstr(old, "qos"));
	td_jm_str(d, o, "children", t->verdict.children);
	for (size_t i = 0; i < t->n_hards; i++) {
		yyjson_mut_val *x = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "storage"));
		td_jm_str(d, x, "resource", t->hards[i].name);
		td_jm_int(d, x, "used", t->hards[i].used);
	}

	td_op_tenant_word_status(t, d, o);

	struct status s = {.d = d, .list = td_jm_arr(d, o, "conditions"), .o = t->o, .ready = true};
	conditions(p, at, &s);
	say(&s, "Ready", s.ready, false, s.ready ? "Ready" : s.reason, s.ready ? "all of it is in place" : s.message);
	return td_op_status_write(p->ts->op, &td_tenants, t->o, d, p->c, err);
}

// ---- the finalizer ----

static int set_finalizers(struct td_op_tenant_pass *p, const struct td_object *o, bool add, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *list = td_jm_arr(d, root, "metadata.finalizers");
	td_jm_str(d, root, "metadata.uid", o->uid);
	td_jm_str(d, root, "metadata.resourceVersion", o->rv);
	td_auto_strv struct td_strv l = {0};
	td_jstrs(td_jget(o->root, "metadata.finalizers"), &l);
	for (size_t i = 0; i < l.n; i++)
		if (strcmp(l.v[i], TD_LABEL_TENANT) != 0)
			yyjson_mut_arr_append(list, yyjson_mut_strcpy(d, l.v[i]));
	if (add)
		yyjson_mut_arr_append(list, yyjson_mut_strcpy(d, TD_LABEL_TENANT));
	int r = td_kube_patch(p->ts->op->k, TD_AT(&td_tenants, NULL, o->name), TD_PATCH_MERGE, root, p->c, NULL, err);
	return r == TD_NOT_FOUND ? 0 : r ? td_wrap(err, "the finalizer of Tenant %s", o->name) : 0;
}

static bool finalized(const struct td_object *o)
{
	td_auto_strv struct td_strv l = {0};
	td_jstrs(td_jget(o->root, "metadata.finalizers"), &l);
	return td_strv_has(&l, TD_LABEL_TENANT);
}

// ---- one reconcile ----

static void pass_done(struct td_op_tenant_pass *p)
{
	for (size_t i = 0; i < p->n; i++) {
		td_object_unref(p->v[i].o);
		td_strv_done(&p->v[i].unknown);
		td_strv_done(&p->v[i].strange);
		td_strv_done(&p->v[i].granted);
		td_strv_done(&p->v[i].problems);
	}
	td_object_unref(p->sc);
	td_op_tenant_storage_done(p);
	td_arena_free(p->arena);
}

// Who runs pods outside of every tenant needs an account of his own, or Slurm would take that of his
// first tenant. With spec.accounting.openAccount it is everybody's who is in no tenant.
static void open_account(struct td_op_tenant_pass *p)
{
	const yyjson_val *sc = p->sc ? p->sc->root : NULL;
	yyjson_val *people = td_jget(sc, "spec.users"), *maps = td_jget(sc, "spec.scheduler.namespaces"), *x;
	struct td_pool_tenant_user *users =
		td_arena_alloc(p->arena, (yyjson_arr_size(people) + yyjson_arr_size(maps) + 2) * sizeof(*users));
	struct td_pool_tenant *open = &p->p[p->n];
	*open = (struct td_pool_tenant){.name = "-",
					.account = td_slurm_open_account(sc),
					.born = INT64_MIN,
					.weight = 1,
					.user_jobs = -1,
					.user_waits = -1,
					.users = users};
	td_auto_strv struct td_strv names = {0};
	const char *def = td_jstr(sc, "spec.scheduler.defaultUser");
	size_t i, n;
	if (def)
		td_strv_add(&names, def);
	yyjson_arr_foreach (maps, i, n, x)
		if (td_jstr(x, "user") && !td_jstr(x, "account") && !td_strv_has(&names, td_jstr(x, "user")))
			td_strv_add(&names, td_jstr(x, "user"));
	yyjson_arr_foreach (td_jstr(sc, "spec.accounting.openAccount") ? people : NULL, i, n, x) {
		const char *name = td_jstr_or(x, "name", "");
		bool has = td_strv_has(&names, name);
		for (size_t t = 0; t < p->n && !has; t++)
			for (size_t k = 0; k < p->p[t].n_users && !has; k++)
				has = !strcmp(p->p[t].users[k].name, name);
		if (!has)
			td_strv_add(&names, name);
	}
	for (i = 0; i < names.n; i++)
		if (td_jfind(people, "name", names.v[i]) || td_jget(sc, "spec.identity.ldap"))
			users[open->n_users++] =
				(struct td_pool_tenant_user){td_arena_strdup(p->arena, names.v[i]), false};
}

static void judge(struct td_op_tenant_pass *p)
{
	struct td_pool_verdict *v = td_arena_alloc(p->arena, (p->n + 1) * sizeof(*v));
	td_pool_tenants_judge(p->arena, p->p, p->n + 1, v);
	for (size_t i = 0; i < p->n; i++) {
		struct td_op_tenant *t = &p->v[i];
		t->verdict = v[i];
		if (t->unreadable && v[i].valid) {
			t->verdict.valid = false;
			t->verdict.reason = "SpecInvalid";
			t->verdict.message = t->unreadable;
		}
		if (t->deleting && t->had_account && v[i].children) {
			t->held_reason = "HasChildren";
			t->held = td_arena_printf(p->arena,
						  "Tenants are below it: %s; delete them, or give them another "
						  "parent",
						  v[i].children);
		}
	}
}

// Everything of one tenant but its account.
static int surroundings(struct td_op_tenant_pass *p, size_t at, struct td_error *err)
{
	struct td_op_tenant *t = &p->v[at];
	int r = 0;
	bool goes = t->deleting && !t->held;
	if (goes && !finalized(t->o))
		t->gone = true;
	else if (goes) {
		if (!(r = td_op_tenant_objects(p, at, true, err)) && !(r = set_finalizers(p, t->o, false, err))) {
			t->gone = true;
			td_info("Tenant %s is gone", t->o->name);
		}
	} else if (t->verdict.valid) {
		r = td_op_tenant_objects(p, at, false, err);
	}
	return r;
}

static int reconcile(void *ctx, const char *key, int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	struct td_op_tenants *ts = ctx;
	td_auto_free char *ns = NULL, *name = NULL;
	td_key_split(key, &ns, &name);
	td_auto_objects struct td_objects all = {0};
	td_informer_list(ts->tenants, NULL, &all);
	td_op_sort(&all);
	__attribute__((cleanup(pass_done))) struct td_op_tenant_pass p = {
		.ts = ts, .ns = ns, .cluster = name, .arena = td_arena_new(), .c = c, .again_ms = AGAIN_MS};
	p.sc = td_informer_get(ts->op->clusters, ns, name);
	p.v = td_arena_alloc(p.arena, (all.n + 1) * sizeof(*p.v));
	p.p = td_arena_alloc(p.arena, (all.n + 1) * sizeof(*p.p));
	for (size_t i = 0; i < all.n; i++) {
		td_auto_free char *its = cluster_key(all.v[i]);
		if (!strcmp(its, key))
			p.v[p.n++].o = td_object_ref(all.v[i]);
	}
	*again_ms = 0;
	td_op_storage_classes(&p);
	if (!p.n) { // groups of storage may have users, and a StorageClass may be new
		*again_ms = td_op_storage_groups_any(ts->op) ? AGAIN_MS : 0;
		return td_op_tenant_filters(&p, err);
	}

	int r = 0, r2;
	struct td_error e = TD_ERROR_INIT;
	for (size_t i = 0; i < p.n && !r; i++)
		if (!finalized(p.v[i].o) && !td_object_deleting(p.v[i].o))
			r = set_finalizers(&p, p.v[i].o, true, err);
	if (r)
		return r;
	for (size_t i = 0; i < p.n; i++) {
		td_op_tenant_read(&p, i, td_real_ms(&td_clock_system));
		td_op_tenant_people(&p, i);
	}
	td_op_tenant_pods(&p);
	r = td_op_tenant_projects(&p, err);
	open_account(&p);
	judge(&p);
	if ((r2 = td_op_tenant_filters(&p, &e))) { // and no account before it
		if (err)
			*err = e;
		return r2;
	}
	td_op_tenant_words(&p);
	td_op_tenant_slurm(&p);
	td_op_tenant_storage_look(&p);
	for (size_t i = 0; i < p.n; i++) {
		if ((r2 = surroundings(&p, i, &e)) || (!p.v[i].gone && (r2 = write_status(&p, i, &e)))) {
			r = r ? r : r2;
			if (err)
				*err = e;
		}
		if (p.v[i].held && p.again_ms > HELD_MS)
			p.again_ms = HELD_MS;
	}
	*again_ms = p.again_ms;
	return r;
}

void td_op_tenants_run(struct td_op *op, struct td_cancel *c)
{
	struct td_op_tenants ts = {.op = op};
	td_auto(td_json_unref) struct td_json *j = NULL;
	struct td_error err = TD_ERROR_INIT;
	int r;
	while ((r = td_kube_raw(op->k, "GET", "/apis/networking.k8s.io/v1", NULL, c, &j, &err)) && r != TD_NOT_FOUND)
		if (td_cancel_wait(c, 1000))
			return;
	const bool policies = r != TD_NOT_FOUND;
	bool quotas = false;
	while (td_op_core_served(op->k, td_resourcequotas.resource, &quotas, c, &err))
		if (td_cancel_wait(c, 1000))
			return;

	const struct {
		struct td_informer **slot;
		struct td_informer_opts o;
		void (*fn)(void *, struct td_object *, struct td_object *);
		bool served;
	} table[] = {
		{&ts.tenants, {&td_tenants, NULL, NULL, NULL}, on_tenant, true},
		{&ts.namespaces, {&td_namespaces, NULL, NULL, NULL}, on_namespace, true},
		{&ts.bindings, {&td_rolebindings, NULL, TD_LABEL_TENANT, NULL}, on_part, true},
		{&ts.policies, {&td_networkpolicies, NULL, TD_LABEL_TENANT, NULL}, on_part, policies},
		{&ts.quotas, {&td_resourcequotas, NULL, TD_LABEL_TENANT, NULL}, on_quota, quotas},
		{&ts.projects, {&td_projects, NULL, NULL, NULL}, on_project, true},
		{&ts.words, {&td_configmaps, NULL, TD_LABEL_FED_LIMITS, NULL}, on_word, true},
	};
	struct td_informer *informers[TD_LEN(table)];
	size_t n = 0;
	r = 0;
	for (size_t i = 0; i < TD_LEN(table); i++)
		if (table[i].served)
			informers[n++] = *table[i].slot = td_informer_new(op->k, &table[i].o);
	// Handlers look into the cache of tenants, so all are made before one starts.
	for (size_t i = 0; i < TD_LEN(table); i++)
		if (table[i].served)
			td_informer_on_change(*table[i].slot, table[i].fn, &ts);
	td_auto(td_cancel_unref) struct td_cancel *stop = td_cancel_new();
	for (size_t i = 0; i < n && !r; i++)
		r = td_informer_start(informers[i], stop, &err);
	if (!r)
		r = td_informers_fill(informers, n, "Tenants wait", c, &err);
	if (!r) {
		const struct td_controller ctl = {"tenant", 1, op->tenant_q, reconcile, &ts};
		td_controller_run(&ctl, c, NULL);
	} else if (r != TD_CANCELLED) {
		td_err("Tenants: %s", err.msg);
	}

	td_cancel_fire(stop);
	for (size_t i = TD_LEN(table); i--;)
		*table[i].slot = td_informer_free(*table[i].slot);
	while (ts.links) {
		struct td_op_view *v = ts.links;
		ts.links = v->next;
		td_op_view_done(v);
	}
}
