// Copies of data sets on nodes (Dataset objects): what is done next on one node for one data set. Pure, as pool.h.
//
// What is on a node is in a mark on its Node object: nothing (then nothing is on its disk), "fetching" (there may be
// a part), the print of what was fetched (all of it is there), or "gone" (it is to be removed). The mark is set
// before the disk is touched, and taken off after it was cleaned, so that no crash leaves a copy that nobody knows.
// Jobs are sent to a node by its Slurm feature, which it has while the mark is a print. A copy is replaced or removed
// only when a view of Slurm that is newer than the feature's end shows no job on the node.
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum td_data_pod {
	TD_DATA_POD_NONE,
	TD_DATA_POD_RUNS,
	TD_DATA_POD_DONE,
	TD_DATA_POD_FAILED, // the next try may do better
	TD_DATA_POD_WRONG,  // only another source would
};
struct td_pool_data {
	const char *want; // the print of what the node shall hold; NULL: nothing
	const char *mark; // NULL: none
	enum td_data_pod pod;
	const char *pod_for; // what its pod fetches; "": it removes
	int64_t ended_ms;    // how long ago its pod ended
	bool ready;          // the node can run pods
	bool free;           // no job runs there, and none can come for the sake of this data
	bool verify;         // the machine has been started since the mark was set
};
enum td_data_act {
	TD_DATA_NOTHING,
	TD_DATA_MARK_FETCHING,
	TD_DATA_MARK_HELD, // by the print that is wanted
	TD_DATA_MARK_GONE,
	TD_DATA_UNMARK,
	TD_DATA_START,  // a pod that fetches
	TD_DATA_REMOVE, // a pod that removes
	TD_DATA_END_POD,
};
#define TD_DATA_FETCHING "fetching"
#define TD_DATA_GONE "gone"
enum { TD_DATA_AGAIN_MS = 10000, TD_DATA_WRONG_MS = 600000 };
// *turns: how many more pods may start now; it counts those that this decision starts.
enum td_data_act td_pool_data_next(const struct td_pool_data *f, int *turns);
// Writes the constraint of a job that wants these data sets beside what it says itself (own, or NULL): "data.a&data.b",
// "(h100|a100)&data.a". The caller frees *ret. TD_INVALID: own has counts or alternatives of sets ("[a|b]", "a*2"),
// which Slurm does not join with others.
int td_pool_data_constraint(const char *own, const struct td_strv *names, char **ret, struct td_error *err);
// Does the node hold what this mark says?
bool td_pool_data_held(const char *mark);
