// A tenant's namespaces, with the rights of its members and the policy that keeps others away. A
// namespace is a tenant's when it carries its label, and only who may change namespaces can label one.
#include "operator/tenant.h"

#include "api/person.h"
#include "base/log.h"

#include <string.h>

static const struct {
	const char *role, *member;
} roles[] = {{"admin", "admin"}, {"edit", "member"}, {"view", "viewer"}};

struct maker {
	struct td_op_tenant_pass *p;
	struct td_op_tenant *t;
	yyjson_mut_doc *d; // the template, filled in for the namespace
	const char *ns;
};

// Namespaces that carry a part of the system are nobody's.
static bool reserved(const struct td_op_tenant_pass *p, const char *ns)
{
	return !strcmp(ns, "default") || td_starts(ns, "kube-") || !strcmp(ns, p->ns) ||
	       td_streq(ns, p->ts->op->own_ns);
}

static int apply(struct maker *m, const struct td_gvr *g, const char *ns, yyjson_mut_val *want, struct td_error *err)
{
	const char *name = td_jm_getstr(want, "metadata.name");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_doc_set_root(d, yyjson_mut_val_mut_copy(d, want));
	int r = td_kube_patch(m->p->ts->op->k, TD_AT(g, ns, name), TD_PATCH_APPLY, yyjson_mut_doc_get_root(d), m->p->c,
			      NULL, err);
	if (r)
		return td_wrap(err, "applying %s %s%s%s", g->kind, ns ? ns : "", ns ? "/" : "", name);
	td_info("Tenant %s: %s %s%s%s is applied", m->t->o->name, g->kind, ns ? ns : "", ns ? "/" : "", name);
	return 0;
}

static int drop(struct td_op_tenant_pass *p, const struct td_gvr *g, const struct td_object *o, struct td_error *err)
{
	const struct td_kube_delete_opts del = {.uid = o->uid, .grace_s = -1};
	int r = td_kube_delete(p->ts->op->k, g, o->ns, o->name, &del, p->c, err);
	if (r && r != TD_NOT_FOUND)
		return td_wrap(err, "deleting %s %s/%s", g->kind, o->ns, o->name);
	td_info("%s %s/%s deleted", g->kind, o->ns, o->name);
	return 0;
}

static bool as_is(const struct td_object *live, yyjson_mut_val *want)
{
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(want);
	return live && !td_object_deleting(live) && td_op_covers(live->root, td_json_root(j));
}

// Puts the members of a role into its binding. False: nobody has it.
static bool subjects(struct maker *m, yyjson_mut_val *binding, const char *role)
{
	yyjson_mut_val *list = td_jm_arr(m->d, binding, "subjects");
	size_t i, n;
	yyjson_val *x;
	yyjson_arr_foreach (td_jget(m->t->o->root, "spec.members"), i, n, x) {
		if (!td_streq(td_jstr_or(x, "role", "member"), role))
			continue;
		yyjson_mut_val *s = yyjson_mut_arr_add_obj(m->d, list);
		td_jm_str(m->d, s, "apiGroup", "rbac.authorization.k8s.io");
		td_jm_str(m->d, s, "kind", "User");
		td_jm_str(m->d, s, "name", td_jstr_or(x, "kubernetesUser", td_jstr_or(x, "user", "")));
	}
	return yyjson_mut_arr_size(list) > 0;
}

static int rights(struct maker *m, struct td_error *err)
{
	const char *tenant = m->t->o->name;
	for (size_t i = 0; i < TD_LEN(roles); i++) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d =
			td_op_template("tenant.yaml", {"namespace", m->ns}, {"tenant", tenant}, {"role", roles[i].role},
				       {"security", ""}, {"cluster-namespace", ""}, {"own-namespace", ""});
		struct maker mine = {m->p, m->t, d, m->ns};
		yyjson_mut_val *want = td_jm_get(yyjson_mut_doc_get_root(d), "binding");
		td_auto(td_object_unref) struct td_object *live =
			td_informer_get(m->p->ts->bindings, m->ns, td_jm_getstr(want, "metadata.name"));
		int r = 0;
		if (!subjects(&mine, want, roles[i].member))
			r = live ? drop(m->p, &td_rolebindings, live, err) : 0;
		else if (!as_is(live, want))
			r = apply(&mine, &td_rolebindings, m->ns, want, err);
		if (r)
			return r;
	}
	return 0;
}

