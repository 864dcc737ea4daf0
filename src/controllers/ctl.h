// What the embedded plane's controllers share: informers with indexes, expectations, and the small
// steps that every controller takes. Each controller is one file with one ctl_<name>(). It is
// called before the informers start, registers its handlers and fills *ret.
//
// Files
//   main.c expect.c              the role with its informers; actions done and not yet seen
//   child.c status.c             the children of workloads; status and conditions
//   deployment.c deployment.h deployment_status.c   the controllers of workloads:
//   replicaset.c statefulset.c job.c disruption.c
//   gc.c namespace.c             what is deleted with its owner, or with its namespace
//   serviceaccount.c             what every namespace has
//   node.c podgc.c               nodes that fall silent; pods of nodes that are gone
//   scheduler.c                  the scheduler of pods that Slurm does not place
//   apart.c                      pods that must not share a node
#pragma once

#include "api/condition.h"
#include "kube/controller.h"

#define CTL_MAX_CONTROLLERS 16

struct ctl_expect;
struct td_ctl_gc;
struct td_ctl_scheduler;
struct ctl_nodes;
struct td_ctl_podgc;
struct td_ctl {
	struct td_kube *kube;
	struct td_recorder *rec;
	const struct td_clock *clock;
	struct td_informer *pods, *nodes, *namespaces, *configmaps, *secrets, *services, *serviceaccounts, *leases,
		*deployments, *replicasets, *statefulsets, *jobs, *priorityclasses, *pdbs, *crds, *roles, *rolebindings,
		*clusterroles, *clusterrolebindings, *endpoints, *endpointslices, *networkpolicies;
	struct ctl_expect *rs_expect, *sts_expect, *job_expect;
	struct td_ctl_gc *gc;
	struct td_ctl_scheduler *scheduler;
	struct ctl_nodes *node_ages;
	struct td_ctl_podgc *podgc;
	// A node without a sign of life for this long has an unknown state. A pod whose node does
	// not exist for this long is given up.
	int64_t node_grace_ms;
	char *ca; // PEM of the API server's CA; NULL: none
};

void td_ctl_deployment(struct td_ctl *c, struct td_controller *ret);
void td_ctl_replicaset(struct td_ctl *c, struct td_controller *ret);
void td_ctl_statefulset(struct td_ctl *c, struct td_controller *ret);
void td_ctl_job(struct td_ctl *c, struct td_controller *ret);
void td_ctl_gc(struct td_ctl *c, struct td_controller *ret);
void td_ctl_namespace(struct td_ctl *c, struct td_controller *ret);
void td_ctl_node(struct td_ctl *c, struct td_controller *ret);
void td_ctl_podgc(struct td_ctl *c, struct td_controller *ret);
void td_ctl_scheduler(struct td_ctl *c, struct td_controller *ret);
void td_ctl_serviceaccount(struct td_ctl *c, struct td_controller *ret);
void td_ctl_disruption(struct td_ctl *c, struct td_controller *ret);
// Ends the informers of CRDs. Call it before the fixed informers are freed, because their handlers
// look into those.
void td_ctl_gc_stop(struct td_ctl_gc *g);
// Free what a controller keeps beside its queue. The argument may be NULL.
void td_ctl_gc_free(struct td_ctl_gc *g);
void td_ctl_nodes_free(struct ctl_nodes *n);
void td_ctl_podgc_free(struct td_ctl_podgc *p);
void td_ctl_scheduler_free(struct td_ctl_scheduler *s);
// False: a required podAntiAffinity, of this pod or of one of those there, keeps it away from them.
bool td_ctl_apart(const struct td_object *pod, const struct td_objects *there);
// Calls fn for every resource that a CRD defines and that has an informer, besides those in struct
// ctl. Thread-safe.
void td_ctl_gc_each_dynamic(struct td_ctl *c, void (*fn)(void *ctx, const struct td_gvr *gvr), void *ctx);

// ---- all of them (main.c) ----
// Runs every controller until `cancel` fires, and then returns 0.
int td_ctl_run(struct td_kube *kube, int64_t node_grace_ms, struct td_cancel *cancel, struct td_error *err);

// The number of controllers.
size_t td_ctl_count(void);

// ---- informers (main.c) ----
// The i-th of the fixed informers and its resource. False: i is past the end.
bool td_ctl_informer_at(struct td_ctl *c, size_t i, const struct td_gvr **ret_gvr, struct td_informer **ret);
// Adds the indexes that every informer has: "owner" (the UID of every owner) and "orphan" (the
// namespace, of objects without a controlling owner). Pods also have: "node" (spec.nodeName) and
// "unbound" ("1" if no node is set).
void td_ctl_add_indexes(struct td_informer *i);

