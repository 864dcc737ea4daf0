// Job: runs pods to an end. It knows NonIndexed and Indexed, parallelism, completions, backoffLimit
// with growing delays, deadline, suspend, TTL.
//
// What was reached is in the status and never falls: completedIndexes is a union, succeeded and
// failed are maxima. So deleting a finished pod does not make its index run again.
#include "controllers/ctl.h"

#include "base/rand.h"

#include <stdio.h>
#include <string.h>

#define BACKOFF_MS 10000
#define BACKOFF_MAX_MS (6 * 60 * 1000)
#define INDEX_MAX 100000
#define BURST 500

// One look at a Job, in one round of the controller.
struct job {
	struct td_ctl *c;
	struct td_object *j;                // borrowed
	long long parallelism, completions; // completions -1: not given
	bool indexed, replace_failed_only;
	bool settled; // what it made and deleted is in the cache, and was when `pods` was read
	struct td_objects pods, active;
	unsigned char *completed; // by index: it is done
	unsigned char *running;   // by index: number of active pods
	long long succeeded, failed, ready, terminating, restarts, failed_in_a_row;
	int64_t last_failure, now;
	struct td_cancel *cancel;
};

// ---- sets of indexes: "0-3,5" ----

static void parse_indexes(const char *s, long long n, unsigned char *ret)
{
	while (s && *s) {
		char *end;
		long long a = strtoll(s, &end, 10), b = a;
		if (end == s)
			return;
		if (*end == '-') {
			s = end + 1;
			b = strtoll(s, &end, 10);
			if (end == s)
				return;
		}
		for (long long i = a < 0 ? 0 : a; i <= b && i < n; i++)
			ret[i] = 1;
		s = *end == ',' ? end + 1 : NULL;
	}
}

static char *format_indexes(const unsigned char *v, long long n)
{
	struct td_buf b = {0};
	for (long long i = 0; i < n; i++) {
		if (!v[i])
			continue;
		long long j = i;
		while (j + 1 < n && v[j + 1])
			j++;
		td_buf_printf(&b, b.len ? ",%lld" : "%lld", i);
		if (j > i)
			td_buf_printf(&b, j == i + 1 ? ",%lld" : "-%lld", j);
		i = j;
	}
	return td_buf_take(&b);
}

// ---- state ----

static void job_done(struct job *x)
{
	td_objects_done(&x->pods);
	td_objects_done(&x->active);
	free(x->completed);
	free(x->running);
}

static long long index_of(const struct td_object *p)
{
	long long i = -1;
	const char *s = td_object_annotation(p, "batch.kubernetes.io/job-completion-index");
	if (s)
		td_parse_i64(s, &i);
	return i;
}

static int64_t finished_at(const struct td_object *p)
{
	int64_t last = td_ctl_created(p);
	size_t i, n;
	yyjson_val *s, *all = td_jget(p->root, "status.containerStatuses");
	yyjson_arr_foreach (all, i, n, s) {
		int64_t t = td_ctl_time(s, "state.terminated.finishedAt");
		if (t > last)
			last = t;
	}
	return last;
}

static long long restarts(const struct td_object *p)
{
	long long sum = 0;
	size_t i, n;
	yyjson_val *s, *all = td_jget(p->root, "status.containerStatuses");
	yyjson_arr_foreach (all, i, n, s)
		sum += td_jint(s, "restartCount", 0);
	return sum;
}

static void look(struct job *x)
{
	yyjson_val *st = td_jget(x->j->root, "status");
	long long succeeded = 0, failed = 0;

	if (x->indexed) {
		x->completed = td_calloc((size_t)x->completions + 1, 1);
		x->running = td_calloc((size_t)x->completions + 1, 1);
		parse_indexes(td_jstr(st, "completedIndexes"), x->completions, x->completed);
	}

	int64_t last_success = 0;
	for (size_t i = 0; i < x->pods.n; i++) {
		struct td_object *p = x->pods.v[i];
		const char *phase = td_jstr_or(p->root, "status.phase", "");
		long long k = x->indexed ? index_of(p) : -1;
		bool in = k >= 0 && k < x->completions;
		if (!strcmp(phase, "Succeeded")) {
			succeeded++;
			if (in)
				x->completed[k] = 1;
			if (finished_at(p) > last_success)
				last_success = finished_at(p);
		} else if (!strcmp(phase, "Failed")) {
			failed++;
			if (finished_at(p) > x->last_failure)
				x->last_failure = finished_at(p);
		} else if (td_object_deleting(p)) {
			x->terminating++;
		} else {
			td_objects_add(&x->active, td_object_ref(p));
			x->ready += td_ctl_pod_ready(p);
			x->restarts += restarts(p);
			if (in)
				x->running[k]++;
		}
	}

	// Failures since the last success make the delay grow.
	for (size_t i = 0; i < x->pods.n; i++)
		x->failed_in_a_row += td_streq(td_jstr(x->pods.v[i]->root, "status.phase"), "Failed") &&
				      finished_at(x->pods.v[i]) > last_success;

	if (x->indexed) {
		succeeded = 0;
		for (long long i = 0; i < x->completions; i++)
			succeeded += x->completed[i];
	} else if (succeeded < td_jint(st, "succeeded", 0)) {
		succeeded = td_jint(st, "succeeded", 0);
	}

	x->succeeded = succeeded;
	x->failed = failed > td_jint(st, "failed", 0) ? failed : td_jint(st, "failed", 0);
}

