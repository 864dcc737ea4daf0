// The network's variables of a node.
// rows: C5.3 C5.2
#include "slurm/fabric.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct td_json *yaml(const char *text)
{
	struct td_json_list l = {0};
	struct td_error err = TD_ERROR_INIT;
	if (td_yaml_parse(text, strlen(text), &l, &err) || l.n != 1)
		fail_msg("%s", err.msg);
	struct td_json *j = td_json_ref(l.v[0]);
	td_json_list_done(&l);
	return j;
}

#define FABRIC                                                                                                         \
	"spec: {fabric: {variables: [{name: IF, label: x/if, value: eth0}, {name: HCA, annotation: x/h, perDevice: "   \
	"true}, {name: DEV, label: x/d, value: '{}:1'}, {name: LEVEL, value: PIX}]}}"

static void lines(const char *node, const char *want)
{
	td_auto(td_json_unref) struct td_json *sc = yaml(FABRIC), *n = yaml(node);
	td_auto_buf struct td_buf b = {0};
	td_slurm_fabric_lines(td_jstr(td_json_root(n), "metadata.name"), td_json_root(sc), td_json_root(n), &b);
	assert_string_equal(td_buf_str(&b), want);
}

static void test_lines(void **state)
{
	(void)state;
	lines("metadata: {name: n0, labels: {x/if: eth7, x/d: mlx5_9}, annotations: {x/h: 'a,a,b'}}",
	      "n0 IF eth7\nn0 HCA @ a,a,b\nn0 DEV mlx5_9:1\nn0 LEVEL PIX\n");
	lines("metadata: {name: n1}", "n1 IF eth0\nn1 LEVEL PIX\n");
	// A word with a blank or a line's end would be another line of the table.
	lines("metadata: {name: n2, annotations: {x/h: \"a\\nn1 LD_PRELOAD x\"}, labels: {x/if: 'e h', x/d: '$(x)'}}",
	      "n2 IF eth0\nn2 LEVEL PIX\n");
}

// Ten thousand nodes must find room in a ConfigMap: those that are alike are told of once.
static void test_table(void **state)
{
	(void)state;
	td_auto(td_json_unref) struct td_json *sc = yaml(FABRIC);
	td_auto_fabric struct td_slurm_fabric_table t = {0};
	static const char *const nodes[] = {"metadata: {name: n0, labels: {x/if: eth7}}", "metadata: {name: n1}",
					    "metadata: {name: n2, labels: {x/if: eth7}}",
					    "metadata: {name: n3, labels: {x/if: 'e h'}}"};
	td_auto_free char *empty = td_slurm_fabric_text(&t);
	assert_string_equal(empty, "");
	for (size_t i = 0; i < TD_LEN(nodes); i++) {
		td_auto(td_json_unref) struct td_json *n = yaml(nodes[i]);
		td_slurm_fabric_add(&t, td_json_root(sc), td_json_root(n));
	}
	td_auto_free char *text = td_slurm_fabric_text(&t);
	assert_string_equal(text, "n0 #0\nn1 #1\nn2 #0\nn3 #1\n#0 IF eth7\n#0 LEVEL PIX\n#1 IF eth0\n#1 LEVEL PIX\n");
}

static void value(bool each, const char *text, const char *devices, const char *want)
{
	struct td_slurm_variable v = {"X", (char *)(uintptr_t)text, each};
	struct td_ranges r;
	assert_int_equal(td_ranges_parse(devices, &r, NULL), 0);
	td_auto_free char *got = td_slurm_variable_value(&v, &r, &(struct td_ranges){0});
	if (want ? !got || strcmp(got, want) != 0 : got != NULL)
		fail_msg("%s of %s: %s", text, devices, got ? got : "none");
}

static void test_value(void **state)
{
	(void)state;
	value(false, "a,b", "1", "a,b");
	value(true, "a,a,b,c", "0-2", "a,b");
	value(true, "a,a,b,c", "3", "c");
	value(true, "a,a,b,c", "7", NULL);
	value(true, "a,a,b,c", "", NULL);
}

static void refused(const char *variables, const char *part)
{
	td_auto_free char *text = td_asprintf("spec: {fabric: {variables: [%s]}}", variables);
	td_auto(td_json_unref) struct td_json *sc = yaml(text);
	td_auto_strv struct td_strv p = {0};
	td_slurm_fabric_check(td_json_root(sc), &p);
	if (part ? p.n != 1 || !strstr(p.v[0], part) : p.n != 0)
		fail_msg("%s: %zu %s", variables, p.n, p.n ? p.v[0] : "");
}

static void test_check(void **state)
{
	(void)state;
	td_auto(td_json_unref) struct td_json *two = yaml(
		"spec: {fabric: {nics: {grant: true}}, scheduler: {gresMap: {rdma/hca: nic, tandem.dev/nic: nic}}}");
	td_auto_strv struct td_strv said = {0};
	td_slurm_fabric_check(td_json_root(two), &said);
	assert_int_equal(said.n, 1);
	assert_non_null(strstr(said.v[0], "spec.scheduler.gresMap: rdma/hca is mapped to nic"));
	refused("{name: A, value: x}, {name: B, label: l}, {name: C, annotation: l, value: '{}:1'}", NULL);
	refused("{name: A}", "variables[0].value");
	refused("{name: A, value: 'x{}'}", "needs a value without {}");
	refused("{name: A, value: x}, {name: A, value: y}", "variables[1].name: A is there twice");
	refused("{name: A, label: x, annotation: y}", "variables[0].annotation");
	refused("{name: A, value: 'x y'}", "other characters");
	refused("{name: LD_PRELOAD, value: x}", "variables[0].name");
	refused("{name: SLURM_JOB_ID, value: x}", "variables[0].name");
}

int main(void)
{
	const struct CMUnitTest t[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_table),
				       cmocka_unit_test(test_value), cmocka_unit_test(test_check)};
	return cmocka_run_group_tests(t, NULL, NULL);
}
