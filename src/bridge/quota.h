// Why a pod waits for its tenant's quota: what Slurm's accounts hold, told by room pool.
#pragma once

#include "bridge/bridge.h"

// Appends a sentence about the first tenant, from the pod's own upwards, whose limit is in the way.
// Appends nothing where none is, or when slurmdbd does not answer.
// When a Federation's limit leaves less than the quota, it is about that one.
void td_bridge_quota_words(struct td_bridge *b, const struct td_object *pod, struct td_cancel *c, struct td_buf *ret);
// The same of a job that waits by a limit of GPUs, of Federations only: what quotas hold back Slurm says.
void td_bridge_federation_words(struct td_bridge *b, const struct td_slurm_job *j, struct td_buf *ret);
