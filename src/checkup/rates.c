// What lasts: a look every few seconds tells what is so now, and this for how long it has been so.
#include "checkup/checkup.h"

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
