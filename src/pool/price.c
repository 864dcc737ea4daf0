#include "pool/price.h"

#include <stdio.h>
#include <string.h>

static const struct td_price *at(const struct td_prices *l, int64_t day)
{
	const struct td_price *best = NULL;
	for (size_t i = 0; l && i < l->n; i++)
		if (l->v[i].from <= day && (!best || l->v[i].from >= best->from))
			best = &l->v[i];
	return best;
}

double td_price_gpu(const struct td_prices *l, int64_t day, const char *type)
{
	const struct td_price *p = at(l, day);
	for (size_t i = 0; p && i < p->n_types; i++)
		if (*type && !strcmp(p->types[i].name, type))
			return p->types[i].gpu;
	return p ? p->gpu : -1;
}

double td_price_cpu(const struct td_prices *l, int64_t day)
{
	const struct td_price *p = at(l, day);
	return p ? p->cpu : -1;
}

int64_t td_price_first(const struct td_prices *l)
{
	int64_t first = -1;
	for (size_t i = 0; i < l->n; i++)
		if (first < 0 || l->v[i].from < first)
			first = l->v[i].from;
	return first;
}

// ---- days ----
//
// The calendar is Gregorian, with years that begin in March, so that the day that is sometimes missing is the
// last one of a year.
static int64_t days_of(const struct td_date *c)
{
	int64_t y = c->month <= 2 ? c->year - 1 : c->year, era = y / 400, of_era = y - era * 400;
	int64_t of_year = (153 * (c->month > 2 ? c->month - 3 : c->month + 9) + 2) / 5 + c->day - 1;
	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

struct td_date td_day_date(int64_t day)
{
	int64_t z = day + 719468, era = z / 146097, of_era = z - era * 146097;
	int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int64_t of_year = of_era - (365 * year + year / 4 - year / 100), m = (5 * of_year + 2) / 153;
	int month = (int)(m < 10 ? m + 3 : m - 9);
	return (struct td_date){
		.year = year + era * 400 + (month <= 2), .month = month, .day = (int)(of_year - (153 * m + 2) / 5 + 1)};
}

// Reads digits, as many as are said.
static bool number(const char **s, int digits, int *ret)
{
	*ret = 0;
	for (int i = 0; i < digits; i++, (*s)++) {
		if (**s < '0' || **s > '9')
			return false;
		*ret = *ret * 10 + (**s - '0');
	}
	return true;
}

void td_day_name(int64_t day, char ret[TD_PERIOD_LEN])
{
	const struct td_date c = td_day_date(day);
	snprintf(ret, TD_PERIOD_LEN, "%04d-%02d-%02d", (int)(c.year % 10000), c.month, c.day);
}

bool td_day_parse(const char *s, int64_t *ret)
{
	int y, m, d;
	char again[TD_PERIOD_LEN];
	const char *p = s;
	if (!number(&p, 4, &y) || *p++ != '-' || !number(&p, 2, &m) || *p++ != '-' || !number(&p, 2, &d) || *p ||
	    y < 1970 || m < 1 || m > 12 || d < 1 || d > 31)
		return false;
	*ret = days_of(&(const struct td_date){y, m, d});
	td_day_name(*ret, again); // there is no 31 February
	return !strcmp(again, s);
}

enum { DAY_S = 86400 };

void td_moment_name(int64_t at_s, char ret[TD_MOMENT_LEN])
{
	char day[TD_PERIOD_LEN];
	const int s = (int)(at_s % DAY_S);
	td_day_name(at_s / DAY_S, day);
	snprintf(ret, TD_MOMENT_LEN, "%sT%02d:%02d:%02dZ", day, s / 3600, s / 60 % 60, s % 60);
}

size_t td_moment_parse(const char *s, int64_t *ret)
{
	char day[TD_PERIOD_LEN];
	int64_t date;
	int h, min, sec;
	snprintf(day, sizeof(day), "%.10s", s);
	if (!td_day_parse(day, &date))
		return 0;
	const char *p = s + strlen(day);
	if (*p++ != 'T' || !number(&p, 2, &h) || *p++ != ':' || !number(&p, 2, &min) || *p++ != ':' ||
	    !number(&p, 2, &sec) || *p++ != 'Z' || h > 23 || min > 59 || sec > 60)
		return 0;
	*ret = date * DAY_S + (int64_t)h * 3600 + (int64_t)min * 60 + sec;
	return (size_t)(p - s);
}

// ---- periods ----

enum td_period_kind td_period_kind_of(const char *word)
{
	return td_streq(word, "quarter") ? TD_PERIOD_QUARTER : td_streq(word, "day") ? TD_PERIOD_DAY : TD_PERIOD_MONTH;
}

struct td_period td_period_at(enum td_period_kind kind, int64_t day)
{
	struct td_date c = td_day_date(day), end;
	if (kind == TD_PERIOD_DAY)
		return (struct td_period){kind, day, day + 1};
	int months = kind == TD_PERIOD_QUARTER ? 3 : 1;
	c.day = 1;
	c.month -= (c.month - 1) % months;
	end = c;
	end.month += months;
	if (end.month > 12) {
		end.month -= 12;
		end.year++;
	}
	return (struct td_period){kind, days_of(&c), days_of(&end)};
}

struct td_period td_period_next(const struct td_period *p)
{
	return td_period_at(p->kind, p->to);
}

void td_period_name(const struct td_period *p, char ret[TD_PERIOD_LEN])
{
	const struct td_date c = td_day_date(p->from);
	if (p->kind == TD_PERIOD_DAY)
		td_day_name(p->from, ret);
	else if (p->kind == TD_PERIOD_QUARTER)
		snprintf(ret, TD_PERIOD_LEN, "%04d-q%d", (int)(c.year % 10000), (c.month - 1) / 3 + 1);
	else
		snprintf(ret, TD_PERIOD_LEN, "%04d-%02d", (int)(c.year % 10000), c.month);
}

bool td_period_parse(const char *name, struct td_period *ret)
{
	int y, n;
	int64_t day;
	const char *p = name;
	if (td_day_parse(name, &day)) {
		*ret = td_period_at(TD_PERIOD_DAY, day);
		return true;
	}
	if (!number(&p, 4, &y) || *p++ != '-' || y < 1970)
		return false;
	bool quarter = *p == 'q' || *p == 'Q';
	if (quarter)
		p++;
	if (!number(&p, quarter ? 1 : 2, &n) || *p || n < 1 || n > (quarter ? 4 : 12))
		return false;
	*ret = td_period_at(quarter ? TD_PERIOD_QUARTER : TD_PERIOD_MONTH,
			    days_of(&(const struct td_date){y, quarter ? n * 3 : n, 1}));
	return true;
}
