// The view of jobs; view_nodes.c has that of nodes.
#include "slurm/view_priv.h"

#include <string.h>

// Jobs that nobody wants are polled every so many rounds: only a killed slurmctld could bring them
// back.
enum { UNWANTED_EVERY = 10 };
// Of so many new jobs that wait one may have been queued again since the last poll; whoever looks pays a request each.
enum { NEW_MOST = 16 };

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
	td_strv_done(&v->hints);
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

	v->v[at] = (struct td_slurm_watched){.job = job, .states = states, .since = v->round};
	pthread_mutex_unlock(&v->lock);
}

size_t td_slurm_view_sweep(struct td_slurm_view *v, int64_t now_ms, int64_t keep_ms,
			   bool (*wanted)(void *ctx, int64_t job), void *ctx)
{
	size_t n = 0, kept = 0;

	pthread_mutex_lock(&v->lock);
	for (size_t i = 0; i < v->n; i++) {
		struct td_slurm_watched w = v->v[i];
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
		struct td_slurm_watched *w = &v->v[i];
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
		struct td_slurm_watched *w = &v->v[i];
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
