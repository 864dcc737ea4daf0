// Binding a pod to its grant, and the two ends: of the job, of the pod.
#include "bridge/scheduler/ask.h"

#include "base/log.h"
#include "kube/fence.h"

#include <string.h>

enum { STANDIN_EXIT_MS = 2000, DEFAULT_GRACE_S = 30 };

static yyjson_mut_val *grant_notes(yyjson_mut_doc *d, const struct td_ask *a)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_auto_free char *job = td_asprintf("%lld", (long long)a->job), *start = td_asprintf("%lld", (long long)a->start),
			  *restarts = td_asprintf("%lld", (long long)a->restarts);
	td_jm_key_str(d, o, TD_ANN_JOB, job);
	td_jm_key_str(d, o, TD_ANN_START, start);
	td_jm_key_str(d, o, TD_ANN_RESTARTS, restarts);
	td_jm_key_str(d, o, TD_ANN_DEVICES, a->devices);
	td_jm_key_str(d, o, TD_ANN_CPUS, a->cpus);
	return o;
}

// May this version of the pod be bound? A fence (kube/fence.h) makes every Binding with an older version fail; a version that carries one
// may be newer than what we know of the job, so the job is read after it. For whose job the fence was does not matter then: the next one
// hides the last, and a comment that its owner forged can bring one about.
static int fence_passed(struct td_bridge *b, const struct td_settings *s, struct td_link *l, struct td_ask *a, const struct td_object *pod,
			struct td_cancel *c, struct td_error *err)
{
	int64_t job, start;
	struct td_pool_job j;
	if (!td_fence_read(pod->root, &job, &start))
		return 0;
	bool ended = td_fence_is(pod->root, a->job, a->start);
	if (!ended) {
		if (!l)
			return td_fail(err, TD_TRANSIENT, "binding pod %s: whether its job still runs cannot be asked now", a->key);
		td_auto_free char *nodes = td_strdup(a->nodes), *devices = td_strdup(a->devices);
		const struct td_grant had = {
			.job = a->job, .ask = a->uid, .start = a->start, .restarts = a->restarts, .nodes = nodes, .devices = devices};
		int r = td_ask_read(b, s, l->slurm, a, c, err);
		if (r)
			return r;
		td_ask_job(b, a, true, &j);
		ended = j.know != TD_JOB_READ || !j.ours || j.is != TD_IS_RUNNING || td_grant_differs(&had, &j.grant);
	}
	if (!ended)
		return 0;
	pthread_mutex_lock(&b->asks->lock);
	a->look = true;
	pthread_mutex_unlock(&b->asks->lock);
	return td_fail(err, TD_CONFLICT, "binding pod %s: its grant has ended meanwhile", a->key);
}

int td_ask_bind(struct td_bridge *b, const struct td_settings *s, struct td_link *l, struct td_ask *a, const struct td_object *pod,
		struct td_cancel *c, struct td_error *err)
{
	if (!a->nodes || !*a->nodes || strpbrk(a->nodes, ",["))
		return td_fail(err, TD_INTERNAL, "job %lld was given nodes \"%s\", one was asked for", (long long)a->job,
			       a->nodes ? a->nodes : "");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *notes = grant_notes(d, a);
	td_auto(td_object_unref) struct td_object *fresh = NULL;
	const char *rv = pod->rv;
	int r = fence_passed(b, s, l, a, pod, c, err);
	if (r)
		return r;
	for (int tries = 0;; tries++) {
		struct td_error e = TD_ERROR_INIT;
		if (!td_lease_holds())
			return td_fail(err, TD_CANCELLED, "binding pod %s: another leads now", a->key);
		r = td_kube_bind(b->kube, pod->ns, pod->name, pod->uid, rv, a->nodes, notes, c, &e);
		if (!r) {
			atomic_fetch_add(&b->n_bound, 1);
			td_bridge_measure_bound(b, a, pod);
			a->bound_sent = true;
			td_info("pod %s: bound to %s, Slurm job %lld, devices %s", a->key, a->nodes, (long long)a->job, a->devices);
			td_record(b->recorder, pod, &td_pods, "Normal", "Bound", "bound to %s by Slurm job %lld, devices %s", a->nodes,
				  (long long)a->job, a->devices);
			return 0;
		}
		if (r == TD_NOT_FOUND)
			return 0; // the watch tells the rest
		if ((r != TD_CONFLICT && r != TD_UNCERTAIN) || tries == 5)
			return td_fail(err, r, "binding pod %s to %s: %.400s", a->key, a->nodes, e.msg);
		// The pod changed, or the reply was lost: what is it now?
		fresh = td_object_unref(fresh);
		r = td_kube_get(b->kube, &td_pods, pod->ns, pod->name, c, &fresh, &e);
		if (r == TD_NOT_FOUND)
			return 0;
		if (r)
			return td_fail(err, r, "binding pod %s: %.400s", a->key, e.msg);
		if (strcmp(fresh->uid, pod->uid) != 0 || td_object_deleting(fresh) || td_jstr(fresh->root, "spec.nodeName")) {
			a->bound_sent = true; // decided again when the watch has caught up
			return 0;
		}
		// Somebody gave a grant of this pod back: which of them ours is, only a fresh look tells.
		if (!td_streq(td_object_annotation(fresh, TD_ANN_EPOCH), td_object_annotation(pod, TD_ANN_EPOCH)))
			return td_fail(err, TD_CONFLICT, "binding pod %s: its grant was given back meanwhile", a->key);
		if ((r = fence_passed(b, s, l, a, fresh, c, err)) != 0)
			return r;
		rv = fresh->rv;
	}
}

