// Who moves so that another one has room (defrag.h).
#include "pool/defrag.h"

#include "base/mem.h"
#include "pool/gang.h"

#include <string.h>

enum { ALL = 12, CANDIDATES = 20, DEEP = 6, STEPS = 4000000 };

struct defrag_search {
	const struct td_pool_defrag *f;
	struct td_pool_node *x; // the pool as it is when those have left that are chosen
	int64_t seats;          // of who waits, in x
	bool *gone;             // per job
	bool *only;             // per node: the greedy choice is made there; NULL: anywhere
	// The jobs on each node: those of node i are on[first[i]] to on[first[i + 1]].
	size_t *first, *on;
	long steps;
};

static int64_t seats_on(const struct defrag_search *s, size_t i)
{
	int64_t n = s->x[i].usable ? td_pool_gang_slots(&s->x[i], &s->f->want) : 0;
	return s->f->spread && n > 1 ? 1 : n;
}

static void use(struct td_pool_node *x, const struct td_pool_want *w, int64_t times)
{
	x->used_cpus += times * w->cpus;
	x->used_memory_mb += times * w->memory_mb;
	for (int k = 0; k < TD_POOL_KINDS; k++)
		x->used_gres[k] += times * w->gres[k];
	// Views of different times may not add up.
	x->used_cpus = x->used_cpus > 0 ? x->used_cpus : 0;
	x->used_memory_mb = x->used_memory_mb > 0 ? x->used_memory_mb : 0;
	for (int k = 0; k < TD_POOL_KINDS; k++)
		x->used_gres[k] = x->used_gres[k] > 0 ? x->used_gres[k] : 0;
}

static int larger(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x < y) - (x > y);
}

// Are there seats for who waits, on as many nodes as he may have?
static bool enough(struct defrag_search *s)
{
	if (s->seats < s->f->units || !s->f->most)
		return s->seats >= s->f->units;
	td_auto_free int64_t *v = td_calloc(s->f->n + 1, sizeof(*v));
	size_t n = 0;
	int64_t sum = 0;
	for (size_t i = 0; i < s->f->n; i++)
		if ((v[n] = seats_on(s, i)))
			n++;
	s->steps -= (long)s->f->n;
	qsort(v, n, sizeof(*v), larger);
	for (size_t i = 0; i < n && (int64_t)i < s->f->most && sum < s->f->units; i++)
		sum += v[i];
	return sum >= s->f->units;
}

// The job leaves, or comes back.
static void turn(struct defrag_search *s, size_t job, bool gone)
{
	const struct td_pool_move_job *j = &s->f->jobs[job];
	for (size_t i = 0; i < j->n_parts; i++) {
		size_t at = (size_t)j->parts[i].node;
		s->seats -= seats_on(s, at);
		use(&s->x[at], &j->parts[i].has, gone ? -1 : 1);
		s->seats += seats_on(s, at);
	}
	s->gone[job] = gone;
}

// ---- do those who leave fit elsewhere? ----

struct leaver {
	size_t job, part;
};
struct leavers {
	struct leaver *v;
	size_t n;
	int *to; // the node of each
};

static int64_t size_of(const struct td_pool_want *w)
{
	int64_t n = 0;
	for (int k = 0; k < TD_POOL_KINDS; k++)
		n += w->gres[k];
	return (n << 20) + w->cpus;
}

static bool place(struct defrag_search *s, struct leavers *l, size_t at)
{
	if (at == l->n)
		return true;
	const struct td_pool_move_job *j = &s->f->jobs[l->v[at].job];
	const struct td_pool_want *w = &j->parts[l->v[at].part].has;
	for (size_t i = 0; i < s->f->n && s->steps > 0; i++) {
		struct td_pool_node *x = &s->x[i];
		s->steps--;
		if (!j->feasible[i] || !x->usable)
			continue;
		bool own = false; // another part of it is there
		for (size_t k = 0; k < at && !own; k++)
			own = l->v[k].job == l->v[at].job && l->to[k] == (int)i;
		bool feasible = x->feasible;
		x->feasible = true;
		bool fits = !own && td_pool_fits_now(x, 1, w) == 0;
		x->feasible = feasible;
		if (!fits)
			continue;
		use(x, w, 1);
		l->to[at] = (int)i;
		bool done = place(s, l, at + 1);
		use(x, w, -1);
		if (done)
			return true;
	}
	return false;
}

