#include "slurm/view.h"

#include <pthread.h>
#include <string.h>

// Jobs that nobody wants are polled every so many rounds: only a killed slurmctld could bring them
// back.
enum { UNWANTED_EVERY = 10 };
// Of so many new jobs that wait one may have been queued again since the last poll; whoever looks pays a request each.
enum { NEW_MOST = 16 };

struct watched {
	int64_t job;
	uint64_t states;
	int64_t unwanted_ms; // since when nobody wants it; 0: it is wanted
	// The round in which the watch began. The reply of that round may say nothing about the
	// job.
	uint64_t since;
	bool asked; // polled in the present round
};
struct td_slurm_view {
	pthread_mutex_t lock; // guards all below
	struct watched *v;    // sorted by job
	size_t n, cap;
	uint64_t round; // of the polls of jobs
	struct td_slurm_snapshot *snap;
	struct td_slurm_nodes_pace nodes; // of the thread that polls them
	size_t waiting;                   // other jobs that wait, and the fingerprint of their ids
	uint64_t print;
	size_t others[TD_PHASE_FLAG]; // jobs that are not watched, by phase
	struct td_slurm_states last;  // they, sorted, as of the last poll of those that wait
	bool listed;                  // there was one
};

struct td_slurm_view *td_slurm_view_new(void)
{
	struct td_slurm_view *v = td_calloc(1, sizeof(*v));
	pthread_mutex_init(&v->lock, NULL);
	return v;
}

struct td_slurm_view *td_slurm_view_free(struct td_slurm_view *v)
{
	if (!v)
		return NULL;
	td_slurm_snapshot_unref(v->snap);
	pthread_mutex_destroy(&v->lock);
	free(v->v);
	td_slurm_states_done(&v->last);
	free(v);
	return NULL;
}

// The first answers of a Slurm that is just starting are slow and say nothing about the next ones.
enum { PACE_FIRST = 3 };

int64_t td_slurm_pace_wait(struct td_slurm_pace *p, int64_t took_ms, int64_t times, int64_t min_ms)
{
	int64_t least = took_ms;
	p->took[p->n++ % TD_LEN(p->took)] = took_ms;

	if (p->n < PACE_FIRST)
		return min_ms;

	for (size_t i = 0; i < TD_LEN(p->took) && i < p->n; i++)
		least = p->took[i] < least ? p->took[i] : least;

	return least * times > min_ms ? least * times : min_ms;
}

// The first position whose job is not below id.
static size_t find_locked(const struct td_slurm_view *v, int64_t id)
{
	size_t a = 0, b = v->n;
	while (a < b) {
		size_t m = (a + b) / 2;
		if (v->v[m].job < id)
			a = m + 1;
		else
			b = m;
	}
	return a;
}

void td_slurm_view_watch(struct td_slurm_view *v, int64_t job, uint64_t states)
{
	pthread_mutex_lock(&v->lock);
	size_t at = find_locked(v, job);

	if (at == v->n || v->v[at].job != job) {
		if (v->n == v->cap) {
			v->cap = v->cap ? v->cap * 2 : 64;
			v->v = td_realloc(v->v, v->cap * sizeof(*v->v));
		}
		memmove(&v->v[at + 1], &v->v[at], (v->n - at) * sizeof(*v->v));
		v->n++;
	}

	v->v[at] = (struct watched){.job = job, .states = states, .since = v->round};
	pthread_mutex_unlock(&v->lock);
}

size_t td_slurm_view_sweep(struct td_slurm_view *v, int64_t now_ms, int64_t keep_ms,
			   bool (*wanted)(void *ctx, int64_t job), void *ctx)
{
	size_t n = 0, kept = 0;

	pthread_mutex_lock(&v->lock);
	for (size_t i = 0; i < v->n; i++) {
		struct watched w = v->v[i];
		bool yes = wanted(ctx, w.job);
		if (!yes && w.unwanted_ms && now_ms - w.unwanted_ms > keep_ms)
			continue;
		w.unwanted_ms = yes ? 0 : w.unwanted_ms ? w.unwanted_ms : now_ms;
		n += yes;
		v->v[kept++] = w;
	}

	v->n = kept;
	pthread_mutex_unlock(&v->lock);
	return n;
}

