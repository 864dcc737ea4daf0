// The operator's own contracts: pure builders of objects, and what talks to the two APIs.
//
// One key per SlurmCluster ("ns/name"): a reconcile reads the caches, ensures the cluster's objects, then looks at
// every NodeSet that names it. Nothing is remembered that a restart would miss (how long something has been so is
// counted anew): Slurm's records, the pods and the objects are the state.
//
// Files
//   operator.c metrics.c          the role; what it shows
//   cluster.c control.c percluster.c   a SlurmCluster: status, the objects of Slurm's daemons, its bridge and policies
//   nodeset.[ch] nodeset_rows.c nodeset_act.c nodeset_status.c nodeset_sweep.c   a NodeSet: nodeset.h says how its
//   files work together missing.c                     slurmds that Slurm has forgotten: since when slurmd.c devices.c
//   a node's share and its slurmd pod; spec.devices build.c ensure.c view.c       helpers of builders; create or patch
//   what differs; a cluster's Slurm as last seen
#pragma once

#include "api/status.h"
#include "base/names.h"
#include "kube/controller.h"
#include "pool/nodeset.h"
#include "slurm/conf.h"
#include "slurm/rest.h"

#include <pthread.h>

// ---- build.c, control.c: the cluster's objects (pure) ----
struct td_op_want {
	const struct td_gvr *gvr;
	struct td_json *obj;
	bool once;   // created when absent, never changed (keys)
	char *field; // of the SlurmCluster, "spec.login[0]": whose template shaped it; NULL: none
};
struct td_op_wants {
	struct td_op_want *v;
	size_t n;
};
void td_op_wants_add(struct td_op_wants *w, struct td_op_want x); // takes x.obj and x.field
void td_op_wants_done(struct td_op_wants *w);
#define td_auto_wants __attribute__((cleanup(td_op_wants_done)))
// Everything but slurmd pods, in the order of creation. Keys in Secrets are random: those objects
// are marked `once`. TD_INVALID: a template does not merge; err names the field. image: as for
// td_op_slurmd_pod.
int td_op_cluster_objects(const yyjson_val *cluster, const struct td_slurm_files *files, const char *image,
			  struct td_op_wants *ret, struct td_error *err);
char *td_op_hash(const char *s, size_t n);              // 16 hex digits; caller frees
char *td_op_files_hash(const struct td_slurm_files *f); // of names and texts
// templates/<file> with its words filled in: td_op_template("config.yaml", {"cluster", name}).
// Aborts when it is malformed.
yyjson_mut_doc *td_op_fill(const char *file, const struct td_json_word *words, size_t n);
#define td_op_template(file, ...)                                                                                      \
	td_op_fill(file, (const struct td_json_word[]){__VA_ARGS__},                                                   \
		   sizeof((const struct td_json_word[]){__VA_ARGS__}) / sizeof(struct td_json_word))
const char *td_op_program(const char *file); // the text of programs/<file>
yyjson_mut_val *td_op_named(const yyjson_mut_val *o, const char *list,
			    const char *name); // the element of that name; NULL: none
// A copy of v at that path of o, or (path NULL) at the end of the list o. v NULL: nothing.
void td_op_put(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, yyjson_mut_val *v);
#define TD_OP_STANDIN "tandem" // the init container with Tandem's own image
// Beside a kubelet: an init container puts tandem-standin into the pod's volume tandem-bin.
void td_op_bring_standin(yyjson_mut_doc *d, yyjson_mut_val *spec, const char *image);
// Adds metadata.ownerReferences with controller=true.
void td_op_own(yyjson_mut_doc *d, yyjson_mut_val *obj, const yyjson_val *owner, const struct td_gvr *gvr);
// A pod template ({metadata, spec}) merged over the generated one at `at` of d: the generated identity (labels that
// selectors need) wins.
int td_op_merge_template(yyjson_mut_doc *d, yyjson_mut_val *at, const yyjson_val *over, const char *field,
			 struct td_error *err);
// True when everything in `want` is in `live` with the same value: what the server added does not count; quantities
// compare by value.
bool td_op_covers(const yyjson_val *live, const yyjson_val *want);

// ---- slurmd.c: a node's share and pod (pure) ----
struct td_op_share {
	long long cpus, memory_mb, gpus;
};
// allocatable − reserve. gpus: that the node has; -1: its extended resource says. False with a reason in *why (static
// or from err) when nothing is left or the spec asks for more than there is.
bool td_op_share_of(const yyjson_val *cluster, const yyjson_val *nodeset, const yyjson_val *node, long long gpus,
		    struct td_op_share *ret, struct td_error *why);