int td_ask_raise_epoch(struct td_bridge *b, const struct td_object *pod, const char *rv, struct td_cancel *c, struct td_error *err)
{
	long long epoch = 0;
	const char *s = td_object_annotation(pod, TD_ANN_EPOCH);
	if (s)
		td_parse_i64(s, &epoch);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_auto_free char *text = td_asprintf("%lld", epoch + 1);
	td_jm_str(d, root, "metadata.uid", pod->uid);
	td_jm_str(d, root, "metadata.resourceVersion", rv);
	td_jm_key_str(d, td_jm_obj(d, root, "metadata.annotations"), TD_ANN_EPOCH, text);
	int r = td_kube_patch(b->kube, &td_pods, pod->ns, pod->name, NULL, TD_PATCH_MERGE, root, c, NULL, err);
	return r == TD_NOT_FOUND ? 0 : r;
}

static void forget_job(struct td_bridge *b, struct td_ask *a)
{
	td_ask_pending(b->asks, a, false);
	td_ask_set_job(b->asks, a, 0);
	pthread_mutex_lock(&b->asks->lock);
	a->know = TD_JOB_NONE;
	a->states = a->polled = 0;
	a->look = a->started = a->warned = a->bound_sent = false;
	a->ended_ms = a->taking = 0;
	pthread_mutex_unlock(&b->asks->lock);
}

int td_ask_end_job(struct td_bridge *b, const struct td_settings *s, struct td_link *l, struct td_ask *a, const struct td_object *pod,
		   int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	int r;
	bool unbound = pod && !td_jstr(pod->root, "spec.nodeName") && !td_object_deleting(pod);
	// Slurm compares the name as it ends the job, and the name holds the ask's UID: no read could make that any surer. One is needed
	// when its owner gave it another name, and when a leader before us could still bind the pod (is it running?).
	if (unbound || !a->job_name || !td_ends(a->job_name, a->uid)) {
		r = td_ask_read(b, s, l->slurm, a, c, err);
		if (r)
			return r;
	}
	struct td_pool_job j;
	td_ask_job(b, a, true, &j);
	if (j.know != TD_JOB_READ || !j.ours || j.is == TD_IS_ENDED) {
		if (!pod || j.know == TD_JOB_GONE || !j.ours)
			return 0; // decided again with what was read
		forget_job(b, a); // a waiting pod whose job we gave back: its end is not the user's scancel
		return 0;
	}
	if (unbound && j.is == TD_IS_RUNNING && (r = td_ask_raise_epoch(b, pod, NULL, c, err)))
		return r;
	if (!unbound && a->batch && j.is == TD_IS_RUNNING) {
		// The stand-in exits with the pod's code, so that sacct tells the truth.
		int64_t now = td_now(b);
		if (!a->ended_ms && td_knocks_end(b->knocks, a->job, a->exit_code))
			a->ended_ms = now;
		if (a->ended_ms && now - a->ended_ms < STANDIN_EXIT_MS) {
			*again_ms = STANDIN_EXIT_MS - (now - a->ended_ms);
			td_bridge_poll_now(b);
			return 0;
		}
		if (!a->ended_ms && (*again_ms = td_knocks_settle(b->knocks, now)))
			return 0; // its knock goes before that
	}
	struct td_error e = TD_ERROR_INIT;
	if (!td_lease_holds())
		return td_fail(err, TD_CANCELLED, "pod %s: another leads now", a->key);
	r = td_slurm_job_end(l->slurm, a->job, a->job_name, c, &e);
	if (r == TD_CONFLICT) { // renamed, or the id is another's now: decided again with what a read shows
		td_ask_str(b->asks, &a->job_name, NULL);
		return td_ask_read(b, s, l->slurm, a, c, err);
	}
	if (r && r != TD_NOT_FOUND)
		return td_fail(err, r, "%.500s", e.msg); // read again before it is repeated
	td_info("pod %s: Slurm job %lld ended: %s", a->key, (long long)a->job, a->why ? a->why : "nobody wants it");
	atomic_fetch_add(&b->n_ended_jobs, 1);
	forget_job(b, a);
	return 0;
}

