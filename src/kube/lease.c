// Leader election by a coordination.k8s.io Lease, as in client-go. The age of a Lease is the time
// for which this process has seen it unchanged, so clocks of different machines are never compared.
// A leader that could not renew within the renew deadline stops leading before others may take
// over. A leader that was frozen meanwhile learns of it from its next renewal, because the Lease
// has another resourceVersion.
#include "base/log.h"
#include "base/rand.h"
#include "kube/controller.h"
#include "kube/health.h"
#include "metrics/metrics.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>

enum { RELEASE_MS = 500, STOP_MS = 60000 };

struct elector {
	struct td_kube *k;
	const struct td_lease_opts *o;
	int64_t duration, retry, deadline; // ms
	char *seen;                        // the resourceVersion seen last
	// The Lease as our last write left it, so that the next write needs no read before it.
	struct td_object *held;
	bool others;     // the last try found another holder
	int64_t seen_at; // when `seen` was first seen, mono ms
};

static yyjson_mut_doc *spec_patch(const struct elector *e, const struct td_object *cur, bool release)
{
	char t[TD_TIME_LEN];
	td_time_format_micro(td_real_ms(&td_clock_system), t);
	yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);

	if (cur) {
		td_jm_str(d, o, "metadata.uid", cur->uid);
		td_jm_str(d, o, "metadata.resourceVersion", cur->rv);
	} else {
		td_jm_str(d, o, "apiVersion", "coordination.k8s.io/v1");
		td_jm_str(d, o, "kind", "Lease");
		td_jm_str(d, o, "metadata.name", e->o->name);
		td_jm_str(d, o, "metadata.namespace", e->o->ns);
	}

	bool ours = cur && td_streq(td_jstr(cur->root, "spec.holderIdentity"), e->o->identity);
	td_jm_str(d, o, "spec.holderIdentity", release ? "" : e->o->identity);
	td_jm_int(d, o, "spec.leaseDurationSeconds", release ? 1 : e->duration / 1000);
	td_jm_str(d, o, "spec.renewTime", t);
	if (!ours) {
		td_jm_str(d, o, "spec.acquireTime", t);
		td_jm_int(d, o, "spec.leaseTransitions", cur ? td_jint(cur->root, "spec.leaseTransitions", 0) + 1 : 0);
	}
	return d;
}

static int write_lease(struct elector *e, struct td_object *cur, struct td_cancel *c, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = spec_patch(e, cur, false);
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	struct td_object *now = NULL;
	int r = cur ? td_kube_patch(e->k, TD_AT(&td_leases, e->o->ns, e->o->name), TD_PATCH_MERGE, o, c, &now, err)
		    : td_kube_create(e->k, &td_leases, e->o->ns, o, c, &now, err);
	td_object_unref(e->held);
	e->held = r ? NULL : now;
	return r;
}

// Tries once to take or renew the Lease. 0: this process leads as of the time at which the call
// began. TD_CONFLICT: somebody else leads.
static int try_lease(struct elector *e, struct td_cancel *c, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *cur = td_object_ref(e->held);
	e->others = false;
	if (cur && write_lease(e, cur, c, NULL) == 0)
		return 0;
	cur = td_object_unref(cur);
	int r = td_kube_get(e->k, &td_leases, e->o->ns, e->o->name, c, &cur, err);
	if (r && r != TD_NOT_FOUND)
		return r;
	if (r) {
		r = write_lease(e, NULL, c, err);
		return r == TD_EXISTS ? td_fail(err, TD_CONFLICT, "lease %s/%s was just taken", e->o->ns, e->o->name)
				      : r;
	}

	const char *holder = td_jstr_or(cur->root, "spec.holderIdentity", "");
	int64_t now = td_mono_ms(&td_clock_system);
	if (!td_streq(e->seen, cur->rv)) {
		free(e->seen);
		e->seen = td_strdup(cur->rv);
		e->seen_at = now;
	}

	// The holder's own duration counts: it may be configured with a longer one.
	int64_t theirs = td_jint(cur->root, "spec.leaseDurationSeconds", 15) * 1000;
	if (*holder && !td_streq(holder, e->o->identity) && now - e->seen_at < theirs) {
		e->others = true;
		return td_fail(err, TD_CONFLICT, "lease %s/%s is held by %s", e->o->ns, e->o->name, holder);
	}

	return write_lease(e, cur, c, err);
}

