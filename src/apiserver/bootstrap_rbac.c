// The roles and bindings that always exist: those of the real API server that users and installers name, with the same rules, and those of
// Tandem's own roles. As the real one, a start puts back what was taken from them, and takes nothing away (but from Tandem's own: an older
// version may have given them more); whoever wants to keep a changed one sets the annotation
// rbac.authorization.kubernetes.io/autoupdate to "false".
#include "apiserver/srv.h"

#include "base/rand.h"

#include <string.h>

#define GROUP "rbac.authorization.k8s.io"
#define AUTOUPDATE "rbac.authorization.kubernetes.io/autoupdate"

#define READ "get, list, watch"
#define WRITE "create, delete, deletecollection, patch, update"

#define OURS "system:tandem:"

extern const unsigned char td_deploy_roles[]; // the ClusterRoles of deploy/, tandem-<role>: here OURS<role>
extern const unsigned long td_deploy_roles_len;

// One ClusterRole a key, or a Role as namespace/name: its rules, and what it is a part of: "admin", "edit" and "view" have the rules of
// their parts.
// clang-format off
static const char roles[] =
"cluster-admin:\n"
"  rules:\n"
"  - {verbs: ['*'], apiGroups: ['*'], resources: ['*']}\n"
"  - {verbs: ['*'], nonResourceURLs: ['*']}\n"
"admin: {}\n"
"edit: {part: admin}\n"
"view: {part: edit}\n"
"system:aggregate-to-admin:\n"
"  part: admin\n"
"  rules:\n"
"  - {verbs: [create], apiGroups: [authorization.k8s.io], resources: [localsubjectaccessreviews]}\n"
"  - {verbs: [" WRITE ", " READ "], apiGroups: [rbac.authorization.k8s.io], resources: [rolebindings, roles]}\n"
"system:aggregate-to-edit:\n"
"  part: edit\n"
"  rules:\n"
"  - {verbs: [" READ "], apiGroups: [''], resources: [pods/attach, pods/exec, pods/portforward, pods/proxy, secrets, services/proxy]}\n"
"  - {verbs: [impersonate], apiGroups: [''], resources: [serviceaccounts]}\n"
"  - {verbs: [" WRITE "], apiGroups: [''], resources: [pods, pods/attach, pods/exec, pods/portforward, pods/proxy]}\n"
"  - {verbs: [create], apiGroups: [''], resources: [pods/eviction]}\n"
"  - {verbs: [" WRITE "], apiGroups: [''], resources: [configmaps, events, persistentvolumeclaims, replicationcontrollers, replicationcontrollers/scale, secrets, serviceaccounts, services, services/proxy]}\n"
"  - {verbs: [create], apiGroups: [''], resources: [serviceaccounts/token]}\n"
"  - {verbs: [" WRITE "], apiGroups: [apps], resources: [daemonsets, deployments, deployments/rollback, deployments/scale, replicasets, replicasets/scale, statefulsets, statefulsets/scale]}\n"
"  - {verbs: [" WRITE "], apiGroups: [autoscaling], resources: [horizontalpodautoscalers]}\n"
"  - {verbs: [" WRITE "], apiGroups: [batch], resources: [cronjobs, jobs]}\n"
"  - {verbs: [" WRITE "], apiGroups: [extensions], resources: [daemonsets, deployments, deployments/rollback, deployments/scale, ingresses, networkpolicies, replicasets, replicasets/scale, replicationcontrollers/scale]}\n"
"  - {verbs: [" WRITE "], apiGroups: [policy], resources: [poddisruptionbudgets]}\n"
"  - {verbs: [" WRITE "], apiGroups: [networking.k8s.io], resources: [ingresses, networkpolicies]}\n"
"  - {verbs: [" WRITE ", " READ "], apiGroups: [coordination.k8s.io], resources: [leases]}\n"
"  - {verbs: [" WRITE "], apiGroups: [resource.k8s.io], resources: [resourceclaims, resourceclaimtemplates]}\n"
"system:aggregate-to-view:\n"
"  part: view\n"
"  rules:\n"
"  - {verbs: [" READ "], apiGroups: [''], resources: [configmaps, endpoints, persistentvolumeclaims, persistentvolumeclaims/status, pods, replicationcontrollers, replicationcontrollers/scale, serviceaccounts, services, services/status]}\n"
"  - {verbs: [" READ "], apiGroups: [''], resources: [bindings, events, limitranges, namespaces/status, pods/log, pods/status, replicationcontrollers/status, resourcequotas, resourcequotas/status]}\n"
"  - {verbs: [" READ "], apiGroups: [''], resources: [namespaces]}\n"
"  - {verbs: [" READ "], apiGroups: [discovery.k8s.io], resources: [endpointslices]}\n"
"  - {verbs: [" READ "], apiGroups: [apps], resources: [controllerrevisions, daemonsets, daemonsets/status, deployments, deployments/scale, deployments/status, replicasets, replicasets/scale, replicasets/status, statefulsets, statefulsets/scale, statefulsets/status]}\n"
"  - {verbs: [" READ "], apiGroups: [autoscaling], resources: [horizontalpodautoscalers, horizontalpodautoscalers/status]}\n"
"  - {verbs: [" READ "], apiGroups: [batch], resources: [cronjobs, cronjobs/status, jobs, jobs/status]}\n"
"  - {verbs: [" READ "], apiGroups: [extensions], resources: [daemonsets, daemonsets/status, deployments, deployments/scale, deployments/status, ingresses, ingresses/status, networkpolicies, replicasets, replicasets/scale, replicasets/status, replicationcontrollers/scale]}\n"
"  - {verbs: [" READ "], apiGroups: [policy], resources: [poddisruptionbudgets, poddisruptionbudgets/status]}\n"
"  - {verbs: [" READ "], apiGroups: [networking.k8s.io], resources: [ingresses, ingresses/status, networkpolicies]}\n"
"  - {verbs: [" READ "], apiGroups: [resource.k8s.io], resources: [resourceclaims, resourceclaims/status, resourceclaimtemplates]}\n"
"system:auth-delegator:\n"
"  rules:\n"
"  - {verbs: [create], apiGroups: [authentication.k8s.io], resources: [tokenreviews]}\n"
"  - {verbs: [create], apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews]}\n"
"system:basic-user:\n"
"  rules:\n"
"  - {verbs: [create], apiGroups: [authorization.k8s.io], resources: [selfsubjectaccessreviews, selfsubjectrulesreviews]}\n"
"  - {verbs: [create], apiGroups: [authentication.k8s.io], resources: [selfsubjectreviews]}\n"
"system:discovery:\n"
"  rules:\n"
"  - {verbs: [get], nonResourceURLs: [/api, '/api/*', /apis, '/apis/*', /healthz, /livez, /openapi, '/openapi/*', /readyz, /version, /version/]}\n"
"system:public-info-viewer:\n"
"  rules:\n"
"  - {verbs: [get], nonResourceURLs: [/healthz, /livez, /readyz, /version, /version/]}\n"
"system:monitoring:\n"
"  rules:\n"
"  - {verbs: [get], nonResourceURLs: [/healthz, '/healthz/*', /livez, '/livez/*', /metrics, /metrics/slis, /readyz, '/readyz/*']}\n"
"  - {verbs: [get], apiGroups: [''], resources: [nodes/metrics]}\n"
"system:kube-scheduler:\n"
"  rules:\n"
"  - {verbs: [create, patch, update], apiGroups: ['', events.k8s.io], resources: [events]}\n"
"  - {verbs: [create], apiGroups: [coordination.k8s.io], resources: [leases]}\n"
"  - {verbs: [" READ ", update], apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [kube-scheduler]}\n"
"  - {verbs: [" WRITE ", " READ "], apiGroups: [coordination.k8s.io], resources: [leasecandidates]}\n"
"  - {verbs: [" READ "], apiGroups: [''], resources: [nodes]}\n"
"  - {verbs: [delete, " READ "], apiGroups: [''], resources: [pods]}\n"
"  - {verbs: [create], apiGroups: [''], resources: [bindings, pods/binding]}\n"
"  - {verbs: [patch, update], apiGroups: [''], resources: [pods/status]}\n"
"  - {verbs: [" READ "], apiGroups: [''], resources: [replicationcontrollers, services]}\n"
"  - {verbs: [" READ "], apiGroups: [apps, extensions], resources: [replicasets]}\n"
"  - {verbs: [" READ "], apiGroups: [apps], resources: [statefulsets]}\n"
"  - {verbs: [" READ "], apiGroups: [policy], resources: [poddisruptionbudgets]}\n"
"  - {verbs: [" READ "], apiGroups: [''], resources: [persistentvolumeclaims, persistentvolumes]}\n"
"  - {verbs: [create], apiGroups: [authentication.k8s.io], resources: [tokenreviews]}\n"
"  - {verbs: [create], apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews]}\n"
"  - {verbs: [" READ "], apiGroups: [storage.k8s.io], resources: [csidrivers, csinodes, csistoragecapacities, volumeattachments]}\n"
"  - {verbs: [" READ "], apiGroups: [''], resources: [namespaces]}\n"
"  - {verbs: [" READ "], apiGroups: [resource.k8s.io], resources: [deviceclasses, resourceslices]}\n"
"  - {verbs: [" READ ", patch, update], apiGroups: [resource.k8s.io], resources: [resourceclaims, resourceclaims/status]}\n"
"  - {verbs: [update], apiGroups: [''], resources: [pods/finalizers]}\n"
"system:volume-scheduler:\n"
"  rules:\n"
"  - {verbs: [" READ ", patch, update], apiGroups: [''], resources: [persistentvolumes]}\n"
"  - {verbs: [" READ "], apiGroups: [storage.k8s.io], resources: [storageclasses]}\n"
"  - {verbs: [" READ ", patch, update], apiGroups: [''], resources: [persistentvolumeclaims]}\n"
// The kubelet hosts the gates of its nodes, so it also has the rights of the agent that does so on clusters. (Which tokens it is given: token.c.)
OURS "kubelet:\n"
"  rules:\n"
"  - {verbs: [get, create], apiGroups: [''], resources: [nodes]}\n"
"  - {verbs: [patch], apiGroups: [''], resources: [nodes/status, pods/status]}\n"
"  - {verbs: [delete], apiGroups: [''], resources: [pods]}\n"
"  - {verbs: [" READ "], apiGroups: [''], resources: [configmaps, secrets]}\n"
"  - {verbs: [list, watch], apiGroups: [''], resources: [services]}\n"
"  - {verbs: [create], apiGroups: [''], resources: [serviceaccounts/token]}\n"
"  - {verbs: [create, patch], apiGroups: [''], resources: [events]}\n"
"kube-node-lease/" OURS "kubelet:\n"
"  rules:\n"
"  - {verbs: [create, patch], apiGroups: [coordination.k8s.io], resources: [leases]}\n"
// What a kube-controller-manager and a kube-scheduler may: garbage is of every kind. They make few kinds themselves.
OURS "controllers:\n"
"  rules:\n"
"  - {verbs: [" READ ", patch, delete], apiGroups: ['*'], resources: ['*']}\n"
"  - {verbs: [update], apiGroups: [''], resources: [namespaces/finalize]}\n"
"  - {verbs: [create], apiGroups: [''], resources: [configmaps, events, pods, pods/binding, serviceaccounts]}\n"
"  - {verbs: [create], apiGroups: [apps], resources: [replicasets]}\n"
"kube-system/" OURS "leases:\n"
"  rules:\n"
"  - {verbs: [create], apiGroups: [coordination.k8s.io], resources: [leases]}\n"
"  - {verbs: [get, patch], apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [tandem-operator, tandem-bridge-slurm.main]}\n";
// clang-format on

