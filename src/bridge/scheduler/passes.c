// Past Slurm's error 2013 (passes.h): the word, and who waits besides us.
#include "bridge/scheduler/passes.h"

#include "base/log.h"

#include <string.h>

enum { FRESH_MS = 250, WAIT_MS = 2000 };

bool td_passes(const struct td_bridge *b)
{
	return atomic_load(&b->passes) == TD_PASSES_YES;
}

char *td_passes_comment(struct td_bridge *b, const struct td_link *l, struct td_ask *a, const char *comment, bool raise,
			bool elsewhere)
{
	int known = atomic_load(&b->passes);
	if (elsewhere) { // slurmctld lets nobody else in there
		a->prefixed = false;
		return td_asprintf("%s %s", l->pods_word, comment);
	}
	bool word = known == TD_PASSES_YES && raise;
	a->prefixed = word || known == TD_PASSES_UNKNOWN;
	return td_asprintf("%s%s%s", word ? l->word : a->prefixed ? "?" : "", a->prefixed ? " " : "", comment);
}

void td_passes_seen(struct td_bridge *b, struct td_ask *a, const char *comment)
{
	if (!a->prefixed)
		return; // whoever owns the job may have written anything there
	a->prefixed = false;
	bool kept = comment && strchr(comment, ' ');
	int was = atomic_exchange(&b->passes, kept ? TD_PASSES_NO : TD_PASSES_YES);
	if (kept && was != TD_PASSES_NO)
		td_info("slurmctld does not run Tandem's job_submit.lua: pods wait behind those who wait for what they "
			"do not need");
}

// ---- who waits besides us ----
struct td_others {
	pthread_mutex_t lock; // guards everything here
	pthread_cond_t read;
	bool reading;  // a thread asks Slurm now
	int64_t at_ms; // mono: when what is known was asked for; 0: nothing is
	bool known;
	struct td_queued_job v[TD_POOL_OTHERS];
	size_t n;
};

struct td_others *td_others_new(void)
{
	struct td_others *o = td_calloc(1, sizeof(*o));
	pthread_mutex_init(&o->lock, NULL);
	pthread_cond_init(&o->read, NULL);
	return o;
}

static void forget(struct td_queued_job *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		td_ask_wait_unref(v[i].wait);
}

struct td_others *td_others_free(struct td_others *o)
{
	if (!o)
		return NULL;
	forget(o->v, o->n);
	pthread_mutex_destroy(&o->lock);
	pthread_cond_destroy(&o->read);
	free(o);
	return NULL;
}

// Asks Slurm who waits. *ret_n: how many there are in ret. False: not known.
static bool ask_slurm(struct td_bridge *b, struct td_queued_job *ret, size_t *ret_n)
{
	td_auto(td_link_unref) struct td_link *l = td_bridge_link(b, NULL);
	td_auto_states struct td_slurm_states all = {0};
	int64_t waits[TD_POOL_OTHERS];
	size_t n = 0;
	*ret_n = 0;
	if (!l || td_slurm_job_states(l->slurm, NULL, 0, b->cancel, &all, NULL))
		return false;
	for (size_t i = 0; i < all.n; i++) {
		if (td_job_phase(all.v[i].states) != TD_PHASE_WAITING || td_asks_want_job(b->asks, all.v[i].id))
			continue;
		if (n == TD_LEN(waits))
			return false;
		waits[n++] = all.v[i].id;
	}

	for (size_t i = 0; i < n; i++) {
		td_auto_job struct td_slurm_job j = {0};
		int r = td_slurm_job(l->slurm, waits[i], b->cancel, &j, NULL);
		if (r == TD_NOT_FOUND || (!r && td_job_phase(j.states) != TD_PHASE_WAITING))
			continue; // not any more
		if (r)
			return false;
		ret[(*ret_n)++] =
			(struct td_queued_job){.wait = td_ask_wait_of_job(&j), .aside = td_pool_reason_aside(j.reason)};
	}
	return true;
}

static void refresh(struct td_bridge *b, struct td_others *o)
{
	struct td_queued_job now[TD_POOL_OTHERS] = {0}, was[TD_POOL_OTHERS];
	size_t n, n_was;
	int64_t at = td_now(b);
	bool known = ask_slurm(b, now, &n);

	pthread_mutex_lock(&o->lock);
	memcpy(was, o->v, sizeof(was));
	n_was = o->n;
	memcpy(o->v, now, sizeof(now));
	o->n = n;
	o->known = known;
	o->at_ms = at;
	o->reading = false;
	pthread_cond_broadcast(&o->read);
	pthread_mutex_unlock(&o->lock);
	forget(was, n_was);
}

bool td_others_read(struct td_bridge *b, struct td_queued *l)
{
	struct td_others *o = b->waiting_others;
	size_t waiting;
	uint64_t print;
	td_slurm_view_waiting(b->view, &waiting, &print);
	if (waiting > TD_POOL_OTHERS)
		return false;

	int64_t now = td_now(b), until = td_real_ms(b->clock) + WAIT_MS;
	const struct timespec deadline = {.tv_sec = until / 1000, .tv_nsec = until % 1000 * 1000000};
	pthread_mutex_lock(&o->lock);
	bool fresh;
	while (!(fresh = o->at_ms && now - o->at_ms < FRESH_MS) && o->reading)
		if (pthread_cond_timedwait(&o->read, &o->lock, &deadline))
			break;
	if (!fresh && !o->reading) {
		o->reading = true;
		pthread_mutex_unlock(&o->lock);
		refresh(b, o);
		pthread_mutex_lock(&o->lock);
		fresh = true;
	}

	bool ok = fresh && o->known;
	for (size_t i = 0; ok && i < o->n; i++)
		td_queued_add(l, &o->v[i]);
	pthread_mutex_unlock(&o->lock);
	return ok;
}
