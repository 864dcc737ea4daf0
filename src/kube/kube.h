// The Kubernetes client: one connection pool, the verbs, and objects as the API server sent them.
// It works with every Kubernetes from 1.32.
//
// Replies map to codes: 404 NOT_FOUND, 409 AlreadyExists EXISTS, other 409 CONFLICT, 410 EXPIRED,
// 429 THROTTLED (retry_after_ms), 401 UNAUTHENTICATED, 403 DENIED, 400/422 INVALID, 405/415
// UNSUPPORTED, 5xx (504 too) TRANSIENT for reads and UNCERTAIN for writes. A request that surely
// was not sent is TRANSIENT; one whose reply did not come is TRANSIENT for reads and UNCERTAIN for
// writes. err->msg is the message of the Status.
//
// Files
//   kube.c config.c object.c    the client: verbs, kubeconfig, objects of replies
//   internal.h measure.c        its struct and helpers; metrics of requests
//   informer.[ch] store.[ch]    a cache of one resource: LIST and WATCH; what handlers and workers
//   read
//   controller.[ch] queue.c     the work queue and the workers that take keys from it
//   lease.c events.c            leader election; Events
//   slices.[ch]                 devices that DRA drivers publish
//   nodelease.[ch]              the sign of life of a Node that has no kubelet
//   fence.[ch]                  the condition that keeps a late Binding from landing
//   service.[ch]                which service a pod is of; how much its devices computed
//   exec.[ch]                   a program in a container
//   csr.[ch]                    requests for nodes' certificates
//   health.[ch]                 /metrics, /livez and /readyz of a role
//   people.[ch] tenant.[ch]     keys and passwords of people: one Secret; which namespaces a Tenant names
//   options.h                   command-line options that several roles have
#pragma once

#include "base/cancel.h"
#include "base/clock.h"
#include "base/err.h"
#include "json/json.h"

struct td_kube;
struct td_http_call;
struct td_http_reply;

// kubeconfig is a path, or NULL for $KUBECONFIG and then the service account of the pod
// (/var/run/secrets/kubernetes.io/serviceaccount). The current context counts. Certificate, key and
// CA may be files or inline data; token and tokenFile work too. TD_INVALID names the file and the
// field.
int td_kube_new(const char *kubeconfig, struct td_kube **ret, struct td_error *err);
struct td_kube *td_kube_free(struct td_kube *k);
// Where it is, and the certificate (PEM) by which it is known; "" when those of the system are meant.
int td_kube_place(const struct td_kube *k, char **ret_server, struct td_buf *ret_ca, struct td_error *err);
TD_DEFINE_AUTO(struct td_kube *, td_kube_free)

// A resource. The static instances below are those that Tandem uses.
struct td_gvr {
	const char *group; // "" for core
	const char *version;
	const char *resource; // plural
	const char *kind;
	bool namespaced;
};
extern const struct td_gvr td_pods, td_nodes, td_namespaces, td_configmaps, td_secrets, td_pvcs, td_services,
	td_serviceaccounts, td_events, td_leases, td_deployments, td_replicasets, td_statefulsets, td_jobs,
	td_priorityclasses, td_pdbs, td_crds, td_slurmclusters, td_nodesets, td_resourceclaims,
	td_resourceclaimtemplates, td_resourceslices, td_deviceclasses, td_roles_gvr, td_rolebindings, td_clusterroles,
	td_clusterrolebindings, td_endpoints, td_endpointslices, td_networkpolicies, td_resourcequotas;
extern const struct td_gvr td_nodeactions, td_healthpolicies, td_nodeupgrades, td_tenants, td_datasets;
extern const struct td_gvr td_nodetokens, td_csrs, td_projects, td_nodehistories;
extern const struct td_gvr td_federations, td_federatedruns;

// ---- objects ----
//
// An object in a cache or a reply. It is reference-counted and immutable; the strings point into
// its document. Absent strings are "".
struct td_object {
	const char *ns, *name, *uid, *rv; // rv: resourceVersion
	yyjson_val *root;
	struct td_json *json;
	int refs;
};
struct td_object *td_object_new(struct td_json *json); // takes the reference
// Copies one object out of a list or a watch event into a document of its own, without
// managedFields: these are half of the bytes, and nobody reads them from a cache.
struct td_object *td_object_kept(const yyjson_val *obj);
struct td_object *td_object_ref(struct td_object *o);
struct td_object *td_object_unref(struct td_object *o); // NULL ok; returns NULL
TD_DEFINE_AUTO(struct td_object *, td_object_unref)
// Shorthands for metadata and status.
const char *td_object_label(const struct td_object *o, const char *key);      // NULL when absent
const char *td_object_annotation(const struct td_object *o, const char *key); // NULL when absent
// True when the phase is Succeeded or Failed.
bool td_kube_pod_ended(const yyjson_val *pod);
// True when deletionTimestamp is set.
bool td_object_deleting(const struct td_object *o);
// The ownerReference with controller=true, or NULL.
yyjson_val *td_object_owner(const struct td_object *o);

