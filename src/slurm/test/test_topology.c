// topology.conf from where nodes are.
// rows: A9.1
#include "slurm/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_tree(void **state)
{
	(void)state;
	const struct td_slurm_place places[] = {{"n3", {"b1", "r1"}},
						{"n0", {"b0", "r0"}},
						{"n1", {"b0", "r0"}},
						{"n2", {"b0", NULL}},
						{"n4", {"a=b #", "top"}}};
	td_auto_free char *two = td_slurm_topology_conf(places, 5, 2), *one = td_slurm_topology_conf(places, 4, 1),
			  *none = td_slurm_topology_conf(NULL, 0, 2);
	assert_string_equal(strchr(two, '\n') + 1, "SwitchName=b0.elsewhere Nodes=n2\n"
						   "SwitchName=b0.r0 Nodes=n[0-1]\n"
						   "SwitchName=b1.r1 Nodes=n3\n"
						   "SwitchName=elsewhere.elsewhere Nodes=n4\n"
						   "SwitchName=b0 Switches=b0.elsewhere,b0.r0\n"
						   "SwitchName=b1 Switches=b1.r1\n"
						   "SwitchName=elsewhere Switches=elsewhere.elsewhere\n"
						   "SwitchName=top Switches=b0,b1,elsewhere\n");
	assert_string_equal(strchr(one, '\n') + 1, "SwitchName=b0 Nodes=n[0-2]\nSwitchName=b1 Nodes=n3\n"
						   "SwitchName=top Switches=b0,b1\n");
	assert_string_equal(strchr(none, '\n') + 1, "");
}

int main(void)
{
	const struct CMUnitTest t[] = {cmocka_unit_test(test_tree)};
	return cmocka_run_group_tests(t, NULL, NULL);
}
