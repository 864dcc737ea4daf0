// Machines that run slurmd themselves, as a NodeSet names them.
// rows: A17.1
#include "slurm/hosts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct td_json *set_of(const char *spec)
{
	td_auto_free char *text = td_asprintf("{\"metadata\":{\"name\":\"metal\"},\"spec\":%s}", spec);
	struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	return j;
}

static void test_names(void **state)
{
	td_auto(td_json_unref) struct td_json *j = set_of("{\"hosts\":[\"n[1-3]\",\"m1\",\"n2\"]}"),
					      *none = set_of("{}"), *empty = set_of("{\"hosts\":[]}");
	td_auto_strv struct td_strv l = {0};
	assert_int_equal(td_slurm_hosts(td_json_root(j), &l, NULL), 0);
	assert_int_equal(l.n, 4);
	assert_true(td_slurm_host_in(td_json_root(j), "n3"));
	assert_false(td_slurm_host_in(td_json_root(j), "n4"));
	assert_true(td_slurm_host_set(td_json_root(empty)));
	assert_false(td_slurm_host_set(td_json_root(none)));
}

// What cannot be read takes nothing from what can: those machines have jobs.
static void test_wrong_entry(void **state)
{
	td_auto(td_json_unref) struct td_json *j = set_of("{\"hosts\":[\"n1\",\"n[2-\",\"N3\",\"m4,n[5-6]\"]}");
	td_auto_strv struct td_strv l = {0};
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_slurm_hosts(td_json_root(j), &l, &err), TD_INVALID);
	assert_true(td_starts(err.msg, "spec.hosts[1]: "));
	static const char *const names[] = {"n1", "m4", "n5", "n6"};
	assert_int_equal(l.n, TD_LEN(names));
	for (size_t i = 0; i < TD_LEN(names); i++) {
		assert_string_equal(l.v[i], names[i]);
		assert_true(td_slurm_host_in(td_json_root(j), names[i]));
	}
	static const char *const others[] = {"n", "n2", "n7", "m", "m45", "5", ""};
	for (size_t i = 0; i < TD_LEN(others); i++)
		assert_false(td_slurm_host_in(td_json_root(j), others[i]));
}

static void test_problems(void **state)
{
	static const struct {
		const char *spec, *says;
	} v[] = {
		{"{\"hosts\":[\"n[1-\"]}", "spec.hosts[0]: "},
		{"{\"hosts\":[\"n1\",\"N2\"]}", "spec.hosts[1]: \"N2\" is no name"},
		{"{\"hosts\":[\"n[0-9999]\"]}", "spec.hosts: more than 4096"},
		{"{\"hosts\":[],\"replicas\":2}", "spec.replicas: "},
		{"{\"hosts\":[],\"onDemand\":{}}", "spec.onDemand: "},
		{"{\"hosts\":[],\"nodeSelector\":{\"a\":\"b\"}}", "spec.nodeSelector: "},
	};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		td_auto(td_json_unref) struct td_json *j = set_of(v[i].spec);
		td_auto_strv struct td_strv p = {0};
		td_slurm_hosts_check(td_json_root(j), &p);
		assert_int_equal(p.n, 1);
		if (!td_starts(p.v[0], v[i].says))
			fail_msg("%s: %s", v[i].spec, p.v[0]);
	}
	td_auto(td_json_unref) struct td_json *good = set_of("{\"hosts\":[\"n1\"],\"nodeSelector\":{}}");
	td_auto_strv struct td_strv p = {0};
	td_slurm_hosts_check(td_json_root(good), &p);
	assert_int_equal(p.n, 0);
}

static void test_conf(void **state)
{
	td_auto(td_json_unref) struct td_json *j = set_of(
		"{\"hosts\":[\"n1\"],\"slurm\":{\"gres\":\"gpu:h100:8\",\"features\":[\"a\",\"b c\"],\"weight\":7,"
		"\"extraConf\":{\"TmpDisk\":\"100\",\"Bad\":\"x y\"}}}");
	td_auto_free char *s = td_slurm_host_conf(td_json_root(j), 64, 1000);
	assert_string_equal(s, "CPUs=64 Sockets=1 CoresPerSocket=64 ThreadsPerCore=1 RealMemory=1000 Gres=gpu:h100:8 "
			       "Feature=set.metal,a Weight=7 TmpDisk=100");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_wrong_entry),
		cmocka_unit_test(test_problems),
		cmocka_unit_test(test_conf),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
