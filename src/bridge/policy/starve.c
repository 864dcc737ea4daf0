// Room is made for one that starves (pool/starve.h): his account has less than its fair share, he has waited for long,
// and others have more. Batch jobs are queued again as in defragmentation, by an annotation of their first node, when
// their grace is over (pool/leave.h); pods end (scheduler/victim.h).
#include "bridge/policy/look.h"
#include "bridge/scheduler/victim.h"
#include "bridge/scheduler/want.h"

#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct starve_name { // which account it is
	const char *name;
	size_t at;
	UT_hash_handle hh;
};
struct td_starve_look {
	struct td_pool_starve_account *accounts; // of the resource that is looked at
	struct starve_name *names, *by_name;     // the room for them; while they are counted
	size_t n;
	size_t *of; // of each known job: its account
	int64_t total;
	int res; // of TD_POLICY_…: what the shares are of
};

struct starve_served { // one for whom room is made
	size_t at;     // of the known
	struct td_pool_starve_other is;
	bool *feasible, *must;
	char kinds[TD_POOL_KINDS][64]; // of is.want
};
struct td_starve_served {
	struct starve_served v[TD_POLICIES_HEADS];
	size_t n;
};

static void served_done(struct td_starve_served *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].feasible);
		free(l->v[i].must);
	}
}

static size_t account_of(struct td_starve_look *l, const struct td_settings *s, const char *name)
{
	struct starve_name *x = NULL;
	HASH_FIND_STR(l->by_name, name, x);
	if (x)
		return x->at;
	x = &l->names[l->n];
	*x = (struct starve_name){.name = name, .at = l->n};
	HASH_ADD_KEYPTR(hh, l->by_name, name, strlen(name), x);
	l->accounts[l->n] = (struct td_pool_starve_account){.weight = td_settings_weight(s, name)};
	return l->n++;
}

static bool counts(const struct td_policies_known *k)
{
	return k->read && !k->nobodys && k->account &&
	       (k->phase == TD_PHASE_RUNNING || k->phase == TD_PHASE_STARTING ||
		(k->phase == TD_PHASE_WAITING && !k->held && !k->aside));
}

static int64_t pool_has(const struct td_slurm_nodes *l, int res)
{
	int64_t n = 0;
	for (size_t i = 0; i < l->n; i++)
		n += !td_slurm_node_usable(l->v[i].states) ? 0
		     : res == TD_POLICY_GPU                ? td_devices_of_gres(l->v[i].gres, "gpu")
							   : l->v[i].cpus;
	return n;
}

static void fill(struct td_starve_look *l, const struct td_moves_look *k, const struct td_slurm_nodes *nodes, int res)
{
	l->n = 0;
	l->res = res;
	l->total = pool_has(nodes, res);
	for (size_t i = 0; i < k->f->n; i++) {
		const struct td_policies_known *j = &k->f->v[i];
		if (!counts(j))
			continue;
		l->of[i] = account_of(l, k->s, j->account);
		if (j->phase != TD_PHASE_WAITING)
			l->accounts[l->of[i]].use += j->tres[res];
	}
	HASH_CLEAR(hh, l->by_name);
}

static struct td_pool_starve starve_of(const struct td_starve_look *l, const struct td_policies_known *j,
				       size_t account, const struct td_settings *s)
{
	return (struct td_pool_starve){.accounts = l->accounts,
				       .n_accounts = l->n,
				       .total = l->total,
				       .account = account,
				       .priority = td_moves_priority(s, j->qos),
				       .wants = j->tres[l->res]};
}

static int resource_of(const struct td_policies_known *j)
{
	return j->tres[TD_POLICY_GPU] > 0 ? TD_POLICY_GPU : TD_POLICY_CPU;
}

static bool sooner(const struct td_policies_known *a, const struct td_policies_known *b)
{
	int64_t x = a->value - a->nice, y = b->value - b->nice;
	return x != y ? x > y : a->id < b->id;
}

static int by_order(const void *a, const void *b)
{
	const struct td_policies_known *const *x = a, *const *y = b;
	return sooner(*x, *y) ? -1 : 1;
}

struct starve_heads { // the first few of each partition's queue
	const struct td_policies_known *v[TD_POLICIES_HEADS];
	size_t n;
};

// The last one of those of a partition, or of any that has several; SIZE_MAX: none. *ret_n: how many there are.
static size_t last_of(const struct starve_heads *l, const char *partition, size_t *ret_n)
{
	size_t last = SIZE_MAX;
	*ret_n = 0;
	for (size_t i = 0; i < l->n; i++) {
		size_t same = 0;
		for (size_t k = 0; !partition && k < l->n; k++)
			same += !strcmp(l->v[k]->partition, l->v[i]->partition);
		if (partition ? strcmp(l->v[i]->partition, partition) != 0 : same < 2)
			continue;
		++*ret_n;
		if (last == SIZE_MAX || sooner(l->v[last], l->v[i]))
			last = i;
	}
	return last;
}

