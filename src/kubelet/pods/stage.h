// Checkpoints of pods that say tandem.dev/checkpoints (docs/checkpoints.md): the program of the first container is
// started by tandem-standin's `stage`, which every container has as /.init. Pure.
#pragma once

#include "base/err.h"
#include "base/mem.h"
#include "json/json.h"

// Puts `stage` with its options in front of a container's command, where the pod says so. TD_INVALID: the annotation is
// none; the error names it and what to write.
int td_kubelet_stage(const yyjson_val *pod, const yyjson_val *container, struct td_strv *args, struct td_error *err);
