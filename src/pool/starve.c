// Who makes room for one that starves (starve.h).
#include "pool/starve.h"

#include "base/mem.h"
#include "pool/gang.h"

#include <string.h>

// The lowest nice that somebody else gives (td_want_nice() in the bridge), and how far below it the front is.
enum { NICE_LOWEST = -1000000000, NICE_FRONT = 1100000000 };

struct starve_room { // the pool as it is without those that are chosen
	const struct td_pool_starve *f;
	struct td_pool_node *x;
	int64_t *use; // per account
	bool *gone;   // per job
	int64_t sum;  // of all weights
	// The jobs on each node: those of node i are on[first[i]] to on[first[i + 1]].
	size_t *first, *on;
};
struct step { // the best way to one more seat on one node
	size_t node, jobs[TD_DEFRAG_MOST], n, ends;
	enum td_pool_starve_why why[TD_DEFRAG_MOST], worst;
	int64_t excess, oldest; // of the last resort among them; start of the one that has run longest
};

int64_t td_pool_starve_front(int64_t nice)
{
	return nice >= NICE_LOWEST && td_pool_starve_at_front(nice - NICE_FRONT) ? nice - NICE_FRONT : nice;
}

bool td_pool_starve_at_front(int64_t nice)
{
	return nice < NICE_LOWEST;
}

int64_t td_pool_starve_own(int64_t nice)
{
	return td_pool_starve_at_front(nice) ? nice + NICE_FRONT : nice;
}

static int64_t sum_of(const struct td_pool_starve *f)
{
	int64_t sum = 0;
	for (size_t i = 0; i < f->n_accounts; i++)
		sum += f->accounts[i].weight;
	return sum;
}

static int64_t share_of(const struct td_pool_starve *f, size_t account, int64_t sum)
{
	return sum > 0 ? (int64_t)((double)f->total * (double)f->accounts[account].weight / (double)sum) : 0;
}

int64_t td_pool_starve_share(const struct td_pool_starve *f, size_t account)
{
	return share_of(f, account, sum_of(f));
}

bool td_pool_starve_entitled(const struct td_pool_starve *f)
{
	int64_t has = f->accounts[f->account].use;
	for (size_t i = 0; i < f->n_others; i++)
		has += f->others[i].account == f->account ? f->others[i].wants : 0;
	return f->wants > 0 && has + f->wants <= td_pool_starve_share(f, f->account);
}

static enum td_pool_starve_why why_of(const struct td_pool_starve *f, size_t job, int64_t use, int64_t sum)
{
	const struct td_pool_starve_job *j = &f->jobs[job];
	if (j->account == f->account)
		return TD_STARVE_NO;
	if (j->over_slice)
		return TD_STARVE_SLICE;
	if (j->holds > 0 && use > share_of(f, j->account, sum))
		return TD_STARVE_SHARE;
	return j->priority < f->priority ? TD_STARVE_PRIORITY : TD_STARVE_NO;
}

enum td_pool_starve_why td_pool_starve_why(const struct td_pool_starve *f, size_t job, int64_t use)
{
	return why_of(f, job, use, sum_of(f));
}

const char *td_pool_starve_words(enum td_pool_starve_why w)
{
	static const char *const words[] = {"it is no victim", "its slice is over",
					    "its account has more than its share", "its priority is lower"};
	return words[w];
}

static int64_t seats_on(const struct starve_room *r, size_t i)
{
	const struct td_pool_node *x = &r->x[i];
	int64_t n = x->usable && x->feasible ? td_pool_gang_slots(x, &r->f->room.want) : 0;
	return r->f->room.spread && n > 1 ? 1 : n;
}

// Is one of the units bound to this node, and has no seat there?
static bool missing(const struct starve_room *r, size_t i)
{
	return r->f->must && r->f->must[i] && !seats_on(r, i);
}

static bool seated(const struct starve_room *r)
{
	int64_t n = 0;
	bool all = true;
	for (size_t i = 0; i < r->f->room.n; i++) {
		n += seats_on(r, i);
		all = all && !missing(r, i);
	}
	return all && n >= r->f->room.units;
}