static void show(const struct td_lease_opts *o, bool leads)
{
	td_auto_free char *name = td_asprintf("%s/%s", o->ns, o->name);
	td_metric_set(td_gauge(td_metrics_process(), "tandem_leader",
			       "1 while this process leads by this Lease (namespace/name), 0 while it stands in line "
			       "behind another.",
			       TD_LABELS("lease")),
		      leads, TD_LABELS(name));
}

static void failed(double by)
{
	td_metric_add(td_counter(td_metrics_process(), "tandem_lease_errors_total",
				 "Tries to read or renew the Lease of this role that failed; another's being the "
				 "leader is no failure.",
				 NULL),
		      by, NULL);
}

// Until when this process leads, in mono ms. 0: it never stood for election; -1: it does not lead.
// Atomic.
static int64_t leads_until;

static void lead_until(int64_t at)
{
	__atomic_store_n(&leads_until, at, __ATOMIC_RELEASE);
}

bool td_lease_holds(void)
{
	int64_t at = __atomic_load_n(&leads_until, __ATOMIC_ACQUIRE);
	return !at || td_mono_ms(&td_clock_system) <= at;
}

struct farewell {
	struct td_cancel *done, *enough;
};

static void *watchdog(void *arg)
{
	struct farewell *w = arg;
	if (!td_cancel_wait(w->done, RELEASE_MS))
		td_cancel_fire(w->enough);
	return NULL;
}

// Releasing the Lease is a courtesy to the next leader. An API server that does not answer must not
// keep this process from ending, so a second thread cancels after RELEASE_MS.
static void release(struct elector *e)
{
	td_auto(td_object_unref) struct td_object *cur = NULL;
	td_auto(td_cancel_unref) struct td_cancel *done = td_cancel_new(), *enough = td_cancel_new();
	struct farewell w = {done, enough};
	pthread_t t;
	if (pthread_create(&t, NULL, watchdog, &w))
		return;

	if (!td_kube_get(e->k, &td_leases, e->o->ns, e->o->name, enough, &cur, NULL) &&
	    td_streq(td_jstr(cur->root, "spec.holderIdentity"), e->o->identity)) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = spec_patch(e, cur, true);
		(void)td_kube_patch(e->k, TD_AT(&td_leases, e->o->ns, e->o->name), TD_PATCH_MERGE,
				    yyjson_mut_doc_get_root(d), enough, NULL, NULL);
	}

	td_cancel_fire(done);
	pthread_join(t, NULL);
}

struct renewal {
	struct elector *e;
	// Fires when outer fires or leadership is lost: it ends the leader's work.
	struct td_cancel *outer, *inner;
	struct td_cancel *stop;   // fired when the work is done
	struct td_loop *stopping; // busy from the loss of leadership until the work has ended
	int64_t renewed;          // atomic, mono ms
	bool lost;                // atomic
};

static void lose(struct renewal *w)
{
	if (__atomic_exchange_n(&w->lost, true, __ATOMIC_ACQ_REL))
		return;
	lead_until(-1);
	show(w->e->o, false);
	td_loop_busy(w->stopping);
	td_cancel_fire(w->inner);
}

// Ends the leader's work at once when outer fires or the renewal is overdue. It is a thread of its
// own because the renewer may be inside a request that nobody answers. It also works after the
// whole process was frozen.
static void *overdue(void *arg)
{
	struct renewal *w = arg;
	struct pollfd p[2] = {{td_cancel_fd(w->stop), POLLIN, 0}, {w->outer ? td_cancel_fd(w->outer) : -1, POLLIN, 0}};
	while (!td_cancelled(w->stop)) {
		if (w->outer && td_cancelled(w->outer)) {
			td_cancel_fire(w->inner);
			return NULL;
		}
		int64_t left =
			__atomic_load_n(&w->renewed, __ATOMIC_ACQUIRE) + w->e->deadline - td_mono_ms(&td_clock_system);
		if (left < 0) {
			lose(w);
			return NULL;
		}
		poll(p, 2, left < 60000 ? (int)left + 1 : 60000);
	}
	return NULL;
}

