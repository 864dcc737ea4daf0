// Can the blocks hold a job? What Slurm 24.11.5 was seen to do with the same numbers: docs/facts/slurm.md S-G12.
// rows: A9.2
#include "pool/block.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_hold(void **state)
{
	(void)state;
	static const char *const places[] = {"a", "b", "a", "c", "b", NULL, "a", "c", "b", "a", "c"};
	const char *name[11];
	struct td_pool_netblock v[11];
	memcpy(name, places, sizeof(name));
	size_t n = td_pool_blocks_count(name, 11, v);
	assert_int_equal(n, 3);
	assert_string_equal(v[0].name, "a");
	assert_int_equal(v[0].nodes, 4);
	assert_int_equal(v[1].nodes, 3);
	assert_int_equal(v[2].nodes, 3);
	assert_int_equal(td_pool_blocks_count(name, 0, v), 0);

	static const struct {
		int64_t nodes, segment;
		bool ok;
		const char *why;
	} t[] = {
		{1, 0, true, ""},
		{4, 0, true, ""},
		{7, 0, true, ""},
		{8, 0, false, "8 nodes must lie in 2 blocks, and the 2 largest have 7 "},
		{9, 0, true, ""},
		{10, 0, true, ""},
		{4, 4, true, ""},
		{8, 4, false,
		 "it wants 2 segments of 4 nodes, each in one block, and the nodes that it may use make 1: of 3 blocks "
		 "the largest, a, has 4 "},
		{8, 2, true, ""},
		{9, 3, true, ""},
		{10, 5, false, "a segment has 4 nodes at most (spec.topology.blockSizes), not 5"},
	};
	memcpy(name, places, sizeof(name));
	n = td_pool_blocks_count(name, 11, v);
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		char why[300] = "";
		bool ok = td_pool_blocks_hold(v, n, &(struct td_pool_netblock_want){t[i].nodes, t[i].segment, 4}, why,
					      sizeof(why));
		if (ok != t[i].ok || strncmp(why, t[i].why, strlen(t[i].why)) != 0)
			fail_msg("%d nodes, segment %d: %d %s", (int)t[i].nodes, (int)t[i].segment, ok, why);
	}
	// No block is as large as the size that is planned with.
	char why[300] = "";
	assert_false(td_pool_blocks_hold(v, n, &(struct td_pool_netblock_want){6, 0, 8}, why, sizeof(why)));
	assert_ptr_equal(strstr(why, "no block has 6 nodes that it may use: the largest, a, has 4"), why);
}

int main(void)
{
	const struct CMUnitTest t[] = {cmocka_unit_test(test_hold)};
	return cmocka_run_group_tests(t, NULL, NULL);
}
