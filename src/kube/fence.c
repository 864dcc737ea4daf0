#include "kube/fence.h"

#include "api/condition.h"

#include <stdio.h>
#include <string.h>

bool td_fence_read(const yyjson_val *pod, int64_t *ret_job, int64_t *ret_start)
{
	if (!td_condition_true(pod, TD_COND_FENCE))
		return false;

	// The message is for people, but the numbers in it are what the bridge reads. When they
	// cannot be parsed, the fence matches no job.
	long long job = 0, start = 0;
	if (sscanf(td_jstr_or(td_condition(pod, TD_COND_FENCE), "message", ""), "Slurm job %18lld (start %18lld)", &job,
		   &start) != 2)
		job = start = 0;

	*ret_job = job;
	*ret_start = start;
	return true;
}

bool td_fence_is(const yyjson_val *pod, int64_t job, int64_t start)
{
	int64_t j, s;
	return td_fence_read(pod, &j, &s) && j > 0 && j == job && (s == start || !s || !start);
}

yyjson_mut_doc *td_fence_patch(const char *uid, const char *rv, int64_t job, int64_t start, const char *node,
			       int64_t now_ms)
{
	td_auto_free char *words = td_asprintf(
		"Slurm job %lld (start %lld) ended before this pod was bound to node %s; it is queued again.",
		(long long)job, (long long)start, node);
	const struct td_condition_want w = {
		.type = TD_COND_FENCE, .status = "True", .reason = "GrantEnded", .message = words};
	yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);

	td_jm_str(d, root, "metadata.uid", uid);
	td_jm_str(d, root, "metadata.resourceVersion", rv);
	td_condition_add(d, td_jm_arr(d, root, "status.conditions"), NULL, &w, now_ms);
	return d;
}
