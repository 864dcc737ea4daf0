// Which GPU is cut next because somebody waits for a part (recut.h).
#include "pool/recut.h"

#include "base/mem.h"

#include <string.h>

struct recut_best { // the best that was found for one who waits
	size_t node, gpu, score;
	struct td_recut_plan plan;
	bool found;
};

static const struct td_recut_set *set_of(const struct td_recut *f, size_t node)
{
	return &f->sets[f->nodes[node].set];
}

static int64_t parts_of(const struct td_recut_gpu *g, const char *kind)
{
	int64_t n = 0;
	for (size_t i = 0; i < g->n; i++)
		n += !strcmp(g->parts[i], kind);
	return n;
}

static int64_t cut_gpus(const struct td_recut_node *x)
{
	int64_t n = 0;
	for (size_t g = 0; g < x->n_gpus; g++)
		n += x->gpus[g].n > 0;
	return n;
}

static bool pending(const struct td_recut *f, size_t set, size_t *ret_node)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->nodes[i].set == set && f->nodes[i].pending) {
			*ret_node = i;
			return true;
		}
	return false;
}

// Of each set, how many GPUs in service are whole. Caller frees.
static int64_t *count_whole(const struct td_recut *f)
{
	int64_t *n = td_calloc(f->n_sets + 1, sizeof(*n));
	for (size_t i = 0; i < f->n; i++)
		if (f->nodes[i].serves)
			n[f->nodes[i].set] += (int64_t)f->nodes[i].n_gpus - cut_gpus(&f->nodes[i]);
	return n;
}

static bool paused(const struct td_recut *f, size_t node)
{
	const struct td_recut_node *x = &f->nodes[node];
	return x->cut_s && f->now_s - x->cut_s < set_of(f, node)->pause_s;
}

bool td_pool_recut_permits(const struct td_recut_set *s, const char *kind)
{
	for (size_t i = 0; i < s->n_parts; i++)
		if (!strcmp(s->parts[i], kind))
			return true;
	return !s->n_parts;
}

static bool allowed(const struct td_recut *f, size_t node, const char *kind)
{
	const struct td_recut_node *x = &f->nodes[node];
	bool has = false;
	for (size_t i = 0; i < x->n_kinds; i++)
		has |= !strcmp(x->kinds[i].name, kind);
	return has && td_pool_recut_permits(set_of(f, node), kind);
}

// Somebody waits for whole GPUs before this one, and could have them here.
static bool whole_first(const struct td_recut *f, size_t waiter, size_t node)
{
	for (size_t i = 0; i < waiter; i++) {
		const struct td_recut_waiter *w = &f->waiters[i];
		if (!w->kind && !w->served && w->may[node] && w->n <= (int64_t)f->nodes[node].n_gpus)
			return true;
	}
	return false;
}

// How many parts of a kind one GPU of the node has at most.
static int64_t most_of(const struct td_recut_node *x, const char *kind)
{
	for (size_t i = 0; i < x->n_kinds; i++)
		if (!strcmp(x->kinds[i].name, kind))
			return x->kinds[i].most ? x->kinds[i].most : __builtin_popcount(x->kinds[i].at);
	return 0;
}

// The node has, or with one more cut would have, as many parts as this one wants. Who can never have them keeps none.
static bool comes(const struct td_recut *f, const struct td_recut_waiter *w, size_t node)
{
	const struct td_recut_node *x = &f->nodes[node];
	const int64_t more = most_of(x, w->kind);
	const bool keep = f->whole[x->set] <= set_of(f, node)->keep_whole;
	int64_t has = 0;
	for (size_t g = 0; g < x->n_gpus; g++)
		has += parts_of(&x->gpus[g], w->kind);
	for (size_t g = 0; g < x->n_gpus && has < w->n; g++)
		if ((x->gpus[g].n || !keep) && has - parts_of(&x->gpus[g], w->kind) + more >= w->n)
			return true;
	return has >= w->n;
}

// Somebody who waits, other than this one, may take a part of this GPU. before: only who waits before it.
static bool wanted(const struct td_recut *f, size_t waiter, size_t node, size_t gpu, bool before)
{
	for (size_t i = 0; i < f->n_waiters && !(before && i >= waiter); i++) {
		const struct td_recut_waiter *w = &f->waiters[i];
		if (i != waiter && w->kind && w->may[node] && parts_of(&f->nodes[node].gpus[gpu], w->kind) &&
		    comes(f, w, node))
			return true;
	}
	return false;
}

static bool fits(const struct td_recut_node *x, const char *const *parts, size_t n)
{
	int at[TD_CUT_PARTS];
	return n <= TD_CUT_PARTS && !td_pool_cut_place(x->kinds, x->n_kinds, parts, n, at, NULL);
}