static const char *event_of(uint64_t states)
{
	return states & TD_JOB(PREEMPTED)   ? "Preempted"
	       : states & TD_JOB(TIMEOUT)   ? "TimedOut"
	       : states & TD_JOB(NODE_FAIL) ? "NodeFailed"
	       : states & TD_JOB(PENDING)   ? "Requeued"
	       : states & TD_JOB(CANCELLED) ? "Cancelled"
					    : "GrantEnded";
}

static bool same_grant(const struct td_object *x, const struct td_object *y)
{
	static const char *const keys[] = {TD_ANN_JOB, TD_ANN_START, TD_ANN_RESTARTS, TD_ANN_EPOCH};
	bool same = td_streq(td_jstr(x->root, "spec.nodeName"), td_jstr(y->root, "spec.nodeName"));
	for (size_t i = 0; i < TD_LEN(keys); i++)
		same &= td_streq(td_object_annotation(x, keys[i]), td_object_annotation(y, keys[i]));
	return same;
}

int td_ask_end_pod(struct td_bridge *b, const struct td_settings *s, struct td_ask *a, const struct td_object *pod, const char *why,
		   struct td_cancel *c, struct td_error *err)
{
	if (a->pod_end_sent)
		return 0;
	int64_t own = td_jint(pod->root, "spec.terminationGracePeriodSeconds", DEFAULT_GRACE_S);
	bool bound = td_jstr(pod->root, "spec.nodeName");
	struct td_delete del = {.uid = pod->uid, .rv = pod->rv, .grace_s = !bound ? 0 : own < s->end_grace_s ? (int)own : s->end_grace_s};
	struct td_error e = TD_ERROR_INIT;
	td_auto(td_object_unref) struct td_object *fresh = NULL;
	int r;
	for (int tries = 0;; tries++) {
		if (!td_lease_holds())
			return td_fail(err, TD_CANCELLED, "deleting pod %s: another leads now", a->key);
		r = td_kube_delete(b->kube, &td_pods, pod->ns, pod->name, &del, c, &e);
		if (r != TD_CONFLICT || tries == 5)
			break;
		// It changed meanwhile. Is it still the grant that has ended? Another leader may have given it a new one.
		fresh = td_object_unref(fresh);
		r = td_kube_get(b->kube, &td_pods, pod->ns, pod->name, c, &fresh, &e);
		if (r)
			break;
		if (strcmp(fresh->uid, pod->uid) != 0) {
			r = TD_NOT_FOUND;
			break;
		}
		if (!same_grant(pod, fresh))
			return td_fail(err, TD_CONFLICT, "deleting pod %s: its grant changed meanwhile", a->key);
		del.rv = fresh->rv;
	}
	if (r && r != TD_NOT_FOUND)
		return td_fail(err, r, "deleting pod %s, whose grant ended: %.400s", a->key, e.msg);
	a->pod_end_sent = true;
	if (r)
		return 0;
	atomic_fetch_add(&b->n_ended_pods, 1);
	const char *words = a->know == TD_JOB_GONE                                     ? "Slurm does not know it any more"
			    : td_job_ended(a->states) || (a->states & TD_JOB(PENDING)) ? td_job_end_words(a->states)
			    : a->warned && a->preempt <= 0                             ? "its time limit is near"
										       : why;
	td_info("pod %s: Slurm job %lld: %s: the pod ends (%s)", a->key, (long long)a->job, words, why);
	td_record(b->recorder, pod, &td_pods, "Warning",
		  !a->warned       ? event_of(a->states)
		  : a->preempt > 0 ? "Preempted"
				   : "TimedOut",
		  "Slurm job %lld: %s; the pod gets %d s to end", (long long)a->job, words, del.grace_s);
	return 0;
}
