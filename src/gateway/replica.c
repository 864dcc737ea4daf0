#include "gateway/replica.h"

#include <stddef.h>

// Whether a is to be asked rather than b.
static bool better(const struct td_replica_way *a, const struct td_replica_way *b)
{
	return a->out != b->out ? b->out : a->in_flight < b->in_flight;
}

int td_replica_pick(const struct td_replica_way *v, int n, uint64_t turn)
{
	const struct td_replica_way *best = NULL;
	uint64_t equals = 0;
	for (int i = 0; i < n; i++)
		if (v[i].ready && (!best || better(&v[i], best))) {
			best = &v[i];
			equals = 1;
		} else if (v[i].ready && !better(best, &v[i])) {
			equals++;
		}
	uint64_t skip = best ? turn % equals : 0;
	for (int i = 0; best && i < n; i++)
		if (v[i].ready && !better(best, &v[i]) && !skip--)
			return i;
	return -1;
}

// How long one stays down that has ended soon so many times.
static int64_t rest_s(int soon)
{
	int64_t s = soon > 0 ? TD_REPLICA_FIRST_S : 0;
	for (int i = 1; i < soon && s < TD_REPLICA_LAST_S; i++)
		s *= 2;
	return s < TD_REPLICA_LAST_S ? s : TD_REPLICA_LAST_S;
}

static bool ran_long(const struct td_replica_seen *s)
{
	return s->ended - s->began >= TD_REPLICA_LONG_S;
}

static bool drained(const struct td_replica_seen *s, const struct td_replica_want *want)
{
	if (!want->n || want->now >= want->shrunk + TD_REPLICA_DRAIN_S)
		return true;
	return !s->in_flight && want->now >= want->shrunk + TD_REPLICA_HOLD_S && want->now >= want->busy_until;
}

enum td_replica_act td_replica_next(const struct td_replica_seen *s, int number, const struct td_replica_want *want)
{
	bool wanted = number < want->n;
	switch (s->is) {
	case TD_REPLICA_NONE:
		return wanted ? TD_REPLICA_MAKE : TD_REPLICA_LEAVE;
	case TD_REPLICA_LIVES:
		return wanted || !drained(s, want) ? TD_REPLICA_LEAVE : TD_REPLICA_REMOVE;
	case TD_REPLICA_ENDED:
		if (!wanted)
			return TD_REPLICA_REMOVE;
		return want->now >= s->ended + (ran_long(s) ? 0 : rest_s(s->soon)) ? TD_REPLICA_REPLACE
										   : TD_REPLICA_LEAVE;
	case TD_REPLICA_GOES:
		break;
	}
	return TD_REPLICA_LEAVE;
}

int td_replica_soon(const struct td_replica_seen *s)
{
	return ran_long(s) ? 0 : s->soon < 100 ? s->soon + 1 : s->soon;
}
