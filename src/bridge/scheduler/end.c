// Binds a pod to its grant, and ends its job or the pod (docs/protocols.md 1.7 and 1.8).
#include "bridge/scheduler/gang.h"
#include "bridge/scheduler/private.h"
#include "bridge/scheduler/ran.h"

#include "api/annotations.h"
#include "api/condition.h"
#include "base/log.h"
#include "kube/fence.h"
#include "slurm/fabric.h"
#include "slurm/nics.h"

#include <string.h>

enum { DEFAULT_GRACE_S = 30 };

// What the node's network is called for who has these devices, and which adapters these are.
static void fabric_notes(yyjson_mut_doc *d, yyjson_mut_val *o, const struct td_settings *s, const char *devices,
			 const struct td_object *node)
{
	td_auto_variables struct td_slurm_variables l = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_nics struct td_slurm_nics has = {0};
	td_auto_buf struct td_buf names = {0};
	struct td_ranges mine = {0}, nics = {0};
	const char *list = devices && !td_json_parse(devices, strlen(devices), &j, NULL)
				   ? td_settings_list(s, td_json_root(j), "gpu")
				   : NULL;
	if (list && td_ranges_parse(list, &mine, NULL))
		return;
	list = td_settings_list(s, td_json_root(j), TD_GRES_NIC);
	if (list && td_ranges_parse(list, &nics, NULL))
		return;
	// The kubelet knows adapters by their names.
	if (list)
		td_slurm_nics_read(td_json_root(s->fabric), node->root, &has);
	const struct td_slurm_nic *x;
	for (size_t i = 0; (x = td_slurm_nics_given(&has, i)); i++)
		if (nics.bits[i / 64] >> (i % 64) & 1)
			td_buf_printf(&names, "%s%s", names.len ? "," : "", x->name);
	if (names.len)
		td_jm_key_str(d, o, TD_ANN_NICS_GRANTED, td_buf_str(&names));
	td_slurm_fabric_read(td_json_root(s->fabric), node->root, &l);
	for (size_t i = 0; i < l.n; i++) {
		td_auto_free char *value = td_slurm_variable_value(&l.v[i], &mine, &nics),
				  *name = td_asprintf(TD_ANN_FABRIC_PREFIX "%s", l.v[i].name);
		if (value)
			td_jm_key_str(d, o, name, value);
	}
}

// The grant as annotations of the Binding.
static yyjson_mut_val *grant_notes(yyjson_mut_doc *d, struct td_bridge_run *run, const char *node)
{
	const struct td_ask *a = run->a;
	const struct td_gang_seat *seat = run->seat;
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_auto_free char *job = td_asprintf("%lld", (long long)a->job),
			  *start = td_asprintf("%lld", (long long)a->start),
			  *restarts = td_asprintf("%lld", (long long)a->restarts);

	td_jm_key_str(d, o, TD_ANN_JOB, job);
	td_jm_key_str(d, o, TD_ANN_START, start);
	td_jm_key_str(d, o, TD_ANN_RESTARTS, restarts);
	td_jm_key_str(d, o, TD_ANN_DEVICES, seat ? seat->devices : a->devices);
	td_jm_key_str(d, o, TD_ANN_CPUS, seat ? seat->cores : a->cpus);
	struct td_owner owner;
	const char *account = run->pod ? td_object_annotation(run->pod, td_annotations[TD_ASKS_ACCOUNT].name) : NULL;
	if (!account && td_owner_of(run, &owner))
		account = owner.account;
	if (account)
		td_jm_key_str(d, o, TD_ANN_ACCOUNT, account);
	if (seat)
		td_gang_notes(d, o, a, seat);
	if (run->core)
		td_gang_core_notes(d, o, run->gang_name, run->core);
	td_auto(td_object_unref) struct td_object *where =
		run->s->fabric ? td_informer_get(run->b->nodes, NULL, node) : NULL;
	if (where)
		fabric_notes(d, o, run->s, seat ? seat->devices : a->devices, where);

	// Pods of several nodes have the GPUs' plane, unless they say which networks they want.
	const char *networks = td_jstr(td_json_root(run->s->fabric), "planes.gpu.networks");
	if (networks && ((seat && a->size > 1) || run->core) && !td_object_annotation(run->pod, TD_ANN_NETWORKS))
		td_jm_key_str(d, o, TD_ANN_NETWORKS, networks);
	return o;
}

