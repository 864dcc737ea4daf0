#include "pool/entrance.h"

enum td_pool_door_is td_pool_door(const struct td_pool_door *d)
{
	if (d->over || d->closed || d->apart)
		return TD_DOOR_SHUT;
	// One CPU and 1 MB at least go with any job, as pool/shadow.c makes it.
	const bool any = d->lacks.cpus > 0 || d->lacks.memory_mb > 0;
	return !any || (d->lacks.cpus <= d->room.cpus && d->lacks.memory_mb <= d->room.memory_mb && d->room.cpus > 0 &&
			d->room.memory_mb > 0)
		       ? TD_DOOR_NOW
		       : TD_DOOR_LATER;
}

int64_t td_pool_door_pause(int64_t before_ms)
{
	enum { FIRST_MS = 5000, MOST_MS = 20000 };
	return !before_ms ? FIRST_MS : before_ms < MOST_MS / 2 ? 2 * before_ms : MOST_MS;
}

static int64_t beyond(int64_t lacks, int64_t room)
{
	return lacks > room ? lacks - room : 0;
}

bool td_pool_door_better(const struct td_pool_door *a, const struct td_pool_door *b)
{
	const int64_t x = beyond(a->lacks.cpus, a->room.cpus), y = beyond(b->lacks.cpus, b->room.cpus);
	return x != y ? x < y
		      : beyond(a->lacks.memory_mb, a->room.memory_mb) < beyond(b->lacks.memory_mb, b->room.memory_mb);
}

bool td_pool_near_ok(const struct td_pool_near *r)
{
	switch (r->is) {
	case TD_NEAR_APART:
		return !r->has || !r->here;
	case TD_NEAR_BESIDE:
		return r->has && (r->here || (!r->total && r->self));
	case TD_NEAR_SPREAD:
		return r->has && r->here + r->self - r->least <= r->skew;
	}
	return false;
}

int64_t td_pool_near_least(const int64_t *counts, size_t n, int64_t least_domains)
{
	int64_t least = n ? counts[0] : 0;
	for (size_t i = 1; i < n; i++)
		least = counts[i] < least ? counts[i] : least;
	return (int64_t)n < least_domains ? 0 : least;
}
