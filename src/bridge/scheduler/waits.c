// What our own waiting asks ask for, so that one that has just come can tell whether it would take
// something from them (td_pool_room_yield).
#include "bridge/scheduler/waits.h"

#include "pool/gang.h"
#include "slurm/hostlist.h"

#include <string.h>

struct td_ask_wait { // immutable, reference-counted
	int refs;
	struct td_pool_want want, least; // as in td_pool_waiter
	size_t nodes;
	int64_t members;               // of a gang
	char kinds[TD_POOL_KINDS][64]; // of want.gres
	char *partition;               // NULL: the default one, so any
	struct td_strv excluded;       // sorted
	struct td_strv only;           // its nodes are among these; empty: they may be any
	struct td_strv must;           // it has to have these, and others besides
};

struct td_ask_wait *td_ask_wait_unref(struct td_ask_wait *w)
{
	if (!w || __atomic_sub_fetch(&w->refs, 1, __ATOMIC_ACQ_REL))
		return NULL;
	free(w->partition);
	td_strv_done(&w->excluded);
	td_strv_done(&w->only);
	td_strv_done(&w->must);
	free(w);
	return NULL;
}

void td_ask_waits_for(struct td_asks *t, struct td_ask *a, const struct td_want *w)
{
	struct td_ask_wait *now = td_calloc(1, sizeof(*now));
	now->refs = 1;
	now->least = w->pool;
	now->members = (int64_t)td_ask_tasks(a);
	now->want = td_pool_gang_most(&w->pool, now->members);
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

bool td_ask_waits_least(struct td_asks *t, const struct td_ask *a, struct td_pool_want *ret)
{
	pthread_mutex_lock(&t->lock);
	bool known = a->wait != NULL;
	if (known)
		*ret = a->wait->least;
	pthread_mutex_unlock(&t->lock);
	return known;
}

void td_queued_done(struct td_queued *l)
{
	for (size_t i = 0; i < l->n; i++)
		td_ask_wait_unref(l->v[i].wait);
	*l = (struct td_queued){0};
}

void td_queued_add(struct td_queued *l, const struct td_queued_job *j)
{
	if (l->n == TD_LEN(l->v)) {
		l->more = true;
		return;
	}
	if (j->wait)
		__atomic_add_fetch(&j->wait->refs, 1, __ATOMIC_RELAXED);
	l->v[l->n++] = *j;
}

void td_queued_read(struct td_asks *t, struct td_queued *ret)
{
	struct td_ask *a, *tmp;
	pthread_mutex_lock(&t->lock);
	if (t->pending)
		HASH_ITER (hh, t->by_uid, a, tmp) {
			if (!a->counted)
				continue;
			if (ret->n == TD_POOL_WAITERS) {
				ret->more = true;
				break;
			}
			td_queued_add(ret, &(struct td_queued_job){a->wait, td_pool_reason_aside(a->reason)});
		}
	ret->own = ret->n;
	pthread_mutex_unlock(&t->lock);
}

void td_ask_waits_largest(struct td_asks *t, const struct td_strv *partitions, int64_t *most)
{
	struct td_ask *a, *tmp;
	pthread_mutex_lock(&t->lock);
	HASH_ITER (hh, t->by_uid, a, tmp) {
		const struct td_ask_wait *w = a->counted ? a->wait : NULL;
		int64_t gpus = 0;
		for (int k = 0; w && k < TD_POOL_KINDS && w->kinds[k][0]; k++)
			if (!strncmp(w->kinds[k], "gpu", strcspn(w->kinds[k], ":")))
				gpus += w->least.gres[k];
		for (size_t i = 0; i < partitions->n && gpus; i++)
			if (gpus > most[i] && (!w->partition || td_bridge_lists(w->partition, partitions->v[i])))
				most[i] = gpus;
	}
	pthread_mutex_unlock(&t->lock);
}

// Notes n of a kind of GRES ("gpu", "gpu:h100"), and at least `least`. False: there are too many kinds.
static bool note_gres(struct td_ask_wait *w, const char *kind, int64_t n, int64_t least)
{
	for (int k = 0; k < TD_POOL_KINDS; k++) {
		if (w->kinds[k][0] && strcmp(w->kinds[k], kind) != 0)
			continue;
		snprintf(w->kinds[k], sizeof(w->kinds[k]), "%s", kind);
		w->want.gres[k] = n > w->want.gres[k] ? n : w->want.gres[k];
		w->least.gres[k] = least > w->least.gres[k] ? least : w->least.gres[k];
		return true;
	}
	return false;
}

// Reads the GRES of "cpu=2,gres/gpu:h100:4": `times` as many at most, at least `least` times as many,
// or one where least is 0.
static bool note_tres(struct td_ask_wait *w, const char *text, int64_t times, int64_t least)
{
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, text ? text : "", ',');
	for (size_t i = 0; i < l.n; i++) {
		if (!td_starts(l.v[i], "gres/") && !td_starts(l.v[i], "gres:"))
			continue;
		const char *kind = l.v[i] + strlen("gres/");
		char *eq = strrchr(kind, '='), *colon = strrchr(kind, ':');
		char *end = eq ? eq : colon;
		long long n = 1;
		if (end && td_parse_i64(end + 1, &n))
			*end = '\0';
		else if (eq)
			return false;
		// A part of a GPU takes one that nobody has whole.
		if (td_streq(kind, TD_GPU_SHARE) && n > 0) {
			kind = "gpu";
			n = 1;
		}
		if (n < 0 || n > 1000000 || strlen(kind) >= sizeof(w->kinds[0]) ||
		    !note_gres(w, kind, n * times, least ? n * least : n > 0))
			return false;
	}
	return true;
}

