// rows: B6.2
// When a job that was queued again begins.
#include "pool/again.h"
#include "pool/leave.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { T = 1790000000, SLURM_S = 121 };

// As Slurm leaves a job that was queued again at this time.
static struct td_pool_again queued(int64_t submit)
{
	return (struct td_pool_again){.restarts = 1,
				      .submit_s = submit,
				      .begin_s = submit + SLURM_S,
				      .now_s = submit + 80,
				      .kill_s = 10,
				      .waits = true,
				      .batch = true};
}

static enum td_pool_again_do what(const struct td_pool_again *f)
{
	return td_pool_again(f).what;
}

static void slurms_own_pause_is_brought_forward(void **state)
{
	struct td_pool_again f = queued(T);
	struct td_pool_again_plan p = td_pool_again(&f);
	assert_int_equal(p.what, TD_AGAIN_BEGIN);
	assert_int_equal(p.past.begin_s, T + 15);
	assert_int_equal(p.past.submit_s, T);
	f.now_s = T + 14;
	assert_int_equal(what(&f), TD_AGAIN_LOOK);
	assert_int_equal(td_pool_again(&f).in_s, 1);
	assert_int_equal(td_pool_again(&f).past.row, 1);
	f.now_s = T + 15;
	assert_int_equal(what(&f), TD_AGAIN_BEGIN);
	f.begin_s = T + 120; // it had been submitted in that second
	assert_int_equal(what(&f), TD_AGAIN_BEGIN);
	f.begin_s = T + 121;
	f.now_s = T + 119; // it begins by itself
	assert_int_equal(what(&f), TD_AGAIN_LEAVE);
}

static void any_other_begin_is_somebodys_wish(void **state)
{
	static const int64_t pauses[] = {0, 1, 5, 60, 119, 122, 3600, -7};
	for (size_t i = 0; i < TD_LEN(pauses); i++) {
		struct td_pool_again f = queued(T);
		f.begin_s = T + pauses[i];
		assert_int_equal(what(&f), TD_AGAIN_LEAVE);
	}
	struct td_pool_again f = queued(T);
	f.restarts = 0; // sbatch --begin=now+121
	assert_int_equal(what(&f), TD_AGAIN_LEAVE);
}

static void what_is_no_batch_job_that_waits_is_left_alone(void **state)
{
	struct td_pool_again f = queued(T);
	f.waits = false;
	assert_int_equal(what(&f), TD_AGAIN_LEAVE);
	f = queued(T);
	f.batch = false;
	assert_int_equal(what(&f), TD_AGAIN_LEAVE);
	f = queued(T);
	f.shared = true;
	assert_int_equal(what(&f), TD_AGAIN_LEAVE);
}

static void what_is_held_stays_held_and_is_looked_at_again(void **state)
{
	struct td_pool_again f = queued(T);
	f.held = true;
	struct td_pool_again_plan p = td_pool_again(&f);
	assert_int_equal(p.what, TD_AGAIN_LOOK);
	assert_int_equal(p.in_s, 0);
	assert_int_equal(p.past.row, 0); // nothing was done
	f.held = false;
	assert_int_equal(what(&f), TD_AGAIN_BEGIN);
	f.node_back = true;
	assert_int_equal(what(&f), TD_AGAIN_LOOK);
	f.node_back = false;
	f.behind = true;
	assert_int_equal(what(&f), TD_AGAIN_LOOK);
}

static void what_kill_wait_makes_as_long_as_slurms_pause_is_left(void **state)
{
	struct td_pool_again f = queued(T);
	f.kill_s = 30; // Slurm's default
	assert_int_equal(td_pool_again(&f).past.begin_s, T + 35);
	f.kill_s = 200;
	assert_int_equal(what(&f), TD_AGAIN_LEAVE);
}