// ---- pods ----

static void add_env(yyjson_mut_doc *d, yyjson_mut_val *pod, const char *list)
{
	yyjson_mut_val *c, *all = td_jm_get(pod, list);
	size_t i, n;
	yyjson_mut_arr_foreach (all, i, n, c) {
		yyjson_mut_val *e, *env = td_jm_arr(d, c, "env");
		size_t j, m;
		bool has = false;
		yyjson_mut_arr_foreach (env, j, m, e)
			has |= td_streq(td_jm_getstr(e, "name"), "JOB_COMPLETION_INDEX");
		if (has)
			continue;

		e = yyjson_mut_arr_add_obj(d, env);
		td_jm_str(d, e, "name", "JOB_COMPLETION_INDEX");
		td_jm_str(d, e, "valueFrom.fieldRef.apiVersion", "v1");
		td_jm_str(d, e, "valueFrom.fieldRef.fieldPath",
			  "metadata.labels['batch.kubernetes.io/job-completion-index']");
	}
}

static int make(struct job *x, long long index, struct td_error *err)
{
	char tail[8], text[32];
	td_random_name(tail, 5);
	td_auto_free char *name = index < 0 ? td_asprintf("%.57s-%s", x->j->name, tail)
					    : td_asprintf("%.50s-%lld-%s", x->j->name, index, tail);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_ctl_pod_from(x->j, &td_jobs, name);
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *labels = td_jm_obj(d, o, "metadata.labels");

	td_jm_key_str(d, labels, "batch.kubernetes.io/job-name", x->j->name);
	td_jm_key_str(d, labels, "batch.kubernetes.io/controller-uid", x->j->uid);
	td_jm_key_str(d, labels, "job-name", x->j->name);
	td_jm_key_str(d, labels, "controller-uid", x->j->uid);

	if (index >= 0) {
		snprintf(text, sizeof(text), "%lld", index);
		td_jm_key_str(d, labels, "batch.kubernetes.io/job-completion-index", text);
		td_jm_key_str(d, td_jm_obj(d, o, "metadata.annotations"), "batch.kubernetes.io/job-completion-index",
			      text);
		td_jm_strf(d, o, "spec.hostname", "%.50s-%lld", x->j->name, index);
		add_env(d, o, "spec.containers");
		if (yyjson_mut_arr_size(td_jm_get(o, "spec.initContainers")))
			add_env(d, o, "spec.initContainers");
	}

	return td_ctl_create_pod(x->c, x->c->job_expect, x->j, &td_jobs, d, x->cancel, err);
}

static int delete_pods(struct job *x, size_t from, struct td_error *err)
{
	for (size_t i = from; i < x->active.n; i++) {
		int r = td_ctl_delete_pod(x->c, x->c->job_expect, x->j, &td_jobs, x->active.v[i], x->cancel, err);
		if (r)
			return r;
	}
	return 0;
}

// Ready pods first, then older ones: what has run longest stays.
static int by_progress(const void *a, const void *b)
{
	const struct td_object *x = *(struct td_object *const *)a, *y = *(struct td_object *const *)b;
	bool rx = td_ctl_pod_ready(x), ry = td_ctl_pod_ready(y);
	return rx != ry ? (rx ? -1 : 1) : td_ctl_by_creation(a, b);
}

