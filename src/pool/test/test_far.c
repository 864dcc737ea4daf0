// rows: D5.4
#include "pool/far.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static enum td_pool_far_do on(struct td_pool_far_pod p, const char *want_why)
{
	const char *why;
	enum td_pool_far_do d = td_pool_far_decide(&p, &why);
	assert_true(want_why ? why && !strcmp(why, want_why) : !why);
	return d;
}

#define RUNS .here = true, .bound = true, .granted = true

static void test_nothing_before_the_grant(void **state)
{
	assert_int_equal(on((struct td_pool_far_pod){.here = true, .room = true}, NULL), TD_FAR_NOTHING);
	assert_int_equal(on((struct td_pool_far_pod){.here = true, .bound = true, .room = true}, NULL), TD_FAR_NOTHING);
	assert_int_equal(on((struct td_pool_far_pod){RUNS, .room = true}, NULL), TD_FAR_MAKE);
	assert_int_equal(on((struct td_pool_far_pod){RUNS}, NULL), TD_FAR_WAIT);
	assert_int_equal(on((struct td_pool_far_pod){RUNS, .room = true, .refused = true}, "NotForOtherCluster"),
			 TD_FAR_FAIL);
}

static void test_one_copy_once(void **state)
{
	assert_int_equal(on((struct td_pool_far_pod){RUNS, .room = true, .there = true}, NULL), TD_FAR_SHOW);
	assert_int_equal(on((struct td_pool_far_pod){RUNS, .made = true, .room = true}, "GoneThere"), TD_FAR_FAIL);
	assert_int_equal(on((struct td_pool_far_pod){RUNS, .begun = true, .room = true}, "LostThere"), TD_FAR_FAIL);
	assert_int_equal(on((struct td_pool_far_pod){RUNS, .begun = true, .there = true}, NULL), TD_FAR_SHOW);
	assert_int_equal(on((struct td_pool_far_pod){RUNS, .made = true, .there = true, .there_leaving = true}, NULL),
			 TD_FAR_SHOW);
	assert_int_equal(
		on((struct td_pool_far_pod){RUNS, .there = true, .pending_ms = TD_FAR_PENDING_MS}, "NoRoomThere"),
		TD_FAR_FAIL);
	assert_int_equal(on((struct td_pool_far_pod){RUNS, .there = true, .pending_ms = 1}, NULL), TD_FAR_SHOW);
}

static void test_ends(void **state)
{
	// Nobody's copy goes, whatever it does.
	assert_int_equal(on((struct td_pool_far_pod){.there = true}, NULL), TD_FAR_END);
	assert_int_equal(on((struct td_pool_far_pod){.there = true, .there_over = true}, NULL), TD_FAR_END);
	assert_int_equal(on((struct td_pool_far_pod){.there = true, .there_leaving = true}, NULL), TD_FAR_NOTHING);
	assert_int_equal(on((struct td_pool_far_pod){0}, NULL), TD_FAR_NOTHING);
	// A pod that is deleted waits for its copy, and goes when that is gone: the grant is held so long.
	assert_int_equal(on((struct td_pool_far_pod){RUNS, .leaving = true, .there = true}, NULL), TD_FAR_END);
	assert_int_equal(
		on((struct td_pool_far_pod){RUNS, .leaving = true, .there = true, .there_leaving = true}, NULL),
		TD_FAR_NOTHING);
	assert_int_equal(on((struct td_pool_far_pod){RUNS, .leaving = true, .made = true}, NULL), TD_FAR_LET_GO);
	assert_int_equal(on((struct td_pool_far_pod){RUNS, .leaving = true, .room = true}, NULL), TD_FAR_LET_GO);
	// Its grant ended: the copy goes, and then the pod has failed. One that has just ended by itself may say so.
	assert_int_equal(on((struct td_pool_far_pod){RUNS, .ended = true, .made = true, .there = true}, NULL),
			 TD_FAR_END);
	assert_int_equal(
		on((struct td_pool_far_pod){RUNS, .ended = true, .made = true, .there = true, .there_leaving = true},
		   NULL),
		TD_FAR_NOTHING);
	assert_int_equal(on((struct td_pool_far_pod){RUNS, .ended = true, .made = true}, "GrantEnded"), TD_FAR_FAIL);
	assert_int_equal(on((struct td_pool_far_pod){RUNS, .ended = true, .there = true, .there_over = true}, NULL),
			 TD_FAR_SHOW);
	assert_int_equal(on((struct td_pool_far_pod){RUNS, .ended = true, .there = true, .there_over = true,
						     .there_leaving = true},
			    "GrantEnded"),
			 TD_FAR_FAIL);
	assert_int_equal(on((struct td_pool_far_pod){RUNS, .ended = true, .room = true}, "GrantEnded"), TD_FAR_FAIL);
	// One that never had a node here is not ours to let go.
	assert_int_equal(on((struct td_pool_far_pod){.here = true, .leaving = true}, NULL), TD_FAR_NOTHING);
	// What has ended stays to be read; what ended here only goes there.
	assert_int_equal(on((struct td_pool_far_pod){RUNS, .over = true, .there = true, .there_over = true}, NULL),
			 TD_FAR_NOTHING);
	assert_int_equal(on((struct td_pool_far_pod){RUNS, .over = true, .there = true}, NULL), TD_FAR_END);
	assert_int_equal(on((struct td_pool_far_pod){RUNS, .over = true, .room = true}, NULL), TD_FAR_NOTHING);
}

