// Machines that a cluster autoscaler could still make, in slurm.conf.
// rows: A4.5
#include "slurm/tocome.h"

#include "base/mem.h"
#include "slurm/conf.h"
#include "slurm/gres.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct td_json *set_of(const char *spec)
{
	td_auto_free char *text = td_asprintf("{\"metadata\":{\"name\":\"cloud\"},\"spec\":{%s}}", spec);
	struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	return j;
}

static void one_line_for_as_many_as_may_be(void **state)
{
	static const struct {
		const char *spec, *line;
		size_t n;
	} cases[] = {
		{"\"autoscale\":{\"max\":4,\"node\":{\"cpus\":15,\"memory\":\"60Gi\",\"gres\":\"gpu:h100:8\"}},"
		 "\"slurm\":{\"features\":[\"ib\"]}",
		 "NodeName=cloud-to-come-[1-4] NodeAddr=127.0.0.1 Port=1 CPUs=15 Sockets=1 CoresPerSocket=15 "
		 "ThreadsPerCore=1 RealMemory=61440 Gres=gpu:h100:8 Feature=set.cloud,machine.none,ib State=DOWN "
		 "Reason=\"tandem: no machine yet\"",
		 4},
		{"\"autoscale\":{\"max\":65536,\"node\":{\"cpus\":2,\"memory\":\"900Mi\"}}",
		 "NodeName=cloud-to-come-[1-1024] NodeAddr=127.0.0.1 Port=1 CPUs=2 Sockets=1 CoresPerSocket=2 "
		 "ThreadsPerCore=1 RealMemory=900 Feature=set.cloud,machine.none State=DOWN Reason=\"tandem: no "
		 "machine yet\"",
		 1024},
		{"\"autoscale\":{\"max\":4}", NULL, 0},
		{"\"replicas\":4", NULL, 0},
		{"\"autoscale\":{\"max\":4,\"node\":{\"cpus\":2,\"memory\":\"1e3\"}}", NULL, 0},
	};
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		td_auto(td_json_unref) struct td_json *j = set_of(cases[i].spec);
		td_auto_free char *line = td_slurm_to_come_line(td_json_root(j));
		assert_int_equal(td_slurm_to_come(td_json_root(j)), cases[i].n);
		assert_int_equal(!line, !cases[i].line);
		if (line)
			assert_string_equal(line, cases[i].line);
	}
}

// Else job_submit.lua refuses who asks for a type that only machines have that are to be made.
static void its_types_are_known(void **state)
{
	td_auto(td_json_unref) struct td_json *j = set_of("\"autoscale\":{\"max\":4,\"node\":{\"cpus\":15,\"memory\":"
							  "\"60Gi\",\"gres\":\"gpu:h100:6,gpu:a100:2\"}}"),
					      *plain = set_of(
						      "\"autoscale\":{\"max\":4,\"node\":{\"cpus\":15,\"memory\":"
						      "\"60Gi\",\"gres\":\"gpu:8\"}}");
	td_auto_strv struct td_strv types = {0}, none = {0};
	td_slurm_to_come_types(td_json_root(j), &types);
	assert_int_equal(types.n, 2);
	assert_string_equal(types.v[0], "h100");
	td_slurm_to_come_types(td_json_root(plain), &none);
	assert_int_equal(none.n, 0);
	const struct td_slurm_facts f = {.types_to_come = (const char *const *)types.v, .n_types_to_come = types.n};
	td_auto_buf struct td_buf b = {0};
	td_slurm_gres_lua(&f, &b);
	assert_non_null(strstr(td_buf_str(&b), "\ntandem_gpu_types = {\"a100\", \"h100\"}\n"));
}

static void what_is_wrong_is_said(void **state)
{
	static const struct {
		const char *spec, *says;
	} cases[] = {
		{"\"autoscale\":{\"min\":0,\"max\":4}", "spec.autoscale.min: 0 needs spec.autoscale.node"},
		{"\"autoscale\":{\"min\":0,\"max\":4,\"node\":{\"cpus\":2,\"memory\":\"1Gi\"}}", NULL},
		{"\"autoscale\":{\"max\":4,\"node\":{\"cpus\":2,\"memory\":\"1e9\"}}", "spec.autoscale.node.memory: "},
		{"\"slurm\":{\"gres\":\"gpu:4\"},\"autoscale\":{\"max\":4,\"node\":{\"cpus\":2,\"memory\":\"1Gi\","
		 "\"gres\":\"gpu:8\"}}",
		 "spec.autoscale.node.gres: \"gpu:8\" is not what spec.slurm.gres says"},
	};
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		td_auto(td_json_unref) struct td_json *j = set_of(cases[i].spec);
		td_auto_strv struct td_strv problems = {0};
		td_slurm_to_come_check(td_json_root(j), &problems);
		assert_int_equal(problems.n, cases[i].says ? 1 : 0);
		if (cases[i].says)
			assert_true(td_starts(problems.v[0], cases[i].says));
	}
}

static void its_record_is_known_by_its_feature(void **state)
{
	assert_true(td_slurm_is_to_come("set.cloud,machine.none"));
	assert_true(td_slurm_is_to_come("machine.none,x"));
	assert_false(td_slurm_is_to_come("set.cloud,machine.none2,a.machine.none"));
	assert_false(td_slurm_is_to_come(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_line_for_as_many_as_may_be),
		cmocka_unit_test(its_types_are_known),
		cmocka_unit_test(what_is_wrong_is_said),
		cmocka_unit_test(its_record_is_known_by_its_feature),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
