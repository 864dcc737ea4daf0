// Polls Slurm, and does what follows from a poll: queues keys, applies the mass-vanish rule, and
// reads complete listings (docs/protocols.md 1.9 and 5).
#include "bridge/again.h"
#include "bridge/scheduler/orphans.h"
#include "bridge/scheduler/preempt.h"
#include "bridge/syncer/count.h"

#include "base/log.h"
#include "kube/health.h"

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	JOBS_MS = 200,          // between two polls of jobs
	NODES_MS = 250,         // between two polls of nodes
	WAITING_MS = 2000,      // between two polls of other jobs, while keys are queued or native jobs are there
	IDLE_WAITING_MS = 5000, // the same, while neither is
	BACKOFF_MS = 500,       // after a failed poll
	LINGER_MS = 60000,      // how long a job that nobody wants stays in the poll
	AGAIN_MS = 4000,        // from the first complete listing to the second
	NET_MS = 600000,        // between complete listings that nothing asked for
	ROLLBACK_S = 30,        // a younger job can be absent because slurmctld was killed (S-C1)
	LIST_LOOK_MS = 50       // how often the listing thread looks whether one is due
};

void td_bridge_poll_now(struct td_bridge *b)
{
	uint64_t one = 1;
	(void)!write(b->poll_fd, &one, sizeof(one));
}

void td_bridge_want_list(struct td_bridge *b, int64_t in_ms)
{
	int64_t at = td_now(b) + in_ms;

	pthread_mutex_lock(&b->list_lock);
	if (!b->list_at || at < b->list_at)
		b->list_at = at;
	if (at > b->list_last)
		b->list_last = at;
	pthread_mutex_unlock(&b->list_lock);

	td_bridge_poll_now(b);
}

// Sleeps for ms, or until cancel, or until the eventfd fd (-1: none) is written to.
static void sleep_until(struct td_bridge *b, int fd, int64_t ms)
{
	struct pollfd f[2] = {{td_cancel_fd(b->cancel), POLLIN, 0}, {fd, POLLIN, 0}};
	if (poll(f, fd >= 0 ? 2 : 1, (int)(ms < 1 ? 1 : ms)) > 0 && fd >= 0 && f[1].revents) {
		uint64_t n;
		(void)!read(fd, &n, sizeof(n));
	}
}

static void enqueue(struct td_bridge *b, struct td_ask *a)
{
	pthread_mutex_lock(&b->asks->lock);
	td_auto_free char *key = td_strdup(a->key);
	pthread_mutex_unlock(&b->asks->lock);
	td_queue_add(b->pod_queue, key);
}

// What the job has on its nodes may be another thing now.
static void hint(struct td_bridge *b, int64_t job)
{
	td_auto(td_ask_unref) struct td_ask *a = td_ask_by_job(b->asks, job);
	if (!a)
		return;
	td_auto_strv struct td_strv nodes = {0};
	pthread_mutex_lock(&b->asks->lock);
	for (size_t i = 0; i < a->n_parts; i++)
		td_strv_add(&nodes, a->parts[i].node);
	if (!a->n_parts && a->nodes)
		td_strv_add(&nodes, a->nodes);
	pthread_mutex_unlock(&b->asks->lock);
	for (size_t i = 0; i < nodes.n; i++) // without that lock: the view asks the asks under its own
		td_slurm_view_hint(b->view, nodes.v[i]);
}

// Tells the asks which of their jobs have changed.
static void changed(struct td_bridge *b, const struct td_slurm_states *l)
{
	td_auto_strv struct td_strv keys = {0};
	for (size_t i = 0; i < l->n; i++) {
		size_t before = keys.n;
		td_asks_polled(b->asks, l->v[i].id, l->v[i].states, &keys);
		hint(b, l->v[i].id);
		// The job is alive and no ask has it: a killed slurmctld brought it back, or its id
		// went to another job. A listing will tell.
		enum td_job_phase p = td_job_phase(l->v[i].states);
		if (keys.n == before && p != TD_PHASE_ENDED && p != TD_PHASE_ENDING && p != TD_PHASE_UNKNOWN)
			td_bridge_want_list(b, 0);
	}
	for (size_t i = 0; i < keys.n; i++)
		td_queue_add(b->pod_queue, keys.v[i]);
}