// Deletes pods of an index that is done or out of range. Of two pods of one index it deletes the
// one that by_progress puts last.
static int drop_doubles(struct job *x, struct td_error *err)
{
	if (!x->indexed)
		return 0;

	td_auto_free unsigned char *seen = td_calloc((size_t)x->completions + 1, 1);
	td_ctl_sort(&x->active, by_progress);

	for (size_t i = 0; i < x->active.n;) {
		struct td_object *p = x->active.v[i];
		long long k = index_of(p);
		if (k >= 0 && k < x->completions && !seen[k] && !x->completed[k]) {
			seen[k] = 1;
			i++;
			continue;
		}

		int r = td_ctl_delete_pod(x->c, x->c->job_expect, x->j, &td_jobs, p, x->cancel, err);
		if (r)
			return r;

		if (k >= 0 && k < x->completions)
			x->running[k]--;
		td_object_unref(p);
		memmove(&x->active.v[i], &x->active.v[i + 1], (x->active.n - i - 1) * sizeof(*x->active.v));
		x->active.n--;
		x->terminating++;
	}
	return 0;
}

static int manage(struct job *x, int64_t *again, struct td_error *err)
{
	int r = drop_doubles(x, err);
	if (r)
		return r;

	long long active = (long long)x->active.n, want = x->parallelism;
	// Without completions it is a work queue: after the first success no new pods start.
	if (x->completions < 0)
		want = x->succeeded > 0 ? (active < x->parallelism ? active : x->parallelism) : x->parallelism;
	else if (x->completions - x->succeeded < want)
		want = x->completions - x->succeeded;

	if (active > want) {
		td_ctl_sort(&x->active, by_progress);
		return delete_pods(x, (size_t)want, err);
	}

	if (active >= want)
		return 0;
	if (x->replace_failed_only && active + x->terminating >= want)
		return 0;

	if (x->failed_in_a_row) {
		int64_t wait = BACKOFF_MS;
		for (long long i = 1; i < x->failed_in_a_row && wait < BACKOFF_MAX_MS; i++)
			wait *= 2;
		wait = (wait < BACKOFF_MAX_MS ? wait : BACKOFF_MAX_MS) - (x->now - x->last_failure);
		if (wait > 0) {
			if (!*again || wait < *again)
				*again = wait;
			return 0;
		}
	}

	long long made = 0;
	if (!x->indexed) {
		for (; made < want - active && made < BURST && !r; made++)
			r = make(x, -1, err);
		return r;
	}

	for (long long i = 0; i < x->completions && made < want - active && made < BURST && !r; i++)
		if (!x->completed[i] && !x->running[i]) {
			r = make(x, i, err);
			made++;
		}
	return r;
}

// ---- the end ----

static const char *failure(struct job *x, char *msg, size_t n, int64_t *again)
{
	const char *policy = td_jstr_or(x->j->root, "spec.template.spec.restartPolicy", "");
	long long limit = td_jint(x->j->root, "spec.backoffLimit", 6),
		  deadline = td_jint(x->j->root, "spec.activeDeadlineSeconds", 0);

	if (x->failed > limit || (!strcmp(policy, "OnFailure") && x->restarts > 0 && x->restarts + x->failed > limit)) {
		snprintf(msg, n, "Job has reached the specified backoff limit");
		return "BackoffLimitExceeded";
	}

	int64_t start = td_ctl_time(x->j->root, "status.startTime");
	if (deadline > 0 && start) {
		int64_t left = start + deadline * 1000 - x->now;
		if (left <= 0) {
			snprintf(msg, n, "Job was active longer than specified deadline");
			return "DeadlineExceeded";
		}
		if (!*again || left < *again)
			*again = left;
	}
	return NULL;
}

static bool is_true(const yyjson_val *conds, const char *type)
{
	return td_streq(td_jstr(td_jfind(conds, "type", type), "status"), "True");
}

// How a Job ends. The status tells it twice, as the real controller does: first that it will end
// (then its pods are ended), and when none of them is left, that it has ended.
struct verdict {
	const char *type, *reason; // type NULL: it goes on; otherwise "Complete" or "Failed"
	// The condition that tells it first: "SuccessCriteriaMet" or "FailureTarget".
	const char *before;
	bool over; // none of its pods is left
	char message[128];
};

static void decide(struct verdict *v, bool failed, const char *reason, const char *message)
{
	v->type = failed ? "Failed" : "Complete";
	v->before = failed ? "FailureTarget" : "SuccessCriteriaMet";
	v->reason = reason;
	snprintf(v->message, sizeof(v->message), "%s", message);
}

// Restores a verdict from the status. What was decided before stands, whatever has happened since.
static bool decided(const yyjson_val *conds, struct verdict *v)
{
	static const char *const types[] = {"SuccessCriteriaMet", "FailureTarget"};
	for (size_t i = 0; i < TD_LEN(types); i++) {
		yyjson_val *c = td_jfind(conds, "type", types[i]);
		if (!td_streq(td_jstr(c, "status"), "True"))
			continue;
		decide(v, i == 1, td_jstr_or(c, "reason", ""), td_jstr_or(c, "message", ""));
		return true;
	}
	return false;
}

