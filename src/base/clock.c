#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static int64_t get(clockid_t id)
{
	struct timespec ts;
	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int64_t sys_real(const struct td_clock *c)
{
	(void)c;
	return get(CLOCK_REALTIME);
}

static int64_t sys_mono(const struct td_clock *c)
{
	(void)c;
	return get(CLOCK_MONOTONIC);
}

const struct td_clock td_clock_system = {sys_real, sys_mono};

static int64_t man_real(const struct td_clock *c)
{
	return __atomic_load_n(&((const struct td_clock_manual *)c)->real, __ATOMIC_ACQUIRE);
}

static int64_t man_mono(const struct td_clock *c)
{
	return __atomic_load_n(&((const struct td_clock_manual *)c)->mono, __ATOMIC_ACQUIRE);
}

void td_clock_manual_init(struct td_clock_manual *m, int64_t real_ms)
{
	*m = (struct td_clock_manual){{man_real, man_mono}, real_ms, 0};
}

void td_clock_manual_add(struct td_clock_manual *m, int64_t ms)
{
	__atomic_add_fetch(&m->real, ms, __ATOMIC_ACQ_REL);
	__atomic_add_fetch(&m->mono, ms, __ATOMIC_ACQ_REL);
}

static void split(int64_t ms, struct tm *tm, int *ret_milli)
{
	int64_t s = ms / 1000, r = ms % 1000;
	if (r < 0) {
		r += 1000;
		s--;
	}
	time_t t = (time_t)s;
	gmtime_r(&t, tm);
	*ret_milli = (int)r;
}

const char *td_time_format(int64_t real_ms, char buf[TD_TIME_LEN])
{
	struct tm tm;
	int milli;
	split(real_ms, &tm, &milli);
	strftime(buf, TD_TIME_LEN, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return buf;
}

const char *td_time_format_micro(int64_t real_ms, char buf[TD_TIME_LEN])
{
	struct tm tm;
	int milli;
	split(real_ms, &tm, &milli);
	size_t n = strftime(buf, TD_TIME_LEN, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(buf + n, TD_TIME_LEN - n, ".%03d000Z", milli);
	return buf;
}

static int digits(const char **p, int n, int *ret)
{
	int v = 0;
	for (int i = 0; i < n; i++, (*p)++) {
		if (**p < '0' || **p > '9')
			return -1;
		v = v * 10 + (**p - '0');
	}
	*ret = v;
	return 0;
}

int td_time_parse(const char *s, int64_t *ret_ms)
{
	struct tm tm = {0};
	int y, mo, off_h = 0, off_m = 0, sign = 0, milli = 0;

	if (!s || digits(&s, 4, &y) || *s++ != '-' || digits(&s, 2, &mo) || *s++ != '-' || digits(&s, 2, &tm.tm_mday) ||
	    (*s != 'T' && *s != 't') || (s++, digits(&s, 2, &tm.tm_hour)) || *s++ != ':' || digits(&s, 2, &tm.tm_min) ||
	    *s++ != ':' || digits(&s, 2, &tm.tm_sec))
		return -1;

	if (mo < 1 || mo > 12 || tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour > 23 || tm.tm_min > 59 ||
	    tm.tm_sec > 60)
		return -1;

	if (*s == '.') {
		s++;
		int n = 0;
		for (; *s >= '0' && *s <= '9'; s++, n++)
			if (n < 3)
				milli = milli * 10 + (*s - '0');
		if (!n)
			return -1;
		for (; n < 3; n++)
			milli *= 10;
	}

	if (*s == 'Z' || *s == 'z') {
		s++;
	} else if (*s == '+' || *s == '-') {
		sign = *s++ == '+' ? 1 : -1;
		if (digits(&s, 2, &off_h) || *s++ != ':' || digits(&s, 2, &off_m))
			return -1;
	} else {
		return -1;
	}
	if (*s)
		return -1;

	tm.tm_year = y - 1900;
	tm.tm_mon = mo - 1;
	int day = tm.tm_mday;
	time_t t = timegm(&tm);
	// timegm() moved the day: the month has no such day.
	if (tm.tm_mday != day && tm.tm_sec != 60)
		return -1;

	*ret_ms = ((int64_t)t - sign * (off_h * 3600 + off_m * 60)) * 1000 + milli;
	return 0;
}

const char *td_time_age(int64_t ms, char *buf, size_t n)
{
	int64_t s = ms < 0 ? 0 : ms / 1000;

	if (s < 120)
		snprintf(buf, n, "%llds", (long long)s);
	else if (s < 600 && s % 60)
		snprintf(buf, n, "%lldm%llds", (long long)(s / 60), (long long)(s % 60));
	else if (s < 3 * 3600)
		snprintf(buf, n, "%lldm", (long long)(s / 60));
	else if (s < 8 * 3600 && s / 60 % 60)
		snprintf(buf, n, "%lldh%lldm", (long long)(s / 3600), (long long)(s / 60 % 60));
	else if (s < 48 * 3600)
		snprintf(buf, n, "%lldh", (long long)(s / 3600));
	else if (s < 8 * 86400 && s / 3600 % 24)
		snprintf(buf, n, "%lldd%lldh", (long long)(s / 86400), (long long)(s / 3600 % 24));
	else
		snprintf(buf, n, "%lldd", (long long)(s / 86400));

	return buf;
}