// Gives who waits his seats, on up to `nodes` nodes from `i` on, in every way; the leavers must fit beside them.
static bool seat(struct defrag_search *s, struct leavers *l, size_t i, const int64_t give[2], int64_t left)
{
	const int64_t want = give[0], nodes = give[1];
	if (want <= 0)
		return place(s, l, 0);
	for (; i < s->f->n && left >= want && nodes > 0 && s->steps > 0; i++) {
		s->steps--;
		int64_t n = seats_on(s, i);
		if (!n)
			continue;
		left -= n;
		for (int64_t take = n < want ? n : want; take > 0; take--) {
			const int64_t rest[2] = {want - take, nodes - 1};
			if (left < want - take)
				break;
			use(&s->x[i], &s->f->want, take);
			bool whole = s->f->want.exclusive && s->x[i].usable;
			s->x[i].usable = s->x[i].usable && !whole;
			bool done = seat(s, l, i + 1, rest, left);
			s->x[i].usable = s->x[i].usable || whole;
			use(&s->x[i], &s->f->want, -take);
			if (done)
				return true;
		}
	}
	return false;
}

static bool valid(struct defrag_search *s)
{
	if (!enough(s))
		return false;
	const int64_t all[2] = {s->f->units, s->f->most ? s->f->most : INT64_MAX};
	size_t n = 0;
	for (size_t j = 0; j < s->f->n_jobs; j++)
		n += s->gone[j] ? s->f->jobs[j].n_parts : 0;
	td_auto_free struct leaver *v = td_calloc(n + 1, sizeof(*v));
	td_auto_free int *to = td_calloc(n + 1, sizeof(*to));
	struct leavers l = {.v = v, .to = to};
	for (size_t j = 0; j < s->f->n_jobs; j++)
		for (size_t p = 0; s->gone[j] && p < s->f->jobs[j].n_parts; p++) {
			// The largest first.
			size_t at = l.n++;
			int64_t mine = size_of(&s->f->jobs[j].parts[p].has);
			for (; at > 0 && size_of(&s->f->jobs[v[at - 1].job].parts[v[at - 1].part].has) < mine; at--)
				v[at] = v[at - 1];
			v[at] = (struct leaver){j, p};
		}
	return seat(s, &l, 0, all, s->seats);
}

// ---- the greedy choice ----

struct action { // the cheapest way to more seats on one node
	size_t jobs[TD_DEFRAG_MOST], n;
	int64_t loss, gain;
};

static void cheapest(struct defrag_search *s, size_t node, struct action *ret)
{
	*ret = (struct action){0};
	int64_t had = seats_on(s, node);
	if (!s->x[node].usable || !s->x[node].feasible || (s->f->spread && had))
		return;
	while (seats_on(s, node) <= had && ret->n < TD_DEFRAG_MOST) {
		size_t best = SIZE_MAX;
		for (size_t k = s->first[node]; k < s->first[node + 1]; k++) {
			size_t j = s->on[k];
			if (!s->gone[j] && (best == SIZE_MAX || s->f->jobs[j].loss < s->f->jobs[best].loss))
				best = j;
		}
		if (best == SIZE_MAX)
			break;
		turn(s, best, true);
		ret->jobs[ret->n++] = best;
	}
	// Whoever need not go, stays: the dearest first.
	bool enough = seats_on(s, node) > had;
	for (size_t k = ret->n; enough && k-- > 0;) {
		turn(s, ret->jobs[k], false);
		if (seats_on(s, node) > had)
			ret->jobs[k] = ret->jobs[--ret->n];
		else
			turn(s, ret->jobs[k], true);
	}
	ret->gain = enough ? seats_on(s, node) - had : 0;
	for (size_t k = 0; k < ret->n; k++) {
		ret->loss += s->f->jobs[ret->jobs[k]].loss + 1;
		turn(s, ret->jobs[k], false);
	}
}

