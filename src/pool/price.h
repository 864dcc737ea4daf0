// What a GPU hour and a CPU hour cost on a day, and the periods of bills.
#pragma once

#include "base/mem.h"

#include <stdint.h>

// A price list: what it does not say is below 0.
struct td_price_type {
	const char *name; // "h100"
	double gpu;
};
struct td_price {
	int64_t from; // day since 1970 (UTC) from which on it holds
	double gpu, cpu;
	const struct td_price_type *types;
	size_t n_types;
};
struct td_prices {
	const struct td_price *v; // in any order
	size_t n;
};
// The price that a list has for a GPU hour of this type, or a CPU hour, on a day. Of two that hold the one that
// begins later counts, whole. Below 0: it says none.
double td_price_gpu(const struct td_prices *l, int64_t day, const char *type);
double td_price_cpu(const struct td_prices *l, int64_t day);
// The first day of the earliest list; -1: there is none.
int64_t td_price_first(const struct td_prices *l);

// ---- periods: "2026-11" (month), "2026-q4" (quarter), "2026-11-25" (day) ----
enum td_period_kind { TD_PERIOD_MONTH, TD_PERIOD_QUARTER, TD_PERIOD_DAY };
struct td_period {
	enum td_period_kind kind;
	int64_t from, to; // days since 1970: to is the first one after it
};
enum { TD_PERIOD_LEN = 16 };
// "month", "quarter", "day"; other words are a month.
enum td_period_kind td_period_kind_of(const char *word);
struct td_period td_period_at(enum td_period_kind kind, int64_t day);
struct td_period td_period_next(const struct td_period *p);
void td_period_name(const struct td_period *p, char ret[TD_PERIOD_LEN]);
// False: it is no period.
bool td_period_parse(const char *name, struct td_period *ret);

// The date of a day since 1970.
struct td_date {
	int64_t year;
	int month, day; // from 1
};
struct td_date td_day_date(int64_t day);
// A day as people write it, and back. False: it is none.
void td_day_name(int64_t day, char ret[TD_PERIOD_LEN]);
bool td_day_parse(const char *s, int64_t *ret);
// A moment as "2026-11-27T17:30:00Z", and back: epoch seconds, not before 1970.
enum { TD_MOMENT_LEN = 32 };
void td_moment_name(int64_t at_s, char ret[TD_MOMENT_LEN]);
// How many characters it takes at the begin of s; 0, and *ret untouched: there is none.
size_t td_moment_parse(const char *s, int64_t *ret);
