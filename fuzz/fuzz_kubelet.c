// Input: what the gate beside a real kubelet reads: pods of a cluster, and /proc/PID/cgroup. A pod
// that was fenced for a run of a job is fenced for that run and no other, whatever its conditions
// said before. A uid that is found in a cgroup's name has the form of a uid.
// rows: A7.4
#include "api/kinds.h"
#include "gate/busy.h"
#include "gate/cgroups.h"
#include "kube/fence.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void check(int ok)
{
	if (!ok)
		abort();
}

static void cgroups(const char *text)
{
	const char *at = text, *end = text + strlen(text);
	char uid[40];
	for (const char *before = at; td_cg_next_pod(&at, uid); before = at) {
		check(at >= before + 36 && at <= end);
		check(strlen(uid) == 36 && strspn(uid, "0123456789abcdef-") == 36);
	}
}

static void fence(const yyjson_val *pod)
{
	int64_t job = 0, start = 0;
	const struct td_kind *k = td_kind_builtin("", "Pod");
	td_auto_causes struct td_causes c = {0};
	if (td_fence_read(pod, &job, &start) && job > 0)
		check(td_fence_is(pod, job, start) && !td_fence_is(pod, job + 1, start));

	enum td_seen seen = td_seen_named(pod, "n0", 104, 1790000000);
	// An API server lets each type of condition occur once.
	if (!yyjson_is_obj((yyjson_val *)(uintptr_t)pod) || td_schema_validate(k->schema, pod, &c))
		return;

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d =
		td_fence_patch("u-1", "77", 104, 1790000000, "n0", 1790000001000);
	td_auto(td_json_unref) struct td_json *patch = td_json_from_mut(yyjson_mut_doc_get_root(d)), *now = NULL;
	if (td_strategic_merge(k->schema, pod, td_json_root(patch), &now, NULL))
		return;

	const yyjson_val *after = td_json_root(now);
	check(td_fence_is(after, 104, 1790000000) && !td_fence_is(after, 104, 1790000001) &&
	      !td_fence_is(after, 105, 1790000000));
	enum td_seen then = td_seen_named(after, "n0", 104, 1790000000);
	check(seen == TD_SEEN_WAITS ? then == TD_SEEN_NEVER : then == seen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	td_auto_json_list struct td_json_list l = {0};
	if (size > 1 << 14)
		return 0;
	td_auto_free char *text = td_strndup((const char *)data, size);
	cgroups(text);
	if (td_yaml_parse((const char *)data, size, &l, NULL))
		return 0;
	for (size_t i = 0; i < l.n; i++)
		fence(td_json_root(l.v[i]));
	return 0;
}
