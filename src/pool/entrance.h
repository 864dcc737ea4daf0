// To which node of the pool a pod of another scheduler goes that waits at the gate of spec.shadows
// (bridge/syncer/entrance.h). Nodes are looked at one after the other: the first with room now has it; when
// none has, the one that lacks least, where its shadow then waits before every job.
#pragma once

#include "pool/shadow.h"

#include <stddef.h>

struct td_pool_door {              // one node that the pod's labels and taints let it use
	struct td_pool_size lacks; // what is to be held there with the pod and is not held yet
	struct td_pool_size room;  // what Slurm has left there
	bool over;                 // the pods there ask for more than the node has, with this one
	bool closed;               // drained, down, or it has as many pods as it may have
	bool apart;                // the pod must not be beside one that is there
};
enum td_pool_door_is { TD_DOOR_SHUT, TD_DOOR_LATER, TD_DOOR_NOW };
enum td_pool_door_is td_pool_door(const struct td_pool_door *d);
// Of two that have room later: is the first the better one?
bool td_pool_door_better(const struct td_pool_door *a, const struct td_pool_door *b);
// ---- what must be near, and what must not ----
enum td_pool_near_is {
	TD_NEAR_APART, // no such pod may be in the node's domain
	TD_NEAR_BESIDE, // one must be there; where there is none anywhere and the pod is such a one itself, it is the first
	TD_NEAR_SPREAD, // with it the domain has at most `skew` more than the one that has the fewest
};
struct td_pool_near {
	enum td_pool_near_is is;
	bool has;            // the node is in a domain: it has the label
	bool self;           // the pod is such a one itself
	int64_t here, total; // how many such pods are in the node's domain, and anywhere
	int64_t least, skew; // TD_NEAR_SPREAD: how many the domain with the fewest has
};
bool td_pool_near_ok(const struct td_pool_near *r);
// How many the domain with the fewest has; 0 when there are fewer domains than there must be.
int64_t td_pool_near_least(const int64_t *counts, size_t n, int64_t least_domains);
// How long, in ms, until all nodes are looked at again for a pod that waits: each time that none had room twice as long
// as the time before, up to a bound. before_ms 0: this is the first.
int64_t td_pool_door_pause(int64_t before_ms);
