// rows: B6.3
// When a job hangs: the clock is the looks' own.
#include "pool/hang.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct step {
	int s;
	int heartbeat, output, cpu_ms;
	double gpu;
	bool hangs;
};

static void go(unsigned signs, int after_s, const struct step *v, size_t n)
{
	struct td_pool_hang state = {0};
	const struct td_pool_hang_rule r = {signs, after_s * 1000};
	for (size_t i = 0; i < n; i++) {
		const struct td_pool_hang_look look = {(int64_t)v[i].s * 1000, v[i].heartbeat, v[i].output, v[i].cpu_ms,
						       v[i].gpu};
		if (td_pool_hang(&r, &state, &look) != v[i].hangs)
			fail_msg("step %zu at %d s", i, v[i].s);
	}
}
#define GO(signs, after, ...)                                                                                          \
	do {                                                                                                           \
		const struct step v_[] = {__VA_ARGS__};                                                                \
		go(signs, after, v_, sizeof(v_) / sizeof(v_[0]));                                                      \
	} while (0)

static void a_heartbeat_that_stops(void **state)
{
	GO(TD_SIGN_HEARTBEAT, 30, {0, 1, -1, -1, -1, false}, {10, 2, -1, -1, -1, false}, {20, 2, -1, -1, -1, false},
	   {39, 2, -1, -1, -1, false}, {40, 2, -1, -1, -1, true}, {50, 3, -1, -1, -1, false},
	   {79, 3, -1, -1, -1, false}, {80, 3, -1, -1, -1, true});
}

static void all_signs_must_be_still(void **state)
{
	GO(TD_SIGN_OUTPUT | TD_SIGN_GPU, 20, {0, -1, 5, -1, 0, false}, {10, -1, 5, -1, 80, false},
	   {20, -1, 5, -1, 80, false}, {30, -1, 5, -1, 0, false}, {39, -1, 5, -1, 0, false}, {40, -1, 5, -1, 0, true},
	   {41, -1, 6, -1, 0, false});
}

static void what_is_not_known_is_no_hang(void **state)
{
	GO(TD_SIGN_HEARTBEAT, 10, {0, -1, 5, 0, 0, false}, {20, -1, 5, 0, 0, false}, {40, -1, 5, 0, 0, false});
	GO(TD_SIGN_GPU, 10, {0, 1, 5, 0, -1, false}, {20, 1, 5, 0, -1, false}, {40, 1, 5, 0, 0, true});
	GO(TD_SIGN_CPU, 10, {0, 1, 5, -1, 0, false}, {20, 1, 5, 0, 0, false}, {29, 1, 5, 0, 0, false},
	   {30, 1, 5, 0, 0, true});
	GO(0, 10, {0, 1, 5, 0, 0, false}, {20, 1, 5, 0, 0, false});
}

// Two rules may be asked of one look: the second one sees what the first one saw.
static void a_look_may_be_asked_twice(void **state)
{
	const struct td_pool_hang_rule cpu = {TD_SIGN_CPU, 20000}, beat = {TD_SIGN_HEARTBEAT, 20000};
	struct td_pool_hang s = {0};
	for (int at = 0; at <= 40; at += 10) { // it uses its CPU, and its beats end after 20 s
		const struct td_pool_hang_look look = {at * 1000, at < 20 ? at : 20, -1, at * 1000, -1};
		assert_false(td_pool_hang(&cpu, &s, &look));
		assert_int_equal(td_pool_hang(&beat, &s, &look), at >= 40);
	}
}

static void who_only_waits_uses_no_cpu(void **state)
{
	GO(TD_SIGN_CPU, 20, {0, -1, -1, 1000, -1, false}, {10, -1, -1, 1200, -1, false}, {20, -1, -1, 1400, -1, true},
	   {30, -1, -1, 1601, -1, false}, {40, -1, -1, 900, -1, false}, {60, -1, -1, 900, -1, true});
}

static void words(void **state)
{
	char text[128];
	td_pool_hang_words(&(struct td_pool_hang_rule){TD_SIGN_HEARTBEAT | TD_SIGN_GPU, 90500}, text, sizeof(text));
	assert_string_equal(text, "no heartbeat and no GPU use for 90 s");
	td_pool_hang_words(&(struct td_pool_hang_rule){TD_SIGN_OUTPUT, 3000}, text, 8);
	assert_int_equal(strlen(text), 7);
}

static void who_stops_and_goes_on_is_said_seldom(void **state)
{
	struct td_pool_hang_said s = {0};
	int said = 0;
	for (int64_t ms = 0; ms < TD_HANG_MS; ms += 3000) {
		said += td_pool_hang_say(&s, true, ms);
		assert_false(td_pool_hang_say(&s, false, ms + 1000));
	}
	assert_int_equal(said, TD_HANG_TIMES);
	assert_true(td_pool_hang_say(&s, true, TD_HANG_MS));
	assert_true(td_pool_hang_say(&s, true, TD_HANG_MS + 1)); // and goes on to be
	assert_int_equal(s.times, 1);
}

static bool all(int64_t size, int64_t bound, int64_t still, int64_t over)
{
	return td_pool_hang_all(&(struct td_pool_hang_pods){size, bound, still, over});
}

static void a_gang_hangs_when_all_are_still_and_nobody_is_missing(void **state)
{
	assert_true(all(1, 1, 1, 0));
	assert_true(all(3, 3, 3, 0));
	assert_false(all(3, 3, 2, 0)); // two wait for the third, which computes
	assert_false(all(3, 2, 2, 0)); // for one that is not bound yet, or in whose place another one comes
	assert_true(all(3, 2, 2, 1));
	assert_false(all(3, 0, 0, 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_heartbeat_that_stops),
		cmocka_unit_test(all_signs_must_be_still),
		cmocka_unit_test(what_is_not_known_is_no_hang),
		cmocka_unit_test(a_look_may_be_asked_twice),
		cmocka_unit_test(who_only_waits_uses_no_cpu),
		cmocka_unit_test(who_stops_and_goes_on_is_said_seldom),
		cmocka_unit_test(words),
		cmocka_unit_test(a_gang_hangs_when_all_are_still_and_nobody_is_missing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