static bool add(const struct td_recut_node *x, struct td_recut_plan *p, const char *kind, int64_t n)
{
	size_t was = p->n_parts;
	for (int64_t i = 0; i < n; i++) {
		if (p->n_parts == TD_CUT_PARTS)
			break;
		p->parts[p->n_parts++] = kind;
		if (!fits(x, p->parts, p->n_parts))
			break;
		if (i + 1 == n)
			return true;
	}
	p->n_parts = was;
	return false;
}

// What this GPU is cut in: what the one who waits lacks, then what others after him want, then more of his.
static bool layout(const struct td_recut *f, size_t waiter, size_t node, size_t gpu, struct td_recut_plan *p)
{
	const struct td_recut_node *x = &f->nodes[node];
	const struct td_recut_waiter *w = &f->waiters[waiter];
	int64_t lacks = w->n;
	for (size_t g = 0; g < x->n_gpus; g++)
		lacks -= g != gpu ? parts_of(&x->gpus[g], w->kind) : 0;
	p->n_parts = 0;
	if (!add(x, p, w->kind, lacks > 0 ? lacks : 1))
		return false;
	for (size_t i = waiter + 1; i < f->n_waiters; i++) {
		const struct td_recut_waiter *o = &f->waiters[i];
		if (o->kind && !o->served && o->may[node] && allowed(f, node, o->kind))
			add(x, p, o->kind, o->n);
	}
	while (add(x, p, w->kind, 1))
		;
	return true;
}

// A GPU that is cut already costs nobody a whole one; a node that has parts is not for who asks for any GPU; of the others
// the one with the fewest.
static size_t score_of(const struct td_recut_node *x, const struct td_recut_gpu *g)
{
	return (g->n ? 0 : 1000000) + (cut_gpus(x) ? 0 : 1000) + (x->n_gpus - (size_t)cut_gpus(x));
}

static enum td_recut_why look(const struct td_recut *f, size_t waiter, size_t node, struct recut_best *best)
{
	const struct td_recut_node *x = &f->nodes[node];
	enum td_recut_why why = TD_RECUT_MANY;
	if (!allowed(f, node, f->waiters[waiter].kind))
		return TD_RECUT_KIND;
	if (!x->serves || !x->idle)
		return TD_RECUT_BUSY;
	if (whole_first(f, waiter, node))
		return TD_RECUT_WHOLE;
	if (paused(f, node))
		return TD_RECUT_PAUSE;
	bool keep = f->whole[x->set] <= set_of(f, node)->keep_whole;
	for (size_t g = 0; g < x->n_gpus; g++) {
		struct td_recut_plan p = {.node = node, .gpu = x->gpus[g].gpu, .waiter = waiter};
		enum td_recut_why not= !x->gpus[g].n && keep               ? TD_RECUT_KEEP
				       : wanted(f, waiter, node, g, false) ? TD_RECUT_WANTED
									   : TD_RECUT_MANY;
		size_t score = score_of(x, &x->gpus[g]);
		if (not!= TD_RECUT_MANY || (best->found && score >= best->score)) {
			why = not > why ? not : why;
			continue;
		}
		if (!layout(f, waiter, node, g, &p))
			continue;
		*best = (struct recut_best){.node = node, .gpu = g, .score = score, .plan = p, .found = true};
	}
	return best->found && best->node == node ? TD_RECUT_CUTS : why;
}

// One who waits for a part. True: *ret is done for it.
static bool part(const struct td_recut *f, size_t waiter, enum td_recut_why *why, size_t *at, struct td_recut_plan *ret)
{
	struct recut_best best = {0};
	*why = TD_RECUT_NONE;
	*at = SIZE_MAX;
	for (size_t i = 0; i < f->n; i++) {
		if (!f->waiters[waiter].may[i])
			continue;
		size_t other = 0;
		enum td_recut_why is = !allowed(f, i, f->waiters[waiter].kind) ? TD_RECUT_KIND
				       : pending(f, f->nodes[i].set, &other)   ? TD_RECUT_COMES
									       : look(f, waiter, i, &best);
		if (is >= *why && is != TD_RECUT_CUTS) {
			*why = is;
			*at = is == TD_RECUT_COMES ? other : i;
		}
	}
	if (!best.found)
		return false;
	*why = TD_RECUT_CUTS;
	*at = best.node;
	*ret = best.plan;
	return true;
}

