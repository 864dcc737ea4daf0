// What our own waiting asks ask for, so that one that has just come can tell whether it would take
// something from them (td_pool_room_yield).
#include "bridge/scheduler/waits.h"

#include "slurm/hostlist.h"

#include <string.h>

struct td_ask_wait { // immutable, reference-counted
	int refs;
	struct td_pool_want want;
	char kinds[TD_POOL_KINDS][64]; // of want.gres
	char *partition;               // NULL: the default one, so any
	struct td_strv excluded;       // sorted
};

struct td_ask_wait *td_ask_wait_unref(struct td_ask_wait *w)
{
	if (!w || __atomic_sub_fetch(&w->refs, 1, __ATOMIC_ACQ_REL))
		return NULL;
	free(w->partition);
	td_strv_done(&w->excluded);
	free(w);
	return NULL;
}

void td_ask_waits_for(struct td_asks *t, struct td_ask *a, const struct td_want *w)
{
	struct td_ask_wait *now = td_calloc(1, sizeof(*now));
	now->refs = 1;
	now->want = w->pool;
	now->partition = w->ask.partition ? td_strdup(w->ask.partition) : NULL;
	for (int k = 0; k < TD_POOL_KINDS && w->kinds[k]; k++)
		snprintf(now->kinds[k], sizeof(now->kinds[k]), "%s", w->kinds[k]);
	if (w->ask.excluded_nodes && td_hostlist_parse(w->ask.excluded_nodes, &now->excluded, NULL))
		now = td_ask_wait_unref(now); // not known

	pthread_mutex_lock(&t->lock);
	struct td_ask_wait *old = a->wait;
	a->wait = now;
	pthread_mutex_unlock(&t->lock);
	td_ask_wait_unref(old);
}

void td_queued_done(struct td_queued *l)
{
	for (size_t i = 0; i < l->n; i++)
		td_ask_wait_unref(l->v[i].wait);
	*l = (struct td_queued){0};
}

void td_queued_read(struct td_asks *t, struct td_queued *ret)
{
	struct td_ask *a, *tmp;
	pthread_mutex_lock(&t->lock);
	if (t->pending)
		HASH_ITER (hh, t->by_uid, a, tmp) {
			if (!a->counted)
				continue;
			if (ret->n == TD_LEN(ret->v)) {
				ret->more = true;
				break;
			}
			if (a->wait)
				__atomic_add_fetch(&a->wait->refs, 1, __ATOMIC_RELAXED);
			ret->v[ret->n].wait = a->wait;
			ret->v[ret->n++].aside = td_pool_reason_aside(a->reason);
		}
	pthread_mutex_unlock(&t->lock);
}

static bool same_base(const char *a, const char *b)
{
	size_t n = strcspn(a, ":");
	return n == strcspn(b, ":") && !strncmp(a, b, n);
}

// The number of a kind in `kinds`, which grows by it. -1: there are too many.
static int number(const char **kinds, const char *kind)
{
	for (int k = 0; k < TD_POOL_KINDS; k++) {
		if (!kinds[k])
			kinds[k] = kind;
		if (!strcmp(kinds[k], kind))
			return k;
	}
	return -1;
}

// What the allocation takes under every name of a kind: a "gpu" may be a "gpu:h100", and the other
// way round.
static struct td_pool_want takes(const struct td_want *w, const char *const *kinds)
{
	struct td_pool_want take = w->pool;
	for (int k = 0; k < TD_POOL_KINDS && kinds[k]; k++) {
		take.gres[k] = 0;
		for (int m = 0; m < TD_POOL_KINDS && w->kinds[m]; m++)
			if (same_base(kinds[k], w->kinds[m]))
				take.gres[k] += w->pool.gres[m];
	}
	return take;
}

void td_queued_kinds(const struct td_queued *l, const struct td_want *w, struct td_queued_seen *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (int k = 0; k < TD_POOL_KINDS && w->kinds[k]; k++)
		ret->kinds[k] = w->kinds[k];
	for (size_t i = 0; i < l->n; i++) {
		const struct td_ask_wait *x = l->v[i].wait;
		struct td_pool_waiter *p = &ret->v[i];
		p->aside = l->v[i].aside;
		p->known = x;
		if (!x)
			continue;
		p->want = x->want;
		memset(p->want.gres, 0, sizeof(p->want.gres));
		for (int k = 0; k < TD_POOL_KINDS && x->kinds[k][0]; k++) {
			int at = number(ret->kinds, x->kinds[k]);
			if (at < 0)
				p->known = false;
			else
				p->want.gres[at] = x->want.gres[k];
		}
	}
	ret->take = takes(w, ret->kinds);
}

bool td_queued_yield(const struct td_queued *l, struct td_queued_seen *seen, const struct td_slurm_nodes *nodes,
		     struct td_pool_node *v)
{
	static const char *const none[TD_POOL_KINDS] = {0};
	if (l->more)
		return false;
	if (!l->n)
		return true;

	size_t n = nodes->n;
	td_auto_free bool *feasible = td_calloc(n * l->n + 1, sizeof(*feasible));
	for (size_t i = 0; i < l->n; i++) {
		bool *f = feasible + i * n;
		const struct td_ask_wait *x = l->v[i].wait;
		if (!x)
			continue;
		for (size_t k = 0; k < n; k++)
			f[k] = !td_strv_has(&x->excluded, nodes->v[k].name);
		td_auto_free struct td_pool_node *in = NULL;
		td_bridge_pool_nodes(nodes, f, none, x->partition, &in);
		for (size_t k = 0; k < n; k++)
			f[k] = in[k].feasible;
		seen->v[i].feasible = f;
	}
	bool may = td_pool_room_yield(v, n, &seen->take, seen->v, l->n);
	for (size_t i = 0; i < l->n; i++)
		seen->v[i].feasible = NULL;
	return may;
}
