// rows: D6.4 D6.5
// What is done next for a data set on a node.
#include "pool/dataset.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static enum td_data_act next(struct td_pool_data f)
{
	int turns = 1;
	return td_pool_data_next(&f, &turns);
}
#define NEXT(...) next((struct td_pool_data){.ready = true, __VA_ARGS__})

static void the_mark_comes_before_the_disk_is_touched(void **state)
{
	assert_int_equal(NEXT(.want = "a"), TD_DATA_MARK_FETCHING);
	assert_int_equal(NEXT(.want = "a", .mark = "fetching"), TD_DATA_START);
	assert_int_equal(NEXT(.want = "a", .mark = "fetching", .pod = TD_DATA_POD_RUNS, .pod_for = "a"),
			 TD_DATA_NOTHING);
	assert_int_equal(NEXT(.want = "a", .mark = "fetching", .pod = TD_DATA_POD_DONE, .pod_for = "a"),
			 TD_DATA_MARK_HELD);
	assert_int_equal(NEXT(.want = "a", .mark = "a", .pod = TD_DATA_POD_DONE, .pod_for = "a"), TD_DATA_END_POD);
	assert_int_equal(NEXT(.want = "a", .mark = "a"), TD_DATA_NOTHING);
	assert_int_equal(NEXT(), TD_DATA_NOTHING);
}

static void a_copy_goes_only_from_a_node_without_jobs_and_the_feature_goes_first(void **state)
{
	const char *const wants[] = {NULL, "b"};
	for (size_t i = 0; i < TD_LEN(wants); i++) {
		assert_int_equal(NEXT(.want = wants[i], .mark = "a", .free = true), TD_DATA_MARK_GONE);
		assert_int_equal(NEXT(.want = wants[i], .mark = "gone"), TD_DATA_NOTHING);
		assert_int_equal(NEXT(.want = wants[i], .mark = "gone", .free = true), TD_DATA_REMOVE);
		assert_int_equal(NEXT(.want = wants[i], .mark = "gone", .pod = TD_DATA_POD_DONE, .pod_for = ""),
				 TD_DATA_UNMARK);
		// A removal that is wanted no more goes on to its end all the same.
		assert_int_equal(NEXT(.want = wants[i], .mark = "gone", .pod = TD_DATA_POD_RUNS, .pod_for = ""),
				 TD_DATA_NOTHING);
	}
	assert_int_equal(NEXT(.mark = NULL, .pod = TD_DATA_POD_DONE, .pod_for = ""), TD_DATA_END_POD);
	assert_int_equal(NEXT(.mark = "fetching"), TD_DATA_MARK_GONE); // there may be a part
}

static void another_source_ends_the_fetching_of_the_first(void **state)
{
	assert_int_equal(NEXT(.want = "b", .mark = "fetching", .pod = TD_DATA_POD_RUNS, .pod_for = "a"),
			 TD_DATA_END_POD);
	assert_int_equal(NEXT(.want = "b", .mark = "fetching", .pod = TD_DATA_POD_DONE, .pod_for = "a"),
			 TD_DATA_END_POD);
	assert_int_equal(NEXT(.mark = "fetching", .pod = TD_DATA_POD_RUNS, .pod_for = "a"), TD_DATA_END_POD);
}

static void a_failure_is_tried_again_and_a_wrong_source_seldom(void **state)
{
	struct td_pool_data f = {
		.want = "a", .mark = "fetching", .pod = TD_DATA_POD_FAILED, .pod_for = "a", .ready = true};
	f.ended_ms = TD_DATA_AGAIN_MS - 1;
	assert_int_equal(next(f), TD_DATA_NOTHING);
	f.ended_ms++;
	assert_int_equal(next(f), TD_DATA_END_POD);
	f.pod = TD_DATA_POD_WRONG;
	assert_int_equal(next(f), TD_DATA_NOTHING);
	f.want = "b";
	assert_int_equal(next(f), TD_DATA_END_POD);
	f.want = "a";
	f.ended_ms = TD_DATA_WRONG_MS;
	assert_int_equal(next(f), TD_DATA_END_POD);
}

static void no_more_start_than_may(void **state)
{
	int turns = 2, started = 0;
	for (int i = 0; i < 100; i++) {
		const struct td_pool_data f = {.want = "a", .mark = "fetching", .ready = i != 0};
		started += td_pool_data_next(&f, &turns) == TD_DATA_START;
	}
	assert_int_equal(started, 2);
	assert_int_equal(turns, 0);
}

