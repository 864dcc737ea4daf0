// How large a placeholder is, beside pods that are there and pods that come.
// rows: A17.3
#include "pool/place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MIB (1LL << 20)
#define P(milli, mib) ((struct td_pool_place){milli, (mib) * MIB})

static void check(struct td_pool_place have, struct td_pool_place want)
{
	assert_int_equal(have.milli, want.milli);
	assert_int_equal(have.memory, want.memory);
}

static void test_for(void **state)
{
	bool cut;
	// A job begins and ends.
	check(td_pool_place_for(P(8000, 500), P(1, 1), P(15000, 3000), &cut), P(8000, 500));
	assert_false(cut);
	check(td_pool_place_for(P(0, 0), P(8000, 500), P(15000, 3000), &cut), P(1, 1));
	assert_false(cut);
	// Pods of others have some of what it is given.
	check(td_pool_place_for(P(8000, 500), P(1, 1), P(5000, 3000), &cut), P(5000, 500));
	assert_true(cut);
	check(td_pool_place_for(P(8000, 500), P(1, 1), P(9000, 100), &cut), P(8000, 100));
	assert_true(cut);
	// They have more than there is: it does not grow, and does not shrink for them.
	check(td_pool_place_for(P(8000, 500), P(4000, 200), P(-1000, -5), &cut), P(4000, 200));
	assert_true(cut);
	// What is left is written in whole MiB.
	check(td_pool_place_for(P(1000, 500), P(1, 1), (struct td_pool_place){5000, 300 * MIB + 4096}, &cut),
	      P(1000, 300));
	// Slurm's sums and ours are not read at one time: less than nothing is nothing.
	check(td_pool_place_for(P(-3000, -64), P(2000, 64), P(5000, 5000), &cut), P(1, 1));
	assert_false(cut);
}

static void test_shrunk(void **state)
{
	check(td_pool_place_shrunk(P(13000, 500), P(2350, 9000)), P(2350, 500));
	check(td_pool_place_shrunk(P(13000, 500), P(0, 0)), P(1, 1));
	check(td_pool_place_shrunk(P(1000, 500), P(2350, 9000)), P(1000, 500));
	check(td_pool_place_shrunk(P(1000, 500), (struct td_pool_place){2000, 100 * MIB + 1}), P(1000, 100));
	assert_true(td_pool_place_fits(P(2350, 500), P(2350, 500)));
	assert_false(td_pool_place_fits(P(2351, 500), P(2350, 500)));
	assert_false(td_pool_place_fits(P(2350, 501), P(2350, 500)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_for), cmocka_unit_test(test_shrunk)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
