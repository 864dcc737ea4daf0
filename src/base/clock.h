// Time is injected: nothing above base reads a clock directly. All times are in milliseconds.
#pragma once

#include <stddef.h>
#include <stdint.h>

// A source of time. Its functions are thread-safe.
struct td_clock {
	int64_t (*real_ms)(const struct td_clock *); // since the Unix epoch
	int64_t (*mono_ms)(const struct td_clock *); // monotonic, arbitrary start
};
extern const struct td_clock td_clock_system;

static inline int64_t td_real_ms(const struct td_clock *c)
{
	return c->real_ms(c);
}
static inline int64_t td_mono_ms(const struct td_clock *c)
{
	return c->mono_ms(c);
}

// A clock that tests move by hand. Embed it or use it directly. Its fields are read atomically.
struct td_clock_manual {
	struct td_clock clock;
	int64_t real, mono;
};
void td_clock_manual_init(struct td_clock_manual *m, int64_t real_ms);
void td_clock_manual_add(struct td_clock_manual *m, int64_t ms);

// The time as RFC 3339 in UTC, as Kubernetes writes metav1.Time ("2026-11-21T13:15:00Z") and
// MicroTime (6 digits). Both return buf.
#define TD_TIME_LEN 32
const char *td_time_format(int64_t real_ms, char buf[TD_TIME_LEN]);
const char *td_time_format_micro(int64_t real_ms, char buf[TD_TIME_LEN]);
// Parses any RFC 3339 time. Returns 0, or -1 and leaves *ret_ms untouched.
int td_time_parse(const char *s, int64_t *ret_ms);
// The duration as in kubectl's AGE column: "5s", "2m10s", "3h", "4d". Returns buf.
const char *td_time_age(int64_t ms, char *buf, size_t n);
