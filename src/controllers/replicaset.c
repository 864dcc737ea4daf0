// ReplicaSet: as many active pods as spec.replicas says. Pods are deleted in Kubernetes' order:
// those not scheduled, pending, not ready, cheaper to delete, ready for a shorter time, with more
// restarts, newer.
#include "controllers/ctl.h"

#include "api/condition.h"
#include "base/rand.h"

#include <stdio.h>
#include <string.h>

#define BURST 500

static struct ctl_orphans { // one per process, like the controller
	struct ctl *c;
	struct td_queue *queue;
} orphans;

static const char *deletion_cost(const struct td_object *p)
{
	const char *s = td_object_annotation(p, "controller.kubernetes.io/pod-deletion-cost");
	return s ? s : "0";
}

static int phase_rank(const struct td_object *p)
{
	const char *phase = td_jstr_or(p->root, "status.phase", "");
	return !strcmp(phase, "Pending") || !*phase ? 0 : !strcmp(phase, "Unknown") ? 1 : 2;
}

static long long restarts(const struct td_object *p)
{
	long long most = 0;
	size_t i, n;
	yyjson_val *s, *all = td_jget(p->root, "status.containerStatuses");
	yyjson_arr_foreach (all, i, n, s)
		if (td_jint(s, "restartCount", 0) > most)
			most = td_jint(s, "restartCount", 0);
	return most;
}

// Less than 0: a is deleted first.
static int by_deletion(const void *pa, const void *pb)
{
	const struct td_object *a = *(struct td_object *const *)pa, *b = *(struct td_object *const *)pb;
	bool na = *td_jstr_or(a->root, "spec.nodeName", ""), nb = *td_jstr_or(b->root, "spec.nodeName", "");
	if (na != nb)
		return na ? 1 : -1;

	if (phase_rank(a) != phase_rank(b))
		return phase_rank(a) - phase_rank(b);

	bool ra = ctl_pod_ready(a), rb = ctl_pod_ready(b);
	if (ra != rb)
		return ra ? 1 : -1;

	long long ca = 0, cb = 0;
	td_parse_i64(deletion_cost(a), &ca);
	td_parse_i64(deletion_cost(b), &cb);
	if (ca != cb)
		return ca < cb ? -1 : 1;

	if (ra) {
		int64_t ta = ctl_time(td_condition(a->root, "Ready"), "lastTransitionTime");
		int64_t tb = ctl_time(td_condition(b->root, "Ready"), "lastTransitionTime");
		if (ta != tb)
			return ta > tb ? -1 : 1;
	}

	if (restarts(a) != restarts(b))
		return restarts(a) > restarts(b) ? -1 : 1;
	return -ctl_by_creation(pa, pb);
}

static int scale(struct ctl *c, const struct td_object *rs, struct td_objects *active, long long want,
		 struct td_cancel *cancel, struct td_error *err)
{
	long long have = (long long)active->n;
	for (long long i = have; i < want && i < have + BURST; i++) {
		char tail[8];
		td_random_name(tail, 5);
		td_auto_free char *name = td_asprintf("%.57s-%s", rs->name, tail);
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *pod = ctl_pod_from(rs, &td_replicasets, name);
		int r = ctl_create_pod(c, c->rs_expect, rs, &td_replicasets, pod, cancel, err);
		if (r && r != TD_EXISTS)
			return r;
	}

	if (have > want) {
		ctl_sort(active, by_deletion);
		for (long long i = 0; i < have - want && i < BURST; i++) {
			int r = ctl_delete_pod(c, c->rs_expect, rs, &td_replicasets, active->v[i], cancel, err);
			if (r)
				return r;
		}
	}
	return 0;
}

static bool has_labels(const yyjson_val *have, const yyjson_val *want)
{
	size_t i, n;
	yyjson_val *k, *v;
	yyjson_obj_foreach ((yyjson_val *)want, i, n, k, v)
		if (!td_streq(td_jkey_str(have, yyjson_get_str(k)), yyjson_get_str(v)))
			return false;
	return true;
}

