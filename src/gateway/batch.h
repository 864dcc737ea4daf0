// How a job of a person reaches Slurm.
#pragma once

#include "gateway/jobs.h"
#include "slurm/batch.h"

// Submits b as the person who asks, in whose name alone it may run: while slurmctld does not know him
// yet this waits for a few seconds. TD_TRANSIENT: it does not know him still. What no node has is
// refused with the field, what the largest node has, and the fix. Sets b->uid.
int td_gateway_batch(struct td_gateway_ask *q, struct td_slurm *client, struct td_slurm_batch *b, int64_t *ret_job,
		     struct td_error *err);
// Which field asks for more than any node has, in words. The caller frees it; NULL: none does. Pure.
char *td_gateway_too_big(const struct td_slurm_nodes *nodes, const struct td_slurm_batch *b);
// Which data set that it wants (data.NAME in its constraint) lies on no node of its partition, in words, with the fix. The
// caller frees it; NULL: there is none. Pure.
char *td_gateway_data_nowhere(const struct td_slurm_nodes *nodes, const struct td_slurm_batch *b);