static int64_t less(int64_t used, int64_t by)
{
	return used > by ? used - by : 0; // views of different times may not add up
}

static void turn(struct starve_room *r, size_t job, bool gone)
{
	const struct td_pool_starve_job *j = &r->f->jobs[job];
	for (size_t i = 0; i < j->move.n_parts; i++) {
		struct td_pool_node *x = &r->x[j->move.parts[i].node];
		const struct td_pool_want *w = &j->move.parts[i].has;
		x->used_cpus = gone ? less(x->used_cpus, w->cpus) : x->used_cpus + w->cpus;
		x->used_memory_mb = gone ? less(x->used_memory_mb, w->memory_mb) : x->used_memory_mb + w->memory_mb;
		for (int k = 0; k < TD_POOL_KINDS; k++)
			x->used_gres[k] = gone ? less(x->used_gres[k], w->gres[k]) : x->used_gres[k] + w->gres[k];
	}
	r->use[j->account] += gone ? -j->holds : j->holds;
	r->gone[job] = gone;
}

static int64_t excess(const struct starve_room *r, size_t job)
{
	size_t a = r->f->jobs[job].account;
	return r->use[a] - share_of(r->f, a, r->sum);
}

// Is job a to go before job b, for these reasons?
static bool sooner(const struct starve_room *r, size_t a, enum td_pool_starve_why wa, size_t b,
		   enum td_pool_starve_why wb)
{
	const struct td_pool_starve_job *x = &r->f->jobs[a], *y = &r->f->jobs[b];
	if (wa != wb)
		return wa < wb;
	if (x->ends != y->ends)
		return y->ends;
	if (wa == TD_STARVE_SHARE && excess(r, a) != excess(r, b))
		return excess(r, a) > excess(r, b);
	if (wa == TD_STARVE_PRIORITY && x->priority != y->priority)
		return x->priority < y->priority;
	return x->start_s > y->start_s;
}

// The next one of a node; SIZE_MAX: there is no victim.
static size_t next_on(const struct starve_room *r, size_t node, enum td_pool_starve_why *ret_why)
{
	size_t best = SIZE_MAX;
	for (size_t k = r->first[node]; k < r->first[node + 1]; k++) {
		size_t j = r->on[k];
		enum td_pool_starve_why w =
			r->gone[j] ? TD_STARVE_NO : why_of(r->f, j, r->use[r->f->jobs[j].account], r->sum);
		if (w == TD_STARVE_NO || (best != SIZE_MAX && !sooner(r, j, w, best, *ret_why)))
			continue;
		best = j;
		*ret_why = w;
	}
	return best;
}

// False: nobody's leaving gives another seat there. The pool is as before.
static bool try(struct starve_room *r, size_t node, struct step *s)
{
	int64_t had = seats_on(r, node);
	*s = (struct step){.node = node, .oldest = INT64_MAX};
	if (!r->x[node].usable || !r->x[node].feasible || (r->f->room.spread && had))
		return false;
	while (seats_on(r, node) <= had && s->n < TD_DEFRAG_MOST) {
		enum td_pool_starve_why why = TD_STARVE_NO;
		size_t j = next_on(r, node, &why);
		if (j == SIZE_MAX)
			break;
		if (why >= s->worst) {
			s->worst = why;
			s->excess = excess(r, j);
		}
		turn(r, j, true);
		s->why[s->n] = why;
		s->jobs[s->n++] = j;
	}
	bool enough = seats_on(r, node) > had;
	// Who need not go, stays: the last one that was chosen first.
	for (size_t k = s->n; enough && k-- > 0;) {
		turn(r, s->jobs[k], false);
		if (seats_on(r, node) <= had) {
			turn(r, s->jobs[k], true);
			continue;
		}
		memmove(&s->jobs[k], &s->jobs[k + 1], (s->n - k - 1) * sizeof(*s->jobs));
		memmove(&s->why[k], &s->why[k + 1], (s->n - k - 1) * sizeof(*s->why));
		s->n--;
	}
	for (size_t k = 0; k < s->n; k++) {
		int64_t start = r->f->jobs[s->jobs[k]].start_s;
		s->oldest = start < s->oldest ? start : s->oldest;
		s->ends += r->f->jobs[s->jobs[k]].ends;
		turn(r, s->jobs[k], false);
	}
	return enough;
}

