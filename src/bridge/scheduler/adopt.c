// Reads a complete listing of Slurm's jobs into the asks: when this process begins to lead, after a
// gap, and after a submit whose reply was lost (docs/protocols.md 1.9).
//
// Only ids and states are listed; what is not known to be somebody else's is then read one by one. A
// listing of whole records makes slurmrestd keep gigabytes (docs/facts/slurm.md S-W3).
//
// Each ask gets its job. Of two jobs of one ask one is ended. An ask whose submit was in doubt
// learns when there is no such job.
#include "bridge/scheduler/gang.h"
#include "bridge/syncer/aside.h"
#include "bridge/syncer/shadow.h"

#include "base/log.h"

#include <string.h>

enum { READERS = 4 };

struct extra {
	int64_t job;
	char uid[40];
};
// Jobs that are not ours, from the listings so far; they are not read again. No id is given to a
// second job (docs/design/0004). Sorted; used by the listing thread only.
struct td_ask_foreign {
	int64_t *v;
	size_t n;
};
struct adopt_list { // one listing
	struct td_bridge *b;
	struct td_slurm *slurm;
	struct td_cancel *c;
	const struct td_slurm_states *states;
	pthread_mutex_t lock; // guards all below
	size_t next;          // index of the state that is read next
	struct td_ask_foreign others;
	struct td_error err;
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
	if (!r && td_streq(td_bridge_job_uid(&j, s->cluster_uid), uid) && !td_slurm_job_ended(j.states)) {
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

static void add_extra(struct adopt_list *l, int64_t job, const char *uid)
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

// The namespace of the pods that the ask is of; NULL: not known yet. *ret_key: their key, as the ask's. Caller frees
// both. *ret_job: the job that it has.
static char *namespace_of(struct td_bridge *b, const char *uid, const char *pod_key, char **ret_key, int64_t *ret_job)
{
	td_auto(td_ask_unref) struct td_ask *a = td_ask_get(b->asks, uid);
	pthread_mutex_lock(&b->asks->lock);
	const char *key = pod_key ? pod_key : a && !td_starts(a->key, "uid:") ? a->key : NULL;
	*ret_key = td_strdup(key);
	key = key && td_starts(key, TD_GANG_KEY) ? key + strlen(TD_GANG_KEY) : key;
	char *ns = key ? td_asprintf("%.*s", (int)strcspn(key, "/"), key) : NULL;
	*ret_job = a ? a->job : 0;
	pthread_mutex_unlock(&b->asks->lock);
	return ns;
}

static bool marked(const struct td_slurm_job *j)
{
	return j->admin_comment && *j->admin_comment;
}

static void take_locked(struct adopt_list *l, const struct td_slurm_job *j)
{
	struct td_bridge *b = l->b;

	const char *uid = td_bridge_job_uid(j, l->s->cluster_uid);
	if (!uid) {
		td_shadow_found(b, l->s, j);
		td_aside_found(b, l->s, j);
		l->others.v[l->others.n++] = j->id;
		return;
	}
	if (td_slurm_job_ended(j->states))
		return;

	td_auto_free char *key = NULL, *orphan = td_asprintf("uid:%s", uid);
	int64_t granted = granted_job(b, uid, &key), has = 0;
	td_auto_free char *whose = NULL, *ns = namespace_of(b, uid, key, &whose, &has);
	td_auto_free char *person = td_owner_person(b, uid, whose);
	if (j->id != granted && j->id != has && ns && !td_bridge_job_stands(l->s, j, ns, person)) {
		if (!j->user || !*j->user) // it became nobody's (owner.c), and nobody else ends it
			add_extra(l, j->id, uid);
		else // its owner has copied the comment
			l->others.v[l->others.n++] = j->id;
		return;
	}

	l->ours++;
	bool is_new;
	td_auto(td_ask_unref) struct td_ask *a = td_ask_ensure(b->asks, uid, key ? key : orphan, &is_new);

	pthread_mutex_lock(&b->asks->lock);
	int64_t known = a->found ? a->found : a->job;
	uint64_t states = a->found ? TD_JOB(PENDING) : a->states;
	bool fresh = a->job == j->id && a->read_ms > l->began, sure = !a->found && a->admin_set;
	pthread_mutex_unlock(&b->asks->lock);

	if (known && known != j->id) {
		const struct td_pool_twin seen = {.job = j->id, .runs = td_ask_is(j->states) == TD_IS_RUNNING};
		const struct td_pool_twin held = {.job = known,
						  .ended = !states || td_slurm_job_ended(states),
						  .runs = td_ask_is(states) == TD_IS_RUNNING};
		// Whose ask it is is not known, and so not who may have made its job: only root writes a mark.
		bool better = !ns && marked(j) != sure ? marked(j) : td_pool_twin_better(&seen, &held, granted);
		if (!better) {
			add_extra(l, j->id, uid);
			return;
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
	// Its stand-in may have knocked before this listing, when nobody knew the ask. It knocks once.
	if (b->knocks && td_knocks_has(b->knocks, j->id, uid)) {
		pthread_mutex_lock(&b->asks->lock);
		a->knocked = j->id;
		pthread_mutex_unlock(&b->asks->lock);
	}
}

static int by_id(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

// The next job that must be read. False: there is none.
static bool next_locked(struct adopt_list *l, int64_t *ret)
{
	const struct td_ask_foreign *known = l->b->foreign;
	while (!l->err.code && l->next < l->states->n) {
		const struct td_slurm_state *st = &l->states->v[l->next++];
		if (td_slurm_job_ended(st->states))
			continue;
		l->all++;
		if (!known || !bsearch(&st->id, known->v, known->n, sizeof(*known->v), by_id)) {
			*ret = st->id;
			return true;
		}
		l->others.v[l->others.n++] = st->id;
	}
	return false;
}

static void *read_thread(void *ctx)
{
	struct adopt_list *l = ctx;
	int64_t id;
	pthread_mutex_lock(&l->lock);
	while (next_locked(l, &id)) {
		pthread_mutex_unlock(&l->lock);
		td_auto_job struct td_slurm_job j = {0};
		struct td_error e = TD_ERROR_INIT;
		int r = td_slurm_job(l->slurm, id, l->c, &j, &e);
		pthread_mutex_lock(&l->lock);
		if (!r)
			take_locked(l, &j);
		else if (r != TD_NOT_FOUND && !l->err.code)
			l->err = e;
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

static void read_all(struct adopt_list *l)
{
	pthread_t t[READERS];
	bool runs[READERS];
	for (size_t i = 0; i < READERS; i++)
		runs[i] = !pthread_create(&t[i], NULL, read_thread, l);
	if (!runs[0])
		read_thread(l);
	for (size_t i = 0; i < READERS; i++)
		if (runs[i])
			pthread_join(t[i], NULL);
}

void td_ask_foreign_free(struct td_ask_foreign *o)
{
	if (o)
		free(o->v);
	free(o);
}

// The jobs of others, as this listing has them.
static void keep(struct td_bridge *b, struct td_ask_foreign *now)
{
	struct td_ask_foreign *o = td_calloc(1, sizeof(*o));
	*o = *now;
	*now = (struct td_ask_foreign){0};
	qsort(o->v, o->n, sizeof(*o->v), by_id);
	td_ask_foreign_free(b->foreign);
	b->foreign = o;
}

int td_scheduler_list(struct td_bridge *b, struct td_slurm *slurm, struct td_cancel *c, struct td_error *err)
{
	struct adopt_list l = {
		.b = b, .slurm = slurm, .c = c, .err = TD_ERROR_INIT, .s = td_bridge_settings(b), .began = td_now(b)};
	if (!l.s)
		return td_fail(err, TD_TRANSIENT, "the SlurmCluster was not read yet");

	// After a gap slurmctld may be another one, with an older state.
	if (atomic_exchange(&b->foreign_old, false)) {
		td_ask_foreign_free(b->foreign);
		b->foreign = NULL;
	}

	td_auto_states struct td_slurm_states states = {0};
	int r = td_slurm_job_states(slurm, NULL, 0, c, &states, err);
	if (!r) {
		l.states = &states;
		l.others.v = td_calloc(states.n + 1, sizeof(*l.others.v));
		pthread_mutex_init(&l.lock, NULL);
		read_all(&l);
		pthread_mutex_destroy(&l.lock);
		r = l.err.code ? td_fail(err, l.err.code, "%.500s", l.err.msg) : 0;
	}
	atomic_fetch_add(&b->n_lists, 1);

	if (!r) {
		keep(b, &l.others);
		td_shadows_listed(b, l.began);
		td_asides_listed(b, l.began);
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

	free(l.others.v);
	free(l.extras);
	td_settings_unref(l.s);
	return r;
}
