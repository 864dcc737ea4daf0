// The next step of a gang, and how its grant is dealt out. t/scenarios/gang.txt shows every case.
#include "pool/gang.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct td_pool_step step(enum td_pool_do what, const char *why)
{
	return (struct td_pool_step){what, why};
}

static bool runs(const struct td_pool_job *j)
{
	return j->know == TD_JOB_READ && j->ours && (j->is == TD_IS_RUNNING || j->is == TD_IS_STARTING);
}

// The members that are not bound yet, of a gang whose job runs.
static struct td_pool_step rest(const struct td_pool_gang *g, const struct td_pool_job *j)
{
	if (g->fenced)
		return step(TD_DO_END_POD, "the devices of its grant went on to another job");
	if (!g->nodes_fit)
		return step(TD_DO_END_POD, "a member may not run on the node it was granted");
	if (g->late)
		return step(TD_DO_END_POD, "not all members could be bound in time");
	if (j->is == TD_IS_STARTING)
		return step(TD_DO_WAIT, "granted: its nodes are being prepared");
	return step(TD_DO_BIND, "granted: some members are not bound yet");
}

// Some members were bound.
static struct td_pool_step begun(const struct td_pool_gang *g, const struct td_pool_job *j, struct td_pool_ask *a)
{
	int64_t lost = g->size - g->waiting - g->bound - g->succeeded;
	if (!g->bound && g->leaving)
		return step(TD_DO_NOTHING, "its members are ending");

	// Where each member sits is compared by `differs`, so here the places are the job's own.
	a->pod = TD_POD_BOUND;
	a->has_grant = true;
	a->grant = j->grant;
	a->grant.job = g->grant.job;
	a->grant.start = g->grant.start;
	a->grant.restarts = g->grant.restarts;
	struct td_pool_step st = td_pool_reconcile_ask(a, j);
	if (st.what != TD_DO_NOTHING || !runs(j))
		return st;

	if (g->differs && j->is == TD_IS_RUNNING)
		return step(TD_DO_END_POD, "its grant changed");
	if (lost > 0 && g->on_loss != TD_GANG_REPLACE)
		return step(TD_DO_END_POD, "a member of its gang is lost");
	if (g->waiting)
		return rest(g, j);
	return step(TD_DO_NOTHING, lost > 0 ? "it runs, and a place waits for a new member" : "it runs");
}

struct td_pool_step td_pool_reconcile_gang(const struct td_pool_gang *g, const struct td_pool_job *j)
{
	struct td_pool_ask a = {.uid = g->uid,
				.refused = g->refused,
				.fits_now = g->fits_now,
				.node_fits = g->nodes_fit,
				.fenced = g->fenced,
				.short_of = g->short_of,
				.waited = g->waited,
				.lost_state = g->lost_state};

	if (g->bound || g->leaving)
		return begun(g, j, &a);

	// Nobody of it runs any more, or it is not whole any more before anybody did: its job ends.
	bool over = g->succeeded || g->failed;
	if (over || g->waiting < g->size) {
		a.pod = TD_POD_GONE;
		struct td_pool_step st = td_pool_reconcile_ask(&a, j);
		if (st.what == TD_DO_END_JOB)
			st.why = over ? "its members are done" : "it is not whole any more";
		return st;
	}

	if (g->late && runs(j))
		return step(TD_DO_END_JOB, "not all members could be bound in time");
	a.pod = TD_POD_WAITING;
	return td_pool_reconcile_ask(&a, j);
}

// ---- room ----

static int64_t least(int64_t most, int64_t all, int64_t used, int64_t want)
{
	int64_t n = want > 0 ? (all > used ? (all - used) / want : 0) : most;
	return n < most ? n : most;
}

int64_t td_pool_gang_slots(const struct td_pool_node *x, const struct td_pool_want *w)
{
	if (!x->feasible || (w->exclusive && (x->used_cpus || x->used_memory_mb)))
		return 0;
	int64_t n = least(INT64_MAX, x->cpus, x->used_cpus, w->cpus > 0 ? w->cpus : 1);
	n = least(n, x->memory_mb, x->used_memory_mb, w->memory_mb);
	for (int k = 0; k < TD_POOL_KINDS; k++)
		n = least(n, x->gres[k], x->used_gres[k], w->gres[k]);
	return w->alone && n > 1 ? 1 : n;
}

int64_t td_pool_times(int64_t one, int64_t members)
{
	int64_t all;
	return __builtin_mul_overflow(one, members, &all) ? INT64_MAX : all;
}

struct td_pool_want td_pool_gang_most(const struct td_pool_want *one, int64_t members)
{
	struct td_pool_want all = *one;
	if (members < 2)
		return all;
	all.cpus = td_pool_times(all.cpus, members);
	all.memory_mb = td_pool_times(all.memory_mb, members);
	for (int k = 0; k < TD_POOL_KINDS; k++)
		all.gres[k] = td_pool_times(all.gres[k], members);
	return all;
}

static int most_first(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? 1 : x > y ? -1 : 0;
}

// On how many nodes so many members fit, the roomiest first; 0: on all together they do not.
static int64_t spans(int64_t *slots, size_t n, int64_t members)
{
	if (n)
		qsort(slots, n, sizeof(*slots), most_first);
	for (size_t i = 0; i < n; i++)
		if ((members -= slots[i]) <= 0)
			return (int64_t)i + 1;
	return 0;
}

