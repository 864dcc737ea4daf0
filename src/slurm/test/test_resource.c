// rows: C1.6
// What quotas may name, and what Slurm calls it.
#include "slurm/resource.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char site[] =
	"{\"spec\":{\"scheduler\":{\"gresMap\":{\"nvidia.com/gpu\":\"gpu\",\"a.com/h100\":\"gpu:h100\"}},"
	"\"config\":{\"slurmConf\":{\"gresTypes\":\"gpu,fpga\"}}}}";

static void resources_have_names_of_slurms(void **state)
{
	static const struct {
		const char *resource, *tres;
	} cases[] = {{"cpu", "cpu"},
		     {"memory", "mem"},
		     {"gpu", "gres/gpu"},
		     {"gpu:h100", "gres/gpu:h100"},
		     {"nvidia.com/gpu", "gres/gpu"},
		     {"a.com/h100", "gres/gpu:h100"},
		     {"fpga", "gres/fpga"}};
	td_auto(td_json_unref) struct td_json *j = NULL;
	assert_int_equal(td_json_parse(site, strlen(site), &j, NULL), 0);
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		td_auto_free char *tres = NULL;
		assert_int_equal(td_slurm_resource(td_json_root(j), cases[i].resource, &tres, NULL), 0);
		assert_string_equal(tres, cases[i].tres);
	}
}

static void what_there_is_not_is_refused(void **state)
{
	static const struct {
		const char *resource, *words;
	} cases[] = {{"gpus",
		      "Slurm has no resource \"gpus\"; there are cpu, memory, gpu, nvidia.com/gpu, a.com/h100 and "
		      "fpga: did you mean gpu?; one more is added to spec.scheduler.gresMap of the SlurmCluster"},
		     {"mem", "did you mean memory?"},
		     {"tpu:v5", "a.com/h100 and fpga; one more"},
		     {"example.com/fpga", "spec.scheduler.gresMap"}};
	td_auto(td_json_unref) struct td_json *j = NULL;
	assert_int_equal(td_json_parse(site, strlen(site), &j, NULL), 0);
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		td_auto_free char *tres = NULL;
		struct td_error e = TD_ERROR_INIT;
		assert_int_equal(td_slurm_resource(td_json_root(j), cases[i].resource, &tres, &e), TD_INVALID);
		assert_non_null(strstr(e.msg, cases[i].words));
		assert_null(tres);
	}
	// Of a cluster that cannot be asked nothing is known.
	td_auto_free char *tres = NULL;
	assert_int_equal(td_slurm_resource(NULL, "gpus", &tres, NULL), 0);
	assert_int_equal(td_slurm_resource(NULL, "a.com/gpus", &tres, NULL), TD_INVALID);
	struct td_json_list l = {0};
	static const char text[] = "spec: {fabric: {nics: {grant: true}}}", *const nics[] = {"nic", "tandem.dev/nic"};
	assert_int_equal(td_yaml_parse(text, strlen(text), &l, NULL), 0);
	for (size_t i = 0; i < TD_LEN(nics); i++) {
		td_auto_free char *nic = NULL;
		assert_int_equal(td_slurm_resource(td_json_root(l.v[0]), nics[i], &nic, NULL), 0);
		assert_string_equal(nic, "gres/nic");
	}
	td_json_list_done(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(resources_have_names_of_slurms),
					   cmocka_unit_test(what_there_is_not_is_refused)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
