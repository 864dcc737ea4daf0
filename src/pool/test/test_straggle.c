// rows: B6.4
// Which rank is slower than the others, as tables: a line is one look, a cell what a rank computed, in ms.
#include "pool/straggle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 6, NONE = -1, GONE = -1 };
struct look {
	int step;     // of all ranks
	int ms[MOST]; // GONE: it says nothing
	int told;     // the rank that is told of; NONE
};

static void go(int percent, int steps, int ranks, const struct look *v, size_t n)
{
	struct td_pool_straggle *state = calloc(1, sizeof(*state));
	const struct td_pool_straggle_rule r = {percent, steps};
	for (size_t i = 0; i < n; i++) {
		struct td_pool_pace p[MOST];
		struct td_pool_straggler who;
		size_t k = 0;
		for (int rank = 0; rank < ranks; rank++)
			if (v[i].ms[rank] != GONE)
				p[k++] = (struct td_pool_pace){rank, v[i].step, (int64_t)v[i].ms[rank] * 1000, -1, "n"};
		int told = td_pool_straggle(&r, state->rank, p, k, &who) ? who.pace.rank : NONE;
		if (told != v[i].told)
			fail_msg("look %zu: rank %d is told of, not %d", i, told, v[i].told);
	}
	free(state);
}
#define GO(percent, steps, ranks, ...)                                                                                 \
	do {                                                                                                           \
		const struct look v_[] = {__VA_ARGS__};                                                                \
		go(percent, steps, ranks, v_, sizeof(v_) / sizeof(v_[0]));                                             \
	} while (0)

static void slow_from_the_start(void **state)
{
	GO(150, 3, 4, {0, {10, 10, 30, 11}, NONE}, {1, {10, 11, 29, 10}, NONE}, {2, {11, 10, 31, 10}, 2},
	   {3, {10, 10, 30, 10}, NONE}, {9, {10, 10, 30, 10}, NONE});
}

static void noise_and_one_slow_step_are_none(void **state)
{
	GO(150, 3, 4, {0, {10, 12, 9, 14}, NONE}, {1, {14, 9, 10, 10}, NONE}, {2, {10, 90, 10, 10}, NONE},
	   {3, {10, 90, 10, 10}, NONE}, {4, {10, 10, 10, 10}, NONE}, {5, {10, 90, 10, 10}, NONE},
	   {6, {10, 90, 10, 10}, NONE}, {7, {10, 14, 10, 10}, NONE}, {8, {10, 90, 10, 10}, NONE});
}

static void all_slow_or_most_slow_is_none(void **state)
{
	GO(150, 2, 4, {0, {10, 10, 10, 10}, NONE}, {1, {90, 91, 90, 89}, NONE}, {2, {90, 91, 90, 89}, NONE},
	   {3, {90, 91, 90, 89}, NONE});
	GO(150, 2, 3, {0, {10, 90, 90}, NONE}, {1, {10, 90, 90}, NONE}, {2, {10, 90, 90}, NONE});
}

static void of_several_the_slowest_comes_first(void **state)
{
	GO(150, 2, 4, {0, {10, 40, 10, 60}, NONE}, {1, {10, 40, 10, 60}, 3}, {2, {10, 40, 10, 60}, 1},
	   {3, {10, 40, 10, 60}, NONE});
}

static void a_slow_rank_that_moves_is_none(void **state)
{
	GO(150, 2, 3, {0, {90, 10, 10}, NONE}, {1, {10, 90, 10}, NONE}, {2, {10, 10, 90}, NONE},
	   {3, {90, 10, 10}, NONE}, {4, {10, 90, 10}, NONE});
}

static void of_two_nobody_knows(void **state)
{
	GO(150, 2, 2, {0, {10, 90}, NONE}, {1, {10, 90}, NONE}, {2, {10, 90}, NONE});
	GO(150, 2, 3, {0, {10, 90, GONE}, NONE}, {1, {GONE, 90, 10}, NONE}, {2, {10, 90, GONE}, NONE},
	   {3, {10, 90, 10}, NONE}, {4, {10, 90, 10}, 1});
}

static void a_rank_that_is_missing_at_times_is_found(void **state)
{
	GO(150, 2, 4, {0, {10, 90, 10, GONE}, NONE}, {1, {10, GONE, 10, 10}, NONE}, {2, {GONE, 90, 10, 10}, 1});
}

static void a_step_counts_once(void **state)
{
	GO(150, 2, 3, {7, {10, 90, 10}, NONE}, {7, {10, 90, 10}, NONE}, {7, {10, 90, 10}, NONE}, {8, {10, 90, 10}, 1});
}

static void who_goes_back_to_a_checkpoint_begins_anew(void **state)
{
	GO(150, 3, 3, {7, {10, 90, 10}, NONE}, {8, {10, 90, 10}, NONE}, {2, {10, 90, 10}, NONE},
	   {3, {10, 90, 10}, NONE}, {4, {10, 90, 10}, 1});
}

static void who_was_well_can_be_told_of_again(void **state)
{
	// Between 125 and 150 percent nothing changes: who is at the border is told of once.
	GO(150, 2, 3, {0, {10, 20, 10}, NONE}, {1, {10, 20, 10}, 1}, {2, {10, 14, 10}, NONE}, {3, {10, 14, 10}, NONE},
	   {4, {10, 20, 10}, NONE}, {5, {10, 20, 10}, NONE}, {6, {10, 12, 10}, NONE}, {7, {10, 12, 10}, NONE},
	   {8, {10, 20, 10}, NONE}, {9, {10, 20, 10}, 1});
}

