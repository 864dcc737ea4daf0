// The fast path's view of free room: Slurm's nodes as last polled, what Slurm gave the bridge since
// then, and whether another job waits before.
//
// All of it is a hint: Slurm decides. A wrong guess costs a FAILED job record and then the way
// through the queue. So the bridge tries only when the view says yes, and never twice for the same
// state of the pool (docs/protocols.md 1.3).
#include "bridge/scheduler/passes.h"

#include "pool/gang.h"
#include "pool/preflight.h"
#include "slurm/hostlist.h"

#include <string.h>

static int find(const struct td_pool_node *v, size_t n, const char *name)
{
	for (size_t i = 0; *name && i < n; i++)
		if (!strcmp(v[i].name, name))
			return (int)i;
	return -1;
}

// Adds to v, whose used_* fields are as the snapshot says, what was given since then. Drops the
// reservations that the snapshot shows already.
static void take_locked(struct td_asks *t, const struct td_slurm_snapshot *snap, struct td_pool_node *v,
			const char *const *kinds)
{
	size_t n = snap->nodes.n, n_given = 0;
	td_auto_free struct td_pool_want *held = td_calloc(n ? n : 1, sizeof(*held));
	td_auto_free struct td_pool_given *given = td_calloc(t->n_res ? t->n_res : 1, sizeof(*given));

	struct td_ask *a, *tmp;
	HASH_ITER (hh, t->by_uid, a, tmp) {
		if (!a->has_cpus || !a->nodes || td_ask_is(a->states) != TD_IS_RUNNING)
			continue;
		for (size_t i = 0; i < a->n_parts; i++) {
			const struct td_slurm_node *x = td_slurm_node_find(&snap->nodes, a->parts[i].node);
			if (x) {
				held[x - snap->nodes.v].cpus += a->parts[i].cpus;
				held[x - snap->nodes.v].memory_mb += a->parts[i].memory_mb;
			}
		}
		const struct td_slurm_node *x = td_slurm_node_find(&snap->nodes, a->nodes);
		if (x) {
			held[x - snap->nodes.v].cpus += a->has_cpus;
			held[x - snap->nodes.v].memory_mb += a->has_memory_mb;
		}
	}

	for (size_t i = 0; i < t->n_res;) {
		struct td_reservation *r = &t->res[i];
		if (td_pool_given_seen(r->at_ms, r->job >= 0, td_slurm_snapshot_seen(snap, r->node))) {
			*r = t->res[--t->n_res];
			continue;
		}

		struct td_pool_given *g = &given[n_given++];
		*g = (struct td_pool_given){.want = {.cpus = r->cpus, .memory_mb = r->memory_mb},
					    .node = find(v, n, r->node)};
		for (int k = 0; k < TD_POOL_KINDS && kinds[k]; k++)
			for (int m = 0; m < TD_POOL_KINDS && r->kinds[m][0]; m++)
				if (!strcmp(kinds[k], r->kinds[m]))
					g->want.gres[k] = r->gres[m];
		i++;
	}

	td_pool_room_take(v, n, held, given, n_given);
}

// Reserves what one pod wants, under this tag.
static void add_locked(struct td_asks *t, const struct td_want *w, int64_t now, int64_t tag)
{
	if (t->n_res == t->cap_res) {
		t->cap_res = t->cap_res ? t->cap_res * 2 : 64;
		t->res = td_realloc(t->res, t->cap_res * sizeof(*t->res));
	}

	struct td_reservation *r = &t->res[t->n_res++];
	*r = (struct td_reservation){.at_ms = now, .cpus = w->pool.cpus, .memory_mb = w->pool.memory_mb, .job = tag};
	for (int k = 0; k < TD_POOL_KINDS && w->kinds[k]; k++) {
		r->gres[k] = w->pool.gres[k];
		snprintf(r->kinds[k], sizeof(r->kinds[k]), "%s", w->kinds[k]);
	}
}

