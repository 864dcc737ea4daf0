// How many nodes more are wanted, and how many a NodeSet shall have (grow.h).
#include "pool/grow.h"

#include "base/mem.h"
#include "base/names.h"

#include <string.h>

// ---- who waits ----

static bool fits(const struct td_grow_node *x, const struct td_grow_job *j)
{
	bool ok = (x->whole || !j->exclusive) && x->left.cpus > 0 && x->left.cpus >= j->part.cpus &&
		  x->left.memory_mb >= j->part.memory_mb;
	for (int k = 0; k < TD_GROW_KINDS && ok; k++)
		ok = x->left.gres[k] >= j->part.gres[k];
	return ok;
}

static void take(struct td_grow_node *x, const struct td_grow_job *j)
{
	if (j->exclusive)
		x->left = (struct td_grow_room){0};
	x->left.cpus -= j->exclusive ? 0 : j->part.cpus;
	x->left.memory_mb -= j->exclusive ? 0 : j->part.memory_mb;
	for (int k = 0; k < TD_GROW_KINDS && !j->exclusive; k++)
		x->left.gres[k] -= j->part.gres[k];
	x->whole = false;
}

// Puts as many of the `left` parts there as have room. Returns how many.
static size_t fill(struct td_grow_node *x, const struct td_grow_job *j, size_t left)
{
	size_t n = 0;
	while (n < left && fits(x, j)) {
		take(x, j);
		n++;
		if (j->apart || j->exclusive)
			break;
	}
	return n;
}

struct grow_undo {
	size_t at;
	struct td_grow_node was;
};

struct grow_pool { // the nodes that are there, and behind them those that are opened
	struct td_grow_node *v;
	size_t *of; // of an opened one: its set
	size_t there, n;
	size_t from;            // the nodes before it have no room for a part of the job that is placed
	struct grow_undo *undo; // what the nodes were that it took something of
	size_t n_undo;
};

// False: it does not fit; what it took is to be given back. Costs what it takes, but for the first of an array's tasks.
static bool place(struct grow_pool *p, struct td_grow_set *sets, size_t n_sets, const struct td_grow_job *j)
{
	size_t left = j->parts;
	p->n_undo = 0;
	for (size_t i = p->from; i < p->n && left; i++) {
		const struct td_grow_node was = p->v[i];
		size_t got = (i < p->there ? j->may && j->may[i] : j->in[p->of[i]]) ? fill(&p->v[i], j, left) : 0;
		left -= got;
		if (got)
			p->undo[p->n_undo++] = (struct grow_undo){i, was};
		else if (i == p->from)
			p->from++;
	}
	for (size_t s = 0; s < n_sets && left; s++) {
		while (j->in[s] && left && sets[s].wanted < sets[s].room) {
			struct td_grow_node x = {sets[s].shape, true};
			size_t got = fill(&x, j, left);
			if (!got)
				break; // nor would the next one
			p->of[p->n] = s;
			p->v[p->n++] = x;
			sets[s].wanted++;
			left -= got;
		}
	}
	return !left;
}

void td_pool_grow(struct td_grow_node *v, size_t n, struct td_grow_set *sets, size_t n_sets,
		  const struct td_grow_job *jobs, size_t n_jobs)
{
	size_t room = n, before[TD_GROW_SETS];
	for (size_t s = 0; s < n_sets; s++) {
		sets[s].wanted = 0;
		sets[s].first = SIZE_MAX;
		room += sets[s].room;
	}
	td_auto_free struct td_grow_node *all = td_calloc(room + 1, sizeof(*all));
	td_auto_free size_t *of = td_calloc(room + 1, sizeof(*of));
	td_auto_free struct grow_undo *undo = td_calloc(room + 1, sizeof(*undo));
	struct grow_pool p = {.v = all, .of = of, .there = n, .n = n, .undo = undo};
	if (n)
		memcpy(p.v, v, n * sizeof(*v));
	for (size_t i = 0; i < n_jobs; i++) {
		p.from = 0;
		for (size_t t = 0; t < jobs[i].times; t++) {
			size_t was = p.n;
			for (size_t s = 0; s < n_sets; s++)
				before[s] = sets[s].wanted;
			bool ok = place(&p, sets, n_sets, &jobs[i]);
			for (size_t s = 0; s < n_sets && ok; s++)
				if (sets[s].wanted > before[s] && sets[s].first == SIZE_MAX)
					sets[s].first = i;
			if (ok)
				continue;
			p.n = was;
			for (size_t k = 0; k < p.n_undo; k++)
				p.v[p.undo[k].at] = p.undo[k].was;
			for (size_t s = 0; s < n_sets; s++)
				sets[s].wanted = before[s];
			break; // nor do its others
		}
	}
	if (n)
		memcpy(v, p.v, n * sizeof(*v));
}

bool td_pool_grow_like(const bool *in, size_t stride, const bool *there, const bool *may, size_t n)
{
	bool some = false, any = false;
	for (size_t i = 0; i < n; i++) {
		if (!in[i * stride])
			continue;
		if (there[i] && may[i])
			return true;
		any |= there[i];
		some |= may[i];
	}
	return some && !any;
}

// ---- how many nodes ----

enum { MADE_MS = 15 * 60000, BEGINS_MS = 60000 };

static bool leaves(const struct td_pool_member *m)
{
	return m->record && m->record->drain && td_pool_reason_is(m->record->reason, TD_REASON_SCALE_IN);
}

// It is a node of Slurm's, or about to be one: a slurmd that has just begun is let come, whoever waits now.
static bool serves(const struct td_pool_member *m, const struct td_grow_policy *p)
{
	bool there = m->record || m->pod_ready || p->now_ms - m->pod_born_ms < BEGINS_MS;
	return m->exists && m->matched && m->pod && (!p->view || (there && !leaves(m)));
}

static bool idle(const struct td_pool_member *m, const struct td_grow_policy *p)
{
	const struct td_pool_record *r = m->record;
	if (!p->view || !td_pool_member_registered(m) || td_pool_record_busy(r) || r->drain)
		return false;
	int64_t since = r->busy_at > m->pod_ready_ms / 1000 ? r->busy_at : m->pod_ready_ms / 1000;
	return p->now_ms / 1000 - since >= p->idle_s;
}

static long long least(long long a, long long b)
{
	return a < b ? a : b;
}

struct td_grow_plan td_pool_grow_set(struct td_pool_member *v, size_t n, const struct td_grow_policy *p)
{
	long long there = 0, coming = 0, all = 0;
	for (size_t i = 0; i < n; i++) {
		struct td_pool_member *m = &v[i];
		m->spare = false;
		all += m->exists && m->matched;
		there += serves(m, p);
		coming += m->exists && m->matched && !serves(m, p) && (m->ready || p->now_ms - m->made_ms < MADE_MS);
	}
	long long keep = p->wanted > there ? p->wanted : there;
	for (size_t i = n; i-- > 0 && !p->wanted && keep > p->min;) { // of equals the last by name goes
		v[i].spare = serves(&v[i], p) && idle(&v[i], p);
		keep -= v[i].spare;
	}
	keep = least(keep > p->min ? keep : p->min, p->max);
	long long lack = least(keep - there - coming, p->max - all);
	return (struct td_grow_plan){keep, lack > 0 ? lack : 0};
}
