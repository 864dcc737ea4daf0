// Time limits that count over all pods of one owner, and over all runs of a gang (turns.h).
#include "bridge/scheduler/turns.h"
#include "bridge/scheduler/gang.h"
#include "bridge/scheduler/ran.h"

#include "base/log.h"
#include "pool/slice.h"

#include <string.h>

#define INDEX "batch.kubernetes.io/job-completion-index"
#define SET_NAME "jobset.sigs.k8s.io/jobset-name"
#define LWS_NAME "leaderworkerset.sigs.k8s.io/name"
#define LWS_WORKER "leaderworkerset.sigs.k8s.io/worker-index"

enum { WAIT_MS = 60000, AGAIN_MS = 300 };

// What controls the pod and makes the next one; NULL: nobody does. A node is that of a static pod.
static yyjson_val *maker_of(const struct td_object *pod)
{
	yyjson_val *owner = td_object_owner(pod);
	return owner && !td_streq(td_jstr(owner, "kind"), "Node") ? owner : NULL;
}

// "Job train". Caller frees.
static char *maker_name(const struct td_object *pod)
{
	yyjson_val *owner = maker_of(pod);
	return td_asprintf("%s %s", td_jstr_or(owner, "kind", "?"), td_jstr_or(owner, "name", "?"));
}

// What tells the pod from others of its owner that do other work; "": nothing does.
static const char *which(const struct td_object *pod)
{
	const char *index = td_object_annotation(pod, INDEX), *kind = td_jstr_or(td_object_owner(pod), "kind", "");
	if (index)
		return index;
	return td_streq(kind, "StatefulSet") || (!td_jstr(pod->root, "metadata.generateName") &&
						 !td_streq(kind, "Job") && !td_streq(kind, "ReplicaSet"))
		       ? pod->name
		       : "";
}

// Where those that may follow each other stand in the index and among what ran before. Namespace and person: whoever names
// another one's Job as his pod's owner takes none of its time. NULL: nobody's; caller frees.
static char *line_of(const struct td_object *pod)
{
	const char *uid = td_jstr(maker_of(pod), "uid");
	td_auto_free char *line = uid ? td_asprintf("%s/%s", uid, which(pod)) : NULL;
	return uid ? td_ran_key(pod->ns, line, td_want_person(pod->root)) : NULL;
}

void td_turns_index(const struct td_object *pod, struct td_strv *ret)
{
	char *line = line_of(pod);
	if (line)
		td_strv_steal(ret, line);
}

static int64_t seconds_of(const char *time)
{
	int64_t ms;
	return time && !td_time_parse(time, &ms) ? ms / 1000 : 0;
}

// When it ended, in epoch seconds; 0: not yet.
static int64_t end_of(const struct td_object *pod, int64_t now_s)
{
	td_auto(td_json_unref) struct td_json *j = td_bridge_pod_ended(pod);
	int64_t at = td_jint(td_json_root(j), "at", 0);
	if (at > 0)
		return at;
	if (!td_kube_pod_ended(pod->root))
		return td_object_deleting(pod) ? now_s : 0;
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(pod->root, "status.containerStatuses"), i, n, x) {
		int64_t end = seconds_of(td_jstr(x, "state.terminated.finishedAt"));
		at = end > at ? end : at;
	}
	return at > 0 ? at : 1; // it never ran
}

// When it was granted, in epoch seconds; 0: not yet.
static int64_t start_of(const struct td_object *pod)
{
	const char *start = td_object_annotation(pod, TD_ANN_START);
	long long s = 0;
	if (start)
		(void)td_parse_i64(start, &s);
	return s;
}

static bool counts(const struct td_settings *s, const struct td_object *pod, const struct td_want *w)
{
	return w->ask.qos && w->ask.time_limit_min > 0 && td_object_annotation(pod, TD_ANN_ASK_PREFIX "time-limit") &&
	       td_settings_total(s, w->ask.qos);
}

// Adds what ran before by the records, but for the jobs of `not`.
static size_t add_used(struct td_bridge *b, const char *line, const int64_t * not, size_t n_not,
		       struct td_pool_slice_pod **io, size_t n)
{
	td_auto_free struct td_pool_slice_pod *more = NULL;
	size_t m = td_ran_of(b, line, not, n_not, td_real_ms(b->clock) / 1000, &more);
	if (!m)
		return n;
	*io = td_realloc(*io, (n + m) * sizeof(**io));
	memcpy(*io + n, more, m * sizeof(*more));
	return n + m;
}