// ---- expectations (expect.c) ----
// What a controller did and has not seen yet, by the owner's UID. So a cache that lags never makes
// it do the same thing twice.
struct ctl_expect *td_ctl_expect_new(const struct td_clock *clock);
struct ctl_expect *td_ctl_expect_free(struct ctl_expect *e);
// Call td_ctl_expect_create and td_ctl_expect_delete before the create or delete, and td_ctl_expect_seen
// when its result is seen or it has failed.
void td_ctl_expect_create(struct ctl_expect *e, const char *owner_uid, const char *name);
void td_ctl_expect_delete(struct ctl_expect *e, const char *owner_uid, const char *uid);
void td_ctl_expect_seen(struct ctl_expect *e, const char *owner_uid, const char *name_or_uid);
// True: nothing is open, or the last action is open for more than 5 minutes.
bool td_ctl_expect_done(struct ctl_expect *e, const char *owner_uid);
// Drops what is open for an owner that is gone.
void td_ctl_expect_forget(struct ctl_expect *e, const char *owner_uid);
// Called by a pod handler: marks what this change shows, for pods whose controlling owner has this
// kind.
void td_ctl_expect_pod(struct ctl_expect *e, const char *owner_kind, const struct td_object *old,
		       const struct td_object *now);

// ---- children (child.c) ----
// Appends references to the objects whose controlling owner is `owner` (by UID) and that match its
// selector. Matching orphans are adopted; owned objects that do not match are released.
int td_ctl_claim(struct td_ctl *c, struct td_informer *inf, const struct td_gvr *gvr, const struct td_object *owner,
		 const struct td_gvr *owner_gvr, struct td_cancel *cancel, struct td_objects *ret,
		 struct td_error *err);
// Enqueues those of `owners` whose spec.selector matches the labels of `o`.
void td_ctl_enqueue_matching(struct td_queue *q, const struct td_objects *owners, const struct td_object *o);
// Sets metadata.ownerReferences to the one controlling owner.
void td_ctl_set_owner(yyjson_mut_doc *d, yyjson_mut_val *o, const struct td_object *owner, const struct td_gvr *gvr);
// Makes a pod from spec.template: the template's metadata and spec, with name, namespace and owner.
yyjson_mut_doc *td_ctl_pod_from(const struct td_object *owner, const struct td_gvr *gvr, const char *name);
// Ten letters that depend only on the value (not on the order of keys) and on `salt`.
#define CTL_HASH_LEN 16
const char *td_ctl_hash(const yyjson_val *v, int salt, char buf[CTL_HASH_LEN]);
// Creates the pod, with an expectation, and records an event on the owner.
int td_ctl_create_pod(struct td_ctl *c, struct ctl_expect *e, const struct td_object *owner, const struct td_gvr *gvr,
		      yyjson_mut_doc *pod, struct td_cancel *cancel, struct td_error *err);
// Deletes the pod, with an expectation, and records an event on the owner.
int td_ctl_delete_pod(struct td_ctl *c, struct ctl_expect *e, const struct td_object *owner, const struct td_gvr *gvr,
		      const struct td_object *pod, struct td_cancel *cancel, struct td_error *err);

// ---- pods (child.c) ----
bool td_ctl_pod_ready(const struct td_object *pod);
bool td_ctl_pod_finished(const struct td_object *pod); // Succeeded or Failed
bool td_ctl_pod_active(const struct td_object *pod);   // not finished, not being deleted
// Has the pod been ready for min_ready_s? If it is ready, but not for so long, *ret_wait_ms is
// lowered to the rest.
bool td_ctl_pod_available(const struct td_object *pod, long long min_ready_s, int64_t now_ms, int64_t *ret_wait_ms);
int64_t td_ctl_time(const yyjson_val *v, const char *path); // milliseconds; 0: absent
int64_t td_ctl_created(const struct td_object *o);          // milliseconds; 0: absent
// qsort of struct td_object *; an empty list is allowed.
void td_ctl_sort(struct td_objects *l, int (*cmp)(const void *, const void *));
// For td_ctl_sort: older first, then by name.
int td_ctl_by_creation(const void *a, const void *b);

// ---- status (status.c) ----
// Writes those fields of `status` that differ from those of `o`, or nothing if none does.
int td_ctl_write_status(struct td_ctl *c, const struct td_gvr *gvr, const struct td_object *o,
			const yyjson_mut_val *status, struct td_cancel *cancel, struct td_error *err);
// td_condition_add for a pod, whose conditions say which generation they are about.
void td_ctl_pod_condition(yyjson_mut_doc *d, yyjson_mut_val *arr, const struct td_object *pod,
			  const struct td_condition_want *w, int64_t now_ms);
// The value of an IntOrString: "25%" of total (rounded up if `up`), or 3. `def` is used if it is
// absent.
long long td_ctl_int_or_percent(const yyjson_val *v, long long total, bool up, const char *def);
