// topology.conf from where nodes are.
// rows: A9.1 A9.2
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

static struct td_json *cluster(const char *topology)
{
	td_auto_free char *text =
		td_asprintf("{\"metadata\":{\"name\":\"main\"},\"spec\":{\"topology\":%s}}", topology);
	struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	return j;
}

static void test_blocks(void **state)
{
	(void)state;
	const struct td_slurm_place places[] = {{"n5", {"b", "1"}},           {"n0", {"a", "1"}}, {"n1", {"a", "1"}},
						{"n2", {"a", "1"}},           {"n3", {"a", "2"}}, {"n4", {"a", NULL}},
						{"n6", {"a", "tandem-none1"}}};
	td_auto(td_json_unref) struct td_json *plain = cluster("{\"type\":\"block\"}"),
					      *sizes = cluster("{\"type\":\"block\",\"blockSizes\":[2,4]}");
	td_auto_free char *two = td_slurm_blocks_conf(td_json_root(plain), places, 7, 2),
			  *said = td_slurm_blocks_conf(td_json_root(sizes), places, 7, 2),
			  *one = td_slurm_blocks_conf(td_json_root(plain), places + 1, 3, 1),
			  *none = td_slurm_blocks_conf(td_json_root(plain), NULL, 0, 1);
	// What is in no block makes none larger.
	assert_string_equal(strchr(two, '\n') + 1, "BlockName=a.1 Nodes=tandem-none-[1-3],n[0-2]\n"
						   "BlockName=a.2 Nodes=tandem-none-[1-3],n3\n"
						   "BlockName=a.elsewhere Nodes=tandem-none-[1-3],n[4,6]\n"
						   "BlockName=b.1 Nodes=tandem-none-[1-3],n5\n"
						   "BlockSizes=3,12\n");
	assert_non_null(strstr(said, "BlockName=a.1 Nodes=tandem-none-[1-2],n[0-2]\n"));
	assert_non_null(strstr(said, "BlockSizes=2,4,8\n"));
	assert_string_equal(strchr(one, '\n') + 1, "BlockName=a Nodes=tandem-none-[1-3],n[0-2]\n"
						   "BlockName=tandem-none1 Nodes=tandem-none-[1-3]\nBlockSizes=3,6\n");
	assert_string_equal(strchr(none, '\n') + 1, "BlockName=tandem-none0 Nodes=tandem-none-[1-1]\n"
						    "BlockName=tandem-none1 Nodes=tandem-none-[1-1]\nBlockSizes=1,2\n");
	td_auto_free char *in = td_slurm_block_of(&places[0], 2), *out = td_slurm_block_of(&places[5], 2);
	assert_string_equal(in, "b.1");
	assert_null(out);
}

static void test_problems(void **state)
{
	(void)state;
	static const struct {
		const char *spec, *says;
	} t[] = {
		{"{\"type\":\"block\",\"blockSizes\":[18]}", NULL},
		{"{\"type\":\"block\",\"blockSizes\":[18,36,144]}", NULL},
		{"{\"type\":\"tree\",\"blockSizes\":[18]}", "spec.topology.blockSizes: only blocks have sizes"},
		{"{\"type\":\"block\",\"blockSizes\":[18,54]}", "spec.topology.blockSizes[1]: 54 is not 2, 4, 8"},
		{"{\"type\":\"block\",\"blockSizes\":[18,18]}", "spec.topology.blockSizes[1]: 18 is not 2, 4, 8"},
		{"{\"type\":\"block\",\"blockSizes\":[18,9]}", "spec.topology.blockSizes[1]: 9 is not 2, 4, 8"},
	};
	for (size_t i = 0; i < TD_LEN(t); i++) {
		td_auto(td_json_unref) struct td_json *j = cluster(t[i].spec);
		td_auto_strv struct td_strv labels = {0}, problems = {0};
		td_slurm_topology_labels(td_json_root(j), &labels, &problems);
		assert_int_equal(problems.n, t[i].says ? 1 : 0);
		if (t[i].says)
			assert_ptr_equal(strstr(problems.v[0], t[i].says), problems.v[0]);
	}
	td_auto(td_json_unref) struct td_json *j = cluster("{\"type\":\"block\"}");
	td_auto_strv struct td_strv labels = {0}, problems = {0};
	td_slurm_topology_labels(td_json_root(j), &labels, &problems);
	assert_int_equal(labels.n, 1);
	assert_string_equal(labels.v[0], "nvidia.com/gpu.clique");
}

int main(void)
{
	const struct CMUnitTest t[] = {cmocka_unit_test(test_tree), cmocka_unit_test(test_blocks),
				       cmocka_unit_test(test_problems)};
	return cmocka_run_group_tests(t, NULL, NULL);
}