static int64_t job_of(const struct td_object *pod)
{
	const char *job = td_object_annotation(pod, TD_ANN_JOB);
	long long n = 0;
	if (job)
		(void)td_parse_i64(job, &n);
	return n;
}

// What the pod has left. turn.pods 0: nobody ran before it, or its time does not count so. job: its own; 0: none.
static struct td_pool_slice_turn turn_of_pod(struct td_bridge *b, const char *line, const struct td_object *pod,
					     int64_t job, int64_t limit_min)
{
	td_auto_objects struct td_objects all = {0};
	td_informer_by_index(b->pods, "job", line, &all);

	td_auto_free struct td_pool_slice_pod *v = td_calloc(all.n + 1, sizeof(*v));
	td_auto_free int64_t *not = td_calloc(all.n + 1, sizeof(*not));
	size_t n = 0, jobs = 0;
	int64_t now_s = td_real_ms(b->clock) / 1000;
	bool beside = false; // then nothing counts, and thousands may run so
	not[jobs++] = job;
	for (size_t i = 0; i < all.n && !beside; i++) {
		const struct td_object *o = all.v[i];
		if (!strcmp(o->uid, pod->uid))
			continue;
		not[jobs++] = job_of(o);
		v[n] = (struct td_pool_slice_pod){.start_s = start_of(o), .end_s = end_of(o, now_s)};
		beside = !v[n++].end_s;
	}
	if (!beside)
		n = add_used(b, line, not, jobs, &v, n);
	return td_pool_slice_turn(limit_min, v, n);
}

// Reads what ran before of the ask's person, and notes in which line the ask's own runs count. TD_NOT_FOUND: wait for it.
static int read_before(struct td_bridge_run *r, const char *line, struct td_error *err)
{
	struct td_owner o = {0};
	struct td_error e = TD_ERROR_INIT;
	td_ask_str(r->b->asks, &r->a->line, line);
	if (!r->l || !r->b->ran)
		return 0;
	const char *user = td_owner_of(r, &o) ? o.user : NULL;
	int k = td_ran_read(r->b, r->l, user, r->want.ask.qos, r->c, &e);
	if (!k)
		return 0;
	// Who only stands behind others that read waits until these have given up.
	if (td_now(r->b) - r->a->made_ms > (k == TD_THROTTLED ? 2 * WAIT_MS : WAIT_MS)) {
		td_debug("pod %s: %s", r->a->key, e.msg);
		return 0;
	}
	td_bridge_run_again(r, k == TD_THROTTLED ? AGAIN_MS : 10 * AGAIN_MS);
	return td_fail(err, TD_NOT_FOUND,
		       "its time limit counts over all its runs, and what ran before is not known yet: %.300s", e.msg);
}

// ---- gangs ----

// Do two pods have the same controller?
static bool same_owner(const struct td_object *x, const struct td_object *y)
{
	const char *a = td_jstr(td_object_owner(x), "uid"), *b = td_jstr(td_object_owner(y), "uid");
	return a && b && !strcmp(a, b);
}

// Is the pod one of an earlier run of the gang of `now`?
static bool before(const struct td_object *pod, const struct td_object *const *now, size_t n)
{
	bool owned = false;
	if (!td_object_annotation(pod, TD_ANN_GANG_UID))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(now[i]->uid, pod->uid))
			return false;
		owned = owned || same_owner(now[i], pod);
	}
	return owned;
}

