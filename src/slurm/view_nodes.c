// The view of Slurm's nodes: when the list is read, and which nodes are read by themselves in between.
#include "slurm/view_priv.h"

#include <string.h>

// So many hints are kept; the list shows what else there is. So many nodes are read by themselves in one poll: each
// costs slurmctld and slurmrestd what a dozen nodes of a list do (S-W4).
enum { HINTS = 64, SINGLES = 4 };

struct td_slurm_snapshot *td_slurm_view_nodes(struct td_slurm_view *v)
{
	pthread_mutex_lock(&v->lock);
	struct td_slurm_snapshot *s = v->snap;
	if (s)
		__atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&v->lock);
	return s;
}

struct td_slurm_snapshot *td_slurm_snapshot_unref(struct td_slurm_snapshot *s)
{
	if (s && __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) == 0) {
		td_slurm_nodes_done(&s->nodes);
		free(s);
	}
	return NULL;
}

static bool same_node(const struct td_slurm_node *a, const struct td_slurm_node *b)
{
	return td_streq(a->name, b->name) && a->states == b->states && td_streq(a->reason, b->reason) &&
	       a->reason_at == b->reason_at && td_streq(a->gres, b->gres) && td_streq(a->gres_used, b->gres_used) &&
	       a->cpus == b->cpus && a->alloc_cpus == b->alloc_cpus && a->memory_mb == b->memory_mb &&
	       a->alloc_memory_mb == b->alloc_memory_mb && td_streq(a->partitions, b->partitions) &&
	       td_streq(a->features, b->features) && td_streq(a->active, b->active);
}

enum { SECOND_MS = 1000, ANYWAY_MS = 60000 };

enum td_slurm_nodes_do td_slurm_nodes_next(const struct td_slurm_nodes_pace *p, int64_t now_ms, int64_t *ret_since)
{
	int64_t age = now_ms - p->read_ms;
	*ret_since = p->again ? p->since + 1 : p->since;
	return !p->since || p->news || p->owed || age >= ANYWAY_MS || (p->again && age >= SECOND_MS) ? TD_NODES_READ
												     : TD_NODES_ASK;
}

bool td_slurm_nodes_answer(struct td_slurm_nodes_pace *p, int64_t now_ms, bool changed)
{
	if (!changed)
		return false;
	// slurmctld notes a change whenever it has pinged the nodes: most mean nothing.
	if (p->again || now_ms - p->read_ms >= SECOND_MS)
		return true;
	p->again = true;
	return false;
}

void td_slurm_nodes_read(struct td_slurm_nodes_pace *p, int64_t now_ms, int64_t at, bool differs)
{
	*p = (struct td_slurm_nodes_pace){.since = at, .read_ms = now_ms, .news = differs};
}

void td_slurm_view_paced(struct td_slurm_view *v, const struct td_slurm_list_pace *p)
{
	v->paced = *p;
}

void td_slurm_view_hint(struct td_slurm_view *v, const char *node)
{
	pthread_mutex_lock(&v->lock);
	bool there = v->hints.n >= HINTS;
	for (size_t i = 0; i < v->hints.n && !there; i++)
		there = !strcmp(v->hints.v[i], node);
	if (!there && v->snap && v->snap->gap_ms)
		td_strv_add(&v->hints, node);
	pthread_mutex_unlock(&v->lock);
}

uint64_t td_slurm_view_stir(struct td_slurm_view *v)
{
	pthread_mutex_lock(&v->lock);
	uint64_t n = v->stir + (v->snap ? v->snap->gen : 0);
	pthread_mutex_unlock(&v->lock);
	return n;
}

int64_t td_slurm_snapshot_late(const struct td_slurm_snapshot *s, int64_t now_ms)
{
	int64_t age = now_ms - atomic_load(&s->asked_ms);
	return age > s->gap_ms ? age - s->gap_ms : 0;
}

