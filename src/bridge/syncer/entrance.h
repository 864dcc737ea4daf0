// The gate at the entrance (docs/native-jobs.md): on real kubelets a pod of another scheduler would start a
// moment before its shadow. Where MutatingAdmissionPolicies put the scheduling gate TD_GATE_SHADOW on such
// pods (deploy/manifests/mutating.yaml), they wait until the bridge lifts it.
//
//   1. A pod with the gate and no other gate is promised a node: annotation TD_ANN_SHADOW_NODE, which nobody
//      else writes (pool/entrance.h chooses).
//   2. From then on that node's shadow counts it (shadow.h), and Slurm is asked for more.
//   3. When shadows hold it there, the gate goes, in one write with nodeSelector kubernetes.io/hostname: its
//      own scheduler can place it there and nowhere else. Both writes name the version of the pod that was read.
//
// All state that matters is on the pod: a bridge that dies between two steps is followed by one that goes on.
// Lock: td_entrance has one of its own, taken last, never held during I/O.
#pragma once

#include "bridge/bridge.h"

struct td_entrance;
struct td_entrance *td_entrance_new(const struct td_clock *clock);
struct td_entrance *td_entrance_free(struct td_entrance *e); // NULL ok
struct td_queue *td_entrance_queue(struct td_bridge *b);

// Of the informer of waiting pods of other schedulers: its index by the promised node, and its handler.
void td_entrance_index(const struct td_object *o, struct td_strv *ret);
void td_entrance_on_pod(void *bridge, struct td_object *old, struct td_object *now);

// Has the pod the gate?
bool td_entrance_waits(const struct td_object *pod);
// Chooses a node for one pod, by its key. The queue has one worker: what one pod was promised, the next one sees.
// Cost: at most LOOK nodes a call.
int td_entrance_reconcile(void *bridge, const char *key, int64_t *again_ms, struct td_cancel *c, struct td_error *err);
// Adds the pods that were promised the node and that no scheduler has placed yet; those that are in the list already
// are not added again. lifted: only those whose gate is lifted.
void td_entrance_promised(struct td_bridge *b, const char *node, bool lifted, struct td_objects *io);
// Lifts the gates of those that the node's shadows hold, the oldest first. Of one node only one call at a time, in
// which nothing that is held is let go. Before the first gate of a call goes, the API server is asked which pods are on the
// node now: one list of one node.
int td_entrance_open(struct td_bridge *b, const struct td_settings *s, const struct td_object *node,
		     const struct td_slurm_node *n, struct td_cancel *c, struct td_error *err);