static int policy(struct maker *m, yyjson_mut_val *want, bool has, struct td_error *err)
{
	struct td_informer *cache = m->p->ts->policies;
	td_auto(td_object_unref) struct td_object *live =
		cache ? td_informer_get(cache, m->ns, td_jm_getstr(want, "metadata.name")) : NULL;
	if (!has)
		return live ? drop(m->p, &td_networkpolicies, live, err) : 0;
	return !cache || as_is(live, want) ? 0 : apply(m, &td_networkpolicies, m->ns, want, err);
}

static int network(struct maker *m, yyjson_mut_val *root, struct td_error *err)
{
	const yyjson_val *spec = td_jget(m->t->o->root, "spec");
	bool open = td_streq(td_jstr(spec, "network"), "open"), shut = td_jget(spec, "egress") != NULL;
	yyjson_mut_val *out = td_jm_get(root, "egress"), *to = NULL;
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(spec, "egress.cidrs"), i, n, x) {
		if (!to)
			to = td_jm_arr(m->d, yyjson_mut_arr_add_obj(m->d, td_jm_get(out, "spec.egress")), "to");
		td_jm_str(m->d, yyjson_mut_arr_add_obj(m->d, to), "ipBlock.cidr", yyjson_get_str(x));
	}
	// What closes comes first.
	int r = policy(m, td_jm_get(root, "private"), !open, err);
	if (!r)
		r = policy(m, td_jm_get(root, "policy"), !open, err);
	return r ? r : policy(m, out, shut, err);
}

// Must its pods have user namespaces?
static bool users_of(const struct td_op_tenant_pass *p, size_t at)
{
	const yyjson_val *o = td_op_tenant_says(p, at, "spec.userNamespaces");
	return o && td_jbool(o, "spec.userNamespaces", false);
}

// What each container of its pods may hold of a node's disk. NULL: nobody says.
static const char *disk_of(const struct td_op_tenant_pass *p, size_t at)
{
	const yyjson_val *o = td_op_tenant_says(p, at, "spec.ephemeralStorage");
	return o ? td_arena_strdup(p->arena, td_jstr_or(o, "spec.ephemeralStorage", "")) : NULL;
}

// What the operator says on a tenant's namespaces.
struct notes {
	const char *key, *value; // NULL: absent
};

// Writes them on a namespace that is there, where they differ.
static int annotate(struct td_op_tenant_pass *p, const struct td_object *live, const struct notes *v, size_t n,
		    struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *notes = td_jm_obj(d, o, "metadata.annotations");
	td_jm_str(d, o, "metadata.uid", live->uid);
	for (size_t i = 0; i < n; i++)
		if (!td_streq(td_object_annotation(live, v[i].key), v[i].value))
			td_jm_key_set(d, notes, v[i].key,
				      v[i].value ? yyjson_mut_strcpy(d, v[i].value) : yyjson_mut_null(d));
	if (!yyjson_mut_obj_size(notes))
		return 0;
	int r = td_kube_patch(p->ts->op->k, TD_AT(&td_namespaces, NULL, live->name), TD_PATCH_MERGE, o, p->c, NULL,
			      err);
	if (r && r != TD_NOT_FOUND)
		return td_wrap(err, "writing annotations on namespace %s", live->name);
	td_info("namespace %s: annotations written", live->name);
	return 0;
}

// Those claims that the Tenant's storage names and that are in the namespace, "fs home". NULL: none. In the arena.
static const char *claims_of(const struct td_op_tenant_pass *p, const char *ns, const char *storage)
{
	struct td_person_mount m;
	td_auto_strv struct td_strv names = {0};
	td_auto_buf struct td_buf b = {0};
	while (storage && td_person_mount_next(&storage, p->arena, &m)) {
		td_auto(td_object_unref) struct td_object *claim =
			m.claim && !td_strv_has(&names, m.source) ? td_informer_get(p->ts->op->claims, ns, m.source)
								  : NULL;
		if (claim)
			td_strv_add(&names, m.source);
	}
	for (size_t i = 0; i < names.n; i++)
		td_buf_printf(&b, "%s%s", i ? " " : "", names.v[i]);
	return b.len ? td_arena_strdup(p->arena, td_buf_str(&b)) : NULL;
}