int64_t td_slurm_snapshot_seen(const struct td_slurm_snapshot *s, const char *node)
{
	const struct td_slurm_node *n = s->gap_ms ? td_slurm_node_find(&s->nodes, node) : NULL;
	int64_t asked = atomic_load(&s->asked_ms), seen = n ? __atomic_load_n(&n->seen_ms, __ATOMIC_RELAXED) : 0;
	return seen > asked ? seen : asked;
}

// Will this node change soon? Then it is read by itself now and then, without a hint.
static bool moves(const struct td_slurm_node *n)
{
	return (n->states & TD_NODE(COMPLETING)) ||
	       ((n->states & TD_NODE(NOT_RESPONDING)) && !(n->states & TD_NODE(DOWN))) ||
	       ((n->states & TD_NODE(DRAIN)) && td_slurm_node_busy(n->states));
}

// Takes what is to be read by itself now: hints first, else the next node that moves.
static void take_hints(struct td_slurm_view *v, struct td_strv *ret)
{
	pthread_mutex_lock(&v->lock);
	const struct td_slurm_nodes *l = &v->snap->nodes;
	for (size_t i = 0; i < v->hints.n && i < SINGLES; i++)
		if (td_slurm_node_find(l, v->hints.v[i]))
			td_strv_add(ret, v->hints.v[i]);
	struct td_strv rest = {0};
	for (size_t i = SINGLES; i < v->hints.n; i++)
		td_strv_add(&rest, v->hints.v[i]);
	td_strv_done(&v->hints);
	v->hints = rest;
	for (size_t i = 0; i < l->n && !ret->n; i++) {
		v->cursor = (v->cursor + 1) % l->n;
		if (moves(&l->v[v->cursor]))
			td_strv_add(ret, l->v[v->cursor].name);
	}
	pthread_mutex_unlock(&v->lock);
}

// Forgets the hints: what is asked for from now on shows what they are about.
static void drop_hints(struct td_slurm_view *v)
{
	pthread_mutex_lock(&v->lock);
	td_strv_done(&v->hints);
	pthread_mutex_unlock(&v->lock);
}

// Reads nodes by themselves, and makes a snapshot with them where they differ.
static int read_some(struct td_slurm_view *v, struct td_slurm *s, int64_t now_ms, struct td_cancel *c,
		     bool *ret_changed, struct td_error *err)
{
	td_auto_strv struct td_strv names = {0};
	take_hints(v, &names);
	struct td_slurm_snapshot *old = v->snap, *now = NULL; // nobody else changes it
	int r = 0;
	for (size_t i = 0; i < names.n; i++) {
		td_auto_nodes struct td_slurm_nodes one = {0};
		r = td_slurm_node(s, names.v[i], c, &one, err);
		if (r == TD_NOT_FOUND) {
			v->nodes.owed = true; // it is gone: the list says so
			r = 0;
			continue;
		}
		if (r)
			break;
		const struct td_slurm_nodes *l = now ? &now->nodes : &old->nodes;
		const struct td_slurm_node *was = td_slurm_node_find(l, names.v[i]);
		if (!was || !one.n)
			continue;
		if (same_node(was, &one.v[0])) {
			__atomic_store_n(&((struct td_slurm_node *)(uintptr_t)was)->seen_ms, now_ms, __ATOMIC_RELAXED);
			continue;
		}
		if (!now) {
			now = td_calloc(1, sizeof(*now));
			*now = (struct td_slurm_snapshot){.refs = 1,
							  .seq = old->seq + 1,
							  .gen = old->gen + 1,
							  .whole = old->whole,
							  .gap_ms = old->gap_ms};
			atomic_store(&now->asked_ms, atomic_load(&old->asked_ms));
			td_slurm_nodes_copy(&old->nodes, &now->nodes);
		}
		one.v[0].seen_ms = now_ms;
		td_slurm_nodes_put(&now->nodes, &one);
	}
	if (!now || r) { // half of it would be in the view, and told to nobody
		td_slurm_snapshot_unref(now);
		return r;
	}
	pthread_mutex_lock(&v->lock);
	v->snap = now;
	pthread_mutex_unlock(&v->lock);
	td_slurm_snapshot_unref(old);
	*ret_changed = true;
	return 0;
}