struct price { // of an action, without its list
	size_t node;
	size_t n;
	int64_t loss, gain;
};

static int dearer(const void *a, const void *b)
{
	const struct price *x = a, *y = b;
	int64_t l = (int64_t)x->n * y->gain, r = (int64_t)y->n * x->gain;
	if (l != r)
		return l < r ? -1 : 1;
	if (x->loss != y->loss)
		return x->loss < y->loss ? -1 : 1;
	return x->node < y->node ? -1 : 1;
}

// The nodes by what more seats on them cost. Returns how many have a price.
static size_t prices(struct defrag_search *s, struct price *ret)
{
	size_t n = 0;
	for (size_t i = 0; i < s->f->n; i++) {
		struct action a;
		cheapest(s, i, &a);
		if (a.gain > 0)
			ret[n++] = (struct price){i, a.n, a.loss, a.gain};
	}
	if (n)
		qsort(ret, n, sizeof(*ret), dearer);
	return n;
}

static size_t collect(const struct defrag_search *s, size_t *ret)
{
	size_t n = 0;
	for (size_t j = 0; j < s->f->n_jobs; j++)
		if (s->gone[j]) {
			if (n == TD_DEFRAG_MOST)
				return 0;
			ret[n++] = j;
		}
	return n;
}

static size_t greedy(struct defrag_search *s, const struct price *order, size_t n, size_t *ret)
{
	size_t moved = 0;
	bool more = true;
	while (!enough(s) && more) { // a node may give one seat more in each round
		more = false;
		for (size_t i = 0; i < n && !enough(s) && moved <= TD_DEFRAG_MOST; i++) {
			struct action a;
			if (s->only && !s->only[order[i].node])
				continue;
			cheapest(s, order[i].node, &a);
			for (size_t k = 0; k < a.n && a.gain > 0; k++)
				turn(s, a.jobs[k], true);
			moved += a.gain > 0 ? a.n : 0;
			more |= a.gain > 0;
		}
	}
	size_t found = moved <= TD_DEFRAG_MOST && valid(s) ? collect(s, ret) : 0;
	for (size_t j = 0; j < s->f->n_jobs; j++)
		if (s->gone[j])
			turn(s, j, false);
	return found;
}

// Chooses the nodes for a greedy choice on `most` nodes: those with the most seats if all who may move left; of equals
// where fewer would have to.
static void roomiest(struct defrag_search *s, bool *ret)
{
	td_auto_free struct price *v = td_calloc(s->f->n + 1, sizeof(*v));
	size_t n = 0;
	for (size_t i = 0; i < s->f->n; i++) {
		for (size_t k = s->first[i]; k < s->first[i + 1]; k++)
			turn(s, s->on[k], true);
		int64_t most = seats_on(s, i);
		for (size_t k = s->first[i]; k < s->first[i + 1]; k++)
			turn(s, s->on[k], false);
		if (most) // as dearer() has it: the fewest "jobs" for a gain come first
			v[n++] = (struct price){
				.node = i, .n = 1, .gain = most, .loss = (int64_t)(s->first[i + 1] - s->first[i])};
	}
	if (n)
		qsort(v, n, sizeof(*v), dearer);
	for (size_t i = 0; i < n && (int64_t)i < s->f->most; i++)
		ret[v[i].node] = true;
}

// ---- the search ----

struct best {
	size_t v[TD_DEFRAG_MOST], n;
	int64_t loss;
};

// Tries every way to choose k more of the candidates from `from` on.
static void choose(struct defrag_search *s, const size_t *cand, size_t n, size_t from, size_t k, struct best *b)
{
	if (!k) {
		int64_t loss = 0;
		for (size_t i = 0; i < n; i++)
			loss += s->gone[cand[i]] ? s->f->jobs[cand[i]].loss : 0;
		if ((!b->n || loss < b->loss) && valid(s)) {
			b->n = collect(s, b->v);
			b->loss = loss;
		}
		return;
	}
	for (size_t i = from; i + k <= n && s->steps > 0; i++) {
		s->steps--;
		turn(s, cand[i], true);
		choose(s, cand, n, i + 1, k - 1, b);
		turn(s, cand[i], false);
	}
}

