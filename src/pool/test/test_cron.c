// rows: E5.2
// When a schedule is due.
#include "pool/cron.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static int64_t at(const char *text)
{
	struct tm tm = {0};
	assert_int_equal(sscanf(text, "%d-%d-%d %d:%d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min),
			 5);
	tm.tm_year -= 1900;
	tm.tm_mon--;
	return timegm(&tm);
}

static void the_next_minute(void **state)
{
	static const struct {
		const char *cron, *after, *next;
	} v[] = {
		{"0 3 * * *", "2026-11-25 02:59", "2026-11-25 03:00"},
		{"0 3 * * *", "2026-11-25 03:00", "2026-11-26 03:00"},
		{"* * * * *", "2026-12-31 23:59", "2027-01-01 00:00"},
		{"*/15 9-17 * * 1-5", "2026-11-27 17:45", "2026-11-30 09:00"}, // from Friday to Monday
		{"30 0 29 2 *", "2026-01-01 00:00", "2028-02-29 00:30"},
		{"0 0 31 * *", "2026-04-01 00:00", "2026-05-31 00:00"},
		{"0 0 * * 7", "2026-11-25 00:00", "2026-11-29 00:00"},  // Sunday
		{"0 0 13 * 5", "2026-11-25 00:00", "2026-11-27 00:00"}, // a Friday, or a 13th
		{"5/20,1 4 * * *", "2026-11-25 04:05", "2026-11-25 04:25"},
		{"@monthly", "2026-11-25 00:00", "2026-12-01 00:00"},
		{"@hourly", "2100-02-28 23:30", "2100-03-01 00:00"}, // 2100 is no leap year
	};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		struct td_pool_cron c;
		assert_int_equal(td_pool_cron_parse(v[i].cron, &c, NULL), 0);
		int64_t next = td_pool_cron_next(&c, at(v[i].after));
		if (next != at(v[i].next))
			fail_msg("%s after %s: %lld, not %s", v[i].cron, v[i].after, (long long)next, v[i].next);
	}
}

static void what_is_refused(void **state)
{
	static const struct {
		const char *cron, *words;
	} v[] = {
		{"", "give five fields"},
		{"0 3 * *", "give five fields"},
		{"0 3 * * * *", "give five fields"},
		{"60 3 * * *", "minute: \"60\""},
		{"0 24 * * *", "hour: \"24\""},
		{"0 3 0 * *", "day: \"0\""},
		{"0 3 * 13 *", "month"},
		{"0 3 * * 8", "weekday"},
		{"a 3 * * *", "minute: \"a\""},
		{"*/0 3 * * *", "minute: \"*/0\""},
		{"5-1 3 * * *", "minute"},
		{"1, 3 * * *", "minute"},
		{"0 0 30 2 *", "never comes"},
		{"@never", "give five fields"},
		{"1-2-3 0 * * *", "minute"},
	};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		struct td_pool_cron c;
		struct td_error e = TD_ERROR_INIT;
		assert_int_equal(td_pool_cron_parse(v[i].cron, &c, &e), TD_INVALID);
		if (!strstr(e.msg, v[i].words))
			fail_msg("%s: %s", v[i].cron, e.msg);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_next_minute),
		cmocka_unit_test(what_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