char *td_op_share_text(const struct td_op_share *s, const char *resource); // the annotation's JSON; caller frees
bool td_op_share_parse(const char *s, const char *resource,
		       struct td_op_share *ret); // false: none, or of another resource
// The wanted slurmd pod, its revision in an annotation. TD_INVALID names the field of the NodeSet. image: Tandem's own,
// from which kubelets' pods get tandem-standin; NULL: embedded, the agent shows it to them.
int td_op_slurmd_pod(const yyjson_val *cluster, const yyjson_val *nodeset, const yyjson_val *node,
		     const struct td_op_share *share, const char *image, struct td_json **ret, struct td_error *err);
char *td_op_slurmd_name(const char *cluster, const char *nodeset, const char *node); // caller frees
// "spec.…: what; fix" for every problem of a NodeSet's own fields.
void td_op_nodeset_check(const yyjson_val *nodeset, struct td_strv *problems);

// ---- devices.c: spec.devices; pure but td_op_gpus, which reads the caches ----
struct td_op;
bool td_op_dra(const yyjson_val *sc);             // source DRA
const char *td_op_resource(const yyjson_val *sc); // "nvidia.com/gpu"
void td_op_devices_check(const yyjson_val *sc, bool served, struct td_strv *problems);
char *td_op_devices_text(const yyjson_val *sc, long long gpus,
			 long long nodes);                              // what was found, in words; caller frees
char *td_op_device_files(const yyjson_val *sc, bool fake, long long n); // File= of gres.conf; caller frees
// For td_op_share_of. False: what the driver publishes cannot be used; why says what.
bool td_op_gpus(struct td_op *op, const yyjson_val *sc, const struct td_object *node, long long *ret,
		struct td_error *why);
char *td_op_claim_template(const yyjson_val *sc); // name; caller frees
yyjson_mut_doc *td_op_claim_template_object(const yyjson_val *sc);
void td_op_slurmd_claims(yyjson_mut_doc *d, yyjson_mut_val *pod, const yyjson_val *sc, const char *node);
const char *td_op_pod_node(const struct td_object *pod); // of a slurmd pod, scheduled or not; NULL: none
const char *
td_op_unscheduled(const struct td_object *pod); // why kube-scheduler has found no place; NULL: it has, or was not asked

int td_op_name_cmp(const char *a, const char *b); // n2 before n10
void td_op_sort(struct td_objects *l);            // by name

// ---- missing.c: slurmds that Slurm has forgotten (pool/nodeset.h says what that is) ----
struct td_op_missing {
	struct td_op_absent {
		char *node, *pod; // uid of the pod since when it is missed; NULL: not missed now
		struct td_pool_absence a;
	} *v;
	size_t n;
};
// One look at one node; returns as td_pool_absence_look.
int64_t td_op_missing_look(struct td_op_missing *m, const char *node, const char *pod, enum td_pool_sight sight,
			   int64_t now_ms);
void td_op_missing_restarted(struct td_op_missing *m, const char *node); // its pod is being replaced
void td_op_missing_done(struct td_op_missing *m);

// ---- operator.c, cluster.c, nodeset.c ----
struct td_op;
struct td_op_view { // one cluster's Slurm, used by the worker that holds the cluster's key
	char *key;
	struct td_cancel
		*call; // ends calls to Slurm: the operator stops, or their slurmrestd is gone. Guarded by td_op.lock
	struct td_slurm *slurm;
	char *uid;       // of the SlurmCluster
	char *url, *jwt; // of `slurm`
	struct td_slurm_nodes nodes;
	bool known;                                            // nodes are an answer of this slurmrestd
	bool fresh;                                            // of this reconcile
	int64_t fetched, changed, cost, last_cost, first_seen; // monotonic ms
	uint64_t hash;                                         // of nodes
	char *version;
	char error[256];           // why there is no answer
	long long gpus, gpu_nodes; // that its nodes have
	size_t n_nodes;
	char *problem;                // of the SlurmCluster's spec, all in one line; NULL: none
	char *config_hash;            // of the configuration it asks for; NULL: none that is valid
	char *active;                 // the configuration that was last put in force; NULL: see the object's status
	struct td_op_missing missing; // a new leader starts to count anew
	struct td_op_view *next;
};
struct td_op {
	struct td_kube *k;
	const char *empty_dirs;           // slurm/where.h; NULL: not known
	const char *image;                // Tandem's own, on kubelets; NULL: embedded
	const char *per_cluster, *own_ns; // percluster.c; NULL: bridges are started by somebody else
	struct td_queue *q;
	struct td_recorder *events;
	struct td_informer *clusters, *nodesets, *nodes, *pods, *configmaps, *secrets, *services, *statefulsets,
		*deployments, *budgets;
	struct td_informer *slices, *templates; // NULL: the API does not serve resource.k8s.io/v1
	struct td_op_view *views;               // guarded by lock; an entry belongs to the worker that holds its key
	bool stopping;                          // guarded by lock: no new calls to Slurm
	pthread_mutex_t lock;
};
int td_op_reconcile(void *ctx, const char *key, int64_t *again_ms, struct td_cancel *c, struct td_error *err);
// The NodeSet a node belongs to: the one whose slurmd pod is there, else the oldest that selects it and whose cluster
// exists. A reference, or NULL.
bool td_op_selects(const struct td_object *set, const struct td_object *node); // by selector, affinity and taints
// Appends a toleration of that taint, whatever its value.
void td_op_tolerate(yyjson_mut_doc *d, yyjson_mut_val *tolerations, const char *key, const char *effect);
// Appends to spec.tolerations what a slurmd pod tolerates: what a DaemonSet's pods do, the taint that shows a drain,
// and the NodeSet's own.
void td_op_tolerations(yyjson_mut_doc *d, yyjson_mut_val *spec, const yyjson_val *nodeset);
struct td_object *td_op_claim(struct td_op *op, const struct td_object *node);
int td_op_cluster_sync(struct td_op *op, struct td_object *sc, struct td_op_view *v, struct td_objects *sets,
		       struct td_cancel *c, struct td_error *err);
