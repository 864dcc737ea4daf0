// The fence: the bridge reads what the agent writes, and takes nothing else for a fence.
// rows: A7.4
#include "kube/fence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct td_json *parsed(const char *text)
{
	struct td_json *j = NULL;
	struct td_error err = TD_ERROR_INIT;
	if (td_json_parse(text, strlen(text), &j, &err))
		fail_msg("%s: %s", text, err.msg);
	return j;
}

static void test_written_and_read(void **state)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d =
		td_fence_patch("u-1", "77", 104, 1790000000, "n0", 1790000001000);

	size_t len;
	td_auto_free char *text = td_json_mut_text(yyjson_mut_doc_get_root(d), &len);
	td_auto(td_json_unref) struct td_json *j = parsed(text);
	yyjson_val *pod = td_json_root(j);
	int64_t job = 0, start = 0;

	// The patch must not change another pod of that name, nor one that was bound meanwhile.
	assert_string_equal(td_jstr(pod, "metadata.uid"), "u-1");
	assert_string_equal(td_jstr(pod, "metadata.resourceVersion"), "77");

	assert_true(td_fence_read(pod, &job, &start));
	assert_true(job == 104 && start == 1790000000);
	assert_true(td_fence_is(pod, 104, 1790000000));
	assert_true(td_fence_is(pod, 104, 0));
	assert_false(td_fence_is(pod, 104, 1790000050)); // the same id, another run
	assert_false(td_fence_is(pod, 105, 1790000000));
	assert_false(td_fence_is(pod, 10, 1790000000));
}

#define COND(type, status, message) "{\"type\":\"" type "\",\"status\":\"" status "\",\"message\":\"" message "\"}"

static void test_what_is_none(void **state)
{
	static const struct {
		const char *text;
		bool fenced; // for some job run, but not for the one asked about
	} pods[] = {
		{"{}", false},
		{"{\"status\":{\"conditions\":{}}}", false},
		{"{\"status\":{\"conditions\":[" COND("PodScheduled", "True", "Slurm job 7 (start 9)") "]}}", false},
		{"{\"status\":{\"conditions\":[" COND(TD_COND_FENCE, "False", "Slurm job 7 (start 9)") "]}}", false},
		{"{\"status\":{\"conditions\":[" COND(TD_COND_FENCE, "True", "") "]}}", true},
		{"{\"status\":{\"conditions\":[" COND(TD_COND_FENCE, "True", "Slurm job 8 (start 9)") "]}}", true},
		{"{\"status\":{\"conditions\":[" COND(TD_COND_FENCE, "True", "Slurm job 7") "]}}", true},
		{"{\"status\":{\"conditions\":[" COND(TD_COND_FENCE, "True", "Slurm job x (start 9)") "]}}", true},
		{"{\"status\":{\"conditions\":[" COND(TD_COND_FENCE, "True", "Slurm job 0 (start 0)") "]}}", true},
		{"{\"status\":{\"conditions\":[" COND(TD_COND_FENCE, "True",
						      "Slurm job 777777777777777777777777777 (start 9)") "]}}",
		 true},
	};

	for (size_t i = 0; i < TD_LEN(pods); i++) {
		int64_t job, start;
		td_auto(td_json_unref) struct td_json *j = parsed(pods[i].text);
		assert_int_equal(td_fence_read(td_json_root(j), &job, &start), pods[i].fenced);
		assert_false(td_fence_is(td_json_root(j), 7, 9));
		assert_false(td_fence_is(td_json_root(j), 0, 0));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_written_and_read),
					   cmocka_unit_test(test_what_is_none)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
