// How a live job goes, for its owner: that it hangs, that a rank is slow, that it began again, why and from where.
//
// What is said (docs/researcher.md): in an object of a job or of a step of a run
//   hangs: {words, node, stacks: [file in the job's directory, …], seen}
//   straggler: {words, node, rank, gpu, seen}
//   restarts: 2
//   again: {why, node, at, checkpoint}
// times are epoch seconds; what is not known is not there. The first two are of the run that goes on now.
#pragma once

#include "gateway/jobs.h"

// What the job's own record says. Of a job that waits after a hang: it is why it began again.
void td_gateway_progress_write(yyjson_mut_doc *d, yyjson_mut_val *o, const struct td_slurm_job *j);
// A step of a run of the caller's, whose job j is: the same, and where its record does not say why it began again, slurmdbd
// does, asked once for each time. entry: of the run's record, with `began` (home_run.c). Of an array the first task of which
// there is something to say counts, with `task`.
void td_gateway_progress_step(struct td_gateway_ask *q, struct td_slurm *client, const yyjson_val *entry,
			      const struct td_slurm_job *j, yyjson_mut_doc *d, yyjson_mut_val *o);
// h (base/hash.h) and what td_gateway_progress_write() says.
uint64_t td_gateway_progress_print(uint64_t h, const char *admin_comment);