// How many of the absent jobs are too old for a rollback of slurmctld to explain their absence.
static size_t old_ones(struct td_bridge *b, const struct td_slurm_states *gone)
{
	size_t n = 0;
	int64_t now = td_real_ms(b->clock) / 1000;

	for (size_t i = 0; i < gone->n; i++) {
		td_auto(td_ask_unref) struct td_ask *a = td_ask_by_job(b->asks, gone->v[i].id);
		if (!a)
			continue;

		pthread_mutex_lock(&b->asks->lock);
		n += now - a->born_s > ROLLBACK_S;
		pthread_mutex_unlock(&b->asks->lock);
	}

	return n;
}

// Tells the asks that their jobs are absent. From now on their workers may act on it.
static void absent(struct td_bridge *b, const struct td_slurm_states *gone)
{
	td_auto_strv struct td_strv keys = {0};
	for (size_t i = 0; i < gone->n; i++)
		td_asks_gone(b->asks, gone->v[i].id, &keys);
	for (size_t i = 0; i < keys.n; i++)
		td_queue_add(b->pod_queue, keys.v[i]);
}

static void enqueue_all(struct td_bridge *b)
{
	struct td_ask **v;
	size_t n;
	td_asks_all(b->asks, &v, &n);
	for (size_t i = 0; i < n; i++) {
		enqueue(b, v[i]);
		td_ask_unref(v[i]);
	}
	free(v);
}

void td_bridge_nodes_again(struct td_bridge *b)
{
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *s = td_slurm_view_nodes(b->view);
	for (size_t i = 0; s && i < s->nodes.n; i++)
		td_queue_add(b->node_queue, s->nodes.v[i].name);
}

static void set_lost(struct td_bridge *b, bool lost)
{
	if (atomic_exchange(&b->lost, lost) == lost)
		return;
	td_bridge_nodes_again(b);
	enqueue_all(b);
}

// The mass-vanish rule (docs/protocols.md 1.9): evict nobody, drain the pool, raise the alarm. When
// the jobs stay gone or a person confirms it, their asks end.
static void vanish(struct td_bridge *b, size_t gone, size_t watched)
{
	int64_t now = td_now(b);
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(b->clusters, b->o.ns, b->o.cluster);
	const struct td_pool_loss l = {.vanished = td_pool_mass_vanish(gone, watched),
				       .lost = atomic_load(&b->lost),
				       .accepted = atomic_load(&b->lost_over),
				       .since_ms = now - atomic_load(&b->lost_since),
				       .confirmed = sc && td_object_annotation(sc, TD_ANN_CONFIRM_LOST)};

	switch (td_pool_loss(&l)) {
	case TD_LOSS_NOTHING:
		return;
	case TD_LOSS_BACK:
		if (l.lost)
			td_info("Slurm's state is back: %zu of %zu jobs are unknown", gone, watched);
		set_lost(b, false);
		atomic_store(&b->lost_over, false);
		return;
	case TD_LOSS_BEGIN:
		atomic_store(&b->lost_since, now);
		td_err("%zu of our %zu jobs vanished from Slurm at once: it may have lost its state. No pod is ended; "
		       "the pool is drained. It goes on in %d s, or at once with the annotation " TD_ANN_CONFIRM_LOST
		       " on SlurmCluster %s/%s",
		       gone, watched, TD_POOL_LOST_MS / 1000, b->o.ns, b->o.cluster);
		set_lost(b, true);
		return;
	case TD_LOSS_ACCEPT:
		td_err("the jobs that vanished stayed gone%s: their asks end", l.confirmed ? ", as confirmed" : "");
		atomic_store(&b->lost_over, true);
		set_lost(b, false);
		return;
	}
}

