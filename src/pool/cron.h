// When a schedule is due: the five fields of cron, in UTC. Pure.
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct td_pool_cron {
	uint64_t minutes, hours, days, months, weekdays; // a bit for each; Sunday is 0
	bool any_day, any_weekday;                       // the field is "*"
};
// "0 3 * * 1-5": minute, hour, day of the month, month, day of the week (0 or 7: Sunday), each "*", a
// number, a range, a list, and "/" with a step; or @hourly, @daily, @weekly, @monthly. Where day and
// weekday are both given, one of them is enough, as everywhere. TD_INVALID names the field, and also
// what never comes, such as February 30.
int td_pool_cron_parse(const char *text, struct td_pool_cron *ret, struct td_error *err);
// The first minute after `after`, epoch seconds. 0: there is none within 8 years.
int64_t td_pool_cron_next(const struct td_pool_cron *c, int64_t after);
