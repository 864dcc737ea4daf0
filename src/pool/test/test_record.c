// rows: B2.3
// What becomes of NodeActions that are over.
#include "pool/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define DAY ((int64_t)24 * 3600 * 1000)

static const struct td_pool_record_rules rules = {.now = 1000 * DAY,
						  .compact_ms = 14 * DAY,
						  .window_ms = 7 * DAY,
						  .keep_ms = 90 * DAY,
						  .most_bytes = 1000,
						  .most_lines = 3};

static enum td_pool_fate fate(struct td_pool_old_act r, size_t lines, size_t bytes, int64_t *again)
{
	*again = -1;
	return td_pool_record_fate(&r, &rules, lines, bytes, again);
}

static void what_ended_long_ago_is_folded(void **state)
{
	int64_t again;
	struct td_pool_old_act r = {.begun = 980 * DAY, .ended = 986 * DAY, .bytes = 100};
	assert_int_equal(fate(r, 0, 0, &again), TD_RECORD_FOLDS);
	r.ended += 1;
	assert_int_equal(fate(r, 0, 0, &again), TD_RECORD_STAYS);
	assert_int_equal(again, 1);
	r.ended = -1; // it goes on
	assert_int_equal(fate(r, 0, 0, &again), TD_RECORD_STAYS);
	assert_int_equal(again, -1);
}

static void what_somebody_decides_by_stays(void **state)
{
	int64_t again;
	struct td_pool_old_act r = {.begun = 900 * DAY, .ended = 901 * DAY, .needed = true};
	assert_int_equal(fate(r, 0, 0, &again), TD_RECORD_STAYS);
	r.needed = false;
	assert_int_equal(fate(r, 0, 0, &again), TD_RECORD_GOES);

	// Attempts are counted for longer than until it would be folded.
	struct td_pool_record_rules wide = rules;
	wide.window_ms = 60 * DAY;
	r = (struct td_pool_old_act){.begun = 950 * DAY, .ended = 951 * DAY};
	assert_int_equal(td_pool_record_fate(&r, &wide, 0, 0, &again), TD_RECORD_STAYS);
	assert_int_equal(again, 10 * DAY);
	r.begun = -1; // it never began, so it was no attempt
	assert_int_equal(td_pool_record_fate(&r, &wide, 0, 0, &again), TD_RECORD_FOLDS);
}

static void a_full_history_loses_nothing(void **state)
{
	int64_t again;
	struct td_pool_old_act r = {.begun = 950 * DAY, .ended = 951 * DAY, .bytes = 400};
	assert_int_equal(fate(r, 2, 600, &again), TD_RECORD_FOLDS);
	assert_int_equal(fate(r, 2, 601, &again), TD_RECORD_STAYS);
	assert_int_equal(fate(r, 3, 0, &again), TD_RECORD_STAYS);
	r.line = true; // written before a crash: only the NodeAction is left to go
	assert_int_equal(fate(r, 3, 1000, &again), TD_RECORD_FOLDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_ended_long_ago_is_folded),
		cmocka_unit_test(what_somebody_decides_by_stays),
		cmocka_unit_test(a_full_history_loses_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