static int by_id(const void *a, const void *b)
{
	int64_t x = ((const struct td_slurm_state *)a)->id, y = ((const struct td_slurm_state *)b)->id;
	return x < y ? -1 : x > y;
}

int td_slurm_view_poll_jobs(struct td_slurm_view *v, struct td_slurm *s, struct td_cancel *c,
			    struct td_slurm_states *ret_changed, struct td_slurm_states *ret_gone, struct td_error *err)
{
	pthread_mutex_lock(&v->lock);
	size_t n = 0;
	uint64_t round = ++v->round;

	bool all = true;
	for (size_t i = 0; i < v->n && all; i++)
		all = v->v[i].unwanted_ms;
	all = all || round % UNWANTED_EVERY == 0;

	td_auto_free int64_t *ids = td_calloc(v->n ? v->n : 1, sizeof(*ids));
	for (size_t i = 0; i < v->n; i++) {
		struct watched *w = &v->v[i];
		w->asked = all || !w->unwanted_ms;
		if (w->asked)
			ids[n++] = w->job;
	}
	pthread_mutex_unlock(&v->lock);

	td_auto_states struct td_slurm_states got = {0}, diff = {0}, gone = {0};

	if (n) {
		int r = td_slurm_job_states(s, ids, n, c, &got, err);
		if (r)
			return r;
		qsort(got.v, got.n, sizeof(*got.v), by_id);
	}

	diff.v = td_calloc(n ? n : 1, sizeof(*diff.v));
	gone.v = td_calloc(n ? n : 1, sizeof(*gone.v));

	pthread_mutex_lock(&v->lock);
	for (size_t i = 0; i < v->n; i++) {
		struct watched *w = &v->v[i];
		// A job whose watch began after the request: the answer says nothing about it.
		if (!w->asked || w->since >= round)
			continue;
		const struct td_slurm_state key = {.id = w->job};
		const struct td_slurm_state *st = got.n ? bsearch(&key, got.v, got.n, sizeof(*got.v), by_id) : NULL;
		const struct td_slurm_state now = {.id = w->job, .states = st ? st->states : 0};
		if (now.states != w->states)
			diff.v[diff.n++] = now;
		if (!st)
			gone.v[gone.n++] = now;
		w->states = now.states;
	}
	pthread_mutex_unlock(&v->lock);

	td_slurm_states_done(ret_changed);
	td_slurm_states_done(ret_gone);
	*ret_changed = diff;
	*ret_gone = gone;
	diff = gone = (struct td_slurm_states){0};
	return 0;
}

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
	return !p->since || p->news || age >= ANYWAY_MS || (p->again && age >= SECOND_MS) ? TD_NODES_READ
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

// True in *ret when the list must be read.
static int must_read(struct td_slurm_view *v, struct td_slurm *s, int64_t now_mono_ms, struct td_cancel *c, bool *ret,
		     struct td_error *err)
{
	int64_t since;
	*ret = td_slurm_nodes_next(&v->nodes, now_mono_ms, &since) == TD_NODES_READ;
	if (*ret)
		return 0;

	bool changed = false;
	int r = td_slurm_nodes_changed(s, since, c, &changed, err);
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
	if (r || !read)
		return r;

	struct td_slurm_snapshot *now = td_calloc(1, sizeof(*now));
	now->refs = 1;
	now->asked_ms = now_mono_ms;

	r = td_slurm_nodes(s, c, &now->nodes, err);
	if (r) {
		td_slurm_snapshot_unref(now);
		return r;
	}

	pthread_mutex_lock(&v->lock);
	struct td_slurm_snapshot *old = v->snap;
	bool same = old && old->nodes.n == now->nodes.n;
	for (size_t i = 0; same && i < now->nodes.n; i++)
		same = same_node(&old->nodes.v[i], &now->nodes.v[i]);

	now->seq = old ? old->seq + 1 : 1;
	now->gen = old ? old->gen + !same : 1;
	v->snap = now;
	td_slurm_nodes_read(&v->nodes, now_mono_ms, now->nodes.at, !same);
	pthread_mutex_unlock(&v->lock);

	td_slurm_snapshot_unref(old);
	*ret_changed = !same;
	return 0;
}