static int write_status(struct job *x, const struct verdict *v, bool suspended, struct td_error *err)
{
	yyjson_val *st = td_jget(x->j->root, "status"), *old = td_jget(st, "conditions"), *o;
	char t[TD_TIME_LEN];
	td_time_format(x->now, t);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *s = yyjson_mut_doc_get_root(d), *conds = td_jm_arr(d, s, "conditions");

	td_jm_int(d, s, "active", (long long)x->active.n);
	td_jm_int(d, s, "ready", x->ready);
	td_jm_int(d, s, "terminating", x->terminating);
	td_jm_int(d, s, "succeeded", x->succeeded);
	td_jm_int(d, s, "failed", x->failed);

	if (x->indexed) {
		td_auto_free char *done = format_indexes(x->completed, x->completions);
		if (*done)
			td_jm_str(d, s, "completedIndexes", done);
	}

	bool was_suspended = is_true(old, "Suspended");
	// The deadline starts again when the Job is resumed.
	if (suspended && td_jstr(st, "startTime"))
		td_jm_set(d, s, "startTime", yyjson_mut_null(d));
	else if (!suspended && !td_jstr(st, "startTime"))
		td_jm_str(d, s, "startTime", t);

	size_t i, n;
	yyjson_arr_foreach (old, i, n, o) {
		const char *type = td_jstr_or(o, "type", "");
		if (strcmp(type, "Suspended") != 0 && !td_streq(type, v->type) && !td_streq(type, v->before))
			yyjson_mut_arr_append(conds, yyjson_val_mut_copy(d, o));
	}

	if (suspended)
		td_condition_add(d, conds, old, TD_CONDITION("Suspended", "True", "JobSuspended", "Job suspended"),
				 x->now);
	else if (td_jfind(old, "type", "Suspended"))
		td_condition_add(d, conds, old, TD_CONDITION("Suspended", "False", "JobResumed", "Job resumed"),
				 x->now);

	if (v->type)
		td_condition_add(d, conds, old, TD_CONDITION(v->before, "True", v->reason, v->message), x->now);

	if (v->over) {
		td_condition_add(d, conds, old, TD_CONDITION(v->type, "True", v->reason, v->message), x->now);
		if (!strcmp(v->type, "Complete"))
			td_jm_str(d, s, "completionTime", t);
	}

	int r = td_ctl_write_status(x->c, &td_jobs, x->j, s, x->cancel, err);
	if (!r && v->over)
		td_kube_record(x->c->rec, TD_ABOUT(x->j, &td_jobs), !strcmp(v->type, "Complete") ? "Normal" : "Warning",
			       !strcmp(v->type, "Complete") ? "Completed" : v->reason, "%s",
			       !strcmp(v->type, "Complete") ? "Job completed" : v->message);
	if (!r && suspended != was_suspended && (suspended || was_suspended))
		td_kube_record(x->c->rec, TD_ABOUT(x->j, &td_jobs), "Normal", suspended ? "Suspended" : "Resumed",
			       suspended ? "Job suspended" : "Job resumed");
	return r;
}

// Handles a finished Job: its TTL, and pods that are still there.
static int finished(struct job *x, int64_t *again, struct td_error *err)
{
	int r = delete_pods(x, 0, err);
	yyjson_val *ttl = td_jget(x->j->root, "spec.ttlSecondsAfterFinished");
	if (r || !yyjson_is_int(ttl) || td_object_deleting(x->j))
		return r;

	yyjson_val *conds = td_jget(x->j->root, "status.conditions"), *c = td_jfind(conds, "type", "Complete");
	if (!td_streq(td_jstr(c, "status"), "True"))
		c = td_jfind(conds, "type", "Failed");

	int64_t left = td_ctl_time(c, "lastTransitionTime") + yyjson_get_sint(ttl) * 1000 - x->now;
	if (left > 0) {
		*again = left;
		return 0;
	}

	const struct td_kube_delete_opts opts = {
		.uid = x->j->uid, .rv = x->j->rv, .grace_s = -1, .propagation = "Foreground"};
	r = td_kube_delete(x->c->kube, &td_jobs, x->j->ns, x->j->name, &opts, x->cancel, err);
	return r == TD_NOT_FOUND ? 0 : r;
}

