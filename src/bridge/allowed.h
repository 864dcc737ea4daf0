// On which nodes a job that waits may run, for `tandem why` (pool/allowed.h).
#pragma once

#include "bridge/bridge.h"

// Appends it in words where it is less than its partition, and puts the list into the answer's allowedNodes. One or two
// calls to Slurm; where it does not answer, nothing is said.
void td_allowed_say(struct td_bridge *b, const struct td_slurm_job *j, struct td_cancel *c, yyjson_mut_doc *d,
		    struct td_buf *t);
