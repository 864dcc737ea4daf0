// rows: C4.1 C4.3
// What is left of a job's time when it is queued again.
#include "pool/slice.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define RUN(submit, elapsed, limit) {.submit_s = (submit), .elapsed_s = (elapsed), .limit_min = (limit), .ended = true}

static void a_job_that_was_never_queued_again_is_left_alone(void **state)
{
	const struct td_pool_slice_run runs[] = {{.submit_s = 100, .elapsed_s = 50, .limit_min = 60}};
	struct td_pool_slice f = {.limit_min = 60, .runs = runs, .n_runs = 1};
	assert_int_equal(td_pool_slice(&f).what, TD_SLICE_LEAVE);
	f.restarts = 1;
	f.limit_min = 0; // no limit
	assert_int_equal(td_pool_slice(&f).what, TD_SLICE_LEAVE);
}

static void used_time_adds_up(void **state)
{
	const struct td_pool_slice_run runs[] = {RUN(100, 1200, 60), {.submit_s = 2000, .limit_min = 60}};
	struct td_pool_slice f = {.restarts = 1, .limit_min = 60, .runs = runs, .n_runs = 2};
	struct td_pool_slice_plan p = td_pool_slice(&f);
	assert_int_equal(p.what, TD_SLICE_WRITE);
	assert_int_equal(p.limit_min, 40);
	assert_false(p.last);
	assert_int_equal(p.mark.used_s, 1200);
	assert_int_equal(p.mark.left_s, 2400);

	// Once for each restart, whoever changes the limit afterwards.
	f.mark = p.mark;
	f.limit_min = 90;
	assert_int_equal(td_pool_slice(&f).what, TD_SLICE_LEAVE);

	// The next run had those 90 minutes. Full minutes are to the good of the job.
	const struct td_pool_slice_run next[] = {RUN(100, 1200, 60), RUN(2000, 601, 90), {.submit_s = 9000}};
	f.restarts = 2;
	f.runs = next;
	f.n_runs = 3;
	p = td_pool_slice(&f);
	assert_int_equal(p.what, TD_SLICE_WRITE);
	assert_int_equal(p.limit_min, 80);
	assert_int_equal(p.mark.used_s, 1801);
	assert_int_equal(p.mark.runs, 2);
	assert_int_equal(p.mark.left_s, 4799);
}

static void several_restarts_are_counted_at_once(void **state)
{
	// The bridge was away, or the QOS got its totalTime later. In any order.
	const struct td_pool_slice_run runs[] = {RUN(300, 600, 60), RUN(100, 600, 60), RUN(200, 600, 60)};
	const struct td_pool_slice f = {.restarts = 3, .limit_min = 60, .runs = runs, .n_runs = 3};
	assert_int_equal(td_pool_slice(&f).limit_min, 30);
}

static void a_lost_mark_takes_nothing_off_twice(void **state)
{
	// Of 60 minutes 20 were taken off before; somebody has written another admin comment.
	const struct td_pool_slice_run runs[] = {RUN(100, 1200, 60), RUN(200, 600, 40)};
	const struct td_pool_slice f = {.restarts = 2, .limit_min = 40, .runs = runs, .n_runs = 2};
	assert_int_equal(td_pool_slice(&f).limit_min, 30);
}

static void a_record_may_come_late_or_be_lost(void **state)
{
	const struct td_pool_slice_run runs[] = {RUN(100, 1200, 60), {.submit_s = 200, .limit_min = 60}};
	struct td_pool_slice f = {.restarts = 2, .limit_min = 60, .runs = runs, .n_runs = 2};
	assert_int_equal(td_pool_slice(&f).what, TD_SLICE_WAIT);
	f.since_ms = 59999;
	assert_int_equal(td_pool_slice(&f).what, TD_SLICE_WAIT);
	f.since_ms = 60000;
	struct td_pool_slice_plan p = td_pool_slice(&f);
	assert_int_equal(p.what, TD_SLICE_WRITE);
	assert_int_equal(p.limit_min, 40);
	assert_int_equal(p.mark.runs, 2);
	f.n_runs = 0; // all of them
	p = td_pool_slice(&f);
	assert_int_equal(p.what, TD_SLICE_WRITE);
	assert_int_equal(p.limit_min, 60);
}

