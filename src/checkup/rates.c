// What lasts, and what was counted of late: a look every few seconds tells how it is now, and this what it has been.
#include "checkup/checkup.h"

#include <string.h>

// Until it counts, two looks may miss it; then it is over when it was away for as long as it took to count.
enum { GAP_MS = 25000, OVER_MS = TD_HEALTH_SLOW_S * 1000 };

int td_lasts_look(struct td_lasts *l, bool now, int64_t now_ms)
{
	if (now_ms < 1)
		now_ms = 1; // 0 stands for never
	const int64_t gap = l->last_ms - l->since_ms >= OVER_MS ? OVER_MS : GAP_MS;
	if (l->since_ms && now_ms - l->last_ms > gap)
		*l = (struct td_lasts){0};
	if (now && !l->since_ms)
		l->since_ms = now_ms;
	if (now)
		l->last_ms = now_ms;
	if (!l->since_ms)
		return 0;
	const int64_t s = (l->last_ms - l->since_ms) / 1000;
	return s < 1 ? 1 : (int)s;
}

enum { APART_MS = TD_RATE_MS / (TD_RATE_VALUES - 2) };

void td_rate_look(struct td_rate *r, int64_t now_ms, struct td_count *c)
{
	// It began anew, or nobody looked for long.
	if (r->n && (c->total < r->value[r->n - 1] || now_ms - r->at_ms[r->n - 1] > TD_RATE_MS))
		r->n = 0;
	int gone = 0; // the first of them is the last one that is older than the window
	while (gone + 1 < r->n && now_ms - r->at_ms[gone + 1] >= TD_RATE_MS)
		gone++;
	if (gone) {
		r->n -= gone;
		memmove(r->value, r->value + gone, sizeof(r->value[0]) * (size_t)r->n);
		memmove(r->at_ms, r->at_ms + gone, sizeof(r->at_ms[0]) * (size_t)r->n);
	}
	if (!r->n || (now_ms - r->at_ms[r->n - 1] >= APART_MS && r->n < TD_RATE_VALUES)) {
		r->value[r->n] = c->total;
		r->at_ms[r->n++] = now_ms;
	}
	c->recent = c->total - r->value[0];
}