// GPUs that are made whole for one who waits for some: where nothing is in use, else where jobs are waited for when it has
// waited for long.
static bool whole(const struct td_recut *f, size_t waiter, enum td_recut_why *why, size_t *at,
		  struct td_recut_plan *ret)
{
	const struct td_recut_waiter *w = &f->waiters[waiter];
	bool found = false;
	*why = TD_RECUT_NONE;
	*at = SIZE_MAX;
	for (size_t i = 0; i < f->n; i++) {
		const struct td_recut_node *x = &f->nodes[i];
		int64_t cut = cut_gpus(x);
		size_t other, first = SIZE_MAX;
		bool taken = false;
		for (size_t g = 0; g < x->n_gpus; g++) {
			taken |= x->gpus[g].n && wanted(f, waiter, i, g, true);
			first = first == SIZE_MAX && x->gpus[g].n ? g : first;
		}
		if (!w->may[i] || !cut || w->n > (int64_t)x->n_gpus || !x->serves || taken)
			continue;
		if (pending(f, x->set, &other) || paused(f, i)) {
			*why = TD_RECUT_PAUSE;
			continue;
		}
		if (!x->idle && f->now_s - w->since_s < set_of(f, i)->idle_s)
			continue;
		if (found && !(x->idle && ret->jobs))
			continue;
		bool one = (int64_t)x->n_gpus - cut + 1 >= w->n;
		*ret = (struct td_recut_plan){
			.node = i, .gpu = one ? x->gpus[first].gpu : -1, .waiter = waiter, .jobs = !x->idle};
		found = true;
		*why = TD_RECUT_CUTS;
		*at = i;
	}
	return found;
}

// Parts that nobody has had or wanted for long.
static bool idle(const struct td_recut *f, struct td_recut_plan *ret)
{
	for (size_t i = 0; i < f->n; i++) {
		const struct td_recut_node *x = &f->nodes[i];
		int64_t since = x->idle_s > x->cut_s ? x->idle_s : x->cut_s;
		size_t other;
		bool taken = false;
		for (size_t g = 0; g < x->n_gpus; g++)
			taken |= wanted(f, SIZE_MAX, i, g, false);
		if (!cut_gpus(x) || !x->serves || !x->idle || taken || paused(f, i) || pending(f, x->set, &other) ||
		    !since || f->now_s - since < set_of(f, i)->idle_s)
			continue;
		*ret = (struct td_recut_plan){.node = i, .gpu = -1, .waiter = SIZE_MAX};
		return true;
	}
	return false;
}

bool td_pool_recut(const struct td_recut *facts, enum td_recut_why *why, size_t *at, struct td_recut_plan *ret)
{
	td_auto_free int64_t *counts = count_whole(facts);
	struct td_recut with = *facts, *f = &with;
	struct td_recut_plan p;
	bool found = false;
	with.whole = counts;
	for (size_t i = 0; i < f->n_waiters; i++) {
		const struct td_recut_waiter *w = &f->waiters[i];
		if (w->served) {
			why[i] = TD_RECUT_FREE;
			at[i] = SIZE_MAX;
			continue;
		}
		bool now = w->kind ? part(f, i, &why[i], &at[i], &p) : whole(f, i, &why[i], &at[i], &p);
		if (now && !found)
			*ret = p;
		else if (now)
			why[i] = TD_RECUT_COMES; // the next time
		found |= now;
	}
	return found || idle(f, ret);
}

const char *td_pool_recut_words(enum td_recut_why why)
{
	static const char *const words[] = {
		[TD_RECUT_NONE] = "no node that it may use belongs to a NodeSet whose spec.gpuCutting lets GPUs be cut",
		[TD_RECUT_KIND] = "no GPU that it may use can be cut so, or spec.gpuCutting.parts of the NodeSet does "
				  "not allow it",
		[TD_RECUT_MANY] = "it wants more of them on one node than a GPU can be cut in",
		[TD_RECUT_BUSY] = "a GPU is cut for it as soon as nothing of a node that it may use is in use",
		[TD_RECUT_KEEP] =
			"no further GPU is cut: spec.gpuCutting.keepWhole of the NodeSet keeps the others whole",
		[TD_RECUT_WANTED] = "the GPUs that could be cut for it have parts for others who wait",
		[TD_RECUT_WHOLE] = "no GPU is cut for it while somebody before it waits for whole ones",
		[TD_RECUT_PAUSE] =
			"its node was cut a moment ago, and is cut for it when spec.gpuCutting.pause is over",
		[TD_RECUT_COMES] = "a GPU is being cut; one at a time of a NodeSet",
		[TD_RECUT_CUTS] = "a GPU is being cut for it",
		[TD_RECUT_FREE] = "such parts are free, so that it waits for something else",
	};
	return words[why];
}
