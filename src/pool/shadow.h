// The shadows of a node: Slurm jobs without a process that hold what pods of other schedulers hold
// there beyond spec.reserve, so that Slurm gives it to nobody else. (The other direction is place.h.)
//
// Usually one job holds all of it. Slurm cannot make a job larger or smaller on its node, so more is a
// second job, and less is a new job before the old one ends. Nothing is let go before the rest is held.
#pragma once

#include "pool/nodeset.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TD_SHADOWS_MAX = 32 }; // jobs of one node

struct td_pool_size { // what a job holds on one node
	int64_t cpus, memory_mb;
};
struct td_pool_shadow_job {
	struct td_pool_size has;
	bool runs;  // else it waits, before everybody else
	bool ahead; // of one that waits: as in td_pool_shadow_plan
};
struct td_pool_shadow {
	struct td_pool_size want; // td_pool_shadow_want()
	struct td_pool_size all;  // what Slurm has on the node
	struct td_pool_size free; // what it has left there, by its last word, which may be old
	bool closed;              // it is drained: nothing starts there, and nobody shall wait for a shadow's end
	bool away;                // it is down, or Slurm does not know how it is
	bool refused;             // Slurm has refused an allocation there, and the node has not changed since
	const struct td_pool_shadow_job *v;
	size_t n;
};
enum td_pool_shadow_do {
	TD_SHADOW_LEAVE,
	TD_SHADOW_ALLOCATE, // a job of `size` that starts at once or not at all
	TD_SHADOW_QUEUE,    // a job of `size` that waits before everybody else
	TD_SHADOW_END,      // the jobs of `ends`
};
struct td_pool_shadow_plan {
	enum td_pool_shadow_do what;
	struct td_pool_size size;
	bool ahead; // of a queued job: also before pods that the bridge lets past those who wait
	bool ends[TD_SHADOWS_MAX];
};
// What is to be held: what pods request beyond what Slurm leaves to them, in whole CPUs and MB, and no
// more than Slurm has there.
struct td_pool_size td_pool_shadow_want(const struct td_pool_reserve *r);
// One step. When it is done the facts are read again.
void td_pool_shadow_decide(const struct td_pool_shadow *f, struct td_pool_shadow_plan *ret);
// What those that run hold.
struct td_pool_size td_pool_shadow_held(const struct td_pool_shadow_job *v, size_t n);
// What pods hold and Slurm has given to somebody else. 0, 0: nothing.
struct td_pool_size td_pool_shadow_missing(struct td_pool_size want, struct td_pool_size held);
const char *td_pool_shadow_do_name(enum td_pool_shadow_do what);
