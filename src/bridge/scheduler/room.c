// The fast path's view of free room: Slurm's nodes as last seen, what we were given since, and whether somebody waits before us.
//
// All of it is a hint: Slurm decides. A wrong guess costs a FAILED job record and the way through the queue, so that a guess is made only
// when the view says yes, and never twice for the same state of the pool (docs/protocols.md 1.3).
#include "bridge/scheduler/ask.h"

#include <string.h>

enum { FRESH_MS = 2000 };

static struct td_pool_node *find(struct td_pool_node *v, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(v[i].name, name))
			return &v[i];
	return NULL;
}

// v: used_* as the snapshot says. GRES there are current; CPUs and memory lag (docs/facts/slurm.md S-T8), so that what our own jobs hold is
// a lower bound.
static void take_locked(struct td_asks *t, const struct td_slurm_snapshot *snap, struct td_pool_node *v, const struct td_want *w)
{
	size_t n = snap->nodes.n;
	td_auto_free int64_t *cpus = td_calloc(n ? n : 1, sizeof(*cpus)), *memory = td_calloc(n ? n : 1, sizeof(*memory));
	struct td_ask *a, *tmp;
	HASH_ITER (hh, t->by_uid, a, tmp) {
		if (!a->has_cpus || !a->nodes || td_job_phase(a->states) != TD_PHASE_RUNNING)
			continue;
		const struct td_slurm_node *x = td_slurm_node_find(&snap->nodes, a->nodes);
		if (x) {
			cpus[x - snap->nodes.v] += a->has_cpus;
			memory[x - snap->nodes.v] += a->has_memory_mb;
		}
	}
	for (size_t i = 0; i < t->n_res;) {
		struct td_reservation *r = &t->res[i];
		if (r->at_ms < snap->asked_ms && r->job >= 0) {
			*r = t->res[--t->n_res];
			continue;
		}
		struct td_pool_want taken = {.cpus = r->cpus, .memory_mb = r->memory_mb};
		for (int k = 0; k < TD_POOL_KINDS && w->kinds[k]; k++)
			for (int m = 0; m < TD_POOL_KINDS && r->kinds[m][0]; m++)
				if (!strcmp(w->kinds[k], r->kinds[m]))
					taken.gres[k] = r->gres[m];
		struct td_pool_node *x = *r->node ? find(v, n, r->node) : NULL;
		if (!x) { // Slurm has not said where: the first that fits
			int at = td_pool_fits_now(v, n, &taken);
			x = at >= 0 ? &v[at] : NULL;
			if (x) {
				cpus[x - v] += taken.cpus;
				memory[x - v] += taken.memory_mb;
			}
		}
		if (x) {
			x->used_cpus += taken.cpus;
			x->used_memory_mb += taken.memory_mb;
			for (int k = 0; k < TD_POOL_KINDS; k++)
				x->used_gres[k] += taken.gres[k];
		}
		i++;
	}
	for (size_t i = 0; i < n; i++) {
		v[i].used_cpus = cpus[i] > v[i].used_cpus ? cpus[i] : v[i].used_cpus;
		v[i].used_memory_mb = memory[i] > v[i].used_memory_mb ? memory[i] : v[i].used_memory_mb;
	}
}

static void add_locked(struct td_asks *t, struct td_ask *a, const struct td_want *w, int64_t now)
{
	if (t->n_res == t->cap_res) {
		t->cap_res = t->cap_res ? t->cap_res * 2 : 64;
		t->res = td_realloc(t->res, t->cap_res * sizeof(*t->res));
	}
	struct td_reservation *r = &t->res[t->n_res++];
	*r = (struct td_reservation){.at_ms = now, .cpus = w->pool.cpus, .memory_mb = w->pool.memory_mb, .job = --t->res_tag};
	for (int k = 0; k < TD_POOL_KINDS && w->kinds[k]; k++) {
		r->gres[k] = w->pool.gres[k];
		snprintf(r->kinds[k], sizeof(r->kinds[k]), "%s", w->kinds[k]);
	}
	a->res_tag = r->job;
}

bool td_ask_fits_now(struct td_bridge *b, const struct td_settings *s, struct td_ask *a, const struct td_object *pod,
		     const struct td_want *w)
{
	if (s->stand_in != TD_STANDIN_AUTO)
		return false;
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *snap = td_slurm_view_nodes(b->view);
	if (!snap || td_now(b) - snap->asked_ms > FRESH_MS || a->no_fast_gen == snap->gen)
		return false;
	size_t waiting;
	uint64_t print;
	td_slurm_view_waiting(b->view, &waiting, &print);
	td_auto_free bool *ok = td_room_feasible(b, pod, &snap->nodes);
	td_auto_free struct td_pool_node *nodes = NULL;
	td_pool_nodes(&snap->nodes, ok, w->kinds, w->ask.partition, &nodes);
	struct td_asks *t = b->asks;
	pthread_mutex_lock(&t->lock);
	// One of ours waits: Slurm has reached something that it cannot start, and whoever comes now stands behind it.
	bool may = !t->pending && !(t->blocked && t->blocked_waiting == waiting && t->blocked_print == print);
	if (may) {
		t->blocked = false;
		take_locked(t, snap, nodes, w);
		may = td_pool_fits_now(nodes, snap->nodes.n, &w->pool) >= 0;
	}
	if (may)
		add_locked(t, a, w, td_now(b));
	pthread_mutex_unlock(&t->lock);
	return may;
}

void td_room_given(struct td_bridge *b, struct td_ask *a, int64_t job)
{
	struct td_asks *t = b->asks;
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; a->res_tag && i < t->n_res; i++) {
		if (t->res[i].job != a->res_tag)
			continue;
		if (job) {
			t->res[i].job = job;
			t->res[i].at_ms = td_now(b); // a snapshot that was asked for before this moment may not show it
		} else {
			t->res[i] = t->res[--t->n_res];
		}
		break;
	}
	a->res_tag = 0;
	pthread_mutex_unlock(&t->lock);
}

void td_room_where(struct td_bridge *b, int64_t job, const char *node)
{
	struct td_asks *t = b->asks;
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < t->n_res; i++)
		if (t->res[i].job == job)
			snprintf(t->res[i].node, sizeof(t->res[i].node), "%s", node);
	pthread_mutex_unlock(&t->lock);
}

void td_room_refused(struct td_bridge *b, struct td_ask *a, const struct td_error *e)
{
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *snap = td_slurm_view_nodes(b->view);
	atomic_fetch_add(&b->n_refused_fast, 1);
	a->no_fast_gen = snap ? snap->gen : 0;
	if (e->detail != TD_SLURM_ERR_NOT_TOP)
		return;
	size_t waiting;
	uint64_t print;
	td_slurm_view_waiting(b->view, &waiting, &print);
	pthread_mutex_lock(&b->asks->lock);
	b->asks->blocked = true;
	b->asks->blocked_waiting = waiting;
	b->asks->blocked_print = print;
	pthread_mutex_unlock(&b->asks->lock);
}
