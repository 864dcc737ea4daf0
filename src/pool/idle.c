#include "pool/idle.h"

static void earliest(int64_t from, int64_t limit, enum td_idle_why why, enum td_idle_why *best, int64_t *at)
{
	if (limit <= 0 || from < 0)
		return;
	if (*best == TD_IDLE_NEVER || from + limit < *at) {
		*best = why;
		*at = from + limit;
	}
}

enum td_idle_why td_idle_end(const struct td_idle_rules *r, const struct td_idle_seen *s, int64_t *ret_at)
{
	enum td_idle_why best = TD_IDLE_NEVER;
	int64_t at = 0;
	if (s->started < 0)
		return TD_IDLE_NEVER; // who waits in the queue is not idle
	earliest(s->started, r->max_age_s, TD_IDLE_AGE, &best, &at);
	// Nobody could come before it ran.
	int64_t traffic = s->traffic >= 0 && s->traffic < s->started ? s->started : s->traffic;
	earliest(traffic, r->no_traffic_s, TD_IDLE_TRAFFIC, &best, &at);
	earliest(s->low_cpu_since, r->low_cpu_s, TD_IDLE_CPU, &best, &at);
	if (best != TD_IDLE_NEVER)
		*ret_at = at;
	return best;
}

int64_t td_idle_low(const struct td_idle_rules *r, int64_t since, int64_t from, const struct td_idle_use *use)
{
	// Written so that what is not a number is not low.
	bool low = use->cpu >= 0 && use->cpu < r->low_cpu && (!use->gpus || (use->gpu >= 0 && use->gpu < r->low_cpu));
	return !low ? -1 : since >= 0 ? since : from;
}

const char *td_idle_words(enum td_idle_why why)
{
	return why == TD_IDLE_AGE       ? "it has run as long as a session may"
	       : why == TD_IDLE_TRAFFIC ? "nobody has used it for as long as a session may be unused"
	       : why == TD_IDLE_CPU     ? "it has done nothing for as long as a session may"
					: "";
}

static int64_t stricter(int64_t a, int64_t b)
{
	return a <= 0 ? b : b <= 0 ? a : a < b ? a : b;
}

void td_idle_merge(struct td_idle_rules *into, const struct td_idle_rules *more)
{
	into->max_age_s = stricter(into->max_age_s, more->max_age_s);
	into->no_traffic_s = stricter(into->no_traffic_s, more->no_traffic_s);
	into->low_cpu_s = stricter(into->low_cpu_s, more->low_cpu_s);
	into->low_cpu = more->low_cpu > into->low_cpu ? more->low_cpu : into->low_cpu;
}