// Makes one namespace. True in *ret_has: it is the tenant's.
static int space(struct td_op_tenant_pass *p, size_t at, const char *ns, bool *ret_has, struct td_error *err)
{
	struct td_op_tenant *t = &p->v[at];
	const char *tenant = t->o->name, *calls = td_op_tenant_filter(p, at);
	td_auto(td_object_unref) struct td_object *live = td_informer_get(p->ts->namespaces, NULL, ns);
	const char *whose = td_object_label(live, TD_LABEL_TENANT);
	*ret_has = false;
	if (reserved(p, ns)) {
		td_strv_addf(&t->problems, "spec.namespaces: \"%s\" is a part of the system; name another one", ns);
		return 0;
	}
	if (live && !td_streq(whose, tenant)) {
		if (whose)
			td_strv_addf(&t->problems, "spec.namespaces: \"%s\" is Tenant %s's; name another one", ns,
				     whose);
		else
			td_strv_addf(&t->problems,
				     "spec.namespaces: \"%s\" exists and is nobody's: kubectl label namespace "
				     "%s " TD_LABEL_TENANT "=%s",
				     ns, ns, tenant);
		return 0;
	}
	if (live && (td_object_deleting(live) || td_streq(td_jstr(live->root, "status.phase"), "Terminating"))) {
		td_strv_addf(&t->problems, "namespace \"%s\" is being deleted", ns);
		return 0;
	}

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_op_template(
		"tenant.yaml", {"namespace", ns}, {"tenant", tenant}, {"role", ""},
		{"security", td_jstr_or(t->o->root, "spec.podSecurity", "baseline")}, {"cluster-namespace", p->ns},
		{"own-namespace", p->ts->op->own_ns ? p->ts->op->own_ns : p->ns});
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *want = td_jm_get(root, "namespace");
	struct maker m = {p, t, d, ns};
	int r = 0;
	const char *people = t->people, *storage = t->mode ? td_op_tenant_storage(p, at) : NULL;
	if (t->mode && !people) { // the cluster is not there
		people = live ? td_object_annotation(live, TD_ANN_PEOPLE) : NULL;
		people = people ? people : t->mode; // nobody's pods
		storage = live ? td_object_annotation(live, TD_ANN_STORAGE) : NULL;
	}
	const struct notes notes[] = {{TD_ANN_SECCOMP, calls},
				      {TD_ANN_USERS, users_of(p, at) ? "required" : NULL},
				      {TD_ANN_DISK, disk_of(p, at)},
				      {TD_ANN_EGRESS, td_jget(t->o->root, "spec.egress") ? "closed" : NULL},
				      {TD_ANN_PEOPLE, people},
				      {TD_ANN_STORAGE, storage},
				      {TD_ANN_STORAGE_CLAIMS, claims_of(p, ns, storage)},
				      {TD_ANN_CLAIMS, td_op_tenant_claims(p, at)}};
	for (size_t i = 0; !live && i < TD_LEN(notes); i++)
		if (notes[i].value)
			td_jm_key_str(d, td_jm_obj(d, want, "metadata.annotations"), notes[i].key, notes[i].value);
	if (!live) { // created, not applied: one that appears just now is somebody else's
		r = td_kube_create(p->ts->op->k, &td_namespaces, NULL, want, p->c, NULL, err);
		if (r)
			return td_wrap(err, "creating namespace %s", ns);
		td_info("Tenant %s: namespace %s is made", tenant, ns);
	} else if (!as_is(live, want)) {
		r = apply(&m, &td_namespaces, NULL, want, err);
	}
	if (!r && live)
		r = annotate(p, live, notes, TD_LEN(notes), err);
	// The limit is there before anybody who may make claims.
	if (r || (r = td_op_tenant_storage_write(p, at, ns, err)) || (r = rights(&m, err)) ||
	    (r = network(&m, root, err)))
		return r;
	*ret_has = true;
	return 0;
}

