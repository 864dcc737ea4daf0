#include "pool/far.h"

#include <stddef.h>

enum td_pool_far_do td_pool_far_decide(const struct td_pool_far_pod *p, const char **ret_why)
{
	*ret_why = NULL;
	const bool runs_there = p->there && !p->there_leaving;
	if (!p->here)
		return runs_there ? TD_FAR_END : TD_FAR_NOTHING;
	if (p->leaving)
		return runs_there ? TD_FAR_END : p->there || !p->bound ? TD_FAR_NOTHING : TD_FAR_LET_GO;
	// A copy that has ended stays as long as the pod: its output is there.
	if (p->over)
		return runs_there && !p->there_over ? TD_FAR_END : TD_FAR_NOTHING;
	if (!p->bound || !p->granted)
		return TD_FAR_NOTHING;
	if (p->ended) {
		if (p->there && !p->there_over)
			return p->there_leaving ? TD_FAR_NOTHING : TD_FAR_END;
		if (runs_there)
			return TD_FAR_SHOW; // it has just ended by itself
		*ret_why = "GrantEnded";
		return TD_FAR_FAIL;
	}
	if (p->there && p->pending_ms >= TD_FAR_PENDING_MS) {
		*ret_why = "NoRoomThere";
		return TD_FAR_FAIL;
	}
	if (p->there)
		return TD_FAR_SHOW;
	// Another copy would be a second run of a pod that may have done half of its work.
	if (p->made || p->begun || p->refused) {
		*ret_why = p->made ? "GoneThere" : p->begun ? "LostThere" : "NotForOtherCluster";
		return TD_FAR_FAIL;
	}
	return p->room ? TD_FAR_MAKE : TD_FAR_WAIT;
}

int64_t td_pool_far_offer(int64_t allocatable, int64_t reserve, int64_t foreign, int64_t most)
{
	if (allocatable < 0 || foreign < 0)
		return 0;
	int64_t all = allocatable < most ? allocatable : most,
		left = foreign > reserve ? all - (foreign - reserve) : all;
	return left > 0 ? left : 0;
}

bool td_pool_far_stream(int his, int its, int all, int most)
{
	int left = most - all;
	return its < left && his < (left + 1) / 2;
}

int64_t td_pool_far_add(int64_t a, int64_t b)
{
	int64_t v;
	return __builtin_add_overflow(a, b, &v) ? INT64_MAX : v;
}

bool td_pool_far_settle(struct td_pool_far_offered *o, int64_t want, int64_t now_ms)
{
	if (want == o->now) {
		o->more_ms = 0;
		return false;
	}
	if (want > o->now) {
		// Of what came and went meanwhile the least counts.
		o->more = o->more_ms && o->more < want ? o->more : want;
		o->more_ms = o->more_ms ? o->more_ms : now_ms;
		if (now_ms - o->more_ms < TD_FAR_SETTLE_MS)
			return false;
		want = o->more;
	}
	o->now = want;
	o->more_ms = 0;
	return true;
}
