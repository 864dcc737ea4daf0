// Projects: the Tenant of each, below the one in whose namespace it is, and its status.
//
// All that a project is comes from that Tenant: its account, its quota, its people. So what reads Tenants (bridge,
// gateway, bills) needs to know nothing of projects. A project has no finalizer: what is there without one goes, by the
// Tenant's own finalizer, when its jobs are over.
#include "operator/tenant.h"

#include "api/condition.h"
#include "base/log.h"
#include "kube/tenant.h"
#include "pool/project.h"

#include <string.h>

enum { PROJECTS_MOST = 200 }; // of one Tenant: each is an account in slurmdbd, and looked at in each pass

struct project_work {
	struct td_op_tenant_pass *p;
	const struct td_object *o;
	size_t up, own; // in the pass: the Tenant whose it is; its own Tenant; p->n: there is none
	struct td_pool_project_verdict v;
	const char *reason, *message; // why it is not ready; NULL: it is
};

static size_t find(const struct td_op_tenant_pass *p, const char *name)
{
	size_t i = 0;
	while (i < p->n && !td_streq(p->v[i].o->name, name))
		i++;
	return i;
}

static bool is_of(const struct td_object *tenant, const struct td_object *project)
{
	return td_streq(td_object_label(tenant, TD_LABEL_PROJECT), project->name) &&
	       td_streq(td_object_label(tenant, TD_LABEL_PROJECT_NS), project->ns);
}

static void judge(struct project_work *w)
{
	struct td_op_tenant_pass *p = w->p;
	yyjson_val *members = w->up < p->n ? td_jget(p->v[w->up].o->root, "spec.members") : NULL,
		   *names = td_jget(w->o->root, "spec.members"), *x;
	const char **people = td_arena_alloc(p->arena, (yyjson_arr_size(members) + 1) * sizeof(*people)),
		   **asked = td_arena_alloc(p->arena, (yyjson_arr_size(names) + 1) * sizeof(*asked));
	struct td_pool_project in = {.name = w->o->name,
				     .tenant = w->up < p->n ? &p->p[w->up] : NULL,
				     .people = people,
				     .asked = asked,
				     .all = !names};
	size_t i, n;
	yyjson_arr_foreach (members, i, n, x)
		if (td_kube_tenant_runs(x))
			people[in.n_people++] = td_jstr_or(x, "user", "");
	yyjson_arr_foreach (names, i, n, x)
		if (yyjson_is_str(x))
			asked[in.n_asked++] = yyjson_get_str(x);
	const char *unreadable = td_op_tenant_quota(p, w->o, &in.quota, &in.n_quota);
	td_pool_project_judge(p->arena, &in, &w->v);
	if (unreadable) {
		w->v.fits = false;
		if (!w->v.reason) {
			w->v.reason = "QuotaInvalid";
			w->v.message = unreadable;
		}
	}
	w->reason = w->v.reason;
	w->message = w->v.message;
}

// Copies the members of the Tenant above who are in it, as they are there. Both lists have one order.
static void add_members(struct project_work *w, yyjson_mut_doc *d, yyjson_mut_val *list)
{
	yyjson_val *m;
	size_t i, n, at = 0;
	yyjson_arr_foreach (td_jget(w->p->v[w->up].o->root, "spec.members"), i, n, m)
		if (at < w->v.n_members && td_kube_tenant_runs(m) &&
		    !strcmp(td_jstr_or(m, "user", ""), w->v.members[at])) {
			yyjson_mut_arr_append(list, yyjson_val_mut_copy(d, m));
			at++;
		}
}

// What of the Tenant's spec is as the project says.
static yyjson_mut_doc *wanted(struct project_work *w, bool with_quota)
{
	const yyjson_val *up = w->p->v[w->up].o->root, *o = w->o->root;
	yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *spec = yyjson_mut_doc_get_root(d);
	td_jm_copyval(d, spec, "cluster", td_jget(up, "spec.cluster"));
	td_jm_str(d, spec, "parent", w->p->v[w->up].o->name);
	td_jm_arr(d, spec, "namespaces");
	td_jm_str(d, spec, "deletion", "Drain");
	td_jm_int(d, spec, "weight", td_jint(o, "spec.weight", 1));
	if (td_jget(up, "spec.perUser")) // else a member would have more in projects than in his Tenant
		td_jm_copyval(d, spec, "perUser", td_jget(up, "spec.perUser"));
	if (with_quota && yyjson_obj_size(td_jget(o, "spec.quota")))
		td_jm_copyval(d, spec, "quota", td_jget(o, "spec.quota"));
	add_members(w, d, td_jm_arr(d, spec, "members"));
	return d;
}