static int drop_all(struct td_op_tenant_pass *p, struct td_informer *cache, const struct td_gvr *g, const char *ns,
		    struct td_error *err)
{
	td_auto_objects struct td_objects l = {0};
	if (cache)
		td_informer_list(cache, ns, &l);
	for (size_t i = 0; i < l.n; i++) {
		int r = td_object_deleting(l.v[i]) ? 0 : drop(p, g, l.v[i], err);
		if (r)
			return r;
	}
	return 0;
}

// A namespace that is no tenant's any more keeps what is in it, but not the members' rights.
static int release(struct td_op_tenant_pass *p, const struct td_object *ns, struct td_error *err)
{
	int r;
	if ((r = drop_all(p, p->ts->bindings, &td_rolebindings, ns->name, err)) ||
	    (r = drop_all(p, p->ts->quotas, &td_resourcequotas, ns->name, err)) ||
	    (r = drop_all(p, p->ts->policies, &td_networkpolicies, ns->name, err)))
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "metadata.uid", ns->uid);
	yyjson_mut_val *labels = td_jm_obj(d, o, "metadata.labels");
	td_jm_key_set(d, labels, TD_LABEL_TENANT, yyjson_mut_null(d));
	static const char *const notes[] = {TD_ANN_SECCOMP, TD_ANN_USERS,   TD_ANN_DISK,           TD_ANN_EGRESS,
					    TD_ANN_PEOPLE,  TD_ANN_STORAGE, TD_ANN_STORAGE_CLAIMS, TD_ANN_CLAIMS};
	for (size_t i = 0; i < TD_LEN(notes); i++)
		if (td_object_annotation(ns, notes[i]))
			td_jm_key_set(d, td_jm_obj(d, o, "metadata.annotations"), notes[i], yyjson_mut_null(d));
	r = td_kube_patch(p->ts->op->k, TD_AT(&td_namespaces, NULL, ns->name), TD_PATCH_MERGE, o, p->c, NULL, err);
	if (r && r != TD_NOT_FOUND)
		return td_wrap(err, "taking the label from namespace %s", ns->name);
	td_info("namespace %s is no tenant's any more", ns->name);
	return 0;
}

static bool has_any(const struct td_informer *cache, const char *ns)
{
	td_auto_objects struct td_objects l = {0};
	if (cache)
		td_informer_list(cache, ns, &l);
	return l.n > 0;
}

// Was the namespace the tenant's? One that is only labelled is about to become so: its name is still to
// come into the object.
static bool was_granted(const struct td_op_tenant_pass *p, const struct td_op_tenant *t, const char *ns)
{
	return td_jfind(td_jget(t->o->root, "status.namespaces"), "name", ns) || has_any(p->ts->bindings, ns) ||
	       has_any(p->ts->policies, ns);
}

int td_op_tenant_objects(struct td_op_tenant_pass *p, size_t at, bool all, struct td_error *err)
{
	struct td_op_tenant *t = &p->v[at];
	const struct td_pool_tenant *w = &p->p[at];
	int r;
	for (size_t i = 0; i < w->n_namespaces && !all; i++) {
		bool has;
		if ((r = space(p, at, w->namespaces[i], &has, err)))
			return r;
		if (has)
			td_strv_add(&t->granted, w->namespaces[i]);
	}

	td_auto_objects struct td_objects spaces = {0};
	td_informer_list(p->ts->namespaces, NULL, &spaces);
	for (size_t i = 0; i < spaces.n; i++) {
		const char *ns = spaces.v[i]->name;
		if (!td_streq(td_object_label(spaces.v[i], TD_LABEL_TENANT), t->o->name) ||
		    td_object_deleting(spaces.v[i]) || td_strv_has(&t->granted, ns))
			continue;
		if ((all || was_granted(p, t, ns)) && (r = release(p, spaces.v[i], err)))
			return r;
	}
	return 0;
}
