// Whom Slurm passes over, and who waits for his turn.
// rows: A6.1 C7.1
#include "pool/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_aside(void **state)
{
	assert_true(td_pool_reason_aside("JobHeldAdmin"));
	assert_true(td_pool_reason_aside("ReqNodeNotAvail"));
	assert_false(td_pool_reason_aside("ReqNodeNotAvail, May be reserved for other job"));
	assert_false(td_pool_reason_aside("Resources"));
	assert_false(td_pool_reason_aside(NULL));
	assert_string_equal(td_pool_reason_words("ReqNodeNotAvail, May be reserved for other job", 1),
			    "the nodes that it may use are drained, down or reserved, or others come first there");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_aside)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