static int step(struct job *x, int64_t *again, struct td_error *err)
{
	yyjson_val *conds = td_jget(x->j->root, "status.conditions");
	if (is_true(conds, "Complete") || is_true(conds, "Failed"))
		return finished(x, again, err);

	struct verdict v = {0};
	char message[128];
	bool suspend = td_jbool(x->j->root, "spec.suspend", false);

	bool before = decided(conds, &v);
	const char *bad = before ? NULL : failure(x, message, sizeof(message), again);
	if (bad)
		decide(&v, true, bad, message);
	else if (!before && (x->completions < 0 ? x->succeeded > 0 && !x->active.n : x->succeeded >= x->completions))
		decide(&v, false, "CompletionsReached", "Reached expected number of succeeded pods");

	if (v.type) {
		// The status says it before the pods are ended, so that after a crash they are
		// ended all the same.
		v.over = x->settled && !x->active.n && !x->terminating;
		int r = write_status(x, &v, false, err);
		return r || v.over ? r : delete_pods(x, 0, err);
	}

	struct td_error why = TD_ERROR_INIT;
	int r = 0;
	if (x->settled && !td_object_deleting(x->j))
		r = suspend                                   ? delete_pods(x, 0, &why)
		    : td_jstr(x->j->root, "status.startTime") ? manage(x, again, &why)
							      : 0;

	int s = r == TD_CANCELLED ? r : write_status(x, &v, suspend, err);
	if (!s && r && err)
		*err = why;
	return s ? s : r;
}

static int reconcile(void *ctx, const char *key, int64_t *again, struct td_cancel *cancel, struct td_error *err)
{
	struct td_ctl *c = ctx;
	td_auto_free char *ns = NULL, *name = NULL;
	td_key_split(key, &ns, &name);
	td_auto(td_object_unref) struct td_object *j = td_informer_get(c->jobs, ns, name);
	const char *by = j ? td_jstr(j->root, "spec.managedBy") : NULL;
	if (!j || (by && *by && strcmp(by, "kubernetes.io/job-controller") != 0))
		return 0;

	struct job x
		__attribute__((cleanup(job_done))) = {.c = c, .j = j, .cancel = cancel, .now = td_real_ms(c->clock)};

	x.parallelism = td_jint(j->root, "spec.parallelism", 1);
	x.indexed = td_streq(td_jstr(j->root, "spec.completionMode"), "Indexed");
	yyjson_val *completions = td_jget(j->root, "spec.completions");

	// Neither is given: one run. Only parallelism is given: a work queue.
	x.completions = yyjson_is_int(completions)             ? yyjson_get_sint(completions)
			: td_jget(j->root, "spec.parallelism") ? -1
							       : 1;

	if (x.indexed && (x.completions < 0 || x.completions > INDEX_MAX))
		return td_fail(err, TD_INVALID, "spec.completions: an Indexed Job needs 0 to %d", INDEX_MAX);
	x.replace_failed_only = td_streq(td_jstr(j->root, "spec.podReplacementPolicy"), "Failed");

	// Before its pods are read: one that came in between would be made once more.
	x.settled = td_ctl_expect_done(c->job_expect, j->uid);
	int r = td_ctl_claim(c, c->pods, &td_pods, j, &td_jobs, cancel, &x.pods, err);
	if (r)
		return r;

	look(&x);
	return step(&x, again, err);
}

static void on_pod(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_ctl *c = ctx;
	td_ctl_expect_pod(c->job_expect, "Job", old, now);
}

static struct job_orphans { // one per process, like the controller
	struct td_ctl *c;
	struct td_queue *queue;
} orphans;

// A Job whose selector matches may want a pod without an owner.
static void on_orphan(void *ctx, struct td_object *old, struct td_object *now)
{
	struct job_orphans *x = ctx;
	if (!now || td_object_owner(now) || td_object_deleting(now))
		return;
	td_auto_objects struct td_objects all = {0};
	td_informer_list(x->c->jobs, now->ns, &all);
	td_ctl_enqueue_matching(x->queue, &all, now);
}

static void on_gone(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_ctl *c = ctx;
	if (!now)
		td_ctl_expect_forget(c->job_expect, old->uid);
}

void td_ctl_job(struct td_ctl *c, struct td_controller *ret)
{
	*ret = (struct td_controller){"job", 2, td_queue_new(c->clock), reconcile, c};
	td_informer_on_change(c->jobs, on_gone, c);
	td_informer_on_change(c->jobs, td_enqueue_self, ret->queue);
	td_informer_on_change(c->pods, on_pod, c);
	td_informer_on_change(c->pods, td_enqueue_owner, ret->queue);
	orphans = (struct job_orphans){c, ret->queue};
	td_informer_on_change(c->pods, on_orphan, &orphans);
}