static int make(struct project_work *w, struct td_error *err)
{
	struct td_op_tenant_pass *p = w->p;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *spec = wanted(w, true), *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "apiVersion", "tandem.dev/v1alpha1");
	td_jm_str(d, o, "kind", "Tenant");
	td_jm_str(d, o, "metadata.name", w->v.account);
	yyjson_mut_val *labels = td_jm_obj(d, o, "metadata.labels");
	td_jm_key_str(d, labels, TD_LABEL_PROJECT, w->o->name);
	td_jm_key_str(d, labels, TD_LABEL_PROJECT_NS, w->o->ns);
	td_jm_set(d, o, "spec", yyjson_mut_val_mut_copy(d, yyjson_mut_doc_get_root(spec)));
	int r = td_kube_create(p->ts->op->k, &td_tenants, NULL, o, p->c, NULL, err);
	if (r == TD_EXISTS) // that one is looked at when the watch has shown it
		return 0;
	if (r)
		return td_wrap(err, "making Tenant %s of Project %s/%s", w->v.account, w->o->ns, w->o->name);
	td_info("Project %s/%s: Tenant %s is made", w->o->ns, w->o->name, w->v.account);
	return 0;
}

// Puts right what of the Tenant is the project's. What an administrator has set besides stays.
static int keep(struct project_work *w, struct td_error *err)
{
	static const char *const fields[] = {"cluster", "parent",  "namespaces", "deletion",
					     "weight",  "perUser", "quota",      "members"};
	struct td_op_tenant_pass *p = w->p;
	const struct td_object *live = p->v[w->own].o;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *spec = wanted(w, w->v.fits), *d = yyjson_mut_doc_new(NULL);
	td_auto(td_json_unref) struct td_json *want = td_json_from_mut(yyjson_mut_doc_get_root(spec));
	yyjson_mut_val *ops = yyjson_mut_arr(d);
	yyjson_mut_doc_set_root(d, ops);
	yyjson_mut_val *test = yyjson_mut_arr_add_obj(d, ops);
	td_jm_str(d, test, "op", "test");
	td_jm_str(d, test, "path", "/metadata/uid");
	td_jm_str(d, test, "value", live->uid);
	for (size_t i = 0; i < TD_LEN(fields); i++) {
		yyjson_val *is = td_jget(td_jget(live->root, "spec"), fields[i]),
			   *to = td_jget(td_json_root(want), fields[i]);
		if ((!strcmp(fields[i], "quota") && !w->v.fits) || (!is && !to) || (is && to && td_jequal(is, to)))
			continue; // a quota that cannot be leaves the last one in force
		yyjson_mut_val *op = yyjson_mut_arr_add_obj(d, ops);
		td_jm_str(d, op, "op", to ? "add" : "remove");
		td_jm_strf(d, op, "path", "/spec/%s", fields[i]);
		if (to)
			td_jm_set(d, op, "value", yyjson_val_mut_copy(d, to));
	}
	if (yyjson_mut_arr_size(ops) == 1)
		return 0;
	int r = td_kube_patch(p->ts->op->k, TD_AT(&td_tenants, NULL, live->name), TD_PATCH_JSON, ops, p->c, NULL, err);
	if (r && r != TD_NOT_FOUND)
		return td_wrap(err, "Tenant %s of Project %s/%s", live->name, w->o->ns, w->o->name);
	td_info("Project %s/%s: Tenant %s is put right", w->o->ns, w->o->name, live->name);
	return 0;
}

static void wait_for(struct project_work *w, const char *reason, const char *message)
{
	if (!w->reason) {
		w->reason = reason;
		w->message = message;
	}
}

static int one(struct project_work *w, bool *kept, struct td_error *err)
{
	struct td_op_tenant_pass *p = w->p;
	judge(w);
	w->own = w->v.account ? find(p, w->v.account) : p->n;
	if (!w->v.account)
		return 0;
	if (w->own == p->n) {
		// It may be of another cluster, or not shown yet.
		td_auto(td_object_unref) struct td_object *there = td_informer_get(p->ts->tenants, NULL, w->v.account);
		if (there && !is_of(there, w->o)) {
			wait_for(w, "NameTaken",
				 td_arena_printf(p->arena, "there is a Tenant %s already: take another name",
						 w->v.account));
			return 0;
		}
		if (!td_jstr(p->v[w->up].o->root, "status.account") || !w->v.fits) {
			wait_for(w, "TenantNotReady",
				 td_arena_printf(p->arena, "Tenant %s has no account yet", p->v[w->up].o->name));
			return 0;
		}
		size_t n = 0;
		for (size_t i = 0; i < p->n; i++)
			n += td_object_label(p->v[i].o, TD_LABEL_PROJECT) &&
			     td_streq(td_jstr(p->v[i].o->root, "spec.parent"), p->v[w->up].o->name);
		if (n >= PROJECTS_MOST) {
			wait_for(w, "TooMany",
				 td_arena_printf(p->arena,
						 "Tenant %s has %zu projects, and %d are the most: delete some first",
						 p->v[w->up].o->name, n, PROJECTS_MOST));
			return 0;
		}
		wait_for(w, "Making", "its account is being made");
		return make(w, err);
	}
	const struct td_object *live = p->v[w->own].o;
	if (!is_of(live, w->o)) {
		wait_for(w, "NameTaken",
			 td_arena_printf(p->arena,
					 "there is a Tenant %s already, or another namespace has this project: take "
					 "another name",
					 live->name));
		return 0;
	}
	const yyjson_val *ready = td_condition(live->root, "Ready"), *going = td_condition(live->root, "Deleting");
	if (td_object_deleting(live)) {
		wait_for(w, "LastOneGoes",
			 td_arena_printf(p->arena, "the last project of this name goes first: %.900s",
					 td_jstr_or(going, "message", "its account is being removed")));
		return 0;
	}
	kept[w->own] = true;
	if (!td_condition_true(live->root, "Ready"))
		wait_for(w, td_jstr_or(ready, "reason", "Making"),
			 td_jstr_or(ready, "message", "its account is being made"));
	return keep(w, err);
}

