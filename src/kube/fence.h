// The fence against a late Binding (docs/design/0010-gate-on-kubelets.md). Pure functions.
//
// The problem: a job ends before its pod is bound, and its devices go on to the next job. Before
// that job starts, the agent of the node writes this condition on the pod. The write changes the
// pod's resourceVersion, so that a Binding that is under way is refused. When the bridge reads the
// pod again, the condition says whose grant has ended. Nobody removes the condition: a grant that
// has ended stays ended.
#pragma once

#include "base/names.h"
#include "kube/kube.h"

// Reads the last job run that the pod was fenced for. Returns false when the pod has no fence.
// Outputs 0, 0 when the condition's message cannot be parsed.
bool td_fence_read(const yyjson_val *pod, int64_t *ret_job, int64_t *ret_start);
// Tells whether the pod was fenced for this job run. A start of 0, on either side, means unknown
// and matches every start.
bool td_fence_is(const yyjson_val *pod, int64_t job, int64_t start);
// Builds a strategic merge patch of pods/status. rv is the resourceVersion of the pod as it was
// seen unbound, so that a pod that was bound meanwhile is not changed. The caller frees the
// document.
yyjson_mut_doc *td_fence_patch(const char *uid, const char *rv, int64_t job, int64_t start, const char *node,
			       int64_t now_ms);
