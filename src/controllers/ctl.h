// What the embedded plane's controllers share: informers with indexes, expectations, and the small steps every one of
// them takes. Each controller is one file with one ctl_<name>(), called before the informers start: it hooks its
// handlers and fills *ret.
//
// Files
//   main.c expect.c child.c status.c   the role with its informers; what was done and is not seen yet; children of
//   workloads; conditions deployment.c deployment.h deployment_status.c replicaset.c statefulset.c job.c disruption.c
//   workloads gc.c namespace.c serviceaccount.c  what goes with its owner, or with its namespace; what every namespace
//   has node.c podgc.c scheduler.c         silent nodes; pods of nodes that are gone; pods that Slurm does not place
#pragma once

#include "api/condition.h"
#include "kube/controller.h"

#define CTL_MAX_CONTROLLERS 16

struct ctl_expect;
struct ctl_gc;
struct ctl_scheduler;
struct ctl_nodes;
struct ctl_podgc;
struct ctl {
	struct td_kube *kube;
	struct td_recorder *rec;
	const struct td_clock *clock;
	struct td_informer *pods, *nodes, *namespaces, *configmaps, *secrets, *services, *serviceaccounts, *leases,
		*deployments, *replicasets, *statefulsets, *jobs, *priorityclasses, *pdbs, *crds, *roles, *rolebindings,
		*clusterroles, *clusterrolebindings, *endpoints, *endpointslices;
	struct ctl_expect *rs_expect, *sts_expect, *job_expect;
	struct ctl_gc *gc;
	struct ctl_scheduler *scheduler;
	struct ctl_nodes *node_ages;
	struct ctl_podgc *podgc;
	int64_t node_grace_ms; // without a sign of life a node's state is unknown; a pod on a node that is not there is
			       // given up
	char *ca;              // PEM of the API's CA; NULL: none
};

void ctl_deployment(struct ctl *c, struct td_controller *ret);
void ctl_replicaset(struct ctl *c, struct td_controller *ret);
void ctl_statefulset(struct ctl *c, struct td_controller *ret);
void ctl_job(struct ctl *c, struct td_controller *ret);
void ctl_gc(struct ctl *c, struct td_controller *ret);
void ctl_namespace(struct ctl *c, struct td_controller *ret);
void ctl_node(struct ctl *c, struct td_controller *ret);
void ctl_podgc(struct ctl *c, struct td_controller *ret);
void ctl_scheduler(struct ctl *c, struct td_controller *ret);
void ctl_serviceaccount(struct ctl *c, struct td_controller *ret);
void ctl_disruption(struct ctl *c, struct td_controller *ret);
// Ends the informers of CRDs, which look into the fixed ones: before those are freed.
void ctl_gc_stop(struct ctl_gc *g);
// What a controller keeps beside its queue; NULL ok.
void ctl_gc_free(struct ctl_gc *g);
void ctl_nodes_free(struct ctl_nodes *n);
void ctl_podgc_free(struct ctl_podgc *p);
void ctl_scheduler_free(struct ctl_scheduler *s);
// Informers of resources that CRDs define, besides those in struct ctl: called for each with its resource. Thread-safe.
void ctl_gc_each_dynamic(struct ctl *c, void (*fn)(void *ctx, const struct td_gvr *gvr), void *ctx);

// ---- all of them (main.c) ----
// Runs every controller until cancel; 0 then.
int ctl_run(struct td_kube *kube, int64_t node_grace_ms, struct td_cancel *cancel, struct td_error *err);

size_t ctl_count(void); // how many there are

// ---- informers (main.c) ----
// The fixed ones: the i-th and its resource; false at the end.
bool ctl_informer_at(struct ctl *c, size_t i, const struct td_gvr **ret_gvr, struct td_informer **ret);
// Indexes every informer has: "owner" (uid of every owner), "orphan" (namespace, of objects without a controlling
// owner). Pods also: "node" (spec.nodeName), "unbound" ("1" when no node is set).
void ctl_add_indexes(struct td_informer *i);

