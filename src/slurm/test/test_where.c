// Which slurmrestd pod is used.
// rows: A6.2
#include "slurm/where.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define READY "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]"
static struct td_json *pod(const char *name, const char *more, const char *status)
{
	td_auto_free char *text = td_asprintf("{\"metadata\":{\"name\":\"%s\"%s},\"status\":{%s}}", name, more, status);
	struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	return j;
}

static void test_usable(void **state)
{
	static const struct {
		const char *more, *status;
		bool yes;
	} t[] = {
		{"", "\"podIP\":\"10.0.0.1\"," READY, true},
		{"", READY, false},
		{"", "\"podIP\":\"\"," READY, false},
		{"", "\"podIP\":\"10.0.0.1\"", false},
		{"", "\"podIP\":\"10.0.0.1\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\"}]", false},
		{",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"", "\"podIP\":\"10.0.0.1\"," READY, false},
	};
	for (size_t i = 0; i < TD_LEN(t); i++) {
		td_auto(td_json_unref) struct td_json *j = pod("rest", t[i].more, t[i].status);
		if (td_slurm_pod_usable(td_json_root(j)) != t[i].yes)
			fail_msg("case %zu", i);
	}
}

static void test_choice(void **state)
{
	td_auto(td_json_unref) struct td_json *b = pod("b", "", "\"podIP\":\"10.0.0.2\"," READY);
	td_auto(td_json_unref) struct td_json *a = pod("a", "", "\"podIP\":\"10.0.0.1\"," READY);
	td_auto(td_json_unref) struct td_json *sick = pod("0", "", "\"podIP\":\"10.0.0.3\"");
	const yyjson_val *pods[] = {td_json_root(sick), td_json_root(b), td_json_root(a)};
	struct td_slurm_where w = {.pods = pods, .n = 3};
	struct td_error err = TD_ERROR_INIT;

	td_auto_free char *first = td_slurm_rest_url(&w, &err);
	assert_string_equal(first, "http://10.0.0.1:6820");

	w.current = "http://10.0.0.2:6820"; // the pod in use stays while it is Ready
	td_auto_free char *kept = td_slurm_rest_url(&w, &err);
	assert_string_equal(kept, w.current);

	w.current = "http://10.0.0.3:6820"; // this one is not Ready
	td_auto_free char *other = td_slurm_rest_url(&w, &err);
	assert_string_equal(other, "http://10.0.0.1:6820");

	w.n = 1;
	assert_null(td_slurm_rest_url(&w, &err));
	assert_int_equal(err.code, TD_TRANSIENT);

	td_auto(td_json_unref) struct td_json *sock =
		pod("s", ",\"annotations\":{\"" TD_ANN_REST_ACCESS "\":\"socket\"}", "\"podIP\":\"10.0.0.4\"," READY);
	pods[0] = td_json_root(sock);
	assert_null(td_slurm_rest_url(&w, &err)); // empty_dirs is not known
	assert_int_equal(err.code, TD_INVALID);
}

int main(void)
{
	const struct CMUnitTest t[] = {cmocka_unit_test(test_usable), cmocka_unit_test(test_choice)};
	return cmocka_run_group_tests(t, NULL, NULL);
}
