#include "pool/cron.h"

#include "base/mem.h"
#include "pool/price.h"

#include <string.h>

enum { DAY_S = 86400, DAYS_MOST = 8 * 366 };

static int number(const char **p, int *ret)
{
	int n = 0, digits = 0;
	for (; **p >= '0' && **p <= '9' && digits < 3; (*p)++, digits++)
		n = n * 10 + (**p - '0');
	*ret = n;
	return digits ? 0 : TD_INVALID;
}

struct cron_field {
	const char *name;
	int least, most;
};

static int field(const struct cron_field *f, const char *s, uint64_t *ret, struct td_error *err)
{
	uint64_t bits = 0;
	for (const char *p = s;;) {
		int from = f->least, to = f->most, step = 1;
		bool ok = true, one = false;
		if (*p == '*') {
			p++;
		} else {
			ok = !number(&p, &from);
			to = from;
			one = true;
			if (ok && *p == '-') {
				p++;
				ok = !number(&p, &to);
				one = false;
			}
		}
		if (ok && *p == '/') {
			p++;
			ok = !number(&p, &step) && step > 0;
			if (one)
				to = f->most; // "5/10": from 5 on
		}
		if (!ok || from < f->least || to > f->most || from > to || (*p && *p != ','))
			return td_fail(
				err, TD_INVALID,
				"schedule: %s: \"%.40s\": give \"*\", numbers from %d to %d, ranges (1-5), lists "
				"(1,3) or steps (*/15)",
				f->name, s, f->least, f->most);
		for (int i = from; i <= to; i += step)
			bits |= UINT64_C(1) << i;
		if (!*p)
			break;
		p++;
	}
	*ret = bits;
	return 0;
}

int td_pool_cron_parse(const char *text, struct td_pool_cron *ret, struct td_error *err)
{
	static const struct {
		const char *name, *is;
	} words[] = {
		{"@hourly", "0 * * * *"}, {"@daily", "0 0 * * *"}, {"@weekly", "0 0 * * 0"}, {"@monthly", "0 0 1 * *"}};
	static const struct cron_field fields[] = {
		{"minute", 0, 59}, {"hour", 0, 23}, {"day", 1, 31}, {"month", 1, 12}, {"weekday", 0, 7}};
	for (size_t i = 0; i < TD_LEN(words); i++)
		if (!strcmp(text, words[i].name))
			text = words[i].is;
	td_auto_strv struct td_strv v = {0};
	td_strv_split(&v, text, ' ');
	if (v.n != TD_LEN(fields))
		return td_fail(
			err, TD_INVALID,
			"schedule: \"%.60s\": give five fields: minute, hour, day, month, weekday, such as \"0 3 "
			"* * *\" (UTC)",
			text);
	uint64_t bits[TD_LEN(fields)];
	for (size_t i = 0; i < v.n; i++) {
		int r = field(&fields[i], v.v[i], &bits[i], err);
		if (r)
			return r;
	}
	struct td_pool_cron c = {.minutes = bits[0],
				 .hours = bits[1],
				 .days = bits[2],
				 .months = bits[3],
				 .weekdays = (bits[4] | bits[4] >> 7) & 127,
				 .any_day = v.v[2][0] == '*',
				 .any_weekday = v.v[4][0] == '*'};
	if (!td_pool_cron_next(&c, 0))
		return td_fail(err, TD_INVALID, "schedule: \"%.60s\": this day never comes", text);
	*ret = c;
	return 0;
}

static bool on_day(const struct td_pool_cron *c, int64_t day)
{
	const struct td_date d = td_day_date(day);
	bool of_month = c->days >> d.day & 1, of_week = c->weekdays >> ((day + 4) % 7) & 1;
	return c->months >> d.month & 1 && (c->any_day || c->any_weekday ? of_month && of_week : of_month || of_week);
}

int64_t td_pool_cron_next(const struct td_pool_cron *c, int64_t after)
{
	int64_t first = after / 60 + 1; // in minutes
	for (int64_t day = first / 1440, n = 0; n < DAYS_MOST; day++, n++) {
		if (!on_day(c, day))
			continue;
		int64_t from = day == first / 1440 ? first % 1440 : 0;
		for (int64_t m = from; m < 1440; m++)
			if (c->hours >> (m / 60) & 1 && c->minutes >> (m % 60) & 1)
				return day * DAY_S + m * 60;
	}
	return 0;
}
