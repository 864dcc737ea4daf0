// spec.shadows: pods of other schedulers on the pool's nodes have jobs in Slurm that hold what they
// hold there beyond spec.reserve (pool/shadow.h decides).
//
// A shadow is root's job `foreign-pods-NODE` with the admin comment tandem/shadow/CLUSTER-UID/NODE, by
// which a complete listing finds it again. Usually it is an immediate allocation, which has no process
// and starts inside the call. Only where Slurm has given the room to others a batch job waits, before
// everybody else.
#pragma once

#include "bridge/bridge.h"
#include "pool/shadow.h"

#define TD_SHADOW_MARK "tandem/shadow/" // its admin comment begins so, which no owner of a job can write

struct td_shadows; // has a lock of its own, which is taken last
struct td_shadows *td_shadows_new(void);
struct td_shadows *td_shadows_free(struct td_shadows *s); // NULL ok

// The node whose shadow the job is; NULL: it is none of this SlurmCluster's. Points into j.
const char *td_shadow_node(const struct td_settings *s, const struct td_slurm_job *j);
// A complete listing has met this job of nobody's ask, and is over; it began then (mono, ms).
void td_shadow_found(struct td_bridge *b, const struct td_settings *s, const struct td_slurm_job *j);
void td_shadows_listed(struct td_bridge *b, int64_t began_ms);
// Handler of the informer of others' pods.
void td_shadow_on_pod(void *bridge, struct td_object *old, struct td_object *now);

// Brings the shadows of a node in line with the pods there. Asks Slurm nothing while neither the pods
// nor Slurm's record of the node change. *ret_again: look again soon.
int td_shadow_sync(struct td_bridge *b, const struct td_object *node, const struct td_slurm_node *n, bool *ret_again,
		   struct td_cancel *c, struct td_error *err);
// The Node is gone: nothing is kept of it, unless it has shadows.
void td_shadow_gone(struct td_bridge *b, const char *node);
// What the node's shadows hold now.
struct td_pool_size td_shadow_holds(struct td_bridge *b, const char *node);
// The value of TD_ANN_SHADOW; NULL: none is wanted. Caller frees.
char *td_shadow_text(struct td_bridge *b, const char *node);
