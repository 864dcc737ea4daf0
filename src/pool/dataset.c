#include "pool/dataset.h"

#include "base/names.h"

#include <string.h>

static bool same(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

bool td_pool_data_held(const char *mark)
{
	return mark && !same(mark, TD_DATA_FETCHING) && !same(mark, TD_DATA_GONE);
}

int td_pool_data_constraint(const char *own, const struct td_strv *names, char **ret, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	if (own && strpbrk(own, "[*"))
		return td_fail(
			err, TD_INVALID,
			"the constraint \"%.60s\" cannot be joined with data sets: write features with & and | only",
			own);
	if (own && *own)
		td_buf_printf(&b, strchr(own, '|') ? "(%s)" : "%s", own);
	for (size_t i = 0; i < names->n; i++)
		td_buf_printf(&b, "%s" TD_DATA_FEATURE "%s", b.len ? "&" : "", names->v[i]);
	*ret = td_buf_take(&b);
	return 0;
}

// A pod is there: it runs or has ended.
static enum td_data_act with_pod(const struct td_pool_data *f)
{
	bool removes = !*f->pod_for;
	// What it does is what is wanted now. A removal that runs goes on to its end: the fetching begins after it.
	bool meant = removes ? same(f->mark, TD_DATA_GONE) : same(f->pod_for, f->want);
	switch (f->pod) {
	case TD_DATA_POD_RUNS:
		return meant || removes ? TD_DATA_NOTHING : TD_DATA_END_POD;
	case TD_DATA_POD_DONE:
		if (!meant)
			return TD_DATA_END_POD;
		if (removes)
			return TD_DATA_UNMARK;
		return same(f->mark, f->want) ? TD_DATA_END_POD : TD_DATA_MARK_HELD;
	case TD_DATA_POD_FAILED:
	case TD_DATA_POD_WRONG:
		return !meant || f->ended_ms >= (f->pod == TD_DATA_POD_WRONG ? TD_DATA_WRONG_MS : TD_DATA_AGAIN_MS)
			       ? TD_DATA_END_POD
			       : TD_DATA_NOTHING;
	case TD_DATA_POD_NONE:
		break;
	}
	return TD_DATA_NOTHING;
}

static enum td_data_act start(const struct td_pool_data *f, int *turns, enum td_data_act act)
{
	if (!f->ready || *turns <= 0)
		return TD_DATA_NOTHING;
	--*turns;
	return act;
}

enum td_data_act td_pool_data_next(const struct td_pool_data *f, int *turns)
{
	if (f->pod != TD_DATA_POD_NONE)
		return with_pod(f);
	if (!f->mark)
		return f->want ? TD_DATA_MARK_FETCHING : TD_DATA_NOTHING;
	if (same(f->mark, f->want))
		return f->verify && f->ready ? TD_DATA_MARK_FETCHING : TD_DATA_NOTHING;
	// A copy that jobs may use now: first the feature goes.
	if (td_pool_data_held(f->mark))
		return TD_DATA_MARK_GONE;
	if (same(f->mark, TD_DATA_FETCHING))
		return f->want ? start(f, turns, TD_DATA_START) : TD_DATA_MARK_GONE;
	return f->free ? start(f, turns, TD_DATA_REMOVE) : TD_DATA_NOTHING;
}