static void an_older_job_with_the_same_id_does_not_count(void **state)
{
	const struct td_pool_slice_run runs[] = {RUN(10, 3000, 600), RUN(100, 600, 60)};
	const struct td_pool_slice f = {.restarts = 1, .limit_min = 60, .runs = runs, .n_runs = 2};
	assert_int_equal(td_pool_slice(&f).limit_min, 50);
}

static void who_has_used_it_up_has_one_last_minute(void **state)
{
	struct td_pool_slice_run runs[] = {RUN(100, 3590, 60)};
	struct td_pool_slice f = {.restarts = 1, .limit_min = 60, .runs = runs, .n_runs = 1};
	struct td_pool_slice_plan p = td_pool_slice(&f);
	assert_int_equal(p.limit_min, 1);
	assert_false(p.last); // ten seconds are left
	assert_int_equal(p.mark.left_s, 10);
	runs[0].elapsed_s = 3600;
	p = td_pool_slice(&f);
	assert_true(p.last);
	assert_int_equal(p.limit_min, 1);
	assert_int_equal(p.mark.left_s, 0);
	runs[0].elapsed_s = 99999; // Slurm's OverTimeLimit lets it
	assert_true(td_pool_slice(&f).last);
}

static void rounding_adds_up_to_nothing(void **state)
{
	// Preempted every 25 seconds: the third run is the last.
	const struct td_pool_slice_run runs[] = {RUN(100, 25, 1), RUN(200, 25, 1), RUN(300, 25, 1)};
	struct td_pool_slice f = {.limit_min = 1, .runs = runs};
	const int64_t left[] = {35, 10, 0};
	for (int i = 0; i < 3; i++) {
		f.restarts++;
		f.n_runs++;
		struct td_pool_slice_plan p = td_pool_slice(&f);
		assert_int_equal(p.mark.left_s, left[i]);
		assert_int_equal(p.last, i == 2);
		assert_int_equal(p.limit_min, 1);
		f.mark = p.mark;
	}
}

static void somebody_who_lowered_it_is_not_overruled(void **state)
{
	const struct td_pool_slice_run runs[] = {RUN(100, 60, 600)};
	const struct td_pool_slice f = {.restarts = 1, .limit_min = 10, .runs = runs, .n_runs = 1};
	assert_int_equal(td_pool_slice(&f).limit_min, 10);
}

static void comment_is(const char *was, const struct td_pool_slice_mark *m, const char *want)
{
	td_auto_free char *text = td_pool_slice_write(m, was);
	assert_string_equal(text, want);
	struct td_pool_slice_mark back = td_pool_slice_read(text);
	assert_true(back.is && back.used_s == m->used_s && back.runs == m->runs && back.left_s == m->left_s);
}

static void the_mark_stands_beside_what_others_have_written(void **state)
{
	const struct td_pool_slice_mark m = {true, 1200, 1, 2400};
	comment_is(NULL, &m, "tandem: used 1200 s in 1 runs, 2400 s left;");
	comment_is("", &m, "tandem: used 1200 s in 1 runs, 2400 s left;");
	comment_is("mine", &m, "tandem: used 1200 s in 1 runs, 2400 s left; mine");
	comment_is("tandem: used 3 s in 4 runs, 5 s left; mine", &m,
		   "tandem: used 1200 s in 1 runs, 2400 s left; mine");
	comment_is("mine tandem: used 3 s in 4 runs, 5 s left;", &m,
		   "tandem: used 1200 s in 1 runs, 2400 s left; mine ");
	comment_is("tandem: used nothing", &m, "tandem: used 1200 s in 1 runs, 2400 s left; tandem: used nothing");
	assert_false(td_pool_slice_read("tandem: used -1 s in 4 runs, 5 s left;").is);
	assert_false(td_pool_slice_read("tandem: used 99999999999999999999 s in 4 runs, 5 s left;").is);
	assert_false(td_pool_slice_read(NULL).is);
}