// True in *ret when the list must be read.
static int must_read(struct td_slurm_view *v, struct td_slurm *s, int64_t now_mono_ms, struct td_cancel *c, bool *ret,
		     struct td_error *err)
{
	int64_t since;
	*ret = td_slurm_nodes_next(&v->nodes, now_mono_ms, &since) == TD_NODES_READ;
	if (*ret)
		return 0;

	td_auto_strv struct td_strv hints = {0}; // those that come meanwhile are kept
	pthread_mutex_lock(&v->lock);
	hints = v->hints;
	v->hints = (struct td_strv){0};
	pthread_mutex_unlock(&v->lock);
	bool changed = false;
	int r = td_slurm_nodes_changed(s, since, c, &changed, err);
	for (size_t i = 0; (r || changed || v->nodes.again) && i < hints.n; i++)
		td_slurm_view_hint(v, hints.v[i]);
	if (r)
		return r;
	*ret = td_slurm_nodes_answer(&v->nodes, now_mono_ms, changed);
	pthread_mutex_lock(&v->lock);
	if (v->snap && !changed && !v->nodes.again)
		atomic_store(&v->snap->asked_ms, now_mono_ms);
	pthread_mutex_unlock(&v->lock);
	return 0;
}

int td_slurm_view_poll_nodes(struct td_slurm_view *v, struct td_slurm *s, int64_t now_mono_ms, struct td_cancel *c,
			     bool *ret_changed, struct td_error *err)
{
	bool read;
	*ret_changed = false;
	int r = must_read(v, s, now_mono_ms, c, &read, err);
	if (r)
		return r;
	if (v->snap && v->snap->gap_ms && (read ? now_mono_ms < v->due_ms : v->nodes.again)) {
		pthread_mutex_lock(&v->lock);
		v->stir += read;
		pthread_mutex_unlock(&v->lock);
		v->nodes.owed |= read;
		return read_some(v, s, now_mono_ms, c, ret_changed, err);
	}
	if (!read)
		return 0;

	struct td_slurm_snapshot *now = td_calloc(1, sizeof(*now));
	now->refs = 1;
	now->asked_ms = now_mono_ms;

	drop_hints(v);
	int64_t began = td_mono_ms(&td_clock_system);
	r = td_slurm_nodes(s, c, &now->nodes, err);
	if (r) {
		td_slurm_snapshot_unref(now);
		return r;
	}
	int64_t took = td_mono_ms(&td_clock_system) - began,
		gap = td_slurm_pace_wait(&v->lists, took, v->paced.times, v->paced.least_ms);
	now->gap_ms = v->paced.times && now->nodes.n > v->paced.few ? gap : 0;
	int64_t from = now_mono_ms - v->paced.burst * (took + gap);
	v->due_ms = (v->due_ms > from ? v->due_ms : from) + took + gap;

	pthread_mutex_lock(&v->lock);
	struct td_slurm_snapshot *old = v->snap;
	bool same = old && old->nodes.n == now->nodes.n;
	for (size_t i = 0; same && i < now->nodes.n; i++)
		same = same_node(&old->nodes.v[i], &now->nodes.v[i]);

	now->seq = old ? old->seq + 1 : 1;
	now->gen = old ? old->gen + !same : 1;
	now->whole = now->gen;
	v->snap = now;
	td_slurm_nodes_read(&v->nodes, now_mono_ms, now->nodes.at, !same);
	pthread_mutex_unlock(&v->lock);

	td_slurm_snapshot_unref(old);
	*ret_changed = !same;
	return 0;
}
