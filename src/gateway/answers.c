#include "gateway/answers.h"

#include <stdlib.h>

void td_answers_asked(struct td_answers *a)
{
	a->in_flight++;
}

void td_answers_done(struct td_answers *a, int64_t now_ms, int64_t took_ms)
{
	a->in_flight -= a->in_flight > 0;
	a->v[a->total % TD_ANSWERS_KEPT].at = now_ms;
	a->v[a->total % TD_ANSWERS_KEPT].ms = took_ms < 0 ? 0 : took_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)took_ms;
	a->total++;
}

static int smaller(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

// The smallest that at least `percent` of the n are not above.
static uint32_t rank(const uint32_t *sorted, uint32_t n, uint32_t percent)
{
	return sorted[(n * percent + 99) / 100 - 1];
}

void td_answers_say(const struct td_answers *a, int64_t now_ms, struct td_answers_said *ret)
{
	uint32_t ms[TD_ANSWERS_KEPT], n = 0, kept = a->total < TD_ANSWERS_KEPT ? (uint32_t)a->total : TD_ANSWERS_KEPT;
	int64_t oldest = now_ms;
	for (uint32_t i = 0; i < kept; i++)
		if (a->v[i].at > now_ms - TD_ANSWERS_WINDOW_MS) {
			ms[n++] = a->v[i].ms;
			oldest = a->v[i].at < oldest ? a->v[i].at : oldest;
		}
	*ret = (struct td_answers_said){
		.in_flight = a->in_flight, .total = a->total, .recent = n, .over_ms = TD_ANSWERS_WINDOW_MS};
	if (!n)
		return;
	// Older ones were overwritten, perhaps within the window: the rate is that of what is kept.
	if (n == TD_ANSWERS_KEPT && now_ms > oldest)
		ret->over_ms = now_ms - oldest;
	qsort(ms, n, sizeof(*ms), smaller);
	ret->p50_ms = rank(ms, n, 50);
	ret->p95_ms = rank(ms, n, 95);
	ret->max_ms = ms[n - 1];
}