static void take(struct starve_heads *l, const struct td_policies_known *k)
{
	enum { EACH = 4 };
	size_t n, last = last_of(l, k->partition, &n);
	if (n < EACH && l->n < TD_LEN(l->v)) {
		l->v[l->n++] = k;
		return;
	}
	if (!n) // each partition has one
		last = last_of(l, NULL, &n);
	else if (!sooner(k, l->v[last]))
		return;
	if (last != SIZE_MAX)
		l->v[last] = k;
}

size_t td_starve_pass(const struct td_moves_look *of, struct td_slurm *slurm, struct td_policies_moves *m, bool busy,
		      struct td_policies_words *ret, size_t most)
{
	struct td_policies_facts *f = of->f;
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *snap = td_slurm_view_nodes(of->b->view);
	if (!snap || f->more) // what nobody has read would be missing in the sums
		return 0;
	td_auto_free struct td_pool_starve_account *accounts = td_calloc(f->n + 1, sizeof(*accounts));
	td_auto_free struct starve_name *names = td_calloc(f->n + 1, sizeof(*names));
	td_auto_free size_t *whose = td_calloc(f->n + 1, sizeof(*whose));
	td_auto_free bool *keep = td_calloc(f->n + 1, sizeof(*keep));
	struct td_starve_served served = {0};
	size_t n = 0;
	// Shares are of GPUs for those who wait for some, and of CPUs for the others.
	static const int kinds[] = {TD_POLICY_GPU, TD_POLICY_CPU};
	for (size_t r = 0; r < TD_LEN(kinds); r++) {
		struct td_starve_look l = {.names = names, .of = whose};
		l.accounts = accounts;
		fill(&l, of, &snap->nodes, kinds[r]);
		struct starve_heads heads = {0};
		for (size_t i = 0; i < f->n; i++) {
			const struct td_policies_known *k = &f->v[i];
			if (!counts(k) || k->phase != TD_PHASE_WAITING || resource_of(k) != kinds[r] || !k->partition)
				continue;
			const struct td_pool_starve p = starve_of(&l, k, whose[i], of->s);
			if (!td_pool_starve_entitled(&p))
				continue;
			keep[i] = true;
			take(&heads, k);
		}
		if (heads.n)
			qsort(heads.v, heads.n, sizeof(*heads.v), by_order);
		for (size_t i = 0; i < heads.n && n < most && !td_cancelled(of->b->cancel); i++) {
			struct td_moves_look k = *of;
			k.starve = &l;
			k.served = &served;
			k.nodes = &snap->nodes;
			k.after_s = of->s->starve_s;
			td_moves_head(&k, slurm, m, heads.v[i]->id, busy, &ret[n]);
			n += *ret[n].text != '\0';
		}
	}
	served_done(&served);
	td_starve_lower(of->b, f, slurm, keep);
	return n;
}

// Who waits, among the known; NULL: it is gone.
static const struct td_policies_known *waiter_of(const struct td_moves_look *k, size_t *ret_at)
{
	const struct td_policies_known *w = td_policies_facts_find(k->f, k->waiter->id);
	if (w)
		*ret_at = (size_t)(w - k->f->v);
	return w;
}

void td_starve_serve(const struct td_moves_look *k)
{
	struct td_starve_served *l = k->served;
	struct starve_served *x = l->n < TD_LEN(l->v) ? &l->v[l->n] : NULL;
	size_t at = 0;
	if (!x || !waiter_of(k, &at))
		return;
	l->n++;
	*x = (struct starve_served){.at = at,
				    .is = {.want = k->pool.want,
					   .units = k->pool.units,
					   .spread = k->pool.spread,
					   .waiter = k->waiter->id}};
	x->is.feasible = x->feasible = td_calloc(k->pool.n + 1, sizeof(bool));
	for (size_t i = 0; i < k->pool.n; i++)
		x->feasible[i] = k->pool.nodes[i].feasible;
	x->is.must = x->must = k->must ? td_calloc(k->pool.n + 1, sizeof(bool)) : NULL;
	if (x->must)
		memcpy(x->must, k->must, k->pool.n * sizeof(bool));
	for (int m = 0; m < TD_POOL_KINDS && k->kinds[m]; m++)
		snprintf(x->kinds[m], sizeof(x->kinds[m]), "%s", k->kinds[m]);
}

// Those for whom room is made already, in the terms of the one that is looked at. Returns how many.
static size_t others_of(const struct td_moves_look *k, struct td_pool_starve_other ret[TD_POLICIES_HEADS])
{
	for (size_t i = 0; i < k->served->n; i++) {
		const struct starve_served *x = &k->served->v[i];
		ret[i] = x->is;
		memset(ret[i].want.gres, 0, sizeof(ret[i].want.gres));
		for (int m = 0; m < TD_POOL_KINDS && k->kinds[m]; m++)
			for (int o = 0; o < TD_POOL_KINDS; o++)
				if (!strcmp(k->kinds[m], x->kinds[o]))
					ret[i].want.gres[m] = x->is.want.gres[o];
		ret[i].account = k->starve->of[x->at];
		ret[i].wants = k->f->v[x->at].tres[k->starve->res];
	}
	return k->served->n;
}

