// The roles and bindings that always exist: those of a real API server that users and installers
// name, with the same rules, and those of Tandem's own roles. As in a real API server, each start
// restores what is missing from them and removes nothing; only Tandem's own roles lose extra rules
// too, because an older version may have given them more. To keep a changed role, set its
// annotation rbac.authorization.kubernetes.io/autoupdate to "false".
#include "apiserver/srv.h"

#include "base/embedded.h"
#include "base/rand.h"

#include <string.h>

#define GROUP "rbac.authorization.k8s.io"
#define AUTOUPDATE "rbac.authorization.kubernetes.io/autoupdate"

#define OURS "system:tandem:"

// Holds roles.yaml, and deploy-roles.yaml with the ClusterRoles of deploy/: tandem-<role> there is
// OURS<role> here.
extern const struct td_embedded td_apiserver_files[];

// Which groups and users get which ClusterRole, or which Role of a namespace.
static const struct {
	const char *ns, *name, *role, *kind, *subjects[2];
} bindings[] = {
	{"", "cluster-admin", "cluster-admin", "Group", {"system:masters"}},
	{"", "system:basic-user", "system:basic-user", "Group", {"system:authenticated"}},
	{"", "system:discovery", "system:discovery", "Group", {"system:authenticated"}},
	{"",
	 "system:public-info-viewer",
	 "system:public-info-viewer",
	 "Group",
	 {"system:authenticated", "system:unauthenticated"}},
	{"", "system:monitoring", "system:monitoring", "Group", {"system:monitoring"}},
	{"", "system:kube-scheduler", "system:kube-scheduler", "User", {"system:kube-scheduler"}},
	{"", "system:volume-scheduler", "system:volume-scheduler", "User", {"system:kube-scheduler"}},
	{"", OURS "operator", OURS "operator", "User", {OURS "operator"}},
	{"", OURS "bridge", OURS "bridge", "User", {OURS "bridge"}},
	{"", OURS "agent", OURS "agent", "User", {OURS "kubelet"}},
	{"", OURS "kubelet", OURS "kubelet", "User", {OURS "kubelet"}},
	{"kube-node-lease", OURS "kubelet", OURS "kubelet", "User", {OURS "kubelet", OURS "operator"}},
	{"", OURS "controllers", OURS "controllers", "User", {OURS "controllers"}},
	{"", OURS "gateway", OURS "gateway", "User", {OURS "gateway"}},
	{"kube-system", OURS "leases", OURS "leases", "User", {OURS "operator", OURS "bridge"}},
};

static int write(struct td_srv *s, struct td_table *t, const char *ns, const char *name, uint64_t base,
		 yyjson_mut_doc *d, struct td_error *err)
{
	const struct td_srv_write w = {.table = t, .ns = ns, .name = name, .base = base, .doc = d};
	int rc = td_store_write(s->store, &w, NULL, err);
	return rc < 0 ? td_wrap(err, "%s %s", td_table_name(t), name) : 0;
}

static yyjson_mut_doc *fresh(struct td_srv *s, const char *kind, const char *ns, const char *name)
{
	char uid[TD_UUID_LEN], time[TD_TIME_LEN];
	yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_strf(d, o, "kind", "%s%s", *ns ? "" : "Cluster", kind);
	td_jm_str(d, o, "apiVersion", GROUP "/v1");
	td_jm_str(d, o, "metadata.name", name);
	if (*ns)
		td_jm_str(d, o, "metadata.namespace", ns);
	td_jm_str(d, o, "metadata.uid", td_uuid(uid));
	td_jm_str(d, o, "metadata.creationTimestamp", td_time_format(td_real_ms(s->clock), time));
	td_jm_key_str(d, td_jm_obj(d, o, "metadata.labels"), "kubernetes.io/bootstrapping", "rbac-defaults");
	td_jm_key_str(d, td_jm_obj(d, o, "metadata.annotations"), AUTOUPDATE, "true");
	return d;
}

static bool kept(const struct td_item *i) // a user wants to keep it as it is
{
	return td_streq(td_jkey_str(td_jget(td_item_root(i), "metadata.annotations"), AUTOUPDATE), "false");
}

static struct td_table *table(struct td_srv *s, const char *ns, const char *cluster, const char *in_namespace)
{
	return td_store_table(s->store, GROUP, *ns ? in_namespace : cluster);
}

static int make_role(struct td_srv *s, struct td_table *t, const char *ns, const char *name,
		     const struct td_rbac_rules *want, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = fresh(s, "Role", ns, name);
	yyjson_mut_val *rules = td_jm_arr(d, yyjson_mut_doc_get_root(d), "rules");
	for (size_t i = 0; i < want->n; i++)
		td_rbac_rule_write(d, rules, &want->v[i]);
	return write(s, t, ns, name, 0, d, err);
}

static int ensure_role(struct td_srv *s, const char *ns, const char *name, const struct td_rbac_rules *want,
		       struct td_error *err)
{
	struct td_table *t = table(s, ns, "clusterroles", "roles");
	td_auto(td_item_unref) struct td_item *old = td_store_get(s->store, t, ns, name);
	td_auto_rules struct td_rbac_rules have = {0}, missing = {0};