// A list of objects; it owns the references.
struct td_objects {
	struct td_object **v;
	size_t n, cap;
	char *rv; // of the list; owned
};
void td_objects_add(struct td_objects *l, struct td_object *o); // takes the reference
void td_objects_done(struct td_objects *l);
#define td_auto_objects __attribute__((cleanup(td_objects_done)))

// ---- verbs ----
//
// ns is NULL for cluster-scoped resources, or for all namespaces in a list. ret may be NULL.
int td_kube_get(struct td_kube *k, const struct td_gvr *r, const char *ns, const char *name, struct td_cancel *c,
		struct td_object **ret, struct td_error *err);
// Reads all pages. Selectors may be NULL.
int td_kube_list(struct td_kube *k, const struct td_gvr *r, const char *ns, const char *labels, const char *fields,
		 struct td_cancel *c, struct td_objects *ret, struct td_error *err);
int td_kube_create(struct td_kube *k, const struct td_gvr *r, const char *ns, const yyjson_mut_val *obj,
		   struct td_cancel *c, struct td_object **ret, struct td_error *err);
enum td_kube_patch { TD_PATCH_MERGE, TD_PATCH_JSON, TD_PATCH_STRATEGIC, TD_PATCH_APPLY };
// Where one object is in the API, or a part of it.
struct td_kube_place {
	const struct td_gvr *resource;
	const char *ns, *name; // ns: NULL when cluster-scoped
	const char *part;      // "status", "scale", "finalize"; NULL: the object
};
#define TD_AT(...) (&(const struct td_kube_place){__VA_ARGS__})
// For preconditions put metadata.uid and metadata.resourceVersion into the patch.
int td_kube_patch(struct td_kube *k, const struct td_kube_place *at, enum td_kube_patch type,
		  const yyjson_mut_val *patch, struct td_cancel *c, struct td_object **ret, struct td_error *err);
// Writes one condition of a pod's status, and only it; the time of its last change is kept where the status did not
// change. CONFLICT: another pod has the name now.
struct td_condition_want;
int td_kube_pod_condition(struct td_kube *k, const struct td_object *pod, const struct td_condition_want *w,
			  const struct td_clock *clock, struct td_cancel *c, struct td_error *err);
int td_kube_update(struct td_kube *k, const struct td_kube_place *at, const yyjson_mut_val *obj, struct td_cancel *c,
		   struct td_object **ret, struct td_error *err);
struct td_kube_delete_opts {
	const char *uid, *rv;    // preconditions, or NULL
	int grace_s;             // -1: the object's own
	const char *propagation; // "Background", "Foreground", "Orphan", or NULL
};
int td_kube_delete(struct td_kube *k, const struct td_gvr *r, const char *ns, const char *name,
		   const struct td_kube_delete_opts *opts, struct td_cancel *c, struct td_error *err);
// A pod and the node that it goes to.
struct td_kube_binding {
	const char *ns, *pod, *node;
	const char *uid, *rv;              // preconditions, or NULL
	const yyjson_mut_val *annotations; // an object, set in the same write; NULL: none
};
// Evicts a pod. TD_THROTTLED: its budget does not allow it now; err says so in the server's words.
int td_kube_evict(struct td_kube *k, const char *ns, const char *pod, const char *uid, struct td_cancel *c,
		  struct td_error *err);
int td_kube_bind(struct td_kube *k, const struct td_kube_binding *b, struct td_cancel *c, struct td_error *err);
struct td_kube_body {
	const char *type; // its Content-Type
	const char *text; // len bytes
	size_t len;
};
// Sends any request that has no verb here. body NULL: none. *ret is the JSON document of the reply.
int td_kube_raw(struct td_kube *k, const char *method, const char *path, const struct td_kube_body *body,
		struct td_cancel *c, struct td_json **ret, struct td_error *err);
// Sends one call with the identity from kubeconfig, but to url (for example a kubelet), whose
// certificate is checked against ca_file. NULL means that of the API server for either. Returns 0
// for every reply, as td_http_do.
int td_kube_call_as(const char *kubeconfig, const char *url, const char *ca_file, int64_t timeout_ms,
		    const struct td_http_call *call, struct td_cancel *cancel, struct td_http_reply *ret,
		    struct td_error *err);
// A connection to the API server as a descriptor (http/client.h), for whoever passes somebody's stream on to it with our
// identity. *ret_auth: the value of Authorization there, which the caller wipes; NULL: the connection says who we are.
struct td_http_tunnel;
int td_kube_tunnel(struct td_kube *k, struct td_cancel *c, struct td_http_tunnel **ret, int *ret_fd, char **ret_auth,
		   struct td_error *err);
const char *td_kube_server(const struct td_kube *k); // URL
// Reads the PEM of the CA that the server is checked against; *ret is NULL when that is the
// system's. The caller frees it.
int td_kube_ca(const struct td_kube *k, char **ret, struct td_error *err);
// Counters since start, for benchmarks and tests: requests sent, bytes received.
void td_kube_stats(const struct td_kube *k, uint64_t *ret_requests, uint64_t *ret_bytes);
