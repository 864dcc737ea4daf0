// Projects of Tenants, for the admins of these: what they may do with Project objects in a namespace of their Tenant
// (docs/tenants.md), by the gateway's own right to these. What it becomes judges the operator.
#include "gateway/usage.h"

#include "api/storagequota.h"
#include "kube/tenant.h"
#include "slurm/resource.h"

#include <string.h>

enum { TRIES = 5 };

static const struct td_object *tenant_named(const struct td_gateway_viewer *v, const char *name)
{
	for (size_t i = 0; i < v->n_mine; i++)
		if (!strcmp(v->mine[i]->name, name))
			return v->mine[i];
	return NULL;
}

// The Tenant, if he is its admin. Others are told the same whether it is there or not.
static int of_mine(struct td_gateway_ask *q, const struct td_gateway_viewer *v, const char *name,
		   const struct td_object **ret, struct td_error *err)
{
	const struct td_object *t = tenant_named(v, name);
	if (!td_gateway_leads(t, q->user.name))
		return td_fail(
			err, TD_DENIED,
			"you are no admin of a Tenant \"%.63s\": its projects are made and changed by its admins "
			"(spec.members of the Tenant)",
			name);
	*ret = t;
	return 0;
}

// Refuses here what the operator would not make of it.
static int quota_check(struct td_gateway_ask *q, const yyjson_val *quota, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(q->g->clusters, q->g->o.ns, q->g->o.cluster);
	yyjson_val *k, *x;
	size_t i, n;
	yyjson_obj_foreach ((yyjson_val *)(uintptr_t)quota, i, n, k, x) {
		td_auto_free char *tres = NULL;
		if (td_api_storage_word(yyjson_get_str(k)))
			return td_fail(err, TD_INVALID,
				       "quota.%.60s: a project has no namespaces, so no storage: leave it out",
				       yyjson_get_str(k));
		if (td_slurm_resource(sc ? sc->root : NULL, yyjson_get_str(k), &tres, err))
			return td_wrap(err, "quota");
	}
	return 0;
}

static int members_check(const struct td_object *tenant, const yyjson_val *names, const char *field,
			 struct td_error *err)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach ((yyjson_val *)(uintptr_t)names, i, n, x) {
		const yyjson_val *m = td_gateway_member(tenant, yyjson_get_str(x));
		if (!td_kube_tenant_runs(m))
			return td_fail(err, TD_INVALID,
				       "%s: \"%.40s\" runs nothing in Tenant %s: an administrator of the cluster makes "
				       "him a member there first",
				       field, yyjson_get_str(x), tenant->name);
	}
	return 0;
}

// Whether this namespace of its status is the Tenant's still: that is behind while Slurm does not answer, and meanwhile
// the namespace may have become another's.
static bool is_its(const struct td_gateway_viewer *v, const struct td_object *tenant, const char *ns)
{
	bool its = td_kube_tenant_names(tenant, ns);
	for (size_t i = 0; i < v->tenants.n && its; i++)
		its = v->tenants.v[i] == tenant || !td_kube_tenant_names(v->tenants.v[i], ns) ||
		      !td_jfind(td_jget(v->tenants.v[i]->root, "status.namespaces"), "name", ns);
	return its;
}

// Where its projects are.
static const char *space_of(const struct td_gateway_viewer *v, const struct td_object *tenant)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(tenant->root, "status.namespaces"), i, n, x)
		if (is_its(v, tenant, td_jstr_or(x, "name", "")))
			return td_jstr(x, "name");
	return NULL;
}

static int make(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto_viewer struct td_gateway_viewer v = {0};
	const struct td_object *t = NULL;
	const char *name = td_jstr(q->body, "name"), *tenant = td_jstr(q->body, "tenant");
	int r;
	if ((r = td_gateway_tenants(q->g, td_gateway_cancel(q), &v, err)) || (r = of_mine(q, &v, tenant, &t, err)) ||
	    (r = quota_check(q, td_jget(q->body, "quota"), err)) ||
	    (r = members_check(t, td_jget(q->body, "members"), "members", err)))
		return r;
	const char *space = space_of(&v, t);
	if (!space)
		return td_fail(
			err, TD_CONFLICT,
			"Tenant %s has no namespace of its own, where its projects would be: an administrator of the "
			"cluster adds one (spec.namespaces)",
			tenant);
	td_auto_free char *account = td_asprintf("%s.%s", tenant, name);
	const struct td_object *there = tenant_named(&v, account);
	if (there)
		return td_fail(err, TD_EXISTS,
			       td_object_deleting(there)
				       ? "the last project %.127s still goes: make it when its jobs are over"
				       : "there is a project %.127s already: take another name",
			       account);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new(), *answer = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *spec, *a = yyjson_mut_doc_get_root(answer);
	td_jm_str(d, o, "apiVersion", "tandem.dev/v1alpha1");
	td_jm_str(d, o, "kind", td_projects.kind);
	td_jm_str(d, o, "metadata.name", name);
	td_jm_str(d, o, "metadata.namespace", space);
	spec = td_jm_obj(d, o, "spec");
	static const char *const fields[] = {"members", "quota", "weight"};
	for (size_t i = 0; i < TD_LEN(fields); i++)
		if (td_jget(q->body, fields[i]))
			td_jm_copyval(d, spec, fields[i], td_jget(q->body, fields[i]));
	r = td_kube_create(q->g->kube, &td_projects, space, o, td_gateway_cancel(q), NULL, err);
	if (r == TD_EXISTS)
		return td_fail(err, r, "there is a project %.127s already: take another name", account);
	if (r)
		return td_wrap(err, "Project %s/%s", space, name);
	td_jm_str(answer, a, "name", account);
	td_jm_str(answer, a, "tenant", tenant);
	td_jm_str(answer, a, "account", account);
	td_gateway_send(q, 201, answer);
	return 0;
}