static int write_status(struct project_work *w, struct td_error *err)
{
	struct td_op_tenant_pass *p = w->p;
	const struct td_object *own = w->own < p->n && is_of(p->v[w->own].o, w->o) ? p->v[w->own].o : NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	long long generation = td_jint(w->o->root, "metadata.generation", 0);
	td_jm_int(d, o, "observedGeneration", generation);
	td_jm_str(d, o, "account", own ? td_jstr(own->root, "status.account") : NULL);
	const struct td_condition_want c = {.type = "Ready",
					    .status = w->reason ? "False" : "True",
					    .reason = w->reason ? w->reason : "Ready",
					    .message = w->message ? w->message : "its account is in place",
					    .generation = generation};
	td_condition_add(d, td_jm_arr(d, o, "conditions"), td_jget(w->o->root, "status.conditions"), &c,
			 td_real_ms(&td_clock_system));
	struct td_object *x = td_object_ref((struct td_object *)(uintptr_t)w->o);
	int r = td_op_status_write(p->ts->op, &td_projects, x, d, p->c, err);
	td_object_unref(x);
	return r == TD_NOT_FOUND || r == TD_CONFLICT ? 0 : r;
}

char *td_op_project_tenant(const struct td_op_tenants *ts, const char *ns)
{
	td_auto(td_object_unref) struct td_object *space = td_informer_get(ts->namespaces, NULL, ns);
	const char *name = space && !td_object_deleting(space) ? td_object_label(space, TD_LABEL_TENANT) : NULL;
	td_auto(td_object_unref) struct td_object *t = name ? td_informer_get(ts->tenants, NULL, name) : NULL;
	return t && td_kube_tenant_names(t, ns) ? td_strdup(name) : NULL;
}

int td_op_tenant_projects(struct td_op_tenant_pass *p, struct td_error *err)
{
	td_auto_objects struct td_objects all = {0};
	td_informer_list(p->ts->projects, NULL, &all);
	bool *kept = td_arena_alloc(p->arena, (p->n + 1) * sizeof(*kept));
	memset(kept, 0, (p->n + 1) * sizeof(*kept));
	struct td_error e = TD_ERROR_INIT;
	int r = 0, r2;
	for (size_t i = 0; i < all.n; i++) {
		struct project_work w = {.p = p, .o = all.v[i], .up = p->n, .own = p->n};
		td_auto_free char *tenant = td_op_project_tenant(p->ts, w.o->ns);
		if (tenant)
			w.up = find(p, tenant);
		if (td_object_deleting(w.o) || (tenant && w.up == p->n))
			continue; // of another cluster
		if ((r2 = one(&w, kept, &e)) || (r2 = write_status(&w, &e))) {
			r = r2;
			if (err)
				*err = e;
		}
	}
	for (size_t i = 0; i < p->n; i++) {
		const struct td_object *o = p->v[i].o;
		if (kept[i] || !td_object_label(o, TD_LABEL_PROJECT) || td_object_deleting(o))
			continue;
		const struct td_kube_delete_opts how = {.uid = o->uid, .grace_s = -1};
		td_info("Tenant %s: its Project %s/%s is no more", o->name, td_object_label(o, TD_LABEL_PROJECT_NS),
			td_object_label(o, TD_LABEL_PROJECT));
		if ((r2 = td_kube_delete(p->ts->op->k, &td_tenants, NULL, o->name, &how, p->c, &e)) &&
		    r2 != TD_NOT_FOUND) {
			r = r2;
			if (err)
				*err = e;
		}
	}
	return r;
}