static bool better(const struct step *a, const struct step *b)
{
	if (a->worst != b->worst)
		return a->worst < b->worst;
	if (a->ends != b->ends)
		return a->ends < b->ends;
	if (a->worst == TD_STARVE_SHARE && a->excess != b->excess)
		return a->excess > b->excess;
	if (a->n != b->n)
		return a->n < b->n;
	return a->oldest > b->oldest;
}

static void index_jobs(struct starve_room *r)
{
	const struct td_pool_starve *f = r->f;
	for (size_t j = 0; j < f->n_jobs; j++)
		for (size_t p = 0; p < f->jobs[j].move.n_parts; p++)
			r->first[f->jobs[j].move.parts[p].node + 1]++;
	for (size_t i = 0; i < f->room.n; i++)
		r->first[i + 1] += r->first[i];
	td_auto_free size_t *at = td_calloc(f->room.n + 1, sizeof(*at));
	for (size_t j = 0; j < f->n_jobs; j++)
		for (size_t p = 0; p < f->jobs[j].move.n_parts; p++) {
			size_t i = (size_t)f->jobs[j].move.parts[p].node;
			r->on[r->first[i] + at[i]++] = j;
		}
}

// ---- others who starve, and are served before ----

static bool leaves_for_him(const struct td_pool_starve *f, size_t j)
{
	return f->jobs[j].leaves_for && f->jobs[j].leaves_for == f->waiter;
}

struct starve_seat { // on one node
	size_t node;
	int rank;
	int64_t n; // so often it fits there
};

// Where he has to be, where room is made for him, then where the least is left over, and last where it is made for others.
static int by_rank(const void *a, const void *b)
{
	const struct starve_seat *x = a, *y = b;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	return x->node < y->node ? -1 : 1;
}

enum { RANK_MUST, RANK_OWN, RANK_ANY, RANK_OTHERS };

static int rank_of(const struct starve_room *r, const struct td_pool_starve_other *o, size_t i)
{
	int rank = RANK_ANY;
	if (o->must && o->must[i])
		return RANK_MUST;
	for (size_t k = r->first[i]; k < r->first[i + 1] && rank != RANK_OWN; k++) {
		const struct td_pool_starve_job *j = &r->f->jobs[r->on[k]];
		if (j->going && j->leaves_for && !leaves_for_him(r->f, r->on[k]))
			rank = j->leaves_for == o->waiter ? RANK_OWN : RANK_OTHERS;
	}
	return rank;
}

static size_t seats_of(const struct starve_room *r, const struct td_pool_starve_other *o, struct starve_seat *ret)
{
	size_t n = 0;
	for (size_t i = 0; i < r->f->room.n; i++) {
		struct td_pool_node x = r->x[i];
		x.feasible = o->feasible[i];
		int64_t fits = x.usable && x.feasible ? td_pool_gang_slots(&x, &o->want) : 0;
		if (fits)
			ret[n++] = (struct starve_seat){i, rank_of(r, o, i), o->spread ? 1 : fits};
	}
	if (n)
		qsort(ret, n, sizeof(*ret), by_rank);
	return n;
}