// Reads a complete listing when one is due.
static void list(struct td_bridge *b, struct td_slurm *s, int64_t *retry_at)
{
	int64_t now = td_now(b);

	pthread_mutex_lock(&b->list_lock);
	bool due = (b->list_at && now >= b->list_at) || !atomic_load(&b->listed);
	pthread_mutex_unlock(&b->list_lock);

	if (!due || now < *retry_at)
		return;

	struct td_error e = TD_ERROR_INIT;
	if (td_scheduler_list(b, s, b->cancel, &e)) {
		if (e.code != TD_CANCELLED)
			td_warn("listing Slurm's jobs: %s", e.msg);
		*retry_at = td_now(b) + 1000;
		return;
	}

	int64_t took = td_now(b) - now, net = took * 500 > NET_MS ? took * 500 : NET_MS;

	bool first = !atomic_exchange(&b->listed, true);

	pthread_mutex_lock(&b->list_lock);
	// The next listing: the one that somebody wants, else the slow safety net. A second one
	// follows soon after the first: an allocation that the previous leader had on its way makes
	// no knock.
	b->list_at = b->list_last > now ? b->list_last : now + (first ? took + AGAIN_MS : net);
	pthread_mutex_unlock(&b->list_lock);

	if (first)
		enqueue_all(b);
}

// Complete listings have a thread of their own: one of 5,000 jobs takes seconds, and nobody must
// wait for it. It counts native jobs, too.
void *td_bridge_list_thread(void *bridge)
{
	struct td_bridge *b = bridge;
	int64_t retry_at = 0;
	td_auto(td_loop_free) struct td_loop *loop = td_loop_new("listing of Slurm's jobs", 0);

	do {
		struct td_error e = TD_ERROR_INIT;
		td_auto(td_link_unref) struct td_link *l = td_bridge_link(b, NULL);
		td_loop_busy(loop);
		if (l)
			list(b, l->slurm, &retry_at);
		// Before the first listing stand-ins are not known by their asks; their mark tells, at a read each.
		if (l && atomic_load(&b->listed) && td_counts_look(b, l->slurm, &e) && e.code != TD_CANCELLED)
			td_debug("counting native jobs: %s", e.msg);
		td_orphans_forget(b);
		td_loop_idle(loop);
	} while (!td_cancel_wait(b->cancel, LIST_LOOK_MS));
	return NULL;
}

void *td_bridge_jobs_thread(void *bridge)
{
	struct td_bridge *b = bridge;
	int64_t gap = 0, wait = 0;
	struct td_slurm_pace pace = {0};
	td_auto(td_loop_free) struct td_loop *loop = td_loop_new("poll of Slurm's jobs", 0);

	while (!td_cancelled(b->cancel)) {
		td_loop_idle(loop);
		sleep_until(b, b->poll_fd, wait);
		td_loop_busy(loop);

		wait = JOBS_MS;
		struct td_error e = TD_ERROR_INIT;
		td_auto(td_link_unref) struct td_link *l = td_bridge_link(b, &e);
		if (!l)
			continue;

		int64_t began = td_now(b);
		size_t watched = td_slurm_view_sweep(b->view, began, LINGER_MS, td_asks_want_job, b->asks);

		td_auto_states struct td_slurm_states diff = {0}, gone = {0};
		int r = td_slurm_view_poll_jobs(b->view, l->slurm, b->cancel, &diff, &gone, &e);
		if (!r && atomic_load(&b->away)) // a poll of no jobs asks nobody
			r = td_slurm_check(l->slurm, b->cancel, &e);
		if (r) {
			if (r != TD_CANCELLED && !gap)
				td_warn("%s", e.msg);
			if (r == TD_UNAUTHENTICATED)
				atomic_store(&b->unauthenticated, true);
			if (r != TD_CANCELLED && r != TD_UNAUTHENTICATED)
				td_bridge_away(b, true);
			gap = gap ? gap : began;
			wait = BACKOFF_MS;
			continue;
		}

		if (gap) {
			td_info("Slurm answers again after %lld ms", (long long)(began - gap));
			atomic_store(&b->foreign_old, true);
			td_bridge_want_list(b, 0);
			gap = 0;
		}
		if (td_bridge_away(b, false))
			enqueue_all(b);

		vanish(b, old_ones(b, &gone), watched); // first: after absent() the workers act
		absent(b, &gone);
		changed(b, &diff);

		wait = td_slurm_pace_wait(&pace, td_now(b) - began, 10, JOBS_MS);
		if (!watched)
			wait = 1000;
	}

	return NULL;
}