// May this version of the pod be bound? 0: yes. A fence (kube/fence.h) makes every Binding of an
// older version fail. A fence for this very run of the job means that the grant has ended. Any
// other fence only tells that this version of the pod may be newer than what is known of the job,
// so the job is read after it. Which job it names does not count: the next fence hides the last
// one, and the owner of a job can cause one by a forged comment.
static int fence_passed(struct td_bridge_run *r, const struct td_object *pod, struct td_error *err)
{
	struct td_bridge *b = r->b;
	struct td_ask *a = r->a;
	int64_t job, start;
	struct td_pool_job j = {0};

	if (!td_fence_read(pod->root, &job, &start))
		return 0;

	bool own = td_fence_is(pod->root, a->job, a->start);
	td_auto_free char *nodes = td_strdup(a->nodes), *devices = td_strdup(a->devices);
	const struct td_grant had = {.job = a->job,
				     .ask = a->uid,
				     .start = a->start,
				     .restarts = a->restarts,
				     .nodes = nodes,
				     .devices = devices};

	if (!own) {
		if (!r->l)
			return td_fail(err, TD_TRANSIENT,
				       "binding pod %s: whether its job still runs cannot be asked now", a->key);
		int k = td_ask_read(b, r->s, r->l->slurm, a, r->c, err);
		if (k)
			return k;
		td_ask_job(b, a, true, &j);
	}

	if (!td_pool_fence_ended(own, &had, &j))
		return 0;

	pthread_mutex_lock(&b->asks->lock);
	a->look = true;
	pthread_mutex_unlock(&b->asks->lock);
	return td_fail(err, TD_CONFLICT, "binding pod %s: its grant has ended meanwhile", a->key);
}

int td_bridge_run_bind(struct td_bridge_run *run, struct td_error *err)
{
	struct td_bridge *b = run->b;
	struct td_ask *a = run->a;
	const struct td_object *pod = run->pod;
	struct td_cancel *c = run->c;

	td_auto_free char *node = td_strdup(run->seat ? run->seat->node : a->nodes);
	const char *devices = run->seat ? run->seat->devices : a->devices;
	if (!node || !*node || strpbrk(node, ",["))
		return td_fail(err, TD_INTERNAL, "job %lld was given nodes \"%s\", one was asked for",
			       (long long)a->job, node ? node : "");

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *notes = grant_notes(d, run, node);
	td_auto(td_object_unref) struct td_object *fresh = NULL, *labelled = NULL;

	int r = fence_passed(run, pod, err);
	if (r || (r = td_private_make(run, err)))
		return r;

	for (int tries = 0;; tries++) {
		struct td_error e = TD_ERROR_INIT;
		if (!td_lease_holds())
			return td_fail(err, TD_CANCELLED, "binding pod %s: another leads now", a->key);

		const struct td_object *is = fresh ? fresh : pod;
		labelled = td_object_unref(labelled);
		r = td_private_label(run, is, &labelled, &e);
		if (!r && labelled && !td_lease_holds())
			return td_fail(err, TD_CANCELLED, "binding pod %s: another leads now", a->key);
		if (!r)
			r = td_kube_bind(b->kube,
					 &(struct td_kube_binding){.ns = pod->ns,
								   .pod = pod->name,
								   .node = node,
								   .uid = pod->uid,
								   .rv = labelled ? labelled->rv : is->rv,
								   .annotations = notes},
					 c, &e);
		if (!r) {
			atomic_fetch_add(&b->n_bound, 1);
			td_bridge_measure_bound(b, a, pod);
			run->p->bound_sent = true;
			td_info("pod %s/%s: bound to %s, Slurm job %lld, devices %s", pod->ns, pod->name, node,
				(long long)a->job, devices);
			td_kube_record(b->recorder, TD_ABOUT(pod, &td_pods), "Normal", "Bound",
				       "bound to %s by Slurm job %lld, devices %s", node, (long long)a->job, devices);
			return 0;
		}

		if (r == TD_NOT_FOUND)
			return 0; // the watch will tell the rest
		if ((r != TD_CONFLICT && r != TD_UNCERTAIN) || tries == 5)
			return td_fail(err, r, "binding pod %s/%s to %s: %.400s", pod->ns, pod->name, node, e.msg);

		// The pod changed, or the reply was lost: read what the pod is now.
		fresh = td_object_unref(fresh);
		r = td_kube_get(b->kube, &td_pods, pod->ns, pod->name, c, &fresh, &e);
		if (r == TD_NOT_FOUND)
			return 0;
		if (r)
			return td_fail(err, r, "binding pod %s: %.400s", a->key, e.msg);

		bool bound = td_jstr(fresh->root, "spec.nodeName"),
		     over = td_object_deleting(fresh) || td_kube_pod_ended(fresh->root),
		     epoch = td_streq(td_object_annotation(fresh, TD_ANN_EPOCH),
				      td_object_annotation(pod, TD_ANN_EPOCH));
		switch (td_pool_rebind(td_streq(fresh->uid, pod->uid), over, bound, epoch)) {
		case TD_REBIND_AGAIN:
			break;
		case TD_REBIND_OVER:
			run->p->bound_sent = true; // decide again when the watch has caught up
			return 0;
		case TD_REBIND_LOST:
			return td_fail(err, TD_CONFLICT, "binding pod %s: its grant was given back meanwhile", a->key);
		}

		if ((r = fence_passed(run, fresh, err)) != 0)
			return r;
	}
}