// Spreads the bits of an id, so that sums of ids differ (the last step of MurmurHash3).
static uint64_t mix(uint64_t x)
{
	x ^= x >> 33;
	x *= UINT64_C(0xff51afd7ed558ccd);
	x ^= x >> 33;
	x *= UINT64_C(0xc4ceb9fe1a85ec53);
	return x ^ x >> 33;
}

// As ret_back of td_slurm_view_poll_waiting(). `all` is sorted.
static void back_locked(const struct td_slurm_view *v, const struct td_slurm_states *all, struct td_slurm_states *ret)
{
	size_t old = 0, n_new = 0, n = 0;
	ret->v = td_calloc(all->n + 1, sizeof(*ret->v));
	td_auto_free struct td_slurm_state *fresh = td_calloc(NEW_MOST, sizeof(*fresh));
	for (size_t i = 0; i < all->n; i++) {
		const struct td_slurm_state *now = &all->v[i];
		while (old < v->last.n && v->last.v[old].id < now->id)
			old++;
		enum td_job_phase p = td_job_phase(now->states);
		if (p != TD_PHASE_WAITING && !(p == TD_PHASE_ENDING && (now->states & TD_JOB(PENDING))))
			continue;
		if (!v->listed && p == TD_PHASE_ENDING) {
			ret->v[n++] = *now;
		} else if (!v->listed) {
			continue;
		} else if (old == v->last.n || v->last.v[old].id != now->id) {
			if (n_new < NEW_MOST)
				fresh[n_new] = *now;
			n_new++;
		} else if (td_job_phase(v->last.v[old].states) != p) {
			ret->v[n++] = *now;
		}
	}
	for (size_t i = 0; i < n_new && n_new <= NEW_MOST; i++)
		ret->v[n++] = fresh[i];
	ret->n = n;
}

int td_slurm_view_poll_waiting(struct td_slurm_view *v, struct td_slurm *s, struct td_cancel *c,
			       struct td_slurm_states *ret_back, struct td_error *err)
{
	td_auto_states struct td_slurm_states all = {0}, back = {0};
	int r = td_slurm_job_states_all(s, c, &all, err);
	if (r)
		return r;

	pthread_mutex_lock(&v->lock);
	v->waiting = 0;
	v->print = 0;
	memset(v->others, 0, sizeof(v->others));

	size_t kept = 0;
	for (size_t i = 0; i < all.n; i++) {
		enum td_job_phase p = td_job_phase(all.v[i].states);
		size_t at = find_locked(v, all.v[i].id);
		if (at < v->n && v->v[at].job == all.v[i].id)
			continue;
		all.v[kept++] = all.v[i];
		if (all.v[kept - 1].part)
			continue;
		v->others[p]++;
		if (p != TD_PHASE_WAITING)
			continue;
		v->waiting++;
		v->print += mix((uint64_t)all.v[kept - 1].id); // a sum, so that the order does not matter
	}
	all.n = kept;
	if (ret_back)
		back_locked(v, &all, &back);
	v->listed = true;
	const struct td_slurm_states old = v->last;
	v->last = all;
	all = old;
	pthread_mutex_unlock(&v->lock);

	if (ret_back) {
		td_slurm_states_done(ret_back);
		*ret_back = back;
		back = (struct td_slurm_states){0};
	}
	return 0;
}

void td_slurm_view_waiting(const struct td_slurm_view *v, size_t *ret_n, uint64_t *ret_print)
{
	pthread_mutex_t *l = (pthread_mutex_t *)(uintptr_t)&v->lock;
	pthread_mutex_lock(l);
	*ret_n = v->waiting;
	*ret_print = v->print;
	pthread_mutex_unlock(l);
}

void td_slurm_view_counts(const struct td_slurm_view *v, struct td_slurm_job_counts *ret)
{
	pthread_mutex_t *l = (pthread_mutex_t *)(uintptr_t)&v->lock;
	memset(ret, 0, sizeof(*ret));
	pthread_mutex_lock(l);
	memcpy(ret->n[0], v->others, sizeof(v->others));
	for (size_t i = 0; i < v->n; i++)
		if (v->v[i].states) // 0: not polled yet, or Slurm does not know it
			ret->n[1][td_job_phase(v->v[i].states)]++;
	pthread_mutex_unlock(l);
	ret->n[0][TD_PHASE_ENDED] = ret->n[1][TD_PHASE_ENDED] = 0;
}