// The nodes that an immediate allocation may not use: NULL when these are the ask's own.
static const char *avoid(const struct td_slurm_nodes *l, const bool *ok, const struct td_pool_node *was,
			 const struct td_pool_node *v, struct td_arena *arena)
{
	bool more = false;
	td_auto_strv struct td_strv no = {0};
	for (size_t i = 0; i < l->n; i++) {
		bool yields = was[i].feasible && !v[i].feasible;
		more |= yields;
		if (!ok[i] || yields)
			td_strv_add(&no, l->v[i].name);
	}
	td_auto_free char *text = more ? td_hostlist_write(&no) : NULL;
	return text ? td_arena_strdup(arena, text) : NULL;
}

// Are the pod's devices tested before it starts? Then a batch stand-in goes first, because its Prolog tests them
// before the pod is bound: a pod that is bound cannot start elsewhere. Every node of Slurm's has the same policy.
static bool tested_first(struct td_bridge *b, const struct td_slurm_snapshot *snap, const struct td_object *pod,
			 const struct td_want *w)
{
	td_auto(td_object_unref) struct td_object *node =
		snap->nodes.n ? td_informer_get(b->nodes, NULL, snap->nodes.v[0].name) : NULL;
	const char *text = node ? td_object_annotation(node, TD_ANN_PREFLIGHT) : NULL;
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!text || td_json_parse(text, strlen(text), &j, NULL))
		return false;
	td_auto_strv struct td_strv partitions = {0}, qos = {0}, namespaces = {0};
	td_jstrs(td_jget(td_json_root(j), "partitions"), &partitions);
	td_jstrs(td_jget(td_json_root(j), "qos"), &qos);
	td_jstrs(td_jget(td_json_root(j), "namespaces"), &namespaces);
	const struct td_pool_preflight_rule r = {.partitions = (const char *const *)partitions.v,
						 .n_partitions = partitions.n,
						 .qos = (const char *const *)qos.v,
						 .n_qos = qos.n,
						 .namespaces = (const char *const *)namespaces.v,
						 .n_namespaces = namespaces.n};
	const struct td_pool_preflight_job of = {w->ask.partition, w->ask.qos, pod->ns};
	return td_pool_preflight(&r, &of) != TD_PREFLIGHT_NO;
}

// Of a gang whose roles may run on different nodes, what it excludes is what one of them does not suit.
static void less_excluded(const struct td_slurm_nodes *l, const char *excluded, bool *ok)
{
	td_auto_strv struct td_strv no = {0};
	if (!excluded || td_hostlist_parse(excluded, &no, NULL))
		return;
	td_auto_free bool *out = td_slurm_nodes_in(l, &no);
	for (size_t i = 0; i < l->n; i++)
		ok[i] = ok[i] && !out[i];
}

bool td_ask_fits_now(struct td_bridge *b, const struct td_settings *s, struct td_ask *a, const struct td_object *pod,
		     struct td_want *w)
{
	struct td_asks *t = b->asks;
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *snap = td_slurm_view_nodes(b->view);
	struct td_pool_fast f = {.now_ms = td_now(b),
				 .allowed = s->stand_in == TD_STANDIN_AUTO && !(snap && tested_first(b, snap, pod, w)),
				 .view_age_ms = snap ? td_slurm_snapshot_late(snap, td_now(b)) : -1,
				 .refused_here = snap && a->no_fast_gen == snap->whole};

	td_slurm_view_waiting(b->view, &f.waiting, &f.print);
	f.raises = td_passes(b);
	pthread_mutex_lock(&t->lock);
	f.pending = t->pending;
	f.ours = t->pending_gen;
	f.block = t->block;
	f.vain_ms = t->vain_ms;
	pthread_mutex_unlock(&t->lock);
	// A cheap test first, before the nodes are looked at.
	enum td_pool_fast_do how = td_pool_fast(&f);
	if (how == TD_FAST_NO)
		return false;