// The Project of TENANT.NAME, in whichever namespace of the Tenant it is.
static int find(struct td_gateway_ask *q, const struct td_gateway_viewer *v, const struct td_object **ret_tenant,
		struct td_object **ret, struct td_error *err)
{
	const char *id = q->args[0], *dot = strrchr(id, '.');
	if (!dot || dot == id || !dot[1])
		return td_fail(err, TD_INVALID, "\"%.127s\": a project of a Tenant's admins is called TENANT.NAME", id);
	td_auto_free char *tenant = td_strndup(id, (size_t)(dot - id));
	int r = of_mine(q, v, tenant, ret_tenant, err);
	if (r)
		return r;
	yyjson_val *spaces = td_jget((*ret_tenant)->root, "status.namespaces"), *x;
	size_t i, n;
	yyjson_arr_foreach (spaces, i, n, x) {
		const char *ns = td_jstr_or(x, "name", "");
		if (!is_its(v, *ret_tenant, ns))
			continue;
		r = td_kube_get(q->g->kube, &td_projects, ns, dot + 1, td_gateway_cancel(q), ret, err);
		if (r != TD_NOT_FOUND)
			return r ? td_wrap(err, "Project %s/%s", ns, dot + 1) : 0;
	}
	return td_fail(err, TD_NOT_FOUND, "Tenant %s has no project \"%.63s\": `tandem project list` lists them",
		       tenant, dot + 1);
}

// Who is in it, after some came and others went.
static int members(struct td_gateway_ask *q, const struct td_object *tenant, const struct td_object *o,
		   yyjson_mut_doc *d, yyjson_mut_val *spec, struct td_error *err)
{
	yyjson_val *add = td_jget(q->body, "add"), *out = td_jget(q->body, "remove"),
		   *have = td_jget(o->root, "spec.members"), *x;
	td_auto_strv struct td_strv names = {0}, gone = {0};
	size_t i, n;
	if (!yyjson_arr_size(add) && !yyjson_arr_size(out))
		return 0;
	if (have)
		td_jstrs(have, &names);
	else
		yyjson_arr_foreach (td_jget(tenant->root, "spec.members"), i, n, x)
			if (td_kube_tenant_runs(x))
				td_strv_add(&names, td_jstr_or(x, "user", ""));
	td_jstrs(out, &gone);
	for (i = 0; i < gone.n; i++)
		if (!td_strv_has(&names, gone.v[i]))
			return td_fail(err, TD_NOT_FOUND, "\"%.40s\" is not in project %s.%s", gone.v[i], tenant->name,
				       o->name);
	yyjson_arr_foreach (add, i, n, x)
		if (!td_strv_has(&names, yyjson_get_str(x)))
			td_strv_add(&names, yyjson_get_str(x));
	yyjson_mut_val *list = td_jm_arr(d, spec, "members");
	for (i = 0; i < names.n; i++)
		if (!td_strv_has(&gone, names.v[i]))
			yyjson_mut_arr_add_strcpy(d, list, names.v[i]);
	return 0;
}

static int change(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto_viewer struct td_gateway_viewer v = {0};
	const struct td_object *t = NULL;
	int r = td_gateway_tenants(q->g, td_gateway_cancel(q), &v, err);
	for (int i = 0; !r && i < TRIES; i++) {
		td_auto(td_object_unref) struct td_object *o = NULL;
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *spec;
		if ((r = find(q, &v, &t, &o, err)) || (r = quota_check(q, td_jget(q->body, "quota"), err)) ||
		    (r = members_check(t, td_jget(q->body, "add"), "add", err)))
			return r;
		td_jm_str(d, root, "metadata.uid", o->uid);
		td_jm_str(d, root, "metadata.resourceVersion", o->rv);
		spec = td_jm_obj(d, root, "spec");
		if ((r = members(q, t, o, d, spec, err)))
			return r;
		if (td_jget(q->body, "quota"))
			td_jm_copyval(d, spec, "quota", td_jget(q->body, "quota"));
		if (td_jget(q->body, "weight"))
			td_jm_copyval(d, spec, "weight", td_jget(q->body, "weight"));
		r = td_kube_patch(q->g->kube, TD_AT(&td_projects, o->ns, o->name), TD_PATCH_MERGE, root,
				  td_gateway_cancel(q), NULL, err);
		if (!r)
			return td_gateway_done(q);
		r = r == TD_CONFLICT && i + 1 < TRIES ? 0 : td_wrap(err, "Project %s/%s", o->ns, o->name);
	}
	return r;
}