// The earlier runs, each from its start until its last pod had ended. pods: all of the gang's name.
static size_t runs_of(const struct td_objects *pods, const struct td_object *const *now, size_t n_now, int64_t now_s,
		      struct td_pool_slice_pod *ret)
{
	td_auto_free const char **uids = td_calloc(pods->n + 1, sizeof(*uids));
	size_t n = 0;
	for (size_t i = 0; i < pods->n; i++) {
		const struct td_object *o = pods->v[i];
		int64_t start_s = start_of(o);
		size_t at = 0;
		if (!before(o, now, n_now))
			continue;
		const char *uid = td_object_annotation(o, TD_ANN_GANG_UID);
		while (at < n && strcmp(uids[at], uid) != 0)
			at++;
		if (at == n) {
			uids[n] = uid;
			ret[n++] = (struct td_pool_slice_pod){0};
		}
		// One that never started has none, and what joins later starts later.
		if (start_s > 0 && (!ret[at].start_s || start_s < ret[at].start_s))
			ret[at].start_s = start_s;
		// There is one run at a time, so what has not ended yet is about to.
		int64_t end = end_of(o, now_s);
		end = end ? end : now_s;
		ret[at].end_s = end > ret[at].end_s ? end : ret[at].end_s;
	}
	return n;
}

// The ask of a pod or gang, as far as its time counts.
struct turn_ask {
	const char *line; // NULL: what ran before is not known
	int64_t job;      // its own; 0: none
	int64_t limit_min;
};

static struct td_pool_slice_turn turn_of_gang(struct td_bridge *b, const char *name, const struct turn_ask *ask,
					      const struct td_object *const *now, size_t n_now)
{
	td_auto_objects struct td_objects all = {0};
	td_informer_by_index(b->pods, "gang", name, &all);
	td_auto_free struct td_pool_slice_pod *v = td_calloc(all.n + 1, sizeof(*v));
	td_auto_free int64_t *not = td_calloc(all.n + 1, sizeof(*not));
	size_t n = runs_of(&all, now, n_now, td_real_ms(b->clock) / 1000, v), jobs = 0;
	not[jobs++] = ask->job;
	for (size_t i = 0; i < all.n; i++)
		if (before(all.v[i], now, n_now))
			not[jobs++] = job_of(all.v[i]);
	n = add_used(b, ask->line, not, jobs, &v, n);
	return td_pool_slice_turn(ask->limit_min, v, n);
}

// The UID of what makes all runs of the gang, also of those whose pods are made by something that is made anew for each run:
// the Jobs of a JobSet, the StatefulSets of a LeaderWorkerSet's workers. "": nothing does. Caller frees.
static int gang_maker(struct td_bridge_run *r, char **ret, struct td_error *err)
{
	static const struct td_gvr sets = {"jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", true};
	const struct td_gang_run *g = r->gang;
	const struct td_object *pod = g->v[0].pod;
	const char *set = td_object_label(pod, SET_NAME);
	for (size_t i = 0; i < g->n && td_object_label(pod, LWS_NAME); i++)
		if (td_streq(td_object_label(g->v[i].pod, LWS_WORKER), "0"))
			pod = g->v[i].pod; // its StatefulSet is the LeaderWorkerSet's own
	td_auto(td_object_unref) struct td_object *o = NULL;
	struct td_error e = TD_ERROR_INIT;
	int k = set && *set ? td_kube_get(r->b->kube, &sets, pod->ns, set, r->c, &o, &e) : TD_NOT_FOUND;
	if (k && k != TD_NOT_FOUND)
		return td_fail(err, TD_NOT_FOUND, "%.300s", e.msg);
	*ret = td_strdup(o ? o->uid : td_jstr_or(maker_of(pod), "uid", ""));
	return 0;
}

int td_turns_gang(struct td_bridge_run *r, struct td_error *err)
{
	const struct td_gang_run *g = r->gang;
	struct td_want *w = &r->want;
	if (!g->n || !counts(r->s, g->v[0].pod, w))
		return 0;
	int k = 0;
	if (!r->a->line) { // the ask's owner stays the same
		td_auto_free char *uid = NULL;
		if ((k = gang_maker(r, &uid, err)))
			return k;
		const char *name = strchr(g->name, '/') + 1;
		td_auto_free char *line = td_asprintf("gang:%s/%s", name, uid ? uid : ""),
				  *key = td_ran_key(g->v[0].pod->ns, line, td_want_person(g->v[0].pod->root));
		if (uid && *uid)
			td_ask_str(r->b->asks, &r->a->line, key);
	}
	if (r->a->line && (k = read_before(r, r->a->line, err)))
		return k;
	td_auto_free const struct td_object **now = td_calloc(g->n, sizeof(*now));
	for (size_t i = 0; i < g->n; i++)
		now[i] = g->v[i].pod;
	const struct turn_ask ask = {r->a->line, r->a->job, w->ask.time_limit_min};
	const struct td_pool_slice_turn t = turn_of_gang(r->b, g->name, &ask, now, g->n);
	if (!t.pods)
		return 0;
	td_auto_free char *words = td_pool_slice_turn_words(&t, NULL);
	if (!t.left_s)
		return td_fail(err, TD_INVALID,
			       "its time limit is used up. %s Raise the annotation " TD_ANN_ASK_PREFIX
			       "time-limit (%s) of all its pods, or delete what made them",
			       words, td_object_annotation(g->v[0].pod, TD_ANN_ASK_PREFIX "time-limit"));
	w->ask.time_limit_min = t.limit_min;
	return 0;
}