int td_ask_raise_epoch(struct td_bridge *b, const struct td_object *pod, const char *rv, struct td_cancel *c,
		       struct td_error *err)
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

	int r = td_kube_patch(b->kube, TD_AT(&td_pods, pod->ns, pod->name), TD_PATCH_MERGE, root, c, NULL, err);
	return r == TD_NOT_FOUND ? 0 : r;
}

// The ask has no job any more.
static void forget_job(struct td_bridge *b, struct td_ask *a)
{
	if (td_job_phase(a->states) != TD_PHASE_WAITING) // else its start is when Slurm expected it to
		td_ran_saw(b, a->line, a->job, a->start, td_real_ms(b->clock) / 1000);
	td_ask_pending(b->asks, a, false);
	td_ask_set_job(b->asks, a, 0);
	pthread_mutex_lock(&b->asks->lock);
	a->know = TD_JOB_NONE;
	a->states = a->polled = 0;
	a->look = a->started = a->warned = false;
	td_ask_unbound(a);
	a->ended_ms = a->taking = 0;
	pthread_mutex_unlock(&b->asks->lock);
}

// Ends the job by DELETE with its name.
static int cancel_job(struct td_bridge_run *run, struct td_error *err)
{
	struct td_bridge *b = run->b;
	struct td_ask *a = run->a;
	struct td_error e = TD_ERROR_INIT;
	if (!td_lease_holds())
		return td_fail(err, TD_CANCELLED, "pod %s: another leads now", a->key);

	int r = 0;
	// The gate may hear that the job has ended before we do. Then the pod is told Slurm's reason, which is
	// forgotten with the job.
	if (td_bridge_superseded(run->pod)) {
		r = td_ask_read(b, run->s, run->l->slurm, a, run->c, err);
		if (r || td_slurm_job_ended(a->states))
			return r;
	}
	r = td_slurm_job_end(run->l->slurm, a->job, a->job_name, run->c, &e);
	if (r == TD_CONFLICT) {
		// The job was renamed, or its id is another job's now: read it and decide again.
		td_ask_str(b->asks, &a->job_name, NULL);
		return td_ask_read(b, run->s, run->l->slurm, a, run->c, err);
	}

	if (r && r != TD_NOT_FOUND)
		return td_fail(err, r, "%.500s", e.msg); // the job is read before the next try

	td_info("pod %s: Slurm job %lld ended: %s", a->key, (long long)a->job, a->why ? a->why : "nobody wants it");
	atomic_fetch_add(&b->n_ended_jobs, 1);
	forget_job(b, a);
	return 0;
}