static int write_status(struct ctl *c, const struct td_object *rs, const struct td_objects *active,
			const struct td_error *failed, int64_t *again, struct td_cancel *cancel, struct td_error *err)
{
	long long ready = 0, available = 0, labeled = 0, min_ready = td_jint(rs->root, "spec.minReadySeconds", 0);
	int64_t now = td_real_ms(c->clock);

	for (size_t i = 0; i < active->n; i++) {
		const struct td_object *p = active->v[i];
		labeled += has_labels(td_jget(p->root, "metadata.labels"),
				      td_jget(rs->root, "spec.template.metadata.labels"));
		ready += ctl_pod_ready(p);
		available += ctl_pod_available(p, min_ready, now, again);
	}

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *s = yyjson_mut_doc_get_root(d);
	td_jm_int(d, s, "replicas", (long long)active->n);
	td_jm_int(d, s, "fullyLabeledReplicas", labeled);
	td_jm_int(d, s, "readyReplicas", ready);
	td_jm_int(d, s, "availableReplicas", available);
	td_jm_int(d, s, "observedGeneration", td_jint(rs->root, "metadata.generation", 0));

	yyjson_mut_val *conds = td_jm_arr(d, s, "conditions");
	if (failed->code)
		td_condition_add(d, conds, td_jget(rs->root, "status.conditions"),
				 TD_CONDITION("ReplicaFailure", "True",
					      (long long)active->n > td_jint(rs->root, "spec.replicas", 1)
						      ? "FailedDelete"
						      : "FailedCreate",
					      failed->msg),
				 now);

	return ctl_write_status(c, &td_replicasets, rs, s, cancel, err);
}

static int reconcile(void *ctx, const char *key, int64_t *again, struct td_cancel *cancel, struct td_error *err)
{
	struct ctl *c = ctx;
	td_auto_free char *ns = NULL, *name = NULL;
	td_key_split(key, &ns, &name);
	td_auto(td_object_unref) struct td_object *rs = td_informer_get(c->replicasets, ns, name);
	if (!rs)
		return 0;

	bool settled = ctl_expect_done(c->rs_expect, rs->uid);
	td_auto_objects struct td_objects pods = {0}, active = {0};
	int r = ctl_claim(c, c->pods, &td_pods, rs, &td_replicasets, cancel, &pods, err);
	if (r)
		return r;

	for (size_t i = 0; i < pods.n; i++)
		if (ctl_pod_active(pods.v[i]))
			td_objects_add(&active, td_object_ref(pods.v[i]));

	struct td_error failed = TD_ERROR_INIT;
	long long want = td_jint(rs->root, "spec.replicas", 1);
	if (settled && !td_object_deleting(rs) && want != (long long)active.n)
		scale(c, rs, &active, want, cancel, &failed);

	if (failed.code == TD_CANCELLED)
		return TD_CANCELLED;

	r = write_status(c, rs, &active, &failed, again, cancel, err);
	if (!r && failed.code) {
		if (err)
			*err = failed;
		return failed.code;
	}
	return r;
}

static void on_pod(void *ctx, struct td_object *old, struct td_object *now)
{
	struct ctl *c = ctx;
	ctl_expect_pod(c->rs_expect, "ReplicaSet", old, now);
}

// A ReplicaSet whose selector matches may want a pod without an owner.
static void on_orphan(void *ctx, struct td_object *old, struct td_object *now)
{
	struct ctl_orphans *x = ctx;
	if (!now || td_object_owner(now) || td_object_deleting(now))
		return;
	td_auto_objects struct td_objects all = {0};
	td_informer_list(x->c->replicasets, now->ns, &all);
	ctl_enqueue_matching(x->queue, &all, now);
}

static void on_rs_gone(void *ctx, struct td_object *old, struct td_object *now)
{
	struct ctl *c = ctx;
	if (!now)
		ctl_expect_forget(c->rs_expect, old->uid);
}

void ctl_replicaset(struct ctl *c, struct td_controller *ret)
{
	*ret = (struct td_controller){"replicaset", 4, td_queue_new(c->clock), reconcile, c};
	td_informer_on_change(c->replicasets, on_rs_gone, c);
	td_informer_on_change(c->replicasets, td_enqueue_self, ret->queue);
	// Register this before the enqueue: the worker must see that the expectation is fulfilled.
	td_informer_on_change(c->pods, on_pod, c);
	td_informer_on_change(c->pods, td_enqueue_owner, ret->queue);
	orphans = (struct ctl_orphans){c, ret->queue};
	td_informer_on_change(c->pods, on_orphan, &orphans);
}
