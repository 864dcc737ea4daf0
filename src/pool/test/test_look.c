// When the operator works a SlurmCluster out anew.
// rows: A5.8
#include "pool/look.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

static void a_quiet_pool_is_worked_out_once_a_minute(void **state)
{
	struct td_pool_look l = {.age_ms = 59999, .due_ms = -1};
	assert_false(td_pool_look_whole(&l));
	l.age_ms = 60000;
	assert_true(td_pool_look_whole(&l));
}

static void what_waits_for_others_is_looked_at_more_often(void **state)
{
	struct td_pool_look l = {.unsettled = true, .age_ms = 14999, .due_ms = -1};
	assert_false(td_pool_look_whole(&l));
	l.age_ms = 15000;
	assert_true(td_pool_look_whole(&l));
}

static void news_failures_and_acts_are_followed_at_once(void **state)
{
	assert_true(td_pool_look_whole(&(struct td_pool_look){.news = true, .due_ms = -1}));
	assert_true(td_pool_look_whole(&(struct td_pool_look){.failed = true, .due_ms = -1}));
	assert_true(td_pool_look_whole(&(struct td_pool_look){.moving = true, .due_ms = -1}));
}

static void what_is_due_by_the_clock_is_not_missed(void **state)
{
	struct td_pool_look l = {.age_ms = 4999, .due_ms = 5000};
	assert_false(td_pool_look_whole(&l));
	l.age_ms = 5000;
	assert_true(td_pool_look_whole(&l));
}

static void dear_looks_take_a_tenth_of_a_core(void **state)
{
	assert_int_equal(td_pool_look_pause_ms(20000, 0), 0);
	assert_int_equal(td_pool_look_pause_ms(40000, 0), 200);
	assert_int_equal(td_pool_look_pause_ms(40000, 150), 50);
	assert_int_equal(td_pool_look_pause_ms(40000, 5000), 0);
	assert_int_equal(td_pool_look_pause_ms(700000, 0), 6800);
}

static void jobs_that_come_and_go_take_a_fiftieth_of_a_core(void **state)
{
	struct td_pool_look l = {.jobs = true, .age_ms = 0, .cpu_us = 20000, .due_ms = -1};
	assert_true(td_pool_look_whole(&l)); // a small pool follows at once
	l.cpu_us = 70000;
	l.age_ms = 2499;
	assert_false(td_pool_look_whole(&l));
	l.age_ms = 2500;
	assert_true(td_pool_look_whole(&l));
	l.cpu_us = 700000; // a very large one in 15 s
	l.age_ms = 14999;
	assert_false(td_pool_look_whole(&l));
	l.age_ms = 15000;
	assert_true(td_pool_look_whole(&l));
	l.age_ms = 0; // what waits for a job's end does not wait for the pace
	l.moving = true;
	assert_true(td_pool_look_whole(&l));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_quiet_pool_is_worked_out_once_a_minute),
		cmocka_unit_test(what_waits_for_others_is_looked_at_more_often),
		cmocka_unit_test(news_failures_and_acts_are_followed_at_once),
		cmocka_unit_test(what_is_due_by_the_clock_is_not_missed),
		cmocka_unit_test(dear_looks_take_a_tenth_of_a_core),
		cmocka_unit_test(jobs_that_come_and_go_take_a_fiftieth_of_a_core),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