int td_bridge_run_end_job(struct td_bridge_run *run, int64_t *ret_wait_ms, struct td_error *err)
{
	struct td_bridge *b = run->b;
	struct td_ask *a = run->a;
	const struct td_object *pod = run->pod;
	struct td_pool_end e = {.pod = pod,
				.unbound = pod && !td_jstr(pod->root, "spec.nodeName") && !td_object_deleting(pod),
				.batch = a->batch,
				.named = a->job_name && td_ends(a->job_name, a->uid)};

	for (;;) {
		struct td_pool_job j;
		int64_t now = td_now(b), wait;
		bool fence;
		int r = 0;

		td_ask_job(b, a, true, &j);
		e.batch = a->batch;
		e.told_ms = a->ended_ms ? now - a->ended_ms : -1;
		e.settle_ms = e.tried && !a->ended_ms ? td_knocks_settle(b->knocks, now) : 0;

		int what = td_pool_end_job(&e, &j, &wait, &fence);
		if (what == TD_END_TELL || what == TD_END_CANCEL)
			td_ask_note_end(run);
		switch (what) {
		case TD_END_READ:
			r = td_ask_read(b, run->s, run->l->slurm, a, run->c, err);
			if (r)
				return r;
			e.read = true;
			break;
		case TD_END_AGAIN:
			return 0;
		case TD_END_FORGET:
			forget_job(b, a);
			return 0;
		case TD_END_TELL:
			if (td_knocks_end(b->knocks, a->job, a->exit_code))
				a->ended_ms = now;
			e.tried = true;
			break;
		case TD_END_WAIT:
			*ret_wait_ms = wait;
			if (a->ended_ms)
				td_bridge_poll_now(b);
			return 0;
		case TD_END_CANCEL:
			if (fence)
				r = run->gang ? td_gang_raise_epoch(run, err)
					      : td_ask_raise_epoch(b, pod, NULL, run->c, err);
			if (r)
				return r;
			return cancel_job(run, err);
		}
	}
}

// How a grant ended, in the words of the event and of the pod's status.
struct ending {
	const char *event, *reason, *words;
	char message[400];
	int64_t grace_s, signal_s; // signal_s: of grace_s, before TERM
	int signal;                // 0: the pod asked for none
};

// How long it may take at most: what is left of Slurm's grace or time, where that is known.
static int64_t most_s(const struct td_bridge_run *run)
{
	const struct td_ask *a = run->a;
	if (run->yields)
		return run->yields->grace_s;
	int64_t left = a->end - td_real_ms(run->b->clock) / 1000;
	if (!a->warned || a->batch || a->end <= 0)
		return run->s->end_grace_s;
	return left > 1 ? left : 1;
}

static void ending_read(const struct td_bridge_run *run, const char *why, struct ending *ret)
{
	static const struct {
		uint64_t bit;
		const char *event, *reason;
	} table[] = {
		{TD_JOB(PREEMPTED), "Preempted", "Preempted"},   {TD_JOB(TIMEOUT), "TimedOut", "DeadlineExceeded"},
		{TD_JOB(NODE_FAIL), "NodeFailed", "NodeFailed"}, {TD_JOB(PENDING), "Requeued", "Requeued"},
		{TD_JOB(CANCELLED), "Cancelled", "Cancelled"},
	};
	const struct td_ask *a = run->a;
	uint64_t states = !a->warned ? a->states : a->preempt > 0 ? TD_JOB(PREEMPTED) : TD_JOB(TIMEOUT);
	*ret = (struct ending){.event = "GrantEnded", .reason = "GrantEnded"};
	if (run->hangs)
		*ret = (struct ending){.event = "Hangs", .reason = "Hangs"}, states = 0;
	if (run->yields)
		states = TD_JOB(PREEMPTED);
	for (size_t i = TD_LEN(table); i--;)
		if (states & table[i].bit)
			ret->event = table[i].event, ret->reason = table[i].reason;

	ret->words =
		run->yields                                                      ? "it makes room"
		: run->hangs                                                     ? run->hangs
		: a->know == TD_JOB_GONE                                         ? "Slurm does not know it any more"
		: td_slurm_job_ended(a->states) || (a->states & TD_JOB(PENDING)) ? td_slurm_job_end_words(a->states)
		: a->warned ? (a->preempt > 0 ? td_slurm_job_end_words(TD_JOB(PREEMPTED)) : "its time limit is near")
			    : why;
	snprintf(ret->message, sizeof(ret->message), "Slurm job %lld%s%s: %s%s%.250s", (long long)a->job,
		 a->job_user ? " of user " : "", a->job_user ? a->job_user : "", ret->words,
		 run->yields ? ", so that " : "", run->yields ? run->yields->why : "");

	bool bound = td_jstr(run->pod->root, "spec.nodeName");
	int64_t own = td_jint(run->pod->root, "spec.terminationGracePeriodSeconds", DEFAULT_GRACE_S);
	int64_t most = most_s(run);
	ret->grace_s = td_pool_end_grace_s(bound, own, most);

	// Who ended it himself, by scancel, wants no checkpoint.
	const char *signal = td_object_annotation(run->pod, td_annotations[TD_ASKS_SIGNAL].name);
	bool told = states & (TD_JOB(PREEMPTED) | TD_JOB(TIMEOUT));
	if (bound && told && signal && !td_api_signal_read(signal, &ret->signal, &ret->signal_s, NULL)) {
		ret->signal_s = td_pool_end_signal_s(ret->signal_s, own, most);
		int64_t rest = most - ret->signal_s;
		ret->grace_s = ret->signal_s + (own < rest ? own : rest);
	}
}