static void the_pause_grows_while_it_is_queued_again_soon(void **state)
{
	static const int64_t want[] = {15, 30, 60};
	struct td_pool_again_past past = {0};
	int64_t submit = T;
	for (size_t i = 0; i < TD_LEN(want); i++) {
		struct td_pool_again f = queued(submit);
		f.past = past;
		struct td_pool_again_plan p = td_pool_again(&f);
		assert_int_equal(p.what, TD_AGAIN_BEGIN);
		assert_int_equal(p.past.begin_s - submit, want[i]);
		past = p.past;
		submit = past.begin_s + 2; // it failed at once
	}
	for (int i = 0; i < 3; i++) { // Slurm's own from now on
		struct td_pool_again f = queued(submit);
		f.past = past;
		struct td_pool_again_plan p = td_pool_again(&f);
		assert_int_equal(p.what, TD_AGAIN_LEAVE);
		assert_int_equal(p.past.begin_s, f.begin_s);
		past = p.past;
		submit = past.begin_s + 2;
	}
	struct td_pool_again f = queued(past.begin_s + 600); // it ran
	f.past = past;
	assert_int_equal(td_pool_again(&f).past.row, 1);
	assert_int_equal(what(&f), TD_AGAIN_BEGIN);
}

static void a_lost_answer_does_not_count_twice(void **state)
{
	struct td_pool_again f = queued(T);
	f.past = td_pool_again(&f).past;
	struct td_pool_again_plan p = td_pool_again(&f);
	assert_int_equal(p.what, TD_AGAIN_BEGIN);
	assert_int_equal(p.past.row, 1);
	assert_int_equal(p.past.begin_s, T + 15);
	f.begin_s = p.past.begin_s; // it was done
	p = td_pool_again(&f);
	assert_int_equal(p.what, TD_AGAIN_LEAVE);
	assert_int_equal(p.past.row, 1);
}

static void people_are_told(void **state)
{
	struct td_pool_again f = queued(1790000000);
	struct td_pool_again_past past = td_pool_again(&f).past;
	td_auto_free char *one = td_pool_again_words(&past, T);
	assert_string_equal(
		one, "It was queued again at 14:13:20 UTC, and begins 15 s later instead of Slurm's two minutes.");
	assert_null(td_pool_again_words(&past, T + 500)); // another run's
	assert_null(td_pool_again_words(&(struct td_pool_again_past){0}, T));
	past.row = 2;
	td_auto_free char *more = td_pool_again_words(&past, T);
	assert_non_null(strstr(more, "it was queued again 2 times in a row."));
	past.row = 4;
	td_auto_free char *most = td_pool_again_words(&past, T);
	assert_non_null(strstr(most, "begins after Slurm's two minutes: it was queued again 3 times in a row"));
	for (int i = TD_AGAIN_LEAVE; i <= TD_AGAIN_BEGIN; i++)
		assert_string_not_equal(td_pool_again_name((enum td_pool_again_do)i), "?");
}

static void whom_it_made_room_for_is_read_with_a_time_and_without(void **state)
{
	const struct td_pool_leave now = {.waiter = 30}, later = {.waiter = 31, .at_s = T, .restarts = 0};
	td_auto_free char *a = td_pool_leave_write(&now, "n0", "4 gpu", "of the site's");
	assert_int_equal(td_pool_leave_for(a), 30);
	td_auto_free char *b = td_pool_leave_write(&later, "n0", "4 gpu (its slice is over)", a);
	assert_int_equal(td_pool_leave_for(b), 31);
	assert_int_equal(td_pool_leave_for("of the site's"), 0);
	assert_int_equal(td_pool_leave_for(NULL), 0);
	assert_int_equal(td_pool_leave_for("tandem: moved off n0 tandem: x, so that job 7 has room"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slurms_own_pause_is_brought_forward),
		cmocka_unit_test(any_other_begin_is_somebodys_wish),
		cmocka_unit_test(what_is_no_batch_job_that_waits_is_left_alone),
		cmocka_unit_test(what_is_held_stays_held_and_is_looked_at_again),
		cmocka_unit_test(what_kill_wait_makes_as_long_as_slurms_pause_is_left),
		cmocka_unit_test(the_pause_grows_while_it_is_queued_again_soon),
		cmocka_unit_test(a_lost_answer_does_not_count_twice),
		cmocka_unit_test(people_are_told),
		cmocka_unit_test(whom_it_made_room_for_is_read_with_a_time_and_without),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
