// Why the next revision of a service waits: the one before it holds what it asks for, and goes only when the next one
// is ready. Pure.
#pragma once

#include "bridge/bridge.h"

// Appends a sentence when a pod of another revision of the same service holds devices that Slurm granted, and what to
// do about it; and of a pod of Knative's, how long Knative waits for its first start. Appends nothing of another pod.
// pods: those of its namespace, itself among them or not.
void td_rollout_words(const struct td_object *pod, const struct td_objects *pods, struct td_buf *ret);