// The groups and users that have a ClusterRole, or a namespace's Role.
static const struct {
	const char *ns, *name, *role, *kind, *subjects[2];
} bindings[] = {
	{"", "cluster-admin", "cluster-admin", "Group", {"system:masters"}},
	{"", "system:basic-user", "system:basic-user", "Group", {"system:authenticated"}},
	{"", "system:discovery", "system:discovery", "Group", {"system:authenticated"}},
	{"", "system:public-info-viewer", "system:public-info-viewer", "Group", {"system:authenticated", "system:unauthenticated"}},
	{"", "system:monitoring", "system:monitoring", "Group", {"system:monitoring"}},
	{"", "system:kube-scheduler", "system:kube-scheduler", "User", {"system:kube-scheduler"}},
	{"", "system:volume-scheduler", "system:volume-scheduler", "User", {"system:kube-scheduler"}},
	{"", OURS "operator", OURS "operator", "User", {OURS "operator"}},
	{"", OURS "bridge", OURS "bridge", "User", {OURS "bridge"}},
	{"", OURS "agent", OURS "agent", "User", {OURS "kubelet"}},
	{"", OURS "kubelet", OURS "kubelet", "User", {OURS "kubelet"}},
	{"kube-node-lease", OURS "kubelet", OURS "kubelet", "User", {OURS "kubelet"}},
	{"", OURS "controllers", OURS "controllers", "User", {OURS "controllers"}},
	{"kube-system", OURS "leases", OURS "leases", "User", {OURS "operator", OURS "bridge"}},
};