struct td_json *td_bridge_pod_ended(const struct td_object *pod)
{
	const char *text = td_object_annotation(pod, TD_ANN_ENDED);
	struct td_json *j = NULL;
	return text && !td_json_parse(text, strlen(text), &j, NULL) ? j : NULL;
}

// For how long the pod's kubelet has known that the grant ended; -1: it was not told. *grace_s: what it was told, which
// stands whatever the reason is now.
static int64_t asked_ms(struct td_bridge *b, const struct td_object *pod, int64_t *grace_s)
{
	td_auto(td_json_unref) struct td_json *j = td_bridge_pod_ended(pod);
	if (!j)
		return -1;
	*grace_s = td_jint(td_json_root(j), "graceSeconds", *grace_s);
	int64_t ms = td_real_ms(b->clock) - td_jint(td_json_root(j), "at", 0) * 1000;
	return ms > 0 ? ms : 0;
}

// Tells the pod's kubelet to fail the pod: a kubelet does so when activeDeadlineSeconds is over,
// which may only become shorter, and says "Failed" when the last container is gone. The annotation
// tells Tandem's own kubelet reason and grace, and everybody why.
static int ask_kubelet(struct td_bridge_run *run, const struct ending *x, const char *rv, struct td_error *err)
{
	const struct td_object *pod = run->pod;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new(), *n = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *note = yyjson_mut_doc_get_root(n);

	td_jm_str(n, note, "reason", x->reason);
	td_jm_str(n, note, "message", x->message);
	td_jm_int(n, note, "graceSeconds", x->grace_s);
	if (x->signal) {
		td_jm_str(n, note, "signal", td_api_signal_name(x->signal));
		td_jm_int(n, note, "signalSeconds", x->signal_s);
	}
	if (run->yields) {
		td_jm_int(n, note, "for", run->yields->waiter);
		td_jm_str(n, note, "why", run->yields->why);
	}
	td_jm_int(n, note, "at", td_real_ms(run->b->clock) / 1000);
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(note);
	td_auto_free char *text = td_json_text(td_json_root(j), NULL);

	td_jm_str(d, root, "metadata.uid", pod->uid);
	td_jm_str(d, root, "metadata.resourceVersion", rv);
	td_jm_key_str(d, td_jm_obj(d, root, "metadata.annotations"), TD_ANN_ENDED, text);
	td_jm_int(d, root, "spec.activeDeadlineSeconds", 1);
	return td_kube_patch(run->b->kube, TD_AT(&td_pods, pod->ns, pod->name), TD_PATCH_MERGE, root, run->c, NULL,
			     err);
}

// Fails a pod that no kubelet has seen.
static int fail_unbound(struct td_bridge_run *run, const struct ending *x, const char *rv, struct td_error *err)
{
	const struct td_object *pod = run->pod;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "metadata.uid", pod->uid);
	td_jm_str(d, root, "metadata.resourceVersion", rv);
	td_jm_str(d, root, "status.phase", "Failed");
	td_jm_str(d, root, "status.reason", x->reason);
	td_jm_str(d, root, "status.message", x->message);
	return td_kube_patch(run->b->kube, TD_AT(&td_pods, pod->ns, pod->name, "status"), TD_PATCH_MERGE, root, run->c,
			     NULL, err);
}

