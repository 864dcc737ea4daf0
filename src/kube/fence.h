// The fence against a Binding that is late (docs/design/0010-gate-on-kubelets.md). Pure.
//
// A job ended before its pod was bound, and its devices went on to the next job. Before that one starts, the agent of
// the node writes this condition on the pod: that moves its resourceVersion, so no Binding that is on its way can land
// any more. The bridge, when it reads the pod again, sees whose grant has ended. Nobody takes the condition away: a
// grant that has ended stays ended.
#pragma once

#include "base/names.h"
#include "kube/kube.h"

// The job run that the pod was fenced for, last. False: for none.
bool td_fence_read(const yyjson_val *pod, int64_t *ret_job, int64_t *ret_start);
// Was it fenced for this run? A start of 0 is one that nobody knows.
bool td_fence_is(const yyjson_val *pod, int64_t job, int64_t start);
// A strategic merge patch of pods/status; rv: of the pod that was seen unbound, so that one that was bound meanwhile is
// not written on.
yyjson_mut_doc *td_fence_patch(const char *uid, const char *rv, int64_t job, int64_t start, const char *node,
			       int64_t now_ms);
