// Who is the core of an elastic gang, and what becomes of the pods beyond it. t/scenarios/elastic.txt
// shows every case.
#include "pool/elastic.h"

// May y be the next one after x? A group may have several pods of one index: roles of a training job.
static bool follows(const struct td_pool_core_place *x, const struct td_pool_core_place *y)
{
	return x->group == y->group ? y->index <= x->index + 1 : y->group == x->group + 1 && !y->index;
}

size_t td_pool_core_there(const struct td_pool_core_place *v, size_t n, int64_t first, size_t size)
{
	size_t there = 0;
	for (size_t i = 0; i < n && there < size; i++) {
		const struct td_pool_core_place *x = &v[i];
		// Without indexes there is no order but that of names, in which nobody is missed.
		if (x->index >= 0 && (i && v[i - 1].index >= 0 ? !follows(x - 1, x) : x->group != first || x->index))
			break;
		there += !x->done;
	}
	return there;
}

enum td_pool_core_is td_pool_core_is(const struct td_pool_core *c)
{
	if (c->bound)
		return c->bound + c->succeeded >= c->size ? TD_CORE_RUNS : TD_CORE_UNWHOLE;
	return c->succeeded && !c->failed && !c->leaving ? TD_CORE_DONE : TD_CORE_NONE;
}

const char *td_pool_core_is_name(enum td_pool_core_is is)
{
	static const char *const names[] = {"none", "unwhole", "runs", "done"};
	return (size_t)is < sizeof(names) / sizeof(names[0]) ? names[is] : "?";
}

static enum td_pool_beyond_do joined(const struct td_pool_core *c)
{
	switch (td_pool_core_is(c)) {
	case TD_CORE_RUNS:
	case TD_CORE_DONE: // what is left to do is theirs
		return TD_BEYOND_STAY;
	case TD_CORE_UNWHOLE: // it was whole before anybody joined
		return c->replace ? TD_BEYOND_STAY : TD_BEYOND_END;
	case TD_CORE_NONE:
		break;
	}
	return TD_BEYOND_END;
}

static enum td_pool_beyond_do waits(const struct td_pool_core *c, const struct td_pool_beyond *p)
{
	bool room = p->ahead + p->others < c->most - c->size;
	switch (td_pool_core_is(c)) {
	case TD_CORE_RUNS:
		return room ? TD_BEYOND_JOIN : TD_BEYOND_NOT;
	case TD_CORE_DONE: // who comes later is of the next gang of that name
		return room && p->made_ms <= c->done_ms ? TD_BEYOND_JOIN : TD_BEYOND_NOT;
	case TD_CORE_UNWHOLE: {
		int64_t vacant = c->size - c->bound - c->leaving - c->succeeded;
		return c->most <= c->size || (c->replace && p->ahead < vacant) ? TD_BEYOND_NOT : TD_BEYOND_HOLD;
	}
	case TD_CORE_NONE:
		break;
	}
	return TD_BEYOND_NOT;
}

enum td_pool_beyond_do td_pool_beyond(const struct td_pool_core *c, const struct td_pool_beyond *p)
{
	return p->joined ? joined(c) : waits(c, p);
}

const char *td_pool_beyond_name(enum td_pool_beyond_do d)
{
	static const char *const names[] = {"not", "hold", "join", "stay", "end"};
	return (size_t)d < sizeof(names) / sizeof(names[0]) ? names[d] : "?";
}

struct td_pool_step td_pool_reconcile_beyond(const struct td_pool_ask *a, const struct td_pool_job *j,
					     enum td_pool_beyond_do d)
{
	struct td_pool_step st = td_pool_reconcile_ask(a, j);
	bool runs = j->know == TD_JOB_READ && j->ours && (j->is == TD_IS_RUNNING || j->is == TD_IS_STARTING);
	if (d == TD_BEYOND_END && a->pod == TD_POD_BOUND && st.what == TD_DO_NOTHING && runs)
		return (struct td_pool_step){TD_DO_END_POD, "the core of its gang has ended"};
	return st;
}
