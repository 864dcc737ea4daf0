// Leader election by a coordination.k8s.io Lease, as client-go does it: the lease's age is how long *we* have seen it unchanged, so no two
// clocks are compared. A leader that could not renew for two thirds of the duration counts itself out, well before others may take over.
#include "base/log.h"
#include "base/rand.h"
#include "kube/controller.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>

enum { RELEASE_MS = 500 };

struct elector {
	struct td_kube *k;
	const struct td_lease_opts *o;
	int64_t duration, retry, deadline; // ms
	char *seen;                        // resourceVersion that we saw last
	bool others;                       // the last try found it held by somebody else
	int64_t seen_at;                   // when we first saw it
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
	td_jm_int(d, o, "spec.leaseDurationSeconds", release ? 1 : e->o->duration_s > 0 ? e->o->duration_s : 15);
	td_jm_str(d, o, "spec.renewTime", t);
	if (!ours) {
		td_jm_str(d, o, "spec.acquireTime", t);
		td_jm_int(d, o, "spec.leaseTransitions", cur ? td_jint(cur->root, "spec.leaseTransitions", 0) + 1 : 0);
	}
	return d;
}

// One try to take or renew. 0: we lead as of the time this call began. TD_CONFLICT: somebody else does.
static int try_lease(struct elector *e, struct td_cancel *c, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *cur = NULL;
	e->others = false;
	int r = td_kube_get(e->k, &td_leases, e->o->ns, e->o->name, c, &cur, err);
	if (r && r != TD_NOT_FOUND)
		return r;
	if (r) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = spec_patch(e, NULL, false);
		r = td_kube_create(e->k, &td_leases, e->o->ns, yyjson_mut_doc_get_root(d), c, NULL, err);
		return r == TD_EXISTS ? td_fail(err, TD_CONFLICT, "lease %s/%s was just taken", e->o->ns, e->o->name) : r;
	}
	const char *holder = td_jstr_or(cur->root, "spec.holderIdentity", "");
	int64_t now = td_mono_ms(&td_clock_system);
	if (!td_streq(e->seen, cur->rv)) {
		free(e->seen);
		e->seen = td_strdup(cur->rv);
		e->seen_at = now;
	}
	// The holder's own duration counts: it may have been configured with a longer one.
	int64_t theirs = td_jint(cur->root, "spec.leaseDurationSeconds", 15) * 1000;
	if (*holder && !td_streq(holder, e->o->identity) && now - e->seen_at < theirs) {
		e->others = true;
		return td_fail(err, TD_CONFLICT, "lease %s/%s is held by %s", e->o->ns, e->o->name, holder);
	}
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = spec_patch(e, cur, false);
	return td_kube_patch(e->k, &td_leases, e->o->ns, e->o->name, NULL, TD_PATCH_MERGE, yyjson_mut_doc_get_root(d), c, NULL, err);
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

// A courtesy to whoever comes next: an API server that does not answer must not keep us from ending.
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
		(void)td_kube_patch(e->k, &td_leases, e->o->ns, e->o->name, NULL, TD_PATCH_MERGE, yyjson_mut_doc_get_root(d), enough, NULL,
				    NULL);
	}
	td_cancel_fire(done);
	pthread_join(t, NULL);
}

struct renewal {
	struct elector *e;
	struct td_cancel *outer, *inner; // inner: the leader's work; fired when outer is, or when leadership is lost
	struct td_cancel *stop;          // fired when the work is done
	int64_t renewed;
	bool lost;
};

// Hands the outer cancel on at once, while the renewer may be inside a request.
static void *pass_on(void *arg)
{
	struct renewal *w = arg;
	struct pollfd p[2] = {{td_cancel_fd(w->outer), POLLIN, 0}, {td_cancel_fd(w->stop), POLLIN, 0}};
	while (!td_cancelled(w->outer) && !td_cancelled(w->stop))
		poll(p, 2, -1);
	if (td_cancelled(w->outer))
		td_cancel_fire(w->inner);
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
			w->renewed = start;
			continue;
		}
		td_debug("lease %s/%s: %s", e->o->ns, e->o->name, err.msg);
		if (e->others || td_mono_ms(&td_clock_system) - w->renewed > e->deadline) {
			w->lost = true;
			td_cancel_fire(w->inner);
			break;
		}
	}
	return NULL;
}

int td_lease_run(struct td_kube *k, const struct td_lease_opts *o, struct td_cancel *cancel,
		 int (*fn)(void *ctx, struct td_cancel *c, struct td_error *err), void *ctx, struct td_error *err)
{
	struct elector e = {.k = k, .o = o};
	e.duration = (o->duration_s > 0 ? o->duration_s : 15) * 1000;
	e.retry = e.duration / 3;
	e.deadline = e.duration * 2 / 3;
	int64_t start;
	for (;;) {
		struct td_error why = TD_ERROR_INIT;
		start = td_mono_ms(&td_clock_system);
		int r = try_lease(&e, cancel, &why);
		if (!r)
			break;
		td_debug("lease %s/%s: %s", o->ns, o->name, why.msg);
		if (r == TD_DENIED || r == TD_INVALID || r == TD_UNAUTHENTICATED)
			td_warn("lease %s/%s: %s", o->ns, o->name, why.msg); // stays until somebody mends it: say so
		// Followers ask a little more often than leaders renew, so a released lease is soon taken.
		int64_t ms = e.retry / 2;
		if (td_cancel_wait(cancel, ms + td_random_below((uint32_t)(ms / 4 + 1)))) {
			free(e.seen);
			return td_fail(err, TD_CANCELLED, "cancelled while waiting for lease %s/%s", o->ns, o->name);
		}
	}
	td_auto(td_cancel_unref) struct td_cancel *inner = td_cancel_new();
	td_auto(td_cancel_unref) struct td_cancel *stop = td_cancel_new();
	struct renewal w = {.e = &e, .outer = cancel, .inner = inner, .stop = stop, .renewed = start};
	pthread_t renewer, passer;
	int r, made = pthread_create(&renewer, NULL, renew, &w);
	if (made) {
		release(&e);
		free(e.seen);
		return td_fail_errno(err, TD_INTERNAL, made, "lease %s/%s: no thread", o->ns, o->name);
	}
	made = cancel ? pthread_create(&passer, NULL, pass_on, &w) : 0;
	if (made)
		r = td_fail_errno(err, TD_INTERNAL, made, "lease %s/%s: no thread", o->ns, o->name);
	else
		r = fn(ctx, inner, err);
	td_cancel_fire(stop);
	pthread_join(renewer, NULL);
	if (cancel && !made)
		pthread_join(passer, NULL);
	if (w.lost)
		r = td_fail(err, TD_CONFLICT, "leadership of lease %s/%s was lost", o->ns, o->name);
	else
		release(&e);
	free(e.seen);
	return r;
}
