// Time limits that count over all pods of one Job or ReplicaSet, and over all runs of a gang (turns.h). The pods
// themselves are the record: who deletes those that have ended gives the next one its whole limit
// again, as a new Job would have it.
#include "bridge/scheduler/turns.h"
#include "bridge/scheduler/gang.h"

#include "pool/slice.h"

#include <string.h>

#define INDEX "batch.kubernetes.io/job-completion-index"

// What controls the pod, and keeps those that have ended: a Job, or a ReplicaSet; NULL: none does. A StatefulSet deletes
// the one that has ended before it makes the next one.
static yyjson_val *maker_of(const struct td_object *pod)
{
	yyjson_val *owner = td_object_owner(pod);
	const char *kind = td_jstr_or(owner, "kind", ""), *version = td_jstr_or(owner, "apiVersion", "");
	return (td_streq(kind, "Job") && td_starts(version, "batch/")) ||
			       (td_streq(kind, "ReplicaSet") && td_starts(version, "apps/"))
		       ? owner
		       : NULL;
}

// "Job train". Caller frees.
static char *maker_name(const struct td_object *pod)
{
	yyjson_val *owner = maker_of(pod);
	return td_asprintf("%s %s", td_jstr_or(owner, "kind", "?"), td_jstr_or(owner, "name", "?"));
}

// Where those that may follow each other stand in the index. Namespace and person: whoever names another one's Job or
// ReplicaSet as his pod's owner takes none of its time. NULL: nobody's; caller frees.
static char *line_of(const struct td_object *pod)
{
	const char *uid = td_jstr(maker_of(pod), "uid"), *index = td_object_annotation(pod, INDEX),
		   *person = td_want_person(pod->root);
	return uid ? td_asprintf("%s/%s/%s/%s", pod->ns, uid, index ? index : "", person ? person : "") : NULL;
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

// What the pod has left. turn.pods 0: nobody ran before it, or its time does not count so.
static struct td_pool_slice_turn turn_of_pod(struct td_bridge *b, const struct td_settings *s,
					     const struct td_object *pod, const struct td_want *w)
{
	td_auto_free char *line = counts(s, pod, w) ? line_of(pod) : NULL;
	td_auto_objects struct td_objects all = {0};
	if (line)
		td_informer_by_index(b->pods, "job", line, &all);

	td_auto_free struct td_pool_slice_pod *v = td_calloc(all.n + 1, sizeof(*v));
	size_t n = 0;
	int64_t now_s = td_real_ms(b->clock) / 1000;
	bool beside = false; // then nothing counts, and thousands may run so
	for (size_t i = 0; i < all.n && !beside; i++) {
		const struct td_object *o = all.v[i];
		if (!strcmp(o->uid, pod->uid))
			continue;
		v[n] = (struct td_pool_slice_pod){.start_s = start_of(o), .end_s = end_of(o, now_s)};
		beside = !v[n++].end_s;
	}
	return td_pool_slice_turn(w->ask.time_limit_min, v, n);
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

static struct td_pool_slice_turn turn_of_gang(struct td_bridge *b, const char *name, const struct td_object *const *now,
					      size_t n_now, int64_t limit_min)
{
	td_auto_objects struct td_objects all = {0};
	td_informer_by_index(b->pods, "gang", name, &all);
	td_auto_free struct td_pool_slice_pod *v = td_calloc(all.n + 1, sizeof(*v));
	size_t n = runs_of(&all, now, n_now, td_real_ms(b->clock) / 1000, v);
	return td_pool_slice_turn(limit_min, v, n);
}

int td_turns_gang(struct td_bridge *b, const struct td_settings *s, const struct td_gang_run *g, struct td_want *w,
		  struct td_error *err)
{
	if (!g->n || !counts(s, g->v[0].pod, w))
		return 0;
	td_auto_free const struct td_object **now = td_calloc(g->n, sizeof(*now));
	for (size_t i = 0; i < g->n; i++)
		now[i] = g->v[i].pod;
	const struct td_pool_slice_turn t = turn_of_gang(b, g->name, now, g->n, w->ask.time_limit_min);
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

int td_turns_want(struct td_bridge *b, const struct td_settings *s, const struct td_object *pod, struct td_want *w,
		  struct td_error *err)
{
	const struct td_pool_slice_turn t = turn_of_pod(b, s, pod, w);
	td_auto_free char *owner = t.pods ? maker_name(pod) : NULL,
			  *words = t.pods ? td_pool_slice_turn_words(&t, owner) : NULL;
	if (!t.pods)
		return 0;
	if (!t.left_s)
		return td_fail(err, TD_INVALID,
			       "its time limit is used up. %s Raise the pod's annotation " TD_ANN_ASK_PREFIX
			       "time-limit (%s), or delete what made it",
			       words, td_object_annotation(pod, TD_ANN_ASK_PREFIX "time-limit"));
	w->ask.time_limit_min = t.limit_min;
	return 0;
}

char *td_turns_words(struct td_bridge *b, const struct td_object *pod)
{
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	td_auto_free char *gang = td_gang_of(pod);
	if (!s || (!maker_of(pod) && !gang) || !td_settings_total(s, NULL))
		return NULL;
	td_auto_want struct td_want w = {0};
	if (td_want_read(s, "", pod->root, 0, &w, NULL))
		return NULL;
	if (gang && !td_object_annotation(pod, TD_ANN_GANG_CORE)) {
		if (!counts(s, pod, &w))
			return NULL;
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
		const struct td_pool_slice_turn t = turn_of_gang(b, gang, now, n, w.ask.time_limit_min);
		return t.left_s ? td_pool_slice_turn_words(&t, NULL) : NULL;
	}
	if (!maker_of(pod))
		return NULL;
	const struct td_pool_slice_turn t = turn_of_pod(b, s, pod, &w);
	td_auto_free char *owner = maker_name(pod);
	return t.left_s ? td_pool_slice_turn_words(&t, owner) : NULL;
}
