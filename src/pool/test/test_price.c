// rows: C10.4 C10.5
// Prices by day, and the periods of bills.
#include "pool/price.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static int64_t day(const char *s)
{
	int64_t d;
	assert_true(td_day_parse(s, &d));
	return d;
}

static void the_price_of_a_day(void **state)
{
	const struct td_price_type types[] = {{"h100", 4}, {"old", 0}};
	const struct td_price v[] = {
		{.from = day("2026-06-01"), .gpu = 3, .cpu = -1, .types = types, .n_types = 2},
		{.from = day("2026-01-01"), .gpu = 2, .cpu = 0.5},
	};
	const struct td_prices l = {v, 2}, none = {0};
	assert_float_equal(td_price_gpu(&l, day("2025-12-31"), ""), -1, 0);
	assert_float_equal(td_price_gpu(&l, day("2026-05-31"), "h100"), 2, 0);
	assert_float_equal(td_price_gpu(&l, day("2026-06-01"), "h100"), 4, 0);
	assert_float_equal(td_price_gpu(&l, day("2026-06-01"), "old"), 0, 0);
	assert_float_equal(td_price_gpu(&l, day("2027-06-01"), ""), 3, 0);
	assert_float_equal(td_price_cpu(&l, day("2026-05-31")), 0.5, 0);
	assert_float_equal(td_price_cpu(&l, day("2026-06-01")), -1, 0); // of two lists the later one counts, whole
	assert_int_equal(td_price_first(&l), day("2026-01-01"));
	assert_int_equal(td_price_first(&none), -1);
	assert_float_equal(td_price_gpu(&none, 0, ""), -1, 0);
}

static void check_period(const char *name, const char *from, const char *to)
{
	struct td_period p;
	char text[TD_PERIOD_LEN];
	assert_true(td_period_parse(name, &p));
	td_day_name(p.from, text);
	assert_string_equal(text, from);
	td_day_name(p.to, text);
	assert_string_equal(text, to);
	td_period_name(&p, text);
	assert_string_equal(text, name);
	assert_int_equal(td_period_next(&p).from, p.to);
	assert_int_equal(td_period_at(p.kind, p.to - 1).from, p.from);
}

static void periods(void **state)
{
	check_period("2026-11", "2026-11-01", "2026-12-01");
	check_period("2026-12", "2026-12-01", "2027-01-01");
	check_period("2028-02", "2028-02-01", "2028-03-01");
	check_period("2026-q4", "2026-10-01", "2027-01-01");
	check_period("2026-q1", "2026-01-01", "2026-04-01");
	check_period("2028-02-29", "2028-02-29", "2028-03-01");
	static const char *const bad[] = {"",         "2026",       "2026-13", "2026-00",    "2026-q5", "2026-q0",
					  "2026-11-", "2026-02-30", "x",       "2026-11-2x", "1969-12", "2026-1"};
	struct td_period p;
	for (size_t i = 0; i < TD_LEN(bad); i++)
		assert_false(td_period_parse(bad[i], &p));
	assert_int_equal(td_period_kind_of("quarter"), TD_PERIOD_QUARTER);
	assert_int_equal(td_period_kind_of(NULL), TD_PERIOD_MONTH);
}

// Every day of 200 years is in one month that has its name.
static void every_day(void **state)
{
	char a[TD_PERIOD_LEN], b[TD_PERIOD_LEN];
	int64_t back;
	for (int64_t d = 0; d < 73000; d++) {
		td_day_name(d, a);
		assert_true(td_day_parse(a, &back));
		assert_int_equal(back, d);
		const struct td_period p = td_period_at(TD_PERIOD_MONTH, d);
		td_period_name(&p, b);
		assert_memory_equal(a, b, 7);
		assert_true(p.from <= d && d < p.to);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_price_of_a_day), cmocka_unit_test(periods),
					   cmocka_unit_test(every_day)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