static void a_machine_that_started_anew_is_looked_at_again(void **state)
{
	assert_int_equal(NEXT(.want = "a", .mark = "a", .verify = true), TD_DATA_MARK_FETCHING);
}

// Whatever happens on the way (a crash between any two acts, a pod that fails, a source that changes), a node comes
// to hold what is wanted, and a copy is never touched while jobs may use it.
static void every_way_leads_there(void **state)
{
	static const char *const prints[] = {NULL, "a", "b"};
	unsigned seed = 1;
	for (int run = 0; run < 3000; run++) {
		const char *mark = NULL, *disk = NULL;
		char pod_for[8] = "";
		enum td_data_pod pod = TD_DATA_POD_NONE;
		const char *want = NULL;
		for (int step = 0; step < 60; step++) {
			seed = seed * 1103515245u + 12345u;
			unsigned dice = seed >> 16;
			bool calm = step >= 30; // nothing goes wrong any more
			if (!calm && dice % 5 == 0)
				want = prints[dice / 5 % 3];
			if (pod == TD_DATA_POD_RUNS) {
				// It works on the disk, and ends in one way or another.
				assert_false(td_pool_data_held(mark));
				bool well = calm || dice % 3;
				disk = !*pod_for ? (well ? NULL : disk) : !well ? "part" : *pod_for == 'a' ? "a" : "b";
				pod = well ? TD_DATA_POD_DONE : TD_DATA_POD_FAILED;
			}
			bool held = td_pool_data_held(mark);
			if (held)
				assert_string_equal(mark, disk);
			int turns = 1;
			const struct td_pool_data f = {.want = want,
						       .mark = mark,
						       .pod = pod,
						       .pod_for = pod_for,
						       .ended_ms = TD_DATA_AGAIN_MS,
						       .ready = true,
						       .free = !held};
			switch (td_pool_data_next(&f, &turns)) {
			case TD_DATA_NOTHING:
				break;
			case TD_DATA_MARK_FETCHING:
				mark = TD_DATA_FETCHING;
				break;
			case TD_DATA_MARK_HELD:
				mark = want;
				break;
			case TD_DATA_MARK_GONE:
				mark = TD_DATA_GONE;
				break;
			case TD_DATA_UNMARK:
				assert_null(disk);
				mark = NULL;
				break;
			case TD_DATA_START:
				pod = TD_DATA_POD_RUNS;
				snprintf(pod_for, sizeof(pod_for), "%s", want);
				break;
			case TD_DATA_REMOVE:
				pod = TD_DATA_POD_RUNS;
				*pod_for = '\0';
				break;
			case TD_DATA_END_POD:
				pod = TD_DATA_POD_NONE;
				break;
			}
		}
		assert_true(want ? mark && disk && !strcmp(mark, want) && !strcmp(disk, want) : !mark && !disk);
		assert_int_equal(pod, TD_DATA_POD_NONE);
	}
}

static void a_constraint_is_joined_with_what_the_job_says(void **state)
{
	td_auto_strv struct td_strv names = {0};
	struct td_error err = TD_ERROR_INIT;
	static const char *const cases[][2] = {{NULL, "data.a&data.b"},
					       {"h100&big", "h100&big&data.a&data.b"},
					       {"h100|a100", "(h100|a100)&data.a&data.b"}};
	td_strv_add(&names, "a");
	td_strv_add(&names, "b");
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		td_auto_free char *s = NULL;
		assert_int_equal(td_pool_data_constraint(cases[i][0], &names, &s, &err), 0);
		assert_string_equal(s, cases[i][1]);
	}
	char *none = NULL;
	assert_int_equal(td_pool_data_constraint("[r0|r1]", &names, &none, &err), TD_INVALID);
	assert_int_equal(td_pool_data_constraint("a*2&b", &names, &none, &err), TD_INVALID);
	assert_null(none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_mark_comes_before_the_disk_is_touched),
		cmocka_unit_test(a_copy_goes_only_from_a_node_without_jobs_and_the_feature_goes_first),
		cmocka_unit_test(another_source_ends_the_fetching_of_the_first),
		cmocka_unit_test(a_failure_is_tried_again_and_a_wrong_source_seldom),
		cmocka_unit_test(no_more_start_than_may),
		cmocka_unit_test(a_machine_that_started_anew_is_looked_at_again),
		cmocka_unit_test(a_constraint_is_joined_with_what_the_job_says),
		cmocka_unit_test(every_way_leads_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
