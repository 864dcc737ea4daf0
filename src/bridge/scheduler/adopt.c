// Reads a complete listing of Slurm's jobs into the asks: when this process begins to lead, after a
// gap, and after a submit whose reply was lost (docs/protocols.md 1.9).
//
// Each ask gets its job. Of two jobs of one ask one is ended. An ask whose submit was in doubt
// learns when there is no such job.
#include "bridge/scheduler/ask.h"

#include "base/log.h"

#include <string.h>

struct extra {
	int64_t job;
	char uid[40];
};
struct list { // one listing
	struct td_bridge *b;
	struct td_settings *s;
	int64_t began; // mono, ms
	struct extra *extras;
	size_t n_extras;
	size_t ours, all; // jobs
};

void td_end_extra(struct td_bridge *b, const struct td_settings *s, struct td_slurm *slurm, int64_t job,
		  const char *uid, struct td_cancel *c)
{
	struct td_error e = TD_ERROR_INIT;
	td_auto_job struct td_slurm_job j = {0};
	int r = td_slurm_job(slurm, job, c, &j, &e);
	if (!r && td_streq(td_job_uid(&j, s->cluster_uid), uid) && !td_job_ended(j.states)) {
		r = td_slurm_job_end(slurm, job, j.name, c, &e);
		td_info("job %lld is an extra of ask %s: ended", (long long)job, uid);
		atomic_fetch_add(&b->n_ended_jobs, 1);
		if (b->knocks)
			td_knocks_gone(b->knocks, job);
	}

	if (r && r != TD_NOT_FOUND) {
		td_warn("ending the extra job %lld of ask %s: %s", (long long)job, uid, e.msg);
		td_bridge_want_list(b, 5000);
	}
}

static void add_extra(struct list *l, int64_t job, const char *uid)
{
	l->extras = td_realloc(l->extras, (l->n_extras + 1) * sizeof(*l->extras));
	l->extras[l->n_extras].job = job;
	snprintf(l->extras[l->n_extras++].uid, sizeof(l->extras->uid), "%s", uid);
}

// The job that the pod of this UID was bound for; 0: none. *ret_key: the pod's key, owned by the
// caller; NULL: no pod.
static int64_t granted_job(struct td_bridge *b, const char *uid, char **ret_key)
{
	td_auto_objects struct td_objects pods = {0};
	td_informer_by_index(b->pods, "uid", uid, &pods);
	long long j = 0;
	*ret_key = NULL;
	if (!pods.n)
		return 0;

	*ret_key = td_key_of(pods.v[0]);
	const char *s = td_object_annotation(pods.v[0], TD_ANN_JOB);
	if (!td_jstr(pods.v[0]->root, "spec.nodeName") || !s || !td_parse_i64(s, &j))
		return 0;
	return j;
}

static int each(void *ctx, const struct td_slurm_job *j)
{
	struct list *l = ctx;
	struct td_bridge *b = l->b;
	l->all++;

	const char *uid = td_job_uid(j, l->s->cluster_uid);
	if (!uid || td_job_ended(j->states))
		return 0;

	l->ours++;
	td_auto_free char *key = NULL, *orphan = td_asprintf("uid:%s", uid);
	int64_t granted = granted_job(b, uid, &key);
	bool is_new;
	td_auto(td_ask_unref) struct td_ask *a = td_ask_ensure(b->asks, uid, key ? key : orphan, &is_new);

	pthread_mutex_lock(&b->asks->lock);
	int64_t known = a->found ? a->found : a->job;
	uint64_t states = a->found ? TD_JOB(PENDING) : a->states;
	bool fresh = a->job == j->id && a->read_ms > l->began;
	pthread_mutex_unlock(&b->asks->lock);

	if (known && known != j->id) {
		const struct td_pool_twin seen = {.job = j->id, .runs = td_ask_is(j->states) == TD_IS_RUNNING};
		const struct td_pool_twin held = {.job = known,
						  .ended = !states || td_job_ended(states),
						  .runs = td_ask_is(states) == TD_IS_RUNNING};
		if (!td_pool_twin_better(&seen, &held, granted)) {
			add_extra(l, j->id, uid);
			return 0;
		}
		if (!held.ended)
			add_extra(l, known, uid);
	}

	if (!atomic_load(&b->listed)) { // no worker reconciles before the first listing
		td_ask_set_job(b->asks, a, j->id);
		td_ask_take(b, l->s, a, j);
	} else if (!fresh) { // its worker will read the job
		pthread_mutex_lock(&b->asks->lock);
		a->found = j->id;
		pthread_mutex_unlock(&b->asks->lock);
	}
	return 0;
}

int td_scheduler_list(struct td_bridge *b, struct td_slurm *slurm, struct td_cancel *c, struct td_error *err)
{
	struct list l = {.b = b, .s = td_bridge_settings(b), .began = td_now(b)};
	if (!l.s)
		return td_fail(err, TD_TRANSIENT, "the SlurmCluster was not read yet");

	int r = td_slurm_jobs(slurm, c, each, &l, err);
	atomic_fetch_add(&b->n_lists, 1);

	if (!r) {
		struct td_ask **v;
		size_t n;
		td_asks_all(b->asks, &v, &n);
		for (size_t i = 0; i < n; i++) {
			pthread_mutex_lock(&b->asks->lock);
			if (!v[i]->found)
				v[i]->listed_ms = l.began;
			td_auto_free char *key = td_strdup(v[i]->key);
			pthread_mutex_unlock(&b->asks->lock);
			td_queue_add(b->pod_queue, key);
			td_ask_unref(v[i]);
		}
		free(v);

		for (size_t i = 0; i < l.n_extras; i++)
			td_end_extra(b, l.s, slurm, l.extras[i].job, l.extras[i].uid, c);
		td_info("listed %zu jobs, %zu of them ours, %zu extras, in %lld ms", l.all, l.ours, l.n_extras,
			(long long)(td_now(b) - l.began));
	}

	free(l.extras);
	td_settings_unref(l.s);
	return r;
}
