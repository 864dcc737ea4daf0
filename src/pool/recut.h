// GPUs that are cut in parts because somebody waits for a part, and made whole again (docs/gpus.md, "Cut on demand"): which
// GPU of which node is cut next, and in what. Pure, as pool.h: what was done before is in the nodes themselves.
//
// What keeps it from flapping: a node is cut only while nothing of it is in use, one node of a NodeSet at a time, and not
// again before the set's pause is over; parts are made whole again when nobody has had or wanted one for the set's idle
// time, or at once when somebody waits for whole GPUs before all who wait for those parts. Nobody's GPU is cut who waits
// for whole ones before the one who waits for a part.
#pragma once

#include "pool/cut.h"

#include <stdbool.h>

enum { TD_RECUT_GPUS = 16 };
struct td_recut_gpu {
	int gpu;                         // the machine's number of it
	const char *parts[TD_CUT_PARTS]; // kinds that it is cut in
	size_t n;                        // 0: it is whole
};
struct td_recut_node {
	const char *name;
	size_t set;     // of td_recut.sets
	bool serves;    // Slurm gives it to jobs, and its agent has said all of the below
	bool idle;      // nobody has anything of it
	bool pending;   // it is being cut, or somebody was told to
	int64_t idle_s; // epoch: since when it is idle; 0: not known
	int64_t cut_s;  // epoch: when it was cut last by this; 0: never
	const struct td_cut_kind *kinds;
	size_t n_kinds;
	struct td_recut_gpu gpus[TD_RECUT_GPUS];
	size_t n_gpus;
};
struct td_recut_set {
	int64_t keep_whole;       // so many GPUs of its nodes stay whole, of those in service
	int64_t idle_s, pause_s;  // as above
	const char *const *parts; // kinds that may be cut
	size_t n_parts;           // 0: all
};
// May its GPUs be cut in such parts?
bool td_pool_recut_permits(const struct td_recut_set *s, const char *kind);
struct td_recut_waiter {
	const char *kind; // of a part; NULL: whole GPUs
	int64_t n;        // of them on one node
	int64_t since_s;  // epoch: since when it waits
	bool served;      // a node that it may use has as many free, so that it waits for something else
	const bool *may;  // per node
};
struct td_recut {
	const struct td_recut_node *nodes;
	size_t n;
	const struct td_recut_set *sets;
	size_t n_sets;
	const struct td_recut_waiter *waiters; // in the order in which they have a right to be served
	size_t n_waiters;
	int64_t now_s;
	const int64_t *whole; // td_pool_recut() counts these itself
};
// What becomes of one who waits; of several nodes that of the last in this list.
enum td_recut_why {
	TD_RECUT_NONE,   // no node that it may use is cut on demand
	TD_RECUT_KIND,   // their GPUs have no such part, or their NodeSet does not allow it
	TD_RECUT_MANY,   // one GPU has not so many
	TD_RECUT_BUSY,   // something of each is in use, or they are out of service
	TD_RECUT_KEEP,   // so many GPUs of the NodeSet stay whole
	TD_RECUT_WANTED, // the parts that are free there are somebody else's who waits
	TD_RECUT_WHOLE,  // somebody waits for whole GPUs before it
	TD_RECUT_PAUSE,  // they were cut a moment ago
	TD_RECUT_COMES,  // a node of the NodeSet is being cut
	TD_RECUT_CUTS,   // this is done for it now
	TD_RECUT_FREE,   // served
};
struct td_recut_plan {
	size_t node;
	int gpu;                         // -1: all of them
	const char *parts[TD_CUT_PARTS]; // point into the inputs
	size_t n_parts;                  // 0: it is made whole
	size_t waiter;                   // for whom; SIZE_MAX: nobody, they have been idle
	bool jobs;                       // jobs of the node are waited for, however long that takes
};
// True: one thing is to be done now, *ret says what. why: per waiter; at (per waiter): the node which that is about,
// SIZE_MAX: none.
bool td_pool_recut(const struct td_recut *f, enum td_recut_why *why, size_t *at, struct td_recut_plan *ret);
// Static, without the node: "no node that it may use has an idle GPU that may be cut".
const char *td_pool_recut_words(enum td_recut_why why);