static int delete_pod(struct td_bridge_run *run, const struct ending *x, const char *rv, struct td_error *err)
{
	const struct td_object *pod = run->pod;
	const struct td_kube_delete_opts del = {.uid = pod->uid, .rv = rv, .grace_s = (int)x->grace_s};
	return td_kube_delete(run->b->kube, &td_pods, pod->ns, pod->name, &del, run->c, err);
}

static bool same_grant(const struct td_object *x, const struct td_object *y)
{
	static const char *const keys[] = {TD_ANN_JOB, TD_ANN_START, TD_ANN_RESTARTS, TD_ANN_EPOCH};
	bool same = td_streq(td_jstr(x->root, "spec.nodeName"), td_jstr(y->root, "spec.nodeName"));
	for (size_t i = 0; i < TD_LEN(keys); i++)
		same &= td_streq(td_object_annotation(x, keys[i]), td_object_annotation(y, keys[i]));
	return same;
}

static bool node_ready(struct td_bridge *b, const char *name)
{
	td_auto(td_object_unref) struct td_object *node = name ? td_informer_get(b->nodes, NULL, name) : NULL;
	return node && td_streq(td_jstr(td_condition(node->root, "Ready"), "status"), "True");
}

int td_bridge_run_end_pod(struct td_bridge_run *run, const char *why, struct td_error *err)
{
	struct td_bridge *b = run->b;
	struct td_ask *a = run->a;
	const struct td_object *pod = run->pod;
	const char *node = td_jstr(pod->root, "spec.nodeName"), *rv = pod->rv;
	struct ending x;

	ending_read(run, why, &x);
	struct td_pool_ending e = {
		.bound = node, .node_ready = td_kube_pod_ended(pod->root) || node_ready(b, node), .grace_s = x.grace_s};
	e.asked_ms = asked_ms(b, pod, &e.grace_s);
	int64_t wait;
	enum td_pool_ending_do what = run->remove ? TD_ENDING_DELETE : td_pool_ending(&e, &wait);
	if (what == TD_ENDING_WAIT) {
		td_bridge_run_again(run, wait);
		return 0;
	}
	if (run->p->ending_sent & 1U << what)
		return 0; // the watch will show it

	struct td_error fault = TD_ERROR_INIT;
	td_auto(td_object_unref) struct td_object *fresh = NULL;
	int r;

	for (int tries = 0;; tries++) {
		if (!td_lease_holds())
			return td_fail(err, TD_CANCELLED, "ending pod %s: another leads now", a->key);
		r = (what == TD_ENDING_FAIL  ? fail_unbound
		     : what == TD_ENDING_ASK ? ask_kubelet
					     : delete_pod)(run, &x, rv, &fault);
		if (r != TD_CONFLICT || tries == 5)
			break;

		// The pod changed meanwhile. Another leader may have given it a new grant: end it
		// only if it still carries the one that has ended.
		fresh = td_object_unref(fresh);
		r = td_kube_get(b->kube, &td_pods, pod->ns, pod->name, run->c, &fresh, &fault);
		if (r)
			break;
		if (strcmp(fresh->uid, pod->uid) != 0) {
			r = TD_NOT_FOUND;
			break;
		}
		if (!same_grant(pod, fresh))
			return td_fail(err, TD_CONFLICT, "ending pod %s: its grant changed meanwhile", a->key);
		rv = fresh->rv;
	}

	if (r && r != TD_NOT_FOUND)
		return td_fail(err, r, "ending pod %s, whose grant ended: %.400s", a->key, fault.msg);

	run->p->ending_sent |= 1U << what;
	if (r)
		return 0;

	td_info("pod %s: %s: %s (%s)", a->key, x.message,
		what == TD_ENDING_DELETE ? "the pod is deleted" : "the pod ends", why);
	if (e.asked_ms >= 0)
		return 0; // it was told of before
	atomic_fetch_add(&b->n_ended_pods, 1);
	td_kube_record(b->recorder, TD_ABOUT(pod, &td_pods), "Warning", x.event,
		       "Slurm job %lld: %s; the pod gets %d s to end", (long long)a->job, x.words, (int)x.grace_s);
	return 0;
}
