// rows: B6.3 B6.4
// What a pod says of its steps in its log, and when its agent says it on the pod.
#include "pool/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_line_is_a_beat_or_none(void **state)
{
	static const struct {
		const char *line;
		bool beat;
		int64_t step, us;
	} t[] = {
		{"tandem-beat", true, -1, -1},
		{"tandem-beat 12", true, 12, -1},
		{"tandem-beat 12 0.482", true, 12, 482000},
		{"tandem-beat 12 0.0000019\r", true, 12, 1},
		{"tandem-beat 999999999999999 1000000", true, 999999999999999, 1000000000000},
		{"tandem-beat 0 3", true, 0, 3000000},
		{"tandem-beat 12 1000001", true, 12, -1},
		{"tandem-beat 12 -1", true, 12, -1},
		{"tandem-beat 12 nan", true, 12, -1},
		{"tandem-beat 12 1e3", true, 12, -1},
		{"tandem-beat 12 .5", true, 12, -1},
		{"tandem-beat 12 1.", true, 12, -1},
		{"tandem-beat 12 0.5 n1", true, 12, -1},
		{"tandem-beat 9999999999999999 1", true, -1, -1},
		{"tandem-beat -1 1", true, -1, -1},
		{"tandem-beat  1", true, -1, -1},
		{"tandem-beats 12 1", false, 0, 0},
		{"GET /?tandem-beat 12 1", false, 0, 0},
		{" tandem-beat 12 1", false, 0, 0},
		{"tandem-bea", false, 0, 0},
		{"", false, 0, 0},
	};
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct td_pool_beat b;
		size_t n = strlen(t[i].line);
		char *line = malloc(n + !n); // without a NUL
		memcpy(line, t[i].line, n);
		bool beat = td_pool_beat(line, n, &b);
		free(line);
		if (beat != t[i].beat || (beat && (b.step != t[i].step || b.us != t[i].us)))
			fail_msg("\"%s\": beat %d, step %lld, %lld us", t[i].line, beat, (long long)b.step,
				 (long long)b.us);
	}
}

#define T "2026-01-02T15:04:05.000000000Z "
static void only_whole_lines_of_a_log_count(void **state)
{
	struct td_pool_beats s = {0};
	const char *text =
		T "stdout F step 1\n" T "stdout F tandem-beat 1 0.5\n" T "stderr F tandem-beat 2 0.5\n" T
		  "stdout P tandem-beat 3 0.5\n" T "stdout F tandem-beat 4 0.5\n" T "stderr P a long line\n" T
		  "stdout F tandem-beat 5 0.5\n" T "stderr F tandem-beat 6 0.5\n" T "stdxxx F tandem-beat 7\n"
		  "tandem-beat 8\n\nstdout F tandem-beat 9\n" T "stdout Ftandem-beat 9\n" T "stdout F \n" T
		  "stdout F\n" T "stdout F tandem-beat 10 0.";
	size_t taken = td_pool_beats_read(&s, text, strlen(text), 10);
	assert_int_equal(taken, strrchr(text, '\n') - text + 1);
	assert_int_equal(s.n, 3); // 1, 2 and 5: the others are parts of a line, or no lines of a log
	assert_int_equal(s.last, 5);
}

static void go(struct td_pool_beats *s, int64_t from, int64_t to, int64_t by, int64_t us)
{
	for (int64_t i = from; i <= to; i += by)
		td_pool_beats_add(s, &(struct td_pool_beat){i, us}, 10);
}

static void the_shortest_of_a_window_is_the_pace(void **state)
{
	struct td_pool_beats s = {0};
	go(&s, 0, 9, 1, 500000);
	assert_int_equal(s.pace_us, 0); // it has not ended
	go(&s, 10, 14, 1, 900000);
	assert_int_equal(s.pace_us, 500000);
	assert_int_equal(s.pace_step, 9);
	go(&s, 15, 15, 1, 700000);
	go(&s, 16, 20, 1, 900000);
	assert_int_equal(s.pace_us, 700000);
	td_pool_beats_add(&s, &(struct td_pool_beat){-1, -1}, 10); // it is alive
	assert_int_equal(s.last, 20);
	assert_int_equal(s.n, 22);
	go(&s, 3, 3, 1, 1); // again from a checkpoint
	assert_int_equal(s.pace_us, 0);
}

// Windows lie at the same steps, so that a change of all pods is one of all of them at once.
static void windows_are_the_same_in_every_pod(void **state)
{
	struct td_pool_beats a = {0}, b = {0};
	go(&a, 0, 28, 1, 100000);
	go(&b, 23, 28, 1, 100000); // its agent began to read later
	go(&a, 29, 30, 1, 100000);
	go(&b, 29, 30, 1, 100000);
	assert_int_equal(a.pace_step, 29);
	assert_int_equal(b.pace_step, 29);
	struct td_pool_beats c = {0}, d = {0};
	go(&c, 0, 1000, 100, 100000); // every hundredth
	go(&d, 26, 30, 1, 100000);    // less than half of a window tells nothing
	assert_int_equal(c.pace_us, 100000);
	assert_int_equal(c.pace_step, 900);
	assert_int_equal(d.pace_us, 0);
}

static void what_changes_is_said_and_flapping_is_not(void **state)
{
	struct td_pool_pace_said s = {0};
	assert_int_equal(td_pool_pace_next(&s, 0, 5), TD_PACE_NOTHING);
	assert_int_equal(td_pool_pace_next(&s, 100000, 5), TD_PACE_SAY);
	td_pool_pace_done(&s, 100000, 5);
	assert_int_equal(td_pool_pace_next(&s, 109999, 6), TD_PACE_NOTHING);
	assert_int_equal(td_pool_pace_next(&s, 91000, 6), TD_PACE_NOTHING);
	assert_int_equal(td_pool_pace_next(&s, 110000, 6), TD_PACE_SAY);
	int said = 0, unsteady = 0;
	for (int64_t ms = 0; ms < 3600000; ms += 1000) { // it changes every second
		int64_t us = ms % 2000 ? 100000 : 200000;
		enum td_pool_pace_do what = td_pool_pace_next(&s, us, ms);
		said += what == TD_PACE_SAY;
		unsteady += what == TD_PACE_UNSTEADY;
		if (what)
			td_pool_pace_done(&s, what == TD_PACE_SAY ? us : -1, ms);
	}
	assert_in_range(said, 25, 30);
	assert_int_equal(unsteady, 6); // once in ten minutes
	assert_int_equal(s.us, -1);    // so nobody takes an old word for the present one
	assert_int_equal(td_pool_pace_next(&s, 100000, 3600000 + TD_PACE_MS), TD_PACE_SAY);
	struct td_pool_pace_said short_one = {.us = 1000};
	assert_int_equal(td_pool_pace_next(&short_one, 1400, 0), TD_PACE_NOTHING); // noise
}

int main(void)
{
	const struct CMUnitTest t[] = {
		cmocka_unit_test(a_line_is_a_beat_or_none),
		cmocka_unit_test(only_whole_lines_of_a_log_count),
		cmocka_unit_test(the_shortest_of_a_window_is_the_pace),
		cmocka_unit_test(windows_are_the_same_in_every_pod),
		cmocka_unit_test(what_changes_is_said_and_flapping_is_not),
	};
	return cmocka_run_group_tests(t, NULL, NULL);
}
