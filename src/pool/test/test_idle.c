// rows: D4.1 D4.2 D4.4
// The policies of the field: below 5 % CPU for 10 minutes, no traffic for 1 hour, 12 hours after the
// start. What is not known is never idle.
#include "pool/idle.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct td_idle_rules rules = {
	.max_age_s = 12 * 3600, .no_traffic_s = 3600, .low_cpu_s = 600, .low_cpu = 0.05};

static void check(int64_t started, int64_t traffic, int64_t low, enum td_idle_why why, int64_t at)
{
	const struct td_idle_seen s = {started, traffic, low};
	int64_t got = -7;
	assert_int_equal(td_idle_end(&rules, &s, &got), why);
	assert_int_equal(got, why == TD_IDLE_NEVER ? -7 : at);
}

static void the_earliest_rule_counts(void **state)
{
	check(1000, 1000, -1, TD_IDLE_TRAFFIC, 4600);
	check(1000, 1000, 1000, TD_IDLE_CPU, 1600);
	check(1000, 9000, 12500, TD_IDLE_TRAFFIC, 12600);
	check(1000, 43000, -1, TD_IDLE_AGE, 1000 + 12 * 3600);
	check(1000, 500, -1, TD_IDLE_TRAFFIC, 4600); // traffic from before its start
}

static void what_is_missing_is_not_idle(void **state)
{
	check(1000, -1, -1, TD_IDLE_AGE, 1000 + 12 * 3600);
	check(-1, 0, 0, TD_IDLE_NEVER, 0); // it waits
	const struct td_idle_rules none = {0};
	const struct td_idle_seen s = {1, 1, 1};
	int64_t at = 0;
	assert_int_equal(td_idle_end(&none, &s, &at), TD_IDLE_NEVER);
}

static int64_t low(int64_t since, int64_t from, struct td_idle_use use)
{
	return td_idle_low(&rules, since, from, &use);
}

static void cpu_must_be_low_without_a_break(void **state)
{
	int64_t since = low(-1, 100, (struct td_idle_use){.cpu = 0.01});
	assert_int_equal(since, 100);
	assert_int_equal(since = low(since, 115, (struct td_idle_use){.cpu = 0.049}), 100);
	assert_int_equal(low(since, 130, (struct td_idle_use){.cpu = 0.05}), -1);
	assert_int_equal(low(since, 130, (struct td_idle_use){.cpu = -1}), -1); // not known: it begins anew
	assert_int_equal(low(since, 130, (struct td_idle_use){.cpu = NAN}), -1);
}

static void who_has_gpus_is_idle_only_when_they_are_too(void **state)
{
	assert_int_equal(low(-1, 100, (struct td_idle_use){.cpu = 0, .gpus = 1, .gpu = -1}), -1);
	assert_int_equal(low(-1, 100, (struct td_idle_use){.cpu = 0, .gpus = 1, .gpu = NAN}), -1);
	assert_int_equal(low(-1, 100, (struct td_idle_use){.cpu = 0, .gpus = 1, .gpu = 0.9}), -1);
	assert_int_equal(low(-1, 100, (struct td_idle_use){.cpu = 0, .gpus = 1, .gpu = 0.01}), 100);
	assert_int_equal(low(-1, 100, (struct td_idle_use){.cpu = 0.5, .gpus = 1, .gpu = 0.01}), -1);
}

static void of_several_scopes_the_strictest_counts(void **state)
{
	struct td_idle_rules r = {.max_age_s = 100};
	td_idle_merge(&r, &rules);
	assert_int_equal(r.max_age_s, 100);
	assert_int_equal(r.no_traffic_s, 3600);
	const struct td_idle_rules tenant = {.no_traffic_s = 60, .max_age_s = 1000};
	td_idle_merge(&r, &tenant);
	assert_int_equal(r.max_age_s, 100);
	assert_int_equal(r.no_traffic_s, 60);
	assert_int_equal(r.low_cpu_s, 600);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_earliest_rule_counts),
		cmocka_unit_test(what_is_missing_is_not_idle),
		cmocka_unit_test(cpu_must_be_low_without_a_break),
		cmocka_unit_test(who_has_gpus_is_idle_only_when_they_are_too),
		cmocka_unit_test(of_several_scopes_the_strictest_counts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
