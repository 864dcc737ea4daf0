// Elastic gangs: a core of as many pods as the gang needs, which starts whole, and pods beyond it,
// each an ask of its own (docs/protocols.md 1.10). Pure, as all of the pool.
#pragma once

#include "pool/pool.h"

// ---- who is the core ----

struct td_pool_core_place {   // that the owner gives a pod among the others
	int64_t group, index; // index -1: none
	bool done;            // it has succeeded, and does not come again
};
// How many members of a core of `size` are there. v: the pods that wait or have succeeded, in the order of their ranks.
// Of pods with an index only those count that have none missing before them, so that rank 0 is in the
// core whenever the pods are made; first: the group that theirs begin with.
size_t td_pool_core_there(const struct td_pool_core_place *v, size_t n, int64_t first, size_t size);

// ---- who is beyond it ----

struct td_pool_core {                              // of the members of a core that was bound
	int64_t size, most;                        // of most pods in all; not above size: nobody is beyond it
	int64_t bound, leaving, succeeded, failed; // the others are gone
	bool replace, restart;                     // what becomes of the others when one is lost; else they fail
	int64_t done_ms;                           // epoch: when the last of those that have ended did so
};
enum td_pool_core_is {
	TD_CORE_NONE,    // it was lost, or never ran
	TD_CORE_UNWHOLE, // some run: others are being bound, or are lost
	TD_CORE_RUNS,
	TD_CORE_DONE, // all have succeeded
};
enum td_pool_core_is td_pool_core_is(const struct td_pool_core *c);
const char *td_pool_core_is_name(enum td_pool_core_is is); // "runs"

struct td_pool_beyond {
	bool joined;     // it was bound beyond this core
	int64_t ahead;   // so many pods that wait come before it
	int64_t others;  // so many have joined
	int64_t made_ms; // epoch: when it was made; 0: its owner is that of the core
};
enum td_pool_beyond_do {
	TD_BEYOND_NOT,  // it waits for a core or belongs into one: nothing of its own is asked for
	TD_BEYOND_HOLD, // nothing is asked for now, and nothing is given back
	TD_BEYOND_JOIN, // it asks for itself
	TD_BEYOND_STAY, // it has joined, and goes on
	TD_BEYOND_END,  // it has joined, and ends with the core
};
enum td_pool_beyond_do td_pool_beyond(const struct td_pool_core *c, const struct td_pool_beyond *p);
const char *td_pool_beyond_name(enum td_pool_beyond_do d); // "join"
// The next step of the ask of a pod beyond: as for a lone pod, until the core ends.
struct td_pool_step td_pool_reconcile_beyond(const struct td_pool_ask *a, const struct td_pool_job *j,
					     enum td_pool_beyond_do d);
