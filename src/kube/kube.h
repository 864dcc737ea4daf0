// Kubernetes client: one connection pool, the verbs, and objects as the API sent them. Works with any Kubernetes
// ≥ 1.32.
//
// Results map to codes: 404 NOT_FOUND, 409 AlreadyExists EXISTS, 409 else CONFLICT, 410 EXPIRED, 429 THROTTLED
// (retry_after_ms), 401 UNAUTHENTICATED, 403 DENIED, 400/422 INVALID, 5xx and no connection TRANSIENT for reads and
// UNCERTAIN for writes (504 too), 405/415 UNSUPPORTED. err->msg is the Status message.
//
// Files
//   kube.c config.c object.c internal.h measure.c   the client: verbs, kubeconfig, objects of replies, counts of
//   requests informer.[ch] store.[ch]      a cache of one resource: LIST and WATCH, and what handlers and workers read
//   of it controller.[ch] queue.c lease.c events.c   keys that wait and the workers that take them; leader election;
//   events slices.[ch]                   devices that DRA's drivers publish fence.[ch]                    the condition
//   that keeps a late Binding from landing health.[ch]                   a role's /metrics, /livez and /readyz
//   options.h                       command-line options that several roles have
#pragma once

#include "base/cancel.h"
#include "base/clock.h"
#include "base/err.h"
#include "json/json.h"

struct td_kube;
struct td_http_call;
struct td_http_reply;

// kubeconfig: path, or NULL for $KUBECONFIG, then in-cluster (/var/run/secrets/kubernetes.io/serviceaccount). Current
// context; certificate/key/CA as files or inline data, token, tokenFile. TD_INVALID names the file and the field.
int td_kube_new(const char *kubeconfig, struct td_kube **ret, struct td_error *err);
struct td_kube *td_kube_free(struct td_kube *k);
TD_DEFINE_AUTO(struct td_kube *, td_kube_free)

// A resource. Static instances for what Tandem uses are below.
struct td_gvr {
	const char *group; // "" for core
	const char *version;
	const char *resource; // plural
	const char *kind;
	bool namespaced;
};
extern const struct td_gvr td_pods, td_nodes, td_namespaces, td_configmaps, td_secrets, td_services, td_serviceaccounts,
	td_events, td_leases, td_deployments, td_replicasets, td_statefulsets, td_jobs, td_priorityclasses, td_pdbs,
	td_crds, td_slurmclusters, td_nodesets, td_resourceclaims, td_resourceclaimtemplates, td_resourceslices,
	td_deviceclasses, td_roles_gvr, td_rolebindings, td_clusterroles, td_clusterrolebindings, td_endpoints,
	td_endpointslices;

// ---- objects ----
// An object in a cache or a reply: reference-counted, immutable; strings point into it. Absent strings are "".
struct td_object {
	const char *ns, *name, *uid, *rv; // rv: resourceVersion
	yyjson_val *root;
	struct td_json *json;
	int refs;
};
struct td_object *td_object_new(struct td_json *json); // takes the reference
// One object out of a list or an event, with a document of its own and without managedFields: half of its bytes, and
// nobody reads them from a cache.
struct td_object *td_object_kept(const yyjson_val *obj);
struct td_object *td_object_ref(struct td_object *o);
struct td_object *td_object_unref(struct td_object *o); // NULL ok; returns NULL
TD_DEFINE_AUTO(struct td_object *, td_object_unref)
// Shorthands on metadata.
const char *td_object_label(const struct td_object *o, const char *key);      // NULL when absent
const char *td_object_annotation(const struct td_object *o, const char *key); // NULL when absent
bool td_pod_ended(const yyjson_val *pod);                                     // its phase is Succeeded or Failed
bool td_object_deleting(const struct td_object *o);                           // deletionTimestamp is set
yyjson_val *td_object_owner(const struct td_object *o); // the ownerReference with controller=true, or NULL