bool td_pool_gang_fits_now(const struct td_pool_node *nodes, size_t n, const struct td_pool_want *want, int64_t members)
{
	for (size_t i = 0; i < n && members > 0 && !want->nodes; i++)
		if (nodes[i].usable)
			members -= td_pool_gang_slots(&nodes[i], want);
	if (!want->nodes || members <= 0)
		return members <= 0;
	td_auto_free int64_t *slots = td_calloc(n + 1, sizeof(*slots));
	for (size_t i = 0; i < n; i++)
		slots[i] = nodes[i].usable ? td_pool_gang_slots(&nodes[i], want) : 0;
	int64_t on = spans(slots, n, members);
	return on && on <= want->nodes;
}

static struct td_pool_node emptied(const struct td_pool_node *from)
{
	struct td_pool_node x = *from;
	x.used_cpus = x.used_memory_mb = 0;
	memset(x.used_gres, 0, sizeof(x.used_gres));
	return x;
}

int64_t td_pool_gang_fewest(const struct td_pool_node *nodes, size_t n, const struct td_pool_want *want,
			    int64_t members)
{
	td_auto_free int64_t *slots = td_calloc(n + 1, sizeof(*slots));
	int64_t on = 0;
	// First on those that could start a job now: one that is down for long would else be waited for.
	for (int all = 0; all < 2 && !on; all++) {
		for (size_t i = 0; i < n; i++) {
			struct td_pool_node x = emptied(&nodes[i]);
			slots[i] = all || x.usable ? td_pool_gang_slots(&x, want) : 0;
		}
		on = spans(slots, n, members);
	}
	return on;
}

enum td_pool_fit td_pool_gang_fits_ever(const struct td_pool_node *nodes, size_t n, const struct td_pool_want *want,
					int64_t members, const char *const *kinds, char *why, size_t len)
{
	enum td_pool_fit one = td_pool_fits_ever(nodes, n, want, kinds, why, len);
	if (one != TD_FIT_SOME_DAY)
		return one;

	int64_t slots = 0;
	for (size_t i = 0; i < n && slots < members; i++) {
		struct td_pool_node x = emptied(&nodes[i]);
		slots += td_pool_gang_slots(&x, want);
	}
	if (slots >= members)
		return TD_FIT_SOME_DAY;
	snprintf(why, len,
		 "its gang has %" PRId64 " members%s, and the nodes that they may use have room for %" PRId64
		 " of them at once",
		 members, want->alone ? ", each on a node of its own" : "", slots);
	return TD_FIT_NEVER;
}

// ---- dealing out ----

// "n2" comes before "n10". NULL comes last.
static int natural(const char *a, const char *b)
{
	if (!a || !b)
		return !a - !b;
	while (*a && *b) {
		size_t n = strspn(a, "0123456789"), m = strspn(b, "0123456789");
		if (n && m) {
			for (; n > 1 && *a == '0'; n--)
				a++;
			for (; m > 1 && *b == '0'; m--)
				b++;
			int d = n != m ? (n < m ? -1 : 1) : strncmp(a, b, n);
			if (d)
				return d;
			a += n;
			b += m;
		} else if (*a != *b) {
			return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
		} else {
			a++;
			b++;
		}
	}
	return !*b - !*a;
}

void td_pool_gang_order(const struct td_pool_gang_place *v, size_t n, size_t *ret)
{
	for (size_t i = 0; i < n; i++) { // few nodes: by insertion
		size_t k = i;
		for (; k > 0; k--) {
			const struct td_pool_gang_place *x = &v[ret[k - 1]], *y = &v[i];
			int d = natural(x->block, y->block);
			d = d ? d : natural(x->rack, y->rack);
			if ((d ? d : natural(x->name, y->name)) <= 0)
				break;
			ret[k] = ret[k - 1];
		}
		ret[k] = i;
	}
}

// How many members a part of the job holds. Devices decide: Slurm may give more CPUs than asked for.
static int64_t holds(const struct td_pool_gang_part *p, const struct td_pool_want *w)
{
	int64_t n = INT64_MAX;
	bool devices = false;
	for (int k = 0; k < TD_POOL_KINDS; k++) {
		devices = devices || w->gres[k] > 0;
		n = least(n, p->gres[k], 0, w->gres[k]);
	}
	return devices ? n : least(n, p->cpus, 0, w->cpus > 0 ? w->cpus : 1);
}

bool td_pool_gang_deal(const struct td_pool_gang_part *parts, size_t n, const struct td_pool_want *want, size_t members,
		       struct td_pool_gang_seat *ret)
{
	size_t done = 0;
	for (size_t i = 0; i < n && done < members; i++) {
		int64_t here = holds(&parts[i], want);
		if (here > (int64_t)(members - done))
			here = (int64_t)(members - done);
		for (int64_t s = 0; s < here; s++)
			ret[done++] = (struct td_pool_gang_seat){.part = i, .slot = s, .of = here};
	}
	return done == members;
}

static bool taken(const struct td_pool_gang_rank *v, size_t n, int64_t rank)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].rank == rank)
			return true;
	return false;
}

bool td_pool_gang_ranks(struct td_pool_gang_rank *v, size_t n, size_t size)
{
	if (n > size)
		return false;
	for (size_t i = 0; i < n; i++)
		if (v[i].rank < 0 && v[i].fixed >= 0 && v[i].fixed < (int64_t)size && !taken(v, n, v[i].fixed))
			v[i].rank = v[i].fixed;

	int64_t next = 0; // all below are taken
	for (size_t i = 0; i < n; i++) {
		if (v[i].rank >= 0)
			continue;
		while (taken(v, n, next))
			next++;
		v[i].rank = next;
	}
	return true;
}