// One that can be queued again, or may be ended, or pods, or one whose room comes free anyway.
static bool may(const struct td_moves_look *k, const struct td_policies_known *j)
{
	bool native = j->is == TD_VICTIM_NONE && !j->ours && ((j->batch && !j->ends) || k->s->starve_ends);
	return j->going || (!j->tied && (j->is == TD_VICTIM_MAY || native));
}

size_t td_starve_choose(struct td_moves_look *k, int64_t in_s, struct td_pool_move_part *parts,
			struct td_moves_set *ret)
{
	td_auto_free struct td_pool_starve_job *v = td_calloc(k->f->n + 1, sizeof(*v));
	int64_t now_s = td_real_ms(k->b->clock) / 1000;
	size_t n = 0, used = 0, at = 0;
	const struct td_policies_known *w = waiter_of(k, &at);
	if (!w)
		return 0;
	for (size_t i = 0; i < k->f->n; i++) {
		struct td_policies_known *j = &k->f->v[i];
		if (!counts(j) || j->stale || j->phase != TD_PHASE_RUNNING || !j->n_parts || !may(k, j))
			continue;
		int64_t ran = now_s > j->start_s ? now_s - j->start_s : 0,
			slice = td_settings_slice_s(k->s, j->qos) - ran;
		if ((slice > in_s && !j->going) || !td_moves_parts(k, j, parts + used))
			continue;
		v[n] = (struct td_pool_starve_job){.move = {.parts = parts + used, .n_parts = j->n_parts},
						   .account = k->starve->of[i],
						   .holds = j->tres[k->starve->res],
						   .start_s = j->start_s,
						   .priority = td_moves_priority(k->s, j->qos),
						   .going = j->going,
						   .ends = j->is == TD_VICTIM_NONE && (j->ends || !j->batch),
						   .leaves_for = j->goes_for,
						   .over_slice =
							   k->s->starve_slice_s > 0 && ran > k->s->starve_slice_s};
		k->slice_s[n] = slice;
		k->known[n++] = j;
		used += j->n_parts;
	}
	struct td_pool_starve_other others[TD_POLICIES_HEADS];
	struct td_pool_starve f = starve_of(k->starve, w, k->starve->of[at], k->s);
	f.room = k->pool;
	f.jobs = v;
	f.n_jobs = n;
	f.must = k->must;
	f.waiter = k->waiter->id;
	f.others = others;
	f.n_others = others_of(k, others);
	n = td_pool_starve(&f, ret->v, ret->why);
	ret->comes = !n && td_pool_starve_entitled(&f) && td_pool_starve_comes(&f);
	return n;
}

void td_starve_words(const struct td_moves_look *k, struct td_buf *t)
{
	size_t at = 0;
	const struct td_policies_known *w = waiter_of(k, &at);
	if (!w)
		return;
	const struct td_pool_starve f = starve_of(k->starve, w, k->starve->of[at], k->s);
	td_buf_printf(t, "its account holds %" PRId64 " of the %" PRId64 " %s that are its share",
		      f.accounts[f.account].use, td_pool_starve_share(&f, f.account),
		      k->starve->res == TD_POLICY_GPU ? "GPUs" : "CPUs");
}

void td_starve_raise(const struct td_moves_look *k, struct td_slurm *slurm)
{
	struct td_error e = TD_ERROR_INIT;
	const struct td_slurm_job_change ch = {.nice = (int)td_pool_starve_front(k->waiter->nice), .nice_too = true};
	size_t at = 0;
	const struct td_policies_known *w = waiter_of(k, &at);
	if (!w || ch.nice == k->waiter->nice)
		return;
	if (td_slurm_job_update(slurm, k->waiter->id, &ch, k->b->cancel, &e)) {
		td_debug("job %" PRId64 " starves, and cannot be raised: %s", k->waiter->id, e.msg);
		return;
	}
	k->f->v[at].nice = ch.nice;
	td_info("job %" PRId64 " of %s starves: it goes to the front of the queue", k->waiter->id, k->waiter->user);
}

void td_starve_lower(struct td_bridge *b, struct td_policies_facts *f, struct td_slurm *slurm, const bool *keep)
{
	enum { MOST = 8 };
	for (size_t i = 0, n = 0; i < f->n && n < MOST && !td_cancelled(b->cancel); i++) {
		struct td_policies_known *k = &f->v[i];
		td_auto_job struct td_slurm_job j = {0};
		struct td_error e = TD_ERROR_INIT;
		if (!k->read || !td_pool_starve_at_front(k->nice) || (keep && keep[i]))
			continue;
		n++;
		// As it is now: somebody may have written another one since it was read.
		int r = td_slurm_job(slurm, k->id, b->cancel, &j, &e);
		const struct td_slurm_job_change ch = {.nice = (int)td_pool_starve_own(j.nice), .nice_too = true};
		if (!r && ch.nice != j.nice)
			r = td_slurm_job_update(slurm, k->id, &ch, b->cancel, &e);
		if (r)
			td_debug("job %" PRId64 " stays at the front of the queue: %s", k->id, e.msg);
		else
			k->nice = ch.nice;
	}
}