// The jobs that are cheapest to move.
static size_t candidates(const struct defrag_search *s, const struct price *order, size_t n_order, size_t *ret)
{
	size_t n = 0;
	if (s->f->n_jobs <= ALL) {
		while (n < s->f->n_jobs)
			ret[n] = n, n++;
		return n;
	}
	for (size_t i = 0; i < n_order; i++)
		for (size_t k = s->first[order[i].node]; k < s->first[order[i].node + 1]; k++) {
			bool there = false;
			for (size_t m = 0; m < n && !there; m++)
				there = ret[m] == s->on[k];
			if (n == CANDIDATES)
				return n;
			if (!there)
				ret[n++] = s->on[k];
		}
	return n;
}

static void index_jobs(struct defrag_search *s)
{
	const struct td_pool_defrag *f = s->f;
	for (size_t j = 0; j < f->n_jobs; j++)
		for (size_t p = 0; p < f->jobs[j].n_parts; p++)
			s->first[f->jobs[j].parts[p].node + 1]++;
	for (size_t i = 0; i < f->n; i++)
		s->first[i + 1] += s->first[i];
	td_auto_free size_t *at = td_calloc(f->n + 1, sizeof(*at));
	for (size_t j = 0; j < f->n_jobs; j++)
		for (size_t p = 0; p < f->jobs[j].n_parts; p++) {
			size_t i = (size_t)f->jobs[j].parts[p].node;
			s->on[s->first[i] + at[i]++] = j;
		}
}

size_t td_pool_defrag(const struct td_pool_defrag *f, size_t ret[TD_DEFRAG_MOST])
{
	size_t parts = 0;
	for (size_t j = 0; j < f->n_jobs; j++)
		parts += f->jobs[j].n_parts;
	td_auto_free struct td_pool_node *x = td_calloc(f->n + 1, sizeof(*x));
	td_auto_free bool *gone = td_calloc(f->n_jobs + 1, sizeof(*gone));
	td_auto_free size_t *first = td_calloc(f->n + 2, sizeof(*first)), *on = td_calloc(parts + 1, sizeof(*on));
	td_auto_free struct price *order = td_calloc(f->n + 1, sizeof(*order));
	if (f->n)
		memcpy(x, f->nodes, f->n * sizeof(*x));
	struct defrag_search s = {.f = f, .x = x, .gone = gone, .first = first, .on = on, .steps = STEPS};
	for (size_t i = 0; i < f->n; i++)
		s.seats += seats_on(&s, i);
	if (enough(&s) || !f->n_jobs)
		return 0;

	index_jobs(&s);
	size_t n_order = prices(&s, order), cand[CANDIDATES], n = candidates(&s, order, n_order, cand);
	struct best b = {0};
	td_auto_free bool *only = td_calloc(f->n + 1, sizeof(*only));
	if (f->most) {
		roomiest(&s, only);
		s.only = only;
	}
	b.n = greedy(&s, order, n_order, b.v);
	size_t deepest = f->n_jobs <= ALL ? n : DEEP;
	if (b.n && b.n < deepest)
		deepest = b.n;
	s.steps = STEPS;
	for (size_t k = 1; k <= deepest && k <= n; k++) {
		struct best now = {0};
		choose(&s, cand, n, 0, k, &now);
		if (now.n) {
			b = now;
			break;
		}
	}
	memcpy(ret, b.v, b.n * sizeof(*ret));
	return b.n;
}

int64_t td_pool_defrag_free(const struct td_pool_defrag *f)
{
	int64_t sum = 0;
	for (size_t i = 0; i < f->n; i++)
		for (int k = 0; k < TD_POOL_KINDS && f->nodes[i].feasible && f->nodes[i].usable; k++)
			if (f->want.gres[k] > 0 && f->nodes[i].gres[k] > f->nodes[i].used_gres[k])
				sum += f->nodes[i].gres[k] - f->nodes[i].used_gres[k];
	return sum;
}