	td_auto_free bool *ok = td_room_feasible(b, pod, &snap->nodes);
	if (w->apart)
		less_excluded(&snap->nodes, w->ask.excluded_nodes, ok);
	td_auto_queued struct td_queued waits = {0};
	struct td_queued_seen seen;
	td_queued_read(t, &waits);
	if (how == TD_FAST_RAISE && !td_others_read(b, &waits))
		return false;
	td_queued_kinds(&waits, w, &seen);
	td_auto_free struct td_pool_node *nodes = NULL;
	td_bridge_pool_nodes(&snap->nodes, ok, seen.kinds, w->ask.partition, &nodes);
	td_auto_free struct td_pool_node *was = td_calloc(snap->nodes.n + 1, sizeof(*was));
	memcpy(was, nodes, snap->nodes.n * sizeof(*was));

	pthread_mutex_lock(&t->lock);
	f.pending = t->pending;
	f.ours = t->pending_gen;
	bool same = t->pending == waits.own || waits.more; // else one began to wait just now
	f.block = t->block;

	bool may = same && (how == TD_FAST_RAISE || td_pool_fast(&f) == how);
	if (may) {
		t->block.blocked &= how == TD_FAST_RAISE;
		take_locked(t, snap, nodes, seen.kinds);
		may = td_queued_yield(&waits, &seen, &snap->nodes, nodes);
		int at = may && !a->size ? td_pool_fits_now(nodes, snap->nodes.n, &w->pool) : -1;
		may = may && (a->size ? td_pool_gang_fits_now(nodes, snap->nodes.n, &w->pool, (int64_t)td_ask_tasks(a))
				      : at >= 0);
		w->at = at >= 0 ? td_arena_strdup(w->arena, nodes[at].name) : NULL;
	}
	if (may) {
		a->res_tag = --t->res_tag;
		for (size_t i = 0; i < (a->size ? td_ask_tasks(a) : 1); i++)
			add_locked(t, w, td_now(b), a->res_tag);
	}
	pthread_mutex_unlock(&t->lock);

	w->raise = may && how == TD_FAST_RAISE;
	w->avoid = may ? avoid(&snap->nodes, ok, was, nodes, w->arena) : NULL;

	return may;
}

void td_room_given(struct td_bridge *b, struct td_ask *a, int64_t job)
{
	struct td_asks *t = b->asks;
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; a->res_tag && i < t->n_res;) {
		if (t->res[i].job != a->res_tag) {
			i++;
		} else if (job) {
			t->res[i].job = job;
			// Only a snapshot that is asked for after this moment surely shows it.
			t->res[i++].at_ms = td_now(b);
		} else {
			t->res[i] = t->res[--t->n_res];
		}
	}
	a->res_tag = 0;
	pthread_mutex_unlock(&t->lock);
}

void td_room_where(struct td_bridge *b, int64_t job, const char *node, int64_t cpus)
{
	struct td_asks *t = b->asks;
	int64_t left = cpus ? cpus : INT64_MAX;
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < t->n_res; i++)
		if (t->res[i].job == job && (!cpus || !t->res[i].node[0]) && t->res[i].cpus <= left) {
			left -= cpus ? t->res[i].cpus : 0;
			snprintf(t->res[i].node, sizeof(t->res[i].node), "%s", node);
		}
	pthread_mutex_unlock(&t->lock);
}

void td_room_refused(struct td_bridge *b, struct td_ask *a, bool raised, const struct td_error *e)
{
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *snap = td_slurm_view_nodes(b->view);
	atomic_fetch_add(&b->n_refused_fast, 1);
	bool not_top = e->detail == TD_SLURM_ERR_NOT_TOP;
	// It may be raised above those who wait.
	if (!not_top || raised || !td_passes(b))
		a->no_fast_gen = snap ? snap->whole : 0;
	if (!not_top)
		return;

	struct td_pool_block block = {.blocked = true, .at_ms = a->asked_ms};
	td_slurm_view_waiting(b->view, &block.waiting, &block.print);
	pthread_mutex_lock(&b->asks->lock);
	block.ours = b->asks->pending_gen;
	b->asks->block = block;
	if (raised)
		b->asks->vain_ms = td_now(b);
	pthread_mutex_unlock(&b->asks->lock);
}