int td_turns_want(struct td_bridge_run *r, struct td_error *err)
{
	struct td_want *w = &r->want;
	td_auto_free char *gang = td_gang_of(r->pod), *line = !gang && counts(r->s, r->pod, w) ? line_of(r->pod) : NULL;
	int k = line ? read_before(r, line, err) : 0;
	if (k || !line)
		return k;
	const struct td_pool_slice_turn t = turn_of_pod(r->b, line, r->pod, r->a->job, w->ask.time_limit_min);
	td_auto_free char *owner = t.pods ? maker_name(r->pod) : NULL,
			  *words = t.pods ? td_pool_slice_turn_words(&t, owner) : NULL;
	if (!t.pods)
		return 0;
	if (!t.left_s)
		return td_fail(err, TD_INVALID,
			       "its time limit is used up. %s Raise the pod's annotation " TD_ANN_ASK_PREFIX
			       "time-limit (%s), or delete what made it",
			       words, td_object_annotation(r->pod, TD_ANN_ASK_PREFIX "time-limit"));
	w->ask.time_limit_min = t.limit_min;
	return 0;
}

// The line and the job of the ask of a pod. Caller frees *ret_line, which may be NULL.
static void ask_of(struct td_bridge *b, const char *uid, char **ret_line, int64_t *ret_job)
{
	td_auto(td_ask_unref) struct td_ask *a = uid ? td_ask_get(b->asks, uid) : NULL;
	pthread_mutex_lock(&b->asks->lock);
	*ret_line = a && a->line ? td_strdup(a->line) : NULL;
	*ret_job = a ? a->job : 0;
	pthread_mutex_unlock(&b->asks->lock);
}

char *td_turns_words(struct td_bridge *b, const struct td_object *pod)
{
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	td_auto_free char *gang = td_gang_of(pod), *line = NULL;
	int64_t job = 0;
	if (!s || (!maker_of(pod) && !gang) || !td_settings_total(s, NULL))
		return NULL;
	td_auto_want struct td_want w = {0};
	if (td_want_read(s, "", pod->root, 0, &w, NULL) || !counts(s, pod, &w))
		return NULL;
	if (gang && !td_object_annotation(pod, TD_ANN_GANG_CORE)) {
		// The others of its run are no run before it.
		td_auto_objects struct td_objects all = {0};
		td_informer_by_index(b->pods, "gang", gang, &all);
		td_auto_free const struct td_object **now = td_calloc(all.n + 1, sizeof(*now));
		size_t n = 0;
		now[n++] = pod;
		const char *uid = td_object_annotation(pod, TD_ANN_GANG_UID);
		for (size_t i = 0; i < all.n; i++)
			if (all.v[i] != pod && uid && td_streq(td_object_annotation(all.v[i], TD_ANN_GANG_UID), uid))
				now[n++] = all.v[i];
		ask_of(b, uid, &line, &job);
		const struct turn_ask ask = {line, job, w.ask.time_limit_min};
		const struct td_pool_slice_turn t = turn_of_gang(b, gang, &ask, now, n);
		return t.left_s ? td_pool_slice_turn_words(&t, NULL) : NULL;
	}
	line = gang ? NULL : line_of(pod);
	if (!line)
		return NULL;
	td_auto_free char *none = NULL;
	ask_of(b, pod->uid, &none, &job);
	const struct td_pool_slice_turn t = turn_of_pod(b, line, pod, job, w.ask.time_limit_min);
	td_auto_free char *owner = maker_name(pod);
	return t.left_s ? td_pool_slice_turn_words(&t, owner) : NULL;
}
