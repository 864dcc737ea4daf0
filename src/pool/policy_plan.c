// Which jobs must get another priority, so that all come in the order of their policy (policy.h).
#include "pool/policy.h"

#include <string.h>

// STEP apart are jobs that are put beside each other; where less than NARROW is left between two, all are
// spread anew.
enum { STEP = 1 << 17, NARROW = 1 << 10 };

// Does Slurm start a before b?
static bool earlier(const struct td_policy_place *a, const struct td_policy_place *b)
{
	return a->value != b->value ? a->value > b->value : a->id < b->id;
}

static bool moved_before(const struct td_policy_place *p)
{
	return p->value >= TD_POLICY_LOW;
}

// Chooses the most of the first `top` jobs that are in order among themselves and come before `last`, which may be
// NULL: the longest falling sequence. keep[i]: job i may stay where it is.
static void longest(const struct td_policy_place *v, size_t top, const struct td_policy_place *last, bool *keep)
{
	td_auto_free size_t *tails = td_calloc(top + 1, sizeof(*tails)), *from = td_calloc(top + 1, sizeof(*from));
	size_t n = 0;
	for (size_t i = 0; i < top; i++) {
		if (last && !earlier(&v[i], last))
			continue;
		// tails[k]: of the sequences of k + 1 jobs the one that ends earliest in Slurm's order.
		size_t a = 0, b = n;
		while (a < b) {
			size_t m = (a + b) / 2;
			if (earlier(&v[tails[m]], &v[i]))
				a = m + 1;
			else
				b = m;
		}
		tails[a] = i;
		from[i] = a ? tails[a - 1] : SIZE_MAX;
		n = a == n ? n + 1 : n;
	}
	for (size_t i = n ? tails[n - 1] : SIZE_MAX; i != SIZE_MAX; i = from[i])
		keep[i] = true;
}

// Gives the jobs from..to, which all move, places between hi and lo; 0: nobody is on that side. False: there is
// no room.
static bool between(size_t from, size_t to, int64_t hi, int64_t lo, int64_t *ret)
{
	int64_t m = (int64_t)(to - from), step = STEP, first;
	if (hi && lo) {
		step = (hi - lo) / (m + 1);
		step = step > STEP ? STEP : step;
		if (step < NARROW)
			return false;
		first = hi - step;
	} else if (hi) {
		first = hi - step;
	} else if (lo) {
		first = lo + m * step;
	} else {
		first = (TD_POLICY_LOW + TD_POLICY_HIGH) / 2 + m / 2 * step;
	}
	if (first > TD_POLICY_HIGH || first - (m - 1) * step < TD_POLICY_LOW)
		return false;
	for (size_t i = from; i < to; i++)
		ret[i] = first - (int64_t)(i - from) * step;
	return true;
}

// The places of the first `top` jobs. False: no room.
static bool place(const struct td_policy_place *v, size_t top, const bool *keep, int64_t *ret)
{
	int64_t hi = 0;
	for (size_t i = 0; i < top;) {
		if (keep[i]) {
			hi = ret[i] = v[i].value;
			i++;
			continue;
		}
		size_t to = i;
		while (to < top && !keep[to])
			to++;
		int64_t lo = to < top && moved_before(&v[to]) ? v[to].value : 0;
		if (!between(i, to, hi, lo, ret))
			return false;
		i = to;
	}
	return true;
}

size_t td_policy_plan(const struct td_policy_place *v, size_t n, size_t depth, struct td_policy_move *ret)
{
	size_t top = n < depth ? n : depth, moves = 0;
	td_auto_free bool *keep = td_calloc(top + 1, sizeof(*keep));
	td_auto_free int64_t *to = td_calloc(top + 1, sizeof(*to));

	// Whoever is not among the first has his own priority; the first come before all of those.
	struct td_policy_place last = {0};
	for (size_t i = top; i < n; i++) {
		const struct td_policy_place own = {.id = v[i].id, .value = v[i].own};
		if (i == top || earlier(&own, &last))
			last = own;
	}
	longest(v, top, top < n ? &last : NULL, keep);

	// Nothing can be put behind a job that has its own priority.
	size_t behind = top;
	while (behind > 0 && keep[behind - 1])
		behind--;
	for (size_t i = 0; i < behind; i++)
		keep[i] = keep[i] && moved_before(&v[i]);

	if (!place(v, top, keep, to)) {
		memset(keep, 0, top * sizeof(*keep));
		place(v, top, keep, to);
	}
	for (size_t i = 0; i < top; i++)
		if (to[i] != v[i].value)
			ret[moves++] = (struct td_policy_move){.at = i, .value = to[i]};
	for (size_t i = top; i < n; i++)
		if (moved_before(&v[i]))
			ret[moves++] = (struct td_policy_move){.at = i};
	return moves;
}