// The same nodes with the same resources. Their states are not compared.
static bool same_names(const struct td_slurm_snapshot *a, const struct td_slurm_snapshot *b)
{
	if (!a || a->nodes.n != b->nodes.n)
		return false;
	for (size_t i = 0; i < a->nodes.n; i++)
		if (strcmp(a->nodes.v[i].name, b->nodes.v[i].name) != 0 || a->nodes.v[i].cpus != b->nodes.v[i].cpus ||
		    a->nodes.v[i].memory_mb != b->nodes.v[i].memory_mb ||
		    !td_streq(a->nodes.v[i].gres, b->nodes.v[i].gres))
			return false;
	return true;
}

// Are there native jobs? One that runs can be queued again.
static bool native(const struct td_bridge *b)
{
	struct td_slurm_job_counts c;
	size_t n = 0;
	td_slurm_view_counts(b->view, &c);
	for (size_t i = 0; i < TD_LEN(c.n[0]); i++)
		n += i != TD_PHASE_ENDED ? c.n[0][i] : 0;
	return n;
}

void *td_bridge_nodes_thread(void *bridge)
{
	struct td_bridge *b = bridge;
	int64_t wait = 0, waiting_at = 0, waiting_seen = -1;
	struct td_slurm_pace pace = {0};
	bool failing = false;
	td_auto(td_loop_free) struct td_loop *loop = td_loop_new("poll of Slurm's nodes", 0);

	while (!td_cancelled(b->cancel)) {
		td_loop_idle(loop);
		sleep_until(b, -1, wait);
		td_loop_busy(loop);

		wait = NODES_MS;
		struct td_error e = TD_ERROR_INIT;
		td_auto(td_link_unref) struct td_link *l = td_bridge_link(b, &e);
		if (!l || td_cancelled(b->cancel))
			continue;

		td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *old = td_slurm_view_nodes(b->view);
		bool diff = false;
		int64_t began = td_now(b);
		int r = td_slurm_view_poll_nodes(b->view, l->slurm, began, b->cancel, &diff, &e);
		if (r) {
			if (r == TD_UNAUTHENTICATED)
				atomic_store(&b->unauthenticated, true);
			if (!failing && r != TD_CANCELLED)
				td_warn("%s", e.msg);
			if (r != TD_CANCELLED && r != TD_UNAUTHENTICATED)
				td_bridge_away(b, true);
			td_agains_blind(b);
			failing = true;
			wait = BACKOFF_MS;
			continue;
		}

		failing = false;

		if (diff) {
			td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *now = td_slurm_view_nodes(b->view);
			if (!same_names(old, now)) {
				pthread_mutex_lock(&b->lock);
				b->nodes_changed_ms = began;
				pthread_mutex_unlock(&b->lock);
				atomic_fetch_add(&b->feas_gen, 1);
				enqueue_all(b);
			}
			td_syncer_nodes_changed(b, old, now);
			if (old) // what failed before this bridge began is no news of now
				td_agains_nodes(b, old, now);
		}

		wait = td_slurm_pace_wait(&pace, td_now(b) - began, 20, NODES_MS);

		if (began >= waiting_at) {
			int64_t t0 = td_now(b);
			td_auto_states struct td_slurm_states back = {0};
			r = td_slurm_view_poll_waiting(b->view, l->slurm, b->cancel, &back, &e);
			int64_t took = td_now(b) - t0;
			bool wake = td_preempt_wake(b);
			if (!r) {
				td_agains_back(b, &back, waiting_seen, td_now(b));
				waiting_seen = t0;
			}
			int64_t every = wake || td_queue_len(b->pod_queue) || native(b) ? WAITING_MS : IDLE_WAITING_MS;
			waiting_at = t0 + (took * 100 > every ? took * 100 : every);
		}
	}

	return NULL;
}
