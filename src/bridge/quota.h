// Why a pod waits for its tenant's quota: what Slurm's accounts hold, told by room pool.
#pragma once

#include "bridge/bridge.h"

// Appends a sentence about the first tenant, from the pod's own upwards, whose limit is in the way.
// Appends nothing where none is, or when slurmdbd does not answer.
void td_bridge_quota_words(struct td_bridge *b, const struct td_object *pod, struct td_cancel *c, struct td_buf *ret);
