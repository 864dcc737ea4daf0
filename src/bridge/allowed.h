// On which nodes a job that waits may run, for `tandem why` (pool/allowed.h).
#pragma once

#include "bridge/bridge.h"
#include "pool/allowed.h"

// Appends it in words where it is less than its partition, and puts the list into the answer's allowedNodes. One or two
// calls to Slurm; where it does not answer, nothing is said.
void td_allowed_say(struct td_bridge *b, const struct td_slurm_job *j, struct td_cancel *c, yyjson_mut_doc *d,
		    struct td_buf *t);

enum { TD_ALLOWED_CONSTRAINT = 256 };
struct td_allowed_ask {
	const struct td_slurm_nodes *nodes;
	bool any_devices; // whatever devices the nodes have
	char *constraint; // its room is TD_ALLOWED_CONSTRAINT: what the job says of features; NULL: not asked
	bool *reserves;   // whether it has a reservation; NULL: not asked
	struct td_cancel *cancel;
};
// The same per node, for decisions. One or two calls to Slurm.
int td_allowed_find(struct td_bridge *b, const struct td_slurm_job *j, const struct td_allowed_ask *ask, bool *may,
		    struct td_pool_allowed_count *ret, struct td_error *err);
