// Objects of a reply or a cache: reference-counted views into an immutable document.
#include "kube/internal.h"

#include <string.h>

const struct td_gvr td_pods = {"", "v1", "pods", "Pod", true};
const struct td_gvr td_nodes = {"", "v1", "nodes", "Node", false};
const struct td_gvr td_namespaces = {"", "v1", "namespaces", "Namespace", false};
const struct td_gvr td_configmaps = {"", "v1", "configmaps", "ConfigMap", true};
const struct td_gvr td_secrets = {"", "v1", "secrets", "Secret", true};
const struct td_gvr td_pvcs = {"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true};
const struct td_gvr td_services = {"", "v1", "services", "Service", true};
const struct td_gvr td_serviceaccounts = {"", "v1", "serviceaccounts", "ServiceAccount", true};
const struct td_gvr td_events = {"", "v1", "events", "Event", true};
const struct td_gvr td_leases = {"coordination.k8s.io", "v1", "leases", "Lease", true};
const struct td_gvr td_deployments = {"apps", "v1", "deployments", "Deployment", true};
const struct td_gvr td_replicasets = {"apps", "v1", "replicasets", "ReplicaSet", true};
const struct td_gvr td_statefulsets = {"apps", "v1", "statefulsets", "StatefulSet", true};
const struct td_gvr td_jobs = {"batch", "v1", "jobs", "Job", true};
const struct td_gvr td_priorityclasses = {"scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false};
const struct td_gvr td_pdbs = {"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true};
const struct td_gvr td_networkpolicies = {"networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", true};
const struct td_gvr td_resourcequotas = {"", "v1", "resourcequotas", "ResourceQuota", true};
const struct td_gvr td_crds = {"apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition",
			       false};
const struct td_gvr td_roles_gvr = {"rbac.authorization.k8s.io", "v1", "roles", "Role", true};
const struct td_gvr td_rolebindings = {"rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", true};
const struct td_gvr td_clusterroles = {"rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false};
const struct td_gvr td_clusterrolebindings = {"rbac.authorization.k8s.io", "v1", "clusterrolebindings",
					      "ClusterRoleBinding", false};
const struct td_gvr td_endpoints = {"", "v1", "endpoints", "Endpoints", true};
const struct td_gvr td_endpointslices = {"discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", true};
const struct td_gvr td_resourceclaims = {"resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", true};
const struct td_gvr td_resourceclaimtemplates = {"resource.k8s.io", "v1", "resourceclaimtemplates",
						 "ResourceClaimTemplate", true};
const struct td_gvr td_resourceslices = {"resource.k8s.io", "v1", "resourceslices", "ResourceSlice", false};
const struct td_gvr td_deviceclasses = {"resource.k8s.io", "v1", "deviceclasses", "DeviceClass", false};
const struct td_gvr td_slurmclusters = {"tandem.dev", "v1alpha1", "slurmclusters", "SlurmCluster", true};
const struct td_gvr td_nodesets = {"tandem.dev", "v1alpha1", "nodesets", "NodeSet", true};
const struct td_gvr td_nodehistories = {"tandem.dev", "v1alpha1", "nodehistories", "NodeHistory", false};
const struct td_gvr td_nodeactions = {"tandem.dev", "v1alpha1", "nodeactions", "NodeAction", false};
const struct td_gvr td_nodeupgrades = {"tandem.dev", "v1alpha1", "nodeupgrades", "NodeUpgrade", false};
const struct td_gvr td_healthpolicies = {"tandem.dev", "v1alpha1", "healthpolicies", "HealthPolicy", false};
const struct td_gvr td_datasets = {"tandem.dev", "v1alpha1", "datasets", "Dataset", true};
const struct td_gvr td_federations = {"tandem.dev", "v1alpha1", "federations", "Federation", false};
const struct td_gvr td_federatedruns = {"tandem.dev", "v1alpha1", "federatedruns", "FederatedRun", true};
const struct td_gvr td_nodetokens = {"tandem.dev", "v1alpha1", "nodetokens", "NodeToken", false};
const struct td_gvr td_csrs = {"certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest",
			       false};
const struct td_gvr td_tenants = {"tandem.dev", "v1alpha1", "tenants", "Tenant", false};
const struct td_gvr td_projects = {"tandem.dev", "v1alpha1", "projects", "Project", true};

struct td_object *td_object_new(struct td_json *json)
{
	struct td_object *o = td_calloc(1, sizeof(*o));
	o->json = json;
	o->root = td_json_root(json);

	yyjson_val *m = td_jget(o->root, "metadata");
	o->ns = td_jstr_or(m, "namespace", "");
	o->name = td_jstr_or(m, "name", "");
	o->uid = td_jstr_or(m, "uid", "");
	o->rv = td_jstr_or(m, "resourceVersion", "");
	o->refs = 1;
	return o;
}

struct td_object *td_object_kept(const yyjson_val *obj)
{
	yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *m;
	size_t i, n, j, l;
	yyjson_val *k, *v, *mk, *mv;

	yyjson_obj_foreach ((yyjson_val *)(uintptr_t)obj, i, n, k, v) {
		if (!yyjson_equals_str(k, "metadata") || !yyjson_is_obj(v)) {
			yyjson_mut_obj_add(o, yyjson_val_mut_copy(d, k), yyjson_val_mut_copy(d, v));
			continue;
		}
		yyjson_mut_obj_add(o, yyjson_val_mut_copy(d, k), m = yyjson_mut_obj(d));
		yyjson_obj_foreach (v, j, l, mk, mv) {
			if (!yyjson_equals_str(mk, "managedFields"))
				yyjson_mut_obj_add(m, yyjson_val_mut_copy(d, mk), yyjson_val_mut_copy(d, mv));
		}
	}
	return td_object_new(td_jm_done(d));
}

struct td_object *td_object_ref(struct td_object *o)
{
	if (o)
		__atomic_add_fetch(&o->refs, 1, __ATOMIC_RELAXED);
	return o;
}

struct td_object *td_object_unref(struct td_object *o)
{
	if (o && __atomic_sub_fetch(&o->refs, 1, __ATOMIC_ACQ_REL) == 0) {
		td_json_unref(o->json);
		free(o);
	}
	return NULL;
}

const char *td_object_label(const struct td_object *o, const char *key)
{
	return o ? td_jkey_str(td_jget(o->root, "metadata.labels"), key) : NULL;
}

const char *td_object_annotation(const struct td_object *o, const char *key)
{
	return o ? td_jkey_str(td_jget(o->root, "metadata.annotations"), key) : NULL;
}

bool td_kube_pod_ended(const yyjson_val *pod)
{
	const char *phase = td_jstr(pod, "status.phase");
	return td_streq(phase, "Succeeded") || td_streq(phase, "Failed");
}

bool td_object_deleting(const struct td_object *o)
{
	return o && td_jstr(o->root, "metadata.deletionTimestamp");
}

yyjson_val *td_object_owner(const struct td_object *o)
{
	size_t i, n;
	yyjson_val *ref, *refs = o ? td_jget(o->root, "metadata.ownerReferences") : NULL;
	yyjson_arr_foreach (refs, i, n, ref)
		if (td_jbool(ref, "controller", false))
			return ref;
	return NULL;
}

void td_objects_add(struct td_objects *l, struct td_object *o)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 16;
		l->v = td_realloc(l->v, l->cap * sizeof(*l->v));
	}
	l->v[l->n++] = o;
}

void td_objects_done(struct td_objects *l)
{
	for (size_t i = 0; i < l->n; i++)
		td_object_unref(l->v[i]);
	free(l->v);
	free(l->rv);
	*l = (struct td_objects){0};
}

bool td_rv_older(const char *a, const char *b)
{
	if (!a || !b || !*a || !*b || strspn(a, "0123456789") != strlen(a) || strspn(b, "0123456789") != strlen(b))
		return false;
	size_t la = strlen(a), lb = strlen(b);
	return la != lb ? la < lb : strcmp(a, b) < 0;
}
