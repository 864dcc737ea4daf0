// The placeholder pods of spec.placeholders, which the operator makes: one a node, whose requests are
// what native jobs hold there, so that kube-scheduler gives that to nobody else.
//
// A kubelet counts a placeholder, too, and fails a pod for good that has no room beside it. What it
// counts lags behind Slurm, who may give a pod what a native job has just let go. So a pod is bound only
// when it has room beside the most that the kubelet may count: what the placeholder asks for, what the
// kubelet has set aside for it, what its container still has, and what was last written, whether or not the
// watch has shown it. (The status that a kubelet counts by comes back to it by its own watch, before the
// Binding does.) Where
// that is too much, the placeholder is made smaller first, and the Binding waits for the kubelet.
#pragma once

#include "bridge/bridge.h"
#include "pool/place.h"

struct td_places; // by node: what was written last; guarded by td_asks.lock
struct td_places *td_places_new(void);
struct td_places *td_places_free(struct td_places *p); // NULL ok

bool td_place_is(const struct td_bridge *b, const struct td_object *pod); // a placeholder of this SlurmCluster
// The most that the node's kubelet may count for its placeholder; 0, 0: there is none. td_asks.lock is held.
struct td_pool_place td_place_counts(struct td_bridge *b, const char *node);
// What the node has beside all pods but its placeholder, those too that are being bound (counted.c). td_asks.lock
// is held.
struct td_pool_place td_place_left(struct td_bridge *b, const char *node);
// Makes the node's placeholder no larger than that. TD_EXPIRED: look again soon.
int td_place_shrink(struct td_bridge *b, const char *node, struct td_pool_place to, struct td_cancel *c,
		    struct td_error *err);
// Makes the node's placeholder as large as what native jobs hold, but not larger than what pods leave. Writes
// only what differs. *ret_again: it is to be looked at again soon.
int td_place_show(struct td_bridge *b, const struct td_slurm_node *n, bool *ret_again, struct td_cancel *c,
		  struct td_error *err);