struct td_ask_wait *td_ask_wait_of_job(const struct td_slurm_job *j)
{
	enum { ALL_MB = 1 << 30 };
	int64_t tasks = j->want_tasks > 1 ? j->want_tasks : 1, each = j->want_tasks_per_node,
		cpus = j->want_cpus_per_task > 1 ? j->want_cpus_per_task : 1;
	bool one = tasks == 1 && j->want_nodes <= 1, exclusive = td_streq(j->shared, "none");
	struct td_ask_wait *w = td_calloc(1, sizeof(*w));
	w->refs = 1;
	w->nodes = j->want_nodes > 0 ? (size_t)j->want_nodes : 1;

	w->want.cpus = each ? each * cpus : j->want_cpus > cpus ? j->want_cpus : cpus;
	w->least.cpus = each || one ? w->want.cpus : cpus;
	int64_t per_cpu = j->want_memory_per_cpu_mb;
	w->want.memory_mb = j->want_memory_mb ? j->want_memory_mb : per_cpu ? per_cpu * w->want.cpus : ALL_MB;
	w->least.memory_mb = j->want_memory_mb ? j->want_memory_mb : per_cpu ? per_cpu * w->least.cpus : 1;
	w->want.exclusive = w->least.exclusive = exclusive;

	// A list of partitions: any of them.
	if (j->partition && *j->partition && !strchr(j->partition, ','))
		w->partition = td_strdup(j->partition);
	bool ok = (exclusive || !j->shared || !*j->shared) && (!j->tres_per_socket || !*j->tres_per_socket) &&
		  note_tres(w, j->tres_per_node, 1, 1) && note_tres(w, j->tres_per_job, 1, one) &&
		  note_tres(w, j->tres_per_task, each ? each : tasks, each ? each : 1) &&
		  (!j->excluded_nodes || !td_hostlist_parse(j->excluded_nodes, &w->excluded, NULL));
	if (ok && j->required_nodes && *j->required_nodes)
		ok = !td_hostlist_parse(j->required_nodes, one ? &w->only : &w->must, NULL);
	if (w->must.n >= w->nodes) { // it names all that it has
		w->nodes = w->must.n;
		w->only = w->must;
		w->must = (struct td_strv){0};
	}
	return ok ? w : td_ask_wait_unref(w);
}

void td_ask_wait_show(const struct td_ask_wait *w, struct td_ask_wait_parts *ret)
{
	*ret = (struct td_ask_wait_parts){.want = w->want,
					  .least = w->least,
					  .nodes = w->nodes,
					  .partition = w->partition,
					  .excluded = &w->excluded,
					  .only = &w->only,
					  .must = &w->must};
	for (int k = 0; k < TD_POOL_KINDS && w->kinds[k][0]; k++)
		ret->kinds[k] = w->kinds[k];
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
	struct td_pool_want all = td_pool_gang_most(&w->pool, w->ask.tasks), take = all;
	for (int k = 0; k < TD_POOL_KINDS && kinds[k]; k++) {
		take.gres[k] = 0;
		for (int m = 0; m < TD_POOL_KINDS && w->kinds[m]; m++)
			if (same_base(kinds[k], w->kinds[m]))
				take.gres[k] += all.gres[m];
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
		p->least = x->least;
		p->nodes = x->nodes;
		p->members = x->members;
		memset(p->want.gres, 0, sizeof(p->want.gres));
		memset(p->least.gres, 0, sizeof(p->least.gres));
		for (int k = 0; k < TD_POOL_KINDS && x->kinds[k][0]; k++) {
			int at = number(ret->kinds, x->kinds[k]);
			if (at < 0)
				p->known = false;
			else
				p->want.gres[at] = x->want.gres[k], p->least.gres[at] = x->least.gres[k];
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
			f[k] = !td_strv_has(&x->excluded, nodes->v[k].name) &&
			       (!x->only.n || td_strv_has(&x->only, nodes->v[k].name));
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