static void what_is_less_than_noise_is_none(void **state)
{
	GO(150, 2, 3, {0, {0, 0, 0}, NONE}, {1, {0, 0, 0}, NONE}, {2, {0, 0, 0}, NONE});
	struct td_pool_straggle *s = calloc(1, sizeof(*s));
	for (int step = 0; step < 9; step++) {
		const struct td_pool_pace v[] = {
			{0, step, 100, -1, "n"}, {1, step, 590, -1, "n"}, {2, step, 100, -1, "n"}};
		struct td_pool_straggler who;
		assert_false(td_pool_straggle(&(struct td_pool_straggle_rule){150, 2}, s->rank, v, 3, &who));
	}
	free(s);
}

// The files of an earlier, larger run lie there still; ranks that do not go step by step are compared with nobody.
static void who_is_at_another_step_does_not_count(void **state)
{
	struct td_pool_straggle *s = calloc(1, sizeof(*s));
	struct td_pool_straggler who;
	const struct td_pool_straggle_rule r = {150, 2};
	for (int step = 10; step < 12; step++) {
		const struct td_pool_pace v[] = {{0, step, 10000, -1, "n0"},    {1, step + 1, 11000, -1, "n0"},
						 {2, step - 1, 50000, 4, "n1"}, {3, step, 10000, -1, "n1"},
						 {4, 999, 90000, -1, "n2"},     {TD_STRAGGLE_RANKS, step, 1, -1, "n2"},
						 {-1, step, 1, -1, "n2"}};
		assert_int_equal(td_pool_straggle(&r, s->rank, v, sizeof(v) / sizeof(v[0]), &who), step == 11);
	}
	assert_int_equal(who.pace.rank, 2);
	assert_int_equal(who.ranks, 4);
	assert_int_equal(who.median_us, 10000);
	char text[256];
	td_pool_straggle_words(&who, text, sizeof(text));
	assert_string_equal(text,
			    "rank 2 on n1 (gpu4) computes 5.0 times as long as the others (step 10: 0.05 s, median "
			    "of 4 ranks 0.01 s)");
	for (int step = 20; step < 30; step++) { // each on its own
		const struct td_pool_pace v[] = {
			{0, step, 10000, -1, "n0"}, {1, step * 2, 90000, -1, "n0"}, {2, step * 3, 10000, -1, "n1"}};
		assert_false(td_pool_straggle(&r, s->rank, v, 3, &who));
	}
	free(s);
}

static void a_list_of_ranks_is_read(void **state)
{
	struct td_pool_pace v[4];
	assert_int_equal(td_pool_paces("0:12:1500000:n0:3,11:12:7:gpu-node.a_b:-1", v, 4), 2);
	assert_true(v[0].rank == 0 && v[0].step == 12 && v[0].us == 1500000 && v[0].gpu == 3);
	assert_string_equal(v[1].node, "gpu-node.a_b");
	assert_true(v[1].rank == 11 && v[1].gpu == -1);
	assert_int_equal(td_pool_paces("", v, 4), 0);
	assert_int_equal(
		td_pool_paces(",,0:1:1:n:0,x:1:1:n:0,1:2,4096:1:1:n:0,-1:1:1:n:0,2:1:-5:n:0,3:1:1:n:0x,4:1:1:n m:0", v,
			      4),
		1);
	assert_int_equal(td_pool_paces("1:1:1:n:0,2:1:1:n:0,3:1:1:n:0,4:1:1:n:0,5:1:1:n:0", v, 4), 4);
}

static void by_how_much_gpus_compute(void **state)
{
	static const struct {
		double use[5];
		size_t n;
		int slow; // which; -1: none
	} v[] = {
		{{.9, .9, .3}, 3, 2},       {{.9, .9, .61}, 3, -1}, // 150 %
		{{.9, .6, .9}, 3, 1},       {{.3, .9}, 2, -1},      // of two nobody knows
		{{.1, .1, 0}, 3, -1},                               // nobody works
		{{.9, .2, .2, .9}, 4, -1},                          // half of them
		{{.9, 0, .8, .9, 1}, 5, 1}, {{0, 0, 0}, 3, -1},
	};
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		bool slow[5] = {false};
		td_pool_straggle_use(150, v[i].use, v[i].n, slow);
		for (size_t k = 0; k < v[i].n; k++)
			if (slow[k] != (v[i].slow == (int)k))
				fail_msg("row %zu: %zu", i, k);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_from_the_start),
		cmocka_unit_test(noise_and_one_slow_step_are_none),
		cmocka_unit_test(all_slow_or_most_slow_is_none),
		cmocka_unit_test(of_several_the_slowest_comes_first),
		cmocka_unit_test(a_slow_rank_that_moves_is_none),
		cmocka_unit_test(of_two_nobody_knows),
		cmocka_unit_test(a_rank_that_is_missing_at_times_is_found),
		cmocka_unit_test(a_step_counts_once),
		cmocka_unit_test(who_goes_back_to_a_checkpoint_begins_anew),
		cmocka_unit_test(who_was_well_can_be_told_of_again),
		cmocka_unit_test(what_is_less_than_noise_is_none),
		cmocka_unit_test(who_is_at_another_step_does_not_count),
		cmocka_unit_test(a_list_of_ranks_is_read),
		cmocka_unit_test(by_how_much_gpus_compute),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