	if (!old)
		return make_role(s, t, ns, name, want, err);
	if (kept(old))
		return 0;
	td_rbac_rules_read(td_jget(td_item_root(old), "rules"), &have);
	bool ours = td_starts(name, OURS);
	if (ours ? td_rbac_rules_equal(&have, want) : td_rbac_covers(&have, want, &missing))
		return 0;
	const struct td_rbac_rules *add = ours ? want : &missing;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_item_root(old));
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	if (ours)
		td_jm_del(o, "rules");
	for (size_t i = 0; i < add->n; i++)
		td_rbac_rule_write(d, td_jm_arr(d, o, "rules"), &add->v[i]);

	return write(s, t, ns, name, old->rv, d, err);
}

static bool has_subject(const struct td_item *i, const char *kind, const char *name)
{
	yyjson_val *v;
	size_t k, n;
	yyjson_arr_foreach (td_jget(td_item_root(i), "subjects"), k, n, v)
		if (td_streq(td_jstr(v, "kind"), kind) && td_streq(td_jstr(v, "name"), name))
			return true;
	return false;
}

static int ensure_binding(struct td_srv *s, size_t b, struct td_error *err)
{
	const char *ns = bindings[b].ns;
	struct td_table *t = table(s, ns, "clusterrolebindings", "rolebindings");

	td_auto(td_item_unref) struct td_item *old = td_store_get(s->store, t, ns, bindings[b].name);
	if (old && kept(old))
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d =
		old ? td_jm_copy(td_item_root(old)) : fresh(s, "RoleBinding", ns, bindings[b].name);
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	bool changed = !old;
	if (!old) {
		td_jm_str(d, o, "roleRef.apiGroup", GROUP);
		td_jm_str(d, o, "roleRef.kind", *ns ? "Role" : "ClusterRole");
		td_jm_str(d, o, "roleRef.name", bindings[b].role);
	}

	for (size_t i = 0; i < TD_LEN(bindings[b].subjects) && bindings[b].subjects[i]; i++) {
		if (old && has_subject(old, bindings[b].kind, bindings[b].subjects[i]))
			continue;
		yyjson_mut_val *v = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "subjects"));
		td_jm_str(d, v, "kind", bindings[b].kind);
		td_jm_str(d, v, "apiGroup", GROUP);
		td_jm_str(d, v, "name", bindings[b].subjects[i]);
		changed = true;
	}

	return changed ? write(s, t, ns, bindings[b].name, old ? old->rv : 0, d, err) : 0;
}

// Deletes a binding of an older version: it made the group of Tandem's roles cluster-admin.
static int remove_old(struct td_srv *s, struct td_error *err)
{
	struct td_table *t = td_store_table(s->store, GROUP, "clusterrolebindings");
	td_auto(td_item_unref) struct td_item *old = td_store_get(s->store, t, "", OURS "roles");
	return old && !kept(old) ? write(s, t, "", OURS "roles", old->rv, NULL, err) : 0;
}

// Collects the rules of a role and of its parts.
static void rules_of(yyjson_val *all, const char *name, yyjson_val *role, struct td_rbac_rules *ret)
{
	yyjson_val *key, *v;
	size_t i, n;
	td_rbac_rules_read(td_jkey(role, "rules"), ret);
	yyjson_obj_foreach (all, i, n, key, v)
		if (td_streq(td_jstr(v, "part"), name))
			rules_of(all, yyjson_get_str(key), v, ret);
}

static int usual_roles(struct td_srv *s, struct td_error *err)
{
	td_auto_json_list struct td_json_list l = {0};
	const struct td_embedded *f = td_embedded(td_apiserver_files, "roles.yaml");

	int rc = td_yaml_parse(f->text, f->len, &l, err);
	if (rc < 0)
		return rc;
	yyjson_val *key, *v;
	size_t i, n;
	yyjson_obj_foreach (td_json_root(l.v[0]), i, n, key, v) {
		const char *name = yyjson_get_str(key), *slash = strchr(name, '/');
		td_auto_free char *ns = td_strndup(name, slash ? (size_t)(slash - name) : 0);
		td_auto_rules struct td_rbac_rules rules = {0};
		rules_of(td_json_root(l.v[0]), name, v, &rules);
		if ((rc = ensure_role(s, ns, slash ? slash + 1 : name, &rules, err)) < 0)
			return rc;
	}

	return 0;
}

static int roles_of_deploy(struct td_srv *s, struct td_error *err)
{
	static const char prefix[] = "tandem-";
	td_auto_json_list struct td_json_list l = {0};
	const struct td_embedded *f = td_embedded(td_apiserver_files, "deploy-roles.yaml");
	int rc = td_yaml_parse(f->text, f->len, &l, err);
	for (size_t i = 0; rc >= 0 && i < l.n; i++) {
		const char *its = td_jstr_or(td_json_root(l.v[i]), "metadata.name", "");
		td_auto_free char *name =
			td_asprintf(OURS "%s", td_starts(its, prefix) ? its + sizeof(prefix) - 1 : its);
		td_auto_rules struct td_rbac_rules rules = {0};
		td_rbac_rules_read(td_jkey(td_json_root(l.v[i]), "rules"), &rules);
		rc = ensure_role(s, "", name, &rules, err);
	}
	return rc;
}

int td_srv_bootstrap_rbac(struct td_srv *s, struct td_error *err)
{
	int rc;
	if ((rc = usual_roles(s, err)) < 0 || (rc = roles_of_deploy(s, err)) < 0 || (rc = remove_old(s, err)) < 0)
		return rc;
	for (size_t i = 0; i < TD_LEN(bindings); i++)
		if ((rc = ensure_binding(s, i, err)) < 0)
			return rc;
	return 0;
}