// What cannot be had of what he waits for is left out: the rest is his.
static void seat_others(struct starve_room *r)
{
	td_auto_free struct starve_seat *v = td_calloc(r->f->room.n + 1, sizeof(*v));
	for (size_t k = 0; k < r->f->n_others; k++) {
		const struct td_pool_starve_other *o = &r->f->others[k];
		size_t n = seats_of(r, o, v);
		int64_t left = o->units;
		for (size_t i = 0; i < n && left > 0; i++) {
			struct td_pool_node *x = &r->x[v[i].node];
			int64_t take = v[i].n < left ? v[i].n : left;
			x->used_cpus += take * o->want.cpus;
			x->used_memory_mb += take * o->want.memory_mb;
			for (int g = 0; g < TD_POOL_KINDS; g++)
				x->used_gres[g] += take * o->want.gres[g];
			x->usable = x->usable && !o->want.exclusive;
			left -= take;
		}
		r->use[o->account] += o->wants;
	}
}

// The room as it will be when those that leave already have left, and others who starve have theirs. Caller calls
// room_done().
static struct starve_room room_of(const struct td_pool_starve *f)
{
	size_t parts = 0;
	for (size_t j = 0; j < f->n_jobs; j++)
		parts += f->jobs[j].move.n_parts;
	struct starve_room r = {.f = f,
				.x = td_calloc(f->room.n + 1, sizeof(*r.x)),
				.use = td_calloc(f->n_accounts + 1, sizeof(*r.use)),
				.gone = td_calloc(f->n_jobs + 1, sizeof(*r.gone)),
				.sum = sum_of(f),
				.first = td_calloc(f->room.n + 2, sizeof(*r.first)),
				.on = td_calloc(parts + 1, sizeof(*r.on))};
	if (f->room.n)
		memcpy(r.x, f->room.nodes, f->room.n * sizeof(*r.x));
	for (size_t i = 0; i < f->n_accounts; i++)
		r.use[i] = f->accounts[i].use;
	index_jobs(&r);
	// The others sit down before those leave who leave for him whom we look at.
	for (int his = 0; his < 2; his++) {
		for (size_t j = 0; j < f->n_jobs; j++)
			if (f->jobs[j].going && (his != 0) == leaves_for_him(f, j))
				turn(&r, j, true);
		if (!his)
			seat_others(&r);
	}
	return r;
}

static void room_done(struct starve_room *r)
{
	free(r->x);
	free(r->use);
	free(r->gone);
	free(r->first);
	free(r->on);
}

bool td_pool_starve_comes(const struct td_pool_starve *f)
{
	bool any = false;
	for (size_t j = 0; j < f->n_jobs && !any; j++)
		any = f->jobs[j].going;
	if (!any)
		return false;
	struct starve_room r = room_of(f);
	bool comes = seated(&r);
	for (size_t j = 0; j < f->n_jobs; j++)
		if (f->jobs[j].going)
			turn(&r, j, false);
	comes = comes && !seated(&r);
	room_done(&r);
	return comes;
}

static size_t choose(struct starve_room *r, size_t ret[TD_DEFRAG_MOST], enum td_pool_starve_why ret_why[TD_DEFRAG_MOST])
{
	const struct td_pool_starve *f = r->f;
	size_t n = 0;
	while (!seated(r)) {
		struct step best = {0}, s;
		bool bound = false; // there is a node that has to have a seat: that one first
		for (size_t i = 0; i < f->room.n && !bound; i++)
			bound = missing(r, i);
		for (size_t i = 0; i < f->room.n; i++)
			if (bound == missing(r, i) && try(r, i, &s) && (!best.n || better(&s, &best)))
				best = s;
		if (!best.n || n + best.n > TD_DEFRAG_MOST)
			return 0;
		for (size_t k = 0; k < best.n; k++) {
			turn(r, best.jobs[k], true);
			ret_why[n] = best.why[k];
			ret[n++] = best.jobs[k];
		}
	}
	return n;
}

size_t td_pool_starve(const struct td_pool_starve *f, size_t ret[TD_DEFRAG_MOST],
		      enum td_pool_starve_why ret_why[TD_DEFRAG_MOST])
{
	if (!td_pool_starve_entitled(f))
		return 0;
	struct starve_room r = room_of(f);
	size_t n = 0;
	if (!seated(&r))
		n = choose(&r, ret, ret_why);
	room_done(&r);
	return n;
}
