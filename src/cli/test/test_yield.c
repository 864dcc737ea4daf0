// rows: A14.9 A14.10
// What a run's GPU time was: by sacct's states.
#include "cli/yield.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void states_have_one_meaning(void **state)
{
	assert_int_equal(td_yield_of("COMPLETED"), TD_YIELD_USEFUL);
	assert_int_equal(td_yield_of("RUNNING"), TD_YIELD_USEFUL);
	assert_int_equal(td_yield_of("NODE_FAIL"), TD_YIELD_FAILURE);
	assert_int_equal(td_yield_of("PREEMPTED"), TD_YIELD_PREEMPTED);
	assert_int_equal(td_yield_of("REQUEUED"), TD_YIELD_REQUEUED);
	assert_int_equal(td_yield_of("preflight"), TD_YIELD_PREFLIGHT);
	assert_int_equal(td_yield_of("OUT_OF_MEMORY"), TD_YIELD_OWN);
	assert_int_equal(td_yield_of("CANCELLED"), TD_YIELD_CUT);
	assert_int_equal(td_yield_of("TIMEOUT"), TD_YIELD_CUT);
	assert_int_equal(td_yield_of("SOMETHING_NEW"), TD_YIELD_CUT); // not called lost without knowing
}

static void what_is_not_known_to_be_lost_is_yield(void **state)
{
	struct td_cli_yield_row r = {.name = "x"};
	assert_true(td_cli_yield_ratio(&r) < 0); // nothing was held
	r.s[TD_YIELD_USEFUL] = 60;
	r.s[TD_YIELD_CUT] = 20;
	r.s[TD_YIELD_FAILURE] = 15;
	r.s[TD_YIELD_PREFLIGHT] = 5;
	assert_true(td_cli_yield_held(&r) == 100);
	assert_true(td_cli_yield_ratio(&r) == 0.8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(states_have_one_meaning),
		cmocka_unit_test(what_is_not_known_to_be_lost_is_yield),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