// A list; owned references.
struct td_objects {
	struct td_object **v;
	size_t n, cap;
	char *rv; // of the list; owned
};
void td_objects_add(struct td_objects *l, struct td_object *o); // takes the reference
void td_objects_done(struct td_objects *l);
#define td_auto_objects __attribute__((cleanup(td_objects_done)))

// ---- verbs (ns NULL for cluster-scoped, or all namespaces in a list; ret may be NULL) ----
int td_kube_get(struct td_kube *k, const struct td_gvr *r, const char *ns, const char *name, struct td_cancel *c,
		struct td_object **ret, struct td_error *err);
// All pages. Selectors may be NULL.
int td_kube_list(struct td_kube *k, const struct td_gvr *r, const char *ns, const char *labels, const char *fields,
		 struct td_cancel *c, struct td_objects *ret, struct td_error *err);
int td_kube_create(struct td_kube *k, const struct td_gvr *r, const char *ns, const yyjson_mut_val *obj,
		   struct td_cancel *c, struct td_object **ret, struct td_error *err);
enum td_patch { TD_PATCH_MERGE, TD_PATCH_JSON, TD_PATCH_STRATEGIC, TD_PATCH_APPLY };
// Where one object is in the API, or a part of it.
struct td_kube_place {
	const struct td_gvr *resource;
	const char *ns, *name; // ns: NULL when cluster-scoped
	const char *part;      // "status", "scale", "finalize"; NULL: the object
};
#define TD_AT(...) (&(const struct td_kube_place){__VA_ARGS__})
// Put metadata.uid and metadata.resourceVersion into the patch where they must match.
int td_kube_patch(struct td_kube *k, const struct td_kube_place *at, enum td_patch type, const yyjson_mut_val *patch,
		  struct td_cancel *c, struct td_object **ret, struct td_error *err);
int td_kube_update(struct td_kube *k, const struct td_kube_place *at, const yyjson_mut_val *obj, struct td_cancel *c,
		   struct td_object **ret, struct td_error *err);
struct td_delete {
	const char *uid, *rv;    // preconditions, or NULL
	int grace_s;             // -1: the object's own
	const char *propagation; // "Background", "Foreground", "Orphan", or NULL
};
int td_kube_delete(struct td_kube *k, const struct td_gvr *r, const char *ns, const char *name,
		   const struct td_delete *opts, struct td_cancel *c, struct td_error *err);
// A pod and the node that it goes to.
struct td_binding {
	const char *ns, *pod, *node;
	const char *uid, *rv;              // preconditions, or NULL
	const yyjson_mut_val *annotations; // an object, set in the same write; NULL: none
};
int td_kube_bind(struct td_kube *k, const struct td_binding *b, struct td_cancel *c, struct td_error *err);
struct td_kube_body {
	const char *type; // its Content-Type
	const char *text; // len bytes
	size_t len;
};
// Raw: any path, for what has no verb here. body NULL: none. Returns the reply's JSON root.
int td_kube_raw(struct td_kube *k, const char *method, const char *path, const struct td_kube_body *body,
		struct td_cancel *c, struct td_json **ret, struct td_error *err);
// One call with the identity that kubeconfig gives, but to url (a kubelet: no API server), checked against ca_file;
// NULL: the API server's. 0 for any reply, as td_http_do.
int td_kube_call_as(const char *kubeconfig, const char *url, const char *ca_file, int64_t timeout_ms,
		    const struct td_http_call *call, struct td_cancel *cancel, struct td_http_reply *ret,
		    struct td_error *err);
const char *td_kube_server(const struct td_kube *k); // URL
// The PEM of the CA that the server is checked against; *ret NULL when the system's is used. Caller frees.
int td_kube_ca(const struct td_kube *k, char **ret, struct td_error *err);
// Counters since start (for benches and tests): requests sent, bytes received.
void td_kube_stats(const struct td_kube *k, uint64_t *ret_requests, uint64_t *ret_bytes);