// When the slurmctld that runs the configuration in force was made, in ms of the real time; 0: none is in force.
int64_t td_op_config_since(struct td_op *op, struct td_object *sc, const struct td_op_view *v);
int td_op_cluster_status(struct td_op *op, struct td_object *sc, struct td_op_view *v, struct td_cancel *c,
			 struct td_error *err);
// One reconcile of the NodeSets of a cluster, as its steps hand it on.
struct td_op_pass {
	struct td_op *op;
	struct td_object *sc; // NULL: the cluster is gone, its slurmd pods go too
	const char *ns, *cluster;
	struct td_op_view *v;
	struct td_objects *sets;
	struct td_cancel *c;
};
// *again_ms: when to look again at the latest.
int td_op_nodesets_sync(const struct td_op_pass *p, int64_t *again_ms, struct td_error *err);
// view.c
bool td_op_ready(const struct td_object *o);     // condition Ready of a node or a pod
int64_t td_op_born(const struct td_object *o);   // its creation, in ms of the real time; 0: it does not say
bool td_op_pod_ready(const struct td_object *p); // runs, is ready and is not ending
struct td_pool_record td_op_record(const struct td_slurm_node *n); // points into n
struct td_op_view *td_op_view_of(struct td_op *op, const char *key);
void td_op_views_free(struct td_op *op);
// Ends what is waiting for this cluster's Slurm (key NULL: for any); the next reconcile starts afresh.
void td_op_view_abort(struct td_op *op, const char *key);
// Asks Slurm for its nodes when the last answer is older than max_age_ms. Never an error: v->fresh tells.
void td_op_view_refresh(struct td_op *op, struct td_object *sc, struct td_op_view *v, int64_t max_age_ms,
			struct td_cancel *c);
// Below: every call to Slurm takes v->call, every call to Kubernetes the reconcile's own cancel.
// ensure.c
int td_op_ensure(struct td_op *op, const struct td_op_want *w, struct td_cancel *c, struct td_error *err);
// As a status's conditions; old_status: before, whose times stand where a condition stays as it is.
void td_op_conditions(yyjson_mut_doc *d, yyjson_mut_val *list, const yyjson_val *old_status,
		      const struct td_pool_condition *v, size_t n, long long generation);
int td_op_status_write(struct td_op *op, const struct td_gvr *gvr, struct td_object *o, yyjson_mut_doc *status,
		       struct td_cancel *c, struct td_error *err);
// metrics.c
void td_op_measure(struct td_op *op); // /metrics shows its caches from here on; NULL: no more
// percluster.c: the bridge and policies of a SlurmCluster, from the file --per-cluster
char *td_op_bridge_name(const char *ns, const char *cluster); // caller frees
// Pure. jwt: data of the SlurmCluster's Secret NAME-jwt-key. TD_INVALID names the document that cannot be used.
int td_op_per_cluster_objects(const char *text, const yyjson_val *sc, const char *own_ns, const char *image,
			      const yyjson_val *jwt, struct td_op_wants *ret, struct td_error *err);
int td_op_per_cluster_sync(struct td_op *op, const struct td_object *sc, struct td_cancel *c, struct td_error *err);
int td_op_per_cluster_gone(struct td_op *op, const char *ns, const char *cluster, struct td_cancel *c,
			   struct td_error *err);