// ---- expectations (expect.c): what we did and have not seen yet, by the owner's uid; so a lagging cache never makes
// us do it twice ----
struct ctl_expect *ctl_expect_new(const struct td_clock *clock);
struct ctl_expect *ctl_expect_free(struct ctl_expect *e);
void ctl_expect_create(struct ctl_expect *e, const char *owner_uid, const char *name);      // before the create
void ctl_expect_delete(struct ctl_expect *e, const char *owner_uid, const char *uid);       // before the delete
void ctl_expect_seen(struct ctl_expect *e, const char *owner_uid, const char *name_or_uid); // seen, or it failed
bool ctl_expect_done(struct ctl_expect *e, const char *owner_uid); // nothing is open, or it is open for 5 minutes
void ctl_expect_forget(struct ctl_expect *e, const char *owner_uid);
// From a pod handler: marks what this change shows, for pods whose controlling owner has this kind.
void ctl_expect_pod(struct ctl_expect *e, const char *owner_kind, const struct td_object *old,
		    const struct td_object *now);

// ---- children (child.c) ----
// Whose controlling owner is `owner` (by uid) and that match; matching orphans are adopted, others released. Appends
// references.
int ctl_claim(struct ctl *c, struct td_informer *inf, const struct td_gvr *gvr, const struct td_object *owner,
	      const struct td_gvr *owner_gvr, struct td_cancel *cancel, struct td_objects *ret, struct td_error *err);
// Enqueues those of `owners` whose spec.selector matches the labels of o.
void ctl_enqueue_matching(struct td_queue *q, const struct td_objects *owners, const struct td_object *o);
// Sets metadata.ownerReferences to the one controlling owner.
void ctl_set_owner(yyjson_mut_doc *d, yyjson_mut_val *o, const struct td_object *owner, const struct td_gvr *gvr);
// A pod from spec.template: metadata of the template, name, namespace, owner, spec.
yyjson_mut_doc *ctl_pod_from(const struct td_object *owner, const struct td_gvr *gvr, const char *name);
// Ten letters that depend on the value alone (the order of keys does not matter), and on `salt`.
#define CTL_HASH_LEN 16
const char *ctl_hash(const yyjson_val *v, int salt, char buf[CTL_HASH_LEN]);
// Creates the pod under expectations and says so in an event on owner.
int ctl_create_pod(struct ctl *c, struct ctl_expect *e, const struct td_object *owner, const struct td_gvr *gvr,
		   yyjson_mut_doc *pod, struct td_cancel *cancel, struct td_error *err);
int ctl_delete_pod(struct ctl *c, struct ctl_expect *e, const struct td_object *owner, const struct td_gvr *gvr,
		   const struct td_object *pod, struct td_cancel *cancel, struct td_error *err);

// ---- pods (child.c) ----
bool ctl_pod_ready(const struct td_object *pod);
bool ctl_pod_finished(const struct td_object *pod); // Succeeded or Failed
bool ctl_pod_active(const struct td_object *pod);   // not finished, not being deleted
// Ready for min_ready_s; else *ret_wait_ms (when it is ready) is lowered to the rest.
bool ctl_pod_available(const struct td_object *pod, long long min_ready_s, int64_t now_ms, int64_t *ret_wait_ms);
int64_t ctl_time(const yyjson_val *v, const char *path); // ms, 0 when absent
int64_t ctl_created(const struct td_object *o);
void ctl_sort(struct td_objects *l,
	      int (*cmp)(const void *, const void *)); // qsort of struct td_object *; an empty list is fine
int ctl_by_creation(const void *a, const void *b);     // qsort of struct td_object *: older first, then by name

// ---- status (status.c) ----
// Writes those fields of `status` that differ from o's; nothing when none does.
int ctl_write_status(struct ctl *c, const struct td_gvr *gvr, const struct td_object *o, const yyjson_mut_val *status,
		     struct td_cancel *cancel, struct td_error *err);
// td_condition_add for a pod, whose conditions say which generation they are about.
void ctl_pod_condition(yyjson_mut_doc *d, yyjson_mut_val *arr, const struct td_object *pod,
		       const struct td_condition_want *w, int64_t now_ms);
// "25%" or 3, of total; def when absent.
long long ctl_int_or_percent(const yyjson_val *v, long long total, bool up, const char *def);