static int end(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto_viewer struct td_gateway_viewer v = {0};
	td_auto(td_object_unref) struct td_object *o = NULL;
	const struct td_object *t = NULL;
	int r;
	if ((r = td_gateway_tenants(q->g, td_gateway_cancel(q), &v, err)) || (r = find(q, &v, &t, &o, err)))
		return r;
	const struct td_kube_delete_opts how = {.uid = o->uid, .grace_s = -1};
	r = td_kube_delete(q->g->kube, &td_projects, o->ns, o->name, &how, td_gateway_cancel(q), err);
	return r && r != TD_NOT_FOUND ? td_wrap(err, "Project %s/%s", o->ns, o->name) : td_gateway_done(q);
}

// ---- list ----

struct projects_shown {
	yyjson_mut_doc *d;
	yyjson_mut_val *list;
	const char *user;
};

// o: a Project, or the Tenant of one. Of a Tenant members are objects.
static void show(struct projects_shown *s, const char *name, const struct td_object *tenant, const struct td_object *o)
{
	yyjson_mut_val *p = yyjson_mut_arr_add_obj(s->d, s->list);
	yyjson_val *conditions = td_jget(o->root, "status.conditions"), *m;
	const yyjson_val *ready = td_jfind(conditions, "type", "Ready");
	bool mine = td_gateway_leads(tenant, s->user);
	size_t i, n;
	td_jm_str(s->d, p, "name", name);
	td_jm_str(s->d, p, "tenant", tenant ? tenant->name : td_jstr(o->root, "spec.parent"));
	td_jm_str(s->d, p, "account", td_jstr(o->root, "status.account"));
	td_jm_int(s->d, p, "weight", td_jint(o->root, "spec.weight", 1));
	if (td_jget(o->root, "spec.quota"))
		td_jm_copyval(s->d, p, "quota", td_jget(o->root, "spec.quota"));
	td_jm_bool(s->d, p, "admin", mine);
	td_jm_bool(s->d, p, "ready", td_streq(td_jstr(ready, "status"), "True"));
	td_jm_str(s->d, p, "message", td_jstr(ready, "message"));
	if (!mine)
		return;
	yyjson_mut_val *people = td_jm_arr(s->d, p, "members");
	yyjson_arr_foreach (td_jget(o->root, "spec.members"), i, n, m)
		yyjson_mut_arr_add_strcpy(s->d, people,
					  yyjson_is_str(m) ? yyjson_get_str(m) : td_jstr_or(m, "user", "?"));
}

static int list(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto_viewer struct td_gateway_viewer v = {0};
	td_auto_objects struct td_objects all = {0};
	int r;
	if ((r = td_gateway_tenants(q->g, td_gateway_cancel(q), &v, err)) ||
	    (r = td_kube_list(q->g->kube, &td_projects, NULL, NULL, NULL, td_gateway_cancel(q), &all, err)))
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	struct projects_shown s = {
		.d = d, .list = td_jm_arr(d, yyjson_mut_doc_get_root(d), "projects"), .user = q->user.name};
	for (size_t i = 0; i < v.n_mine; i++) {
		const struct td_object *t = v.mine[i], *up = td_gateway_parent(v.mine, v.n_mine, t);
		if (td_kube_tenant_is_project(t) &&
		    (td_gateway_leads(up, q->user.name) || td_gateway_member(t, q->user.name)))
			show(&s, t->name, up, t);
	}
	// What nothing was made of yet; its admins see why.
	for (size_t i = 0; i < all.n; i++) {
		const struct td_object *up = NULL;
		for (size_t k = 0; k < v.n_mine && !up; k++)
			if (td_jfind(td_jget(v.mine[k]->root, "status.namespaces"), "name", all.v[i]->ns) &&
			    is_its(&v, v.mine[k], all.v[i]->ns))
				up = v.mine[k];
		td_auto_free char *name = up ? td_asprintf("%s.%s", up->name, all.v[i]->name) : NULL;
		if (up && td_gateway_leads(up, q->user.name) && !tenant_named(&v, name))
			show(&s, name, up, all.v[i]);
	}
	td_gateway_send(q, 200, d);
	return 0;
}

const struct td_gateway_op td_gateway_project_ops[] = {
	{"listProjects", list}, {"makeProject", make}, {"changeProject", change}, {"deleteProject", end}, {NULL, NULL},
};