// Every state leads somewhere: whatever is there without a pod that may have it is ended, and a copy is made for nobody
// but a pod that has a grant, is not leaving and had none.
static void test_all_states(void **state)
{
	for (unsigned i = 0; i < 1u << 12; i++) {
		const struct td_pool_far_pod p = {.here = i & 1,
						  .bound = i & 2,
						  .granted = i & 4,
						  .leaving = i & 8,
						  .over = i & 16,
						  .made = i & 32,
						  .refused = i & 64,
						  .there = i & 128,
						  .there_leaving = i & 256,
						  .there_over = i & 512,
						  .room = i & 1024,
						  .ended = i & 2048};
		const char *why;
		enum td_pool_far_do d = td_pool_far_decide(&p, &why);
		assert_int_equal(d == TD_FAR_FAIL, why != NULL);
		if (d == TD_FAR_MAKE)
			assert_true(p.here && p.bound && p.granted && p.room && !p.leaving && !p.over && !p.made &&
				    !p.refused && !p.there && !p.ended);
		if (d == TD_FAR_LET_GO)
			assert_true(p.here && p.bound && p.leaving && !p.there);
		if (d == TD_FAR_END)
			assert_true(p.there && !p.there_leaving && (!p.here || p.leaving || p.over || p.ended));
		if (!p.here && p.there && !p.there_leaving)
			assert_int_equal(d, TD_FAR_END);
	}
}

static void test_offer(void **state)
{
	enum { MOST = 100000 };
	assert_int_equal(td_pool_far_offer(8000, 1000, 0, MOST), 8000);
	assert_int_equal(td_pool_far_offer(8000, 1000, 1000, MOST), 8000);
	assert_int_equal(td_pool_far_offer(8000, 1000, 3000, MOST), 6000);
	assert_int_equal(td_pool_far_offer(8000, 0, 9000, MOST), 0);
	// What nobody has is not believed, and no number runs over.
	assert_int_equal(td_pool_far_offer(INT64_MAX, 0, 0, TD_FAR_DEVICES), TD_FAR_DEVICES);
	assert_int_equal(td_pool_far_offer(INT64_MAX, 0, INT64_MAX, MOST), 0);
	assert_int_equal(td_pool_far_offer(-1, 0, 0, MOST), 0);
	assert_int_equal(td_pool_far_offer(8, 0, INT64_MIN, MOST), 0);
	assert_int_equal(td_pool_far_add(INT64_MAX, 1), INT64_MAX);
	assert_int_equal(td_pool_far_add(2, 3), 5);
}

static void test_settle(void **state)
{
	struct td_pool_far_offered o = {.now = 8};
	assert_false(td_pool_far_settle(&o, 8, 1000));
	assert_true(td_pool_far_settle(&o, 4, 1000)); // less at once
	assert_false(td_pool_far_settle(&o, 8, 2000));
	assert_false(td_pool_far_settle(&o, 6, 3000)); // the least of what was more
	assert_false(td_pool_far_settle(&o, 8, 2000 + TD_FAR_SETTLE_MS - 1));
	assert_true(td_pool_far_settle(&o, 8, 2000 + TD_FAR_SETTLE_MS));
	assert_int_equal(o.now, 6);
	assert_false(td_pool_far_settle(&o, 8, 2000 + TD_FAR_SETTLE_MS));
	assert_false(td_pool_far_settle(&o, 6, 2000 + 2 * TD_FAR_SETTLE_MS)); // it was no more
	assert_false(td_pool_far_settle(&o, 8, 2000 + 3 * TD_FAR_SETTLE_MS));
	assert_int_equal(o.now, 6);
}

// Whoever opens as many as he can leaves room for another one, in his namespace and in others, and those leave room again.
static void test_streams(void **state)
{
	enum { MOST = 256, SPACES = 6, PEOPLE = 2 };
	int has[SPACES][PEOPLE] = {0}, in[SPACES] = {0}, all = 0;
	for (int s = 0; s < SPACES; s++)
		for (int p = 0; p < PEOPLE; p++) {
			assert_true(td_pool_far_stream(has[s][p], in[s], all, MOST));
			while (td_pool_far_stream(has[s][p], in[s], all, MOST))
				has[s][p]++, in[s]++, all++;
			assert_true(has[s][p] <= (s || p ? MOST / 4 : 86));
			assert_true(in[s] <= MOST / 2 && all < MOST);
		}
	assert_false(td_pool_far_stream(0, 0, MOST, MOST));
	assert_true(td_pool_far_stream(0, 0, MOST - 1, MOST));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_before_the_grant),
		cmocka_unit_test(test_one_copy_once),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_all_states),
		cmocka_unit_test(test_offer),
		cmocka_unit_test(test_settle),
		cmocka_unit_test(test_streams),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