static int write(struct td_srv *s, struct td_table *t, const char *ns, const char *name, uint64_t base, yyjson_mut_doc *d,
		 struct td_error *err)
{
	const struct td_write w = {.table = t, .ns = ns, .name = name, .base = base, .doc = d};
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

static bool kept(const struct td_item *i) // as somebody else wants it
{
	return td_streq(td_jkey_str(td_jget(td_item_root(i), "metadata.annotations"), AUTOUPDATE), "false");
}

static struct td_table *table(struct td_srv *s, const char *ns, const char *cluster, const char *in_namespace)
{
	return td_store_table(s->store, GROUP, *ns ? in_namespace : cluster);
}

static int make_role(struct td_srv *s, struct td_table *t, const char *ns, const char *name, const struct td_rbac_rules *want,
		     struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = fresh(s, "Role", ns, name);
	yyjson_mut_val *rules = td_jm_arr(d, yyjson_mut_doc_get_root(d), "rules");
	for (size_t i = 0; i < want->n; i++)
		td_rbac_rule_write(d, rules, &want->v[i]);
	return write(s, t, ns, name, 0, d, err);
}

static int ensure_role(struct td_srv *s, const char *ns, const char *name, const struct td_rbac_rules *want, struct td_error *err)
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

// The roles' one group was cluster-admin in homes of an older version.
static int remove_old(struct td_srv *s, struct td_error *err)
{
	struct td_table *t = td_store_table(s->store, GROUP, "clusterrolebindings");
	td_auto(td_item_unref) struct td_item *old = td_store_get(s->store, t, "", OURS "roles");
	return old && !kept(old) ? write(s, t, "", OURS "roles", old->rv, NULL, err) : 0;
}

// The rules of a role and of its parts.
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
	int rc = td_yaml_parse(roles, sizeof(roles) - 1, &l, err);
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
	int rc = td_yaml_parse((const char *)td_deploy_roles, td_deploy_roles_len, &l, err);
	for (size_t i = 0; rc >= 0 && i < l.n; i++) {
		const char *its = td_jstr_or(td_json_root(l.v[i]), "metadata.name", "");
		td_auto_free char *name = td_asprintf(OURS "%s", td_starts(its, prefix) ? its + sizeof(prefix) - 1 : its);
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