static void words(void **state)
{
	td_auto_free char *none = td_pool_slice_words("mine"),
			  *some = td_pool_slice_words("tandem: used 3660 s in 2 runs, 59 s left;"),
			  *last = td_pool_slice_words("tandem: used 120 s in 1 runs, 0 s left;");
	assert_null(none);
	assert_string_equal(
		some, "Its time counts over all its runs: it has used 1 h 1 min in 2 runs, and had 59 s left then.");
	assert_string_equal(last,
			    "Its time counts over all its runs: it has used 2 min in 1 run, and has one last minute.");
}

static struct td_pool_slice_turn turn(int64_t limit_min, size_t n, const struct td_pool_slice_pod *v)
{
	return td_pool_slice_turn(limit_min, v, n);
}

// Pods of one Job, one after the other.
static void the_next_pod_has_what_is_left(void **state)
{
	const struct td_pool_slice_pod v[] = {{1000, 1130}, {2000, 2200}, {0, 1}};
	struct td_pool_slice_turn t = turn(10, 3, v);
	assert_int_equal(t.pods, 2);
	assert_int_equal(t.used_s, 330);
	assert_int_equal(t.left_s, 270);
	assert_int_equal(t.limit_min,
			 5); // whole minutes; what was used is known to the second, so it adds up to nothing
	td_auto_free char *gang = td_pool_slice_turn_words(&t, NULL);
	assert_non_null(strstr(gang, "Its time counts over all runs of its gang: 2 before it ran for "));
	td_auto_free char *some = td_pool_slice_turn_words(&t, "Job train");
	assert_string_equal(
		some, "Its time counts over all pods of Job train: 2 before it ran for 5 min, and 4 min are left.");
	t = turn(5, 3, v);
	assert_int_equal(t.left_s, 0);
	assert_int_equal(t.limit_min, 0);
	td_auto_free char *none = td_pool_slice_turn_words(&t, "Job train");
	assert_string_equal(
		none, "Its time counts over all pods of Job train: 2 before it ran for 5 min, and nothing is left.");

	t = turn(10, 0, v); // the first
	assert_int_equal(t.pods, 0);
	assert_int_equal(t.limit_min, 10);
	assert_null(td_pool_slice_turn_words(&t, "Job train"));
	t = turn(0, 3, v); // it has no limit
	assert_int_equal(t.pods, 0);

	// Who was preempted together with others: the time that they ran side by side counts once.
	const struct td_pool_slice_pod many[] = {{1060, 1130}, {1000, 1100}, {1010, 1020}, {2000, 2030}};
	assert_int_equal(turn(10, 4, many).used_s, 160);
	assert_int_equal(turn(10, 4, many).pods, 4);

	// Another one runs beside it: nobody knows whom this one follows.
	const struct td_pool_slice_pod beside[] = {{1000, 1130}, {2000, 0}};
	assert_int_equal(turn(10, 2, beside).pods, 0);
	assert_int_equal(turn(10, 2, beside).limit_min, 10);
	assert_int_equal(turn(10, 1, beside).limit_min, 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_that_was_never_queued_again_is_left_alone),
		cmocka_unit_test(used_time_adds_up),
		cmocka_unit_test(several_restarts_are_counted_at_once),
		cmocka_unit_test(a_lost_mark_takes_nothing_off_twice),
		cmocka_unit_test(a_record_may_come_late_or_be_lost),
		cmocka_unit_test(an_older_job_with_the_same_id_does_not_count),
		cmocka_unit_test(who_has_used_it_up_has_one_last_minute),
		cmocka_unit_test(rounding_adds_up_to_nothing),
		cmocka_unit_test(somebody_who_lowered_it_is_not_overruled),
		cmocka_unit_test(the_mark_stands_beside_what_others_have_written),
		cmocka_unit_test(the_next_pod_has_what_is_left),
		cmocka_unit_test(words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