static void *renew(void *arg)
{
	struct renewal *w = arg;
	struct elector *e = w->e;
	while (!td_cancel_wait(w->stop, e->retry)) {
		int64_t start = td_mono_ms(&td_clock_system);
		struct td_error err = TD_ERROR_INIT;
		int r = try_lease(e, w->stop, &err);
		if (td_cancelled(w->stop))
			break;
		if (!r) {
			__atomic_store_n(&w->renewed, start, __ATOMIC_RELEASE);
			if (!__atomic_load_n(&w->lost, __ATOMIC_ACQUIRE))
				lead_until(start + e->deadline);
			continue;
		}

		td_debug("lease %s/%s: %s", e->o->ns, e->o->name, err.msg);
		if (e->others) {
			lose(w);
			break;
		}
		failed(1);
	}
	return NULL;
}

int td_lease_run(struct td_kube *k, const struct td_lease_opts *o, struct td_cancel *cancel,
		 int (*fn)(void *ctx, struct td_cancel *c, struct td_error *err), void *ctx, struct td_error *err)
{
	struct elector e = {.k = k, .o = o};
	e.duration = (o->duration_s > 0 ? o->duration_s : 15) * 1000;
	e.retry = o->retry_s > 0 ? o->retry_s * 1000 : e.duration * 2 / 15;
	e.deadline = o->renew_s > 0 ? o->renew_s * 1000 : e.duration * 2 / 3;

	show(o, false);
	failed(0);
	td_health_set("lease", "it was not read yet");
	int64_t start;
	for (;;) {
		struct td_error why = TD_ERROR_INIT;
		start = td_mono_ms(&td_clock_system);
		int r = try_lease(&e, cancel, &why);
		if (!r)
			break;

		td_debug("lease %s/%s: %s", o->ns, o->name, why.msg);
		if (e.others)
			td_health_set("lease", NULL); // a follower is ready to take over
		else if (r != TD_CONFLICT && !td_cancelled(cancel))
			failed(1);
		// These stay until somebody fixes the configuration, so they are logged as
		// warnings.
		if (r == TD_DENIED || r == TD_INVALID || r == TD_UNAUTHENTICATED)
			td_warn("lease %s/%s: %s", o->ns, o->name, why.msg);

		// Followers ask a little more often than leaders renew, so that a released Lease is
		// soon taken.
		int64_t ms = e.retry / 2;
		if (td_cancel_wait(cancel, ms + td_random_below((uint32_t)(ms / 4 + 1)))) {
			free(e.seen);
			td_object_unref(e.held);
			return td_fail(err, TD_CANCELLED, "cancelled while waiting for lease %s/%s", o->ns, o->name);
		}
	}

	td_auto(td_cancel_unref) struct td_cancel *inner = td_cancel_new();
	td_auto(td_cancel_unref) struct td_cancel *stop = td_cancel_new();
	struct td_loop *stopping = td_loop_new("the end of leadership", STOP_MS);
	struct renewal w = {
		.e = &e, .outer = cancel, .inner = inner, .stop = stop, .stopping = stopping, .renewed = start};
	show(o, true);
	lead_until(start + e.deadline);
	td_health_set("lease", NULL);

	pthread_t threads[2];
	void *(*const fns[])(void *) = {renew, overdue};
	int r, made = 0, n = 0;
	while (n < 2 && !(made = pthread_create(&threads[n], NULL, fns[n], &w)))
		n++;
	if (made)
		r = td_fail_errno(err, TD_INTERNAL, made, "lease %s/%s: no thread", o->ns, o->name);
	else
		r = fn(ctx, inner, err);

	td_cancel_fire(stop);
	while (n > 0)
		pthread_join(threads[--n], NULL);
	lead_until(-1);

	if (w.lost)
		r = td_fail(err, TD_CONFLICT, "leadership of lease %s/%s was lost", o->ns, o->name);
	else
		release(&e);

	show(o, false);
	free(e.seen);
	td_object_unref(e.held);
	td_loop_free(stopping);
	return r;
}

int td_lease_check(const struct td_lease_opts *o, struct td_error *err)
{
	int64_t duration = (o->duration_s > 0 ? o->duration_s : 15) * 1000,
		renew = o->renew_s > 0 ? o->renew_s * 1000 : duration * 2 / 3,
		retry = o->retry_s > 0 ? o->retry_s * 1000 : duration * 2 / 15;
	if (duration > renew && renew > retry)
		return 0;
	return td_fail(err, TD_INVALID,
		       "--lease-duration (%lld ms) must be longer than --renew-deadline (%lld ms), and that longer "
		       "than --retry-period (%lld ms)",
		       (long long)duration, (long long)renew, (long long)retry);
}
