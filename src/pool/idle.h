// When a session is idle. Each rule gives a time at which the session ends if nothing changes; the
// earliest of all counts. A figure that is missing is never "idle": its rule then gives no time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// All times are seconds on one clock.
struct td_idle_rules {
	int64_t max_age_s;    // after its start; 0: none
	int64_t no_traffic_s; // after the last traffic; 0: none
	int64_t low_cpu_s;    // after CPU use fell below low_cpu; 0: none
	double low_cpu;       // part of one CPU, and of each of its GPUs
};
// How much it used between two looks. What is not known is below 0.
struct td_idle_use {
	double cpu; // CPUs
	int gpus;   // how many it has
	double gpu; // part of the busiest of them; counts only when it has some
};
struct td_idle_seen {
	int64_t started;       // -1: it does not run yet
	int64_t traffic;       // the last one; -1: not known
	int64_t low_cpu_since; // since when it was low without a break; -1: it is not, or not known
};
enum td_idle_why { TD_IDLE_NEVER, TD_IDLE_AGE, TD_IDLE_TRAFFIC, TD_IDLE_CPU };
// *ret_at: when it ends.
enum td_idle_why td_idle_end(const struct td_idle_rules *r, const struct td_idle_seen *s, int64_t *ret_at);
// The next low_cpu_since, after a look at its use. `from`: since when it was as it is seen now.
int64_t td_idle_low(const struct td_idle_rules *r, int64_t since, int64_t from, const struct td_idle_use *use);
const char *td_idle_words(enum td_idle_why why);
// The rules that hold where several scopes have some (all, a tenant's, the person's): of each the
// strictest.
void td_idle_merge(struct td_idle_rules *into, const struct td_idle_rules *more);
