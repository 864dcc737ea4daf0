// Pods that nobody will end: bound to a node that does not exist; being deleted without ever having
// been placed; left on a node with a NoExecute taint for longer than they tolerate; or finished in
// such numbers that they only fill the store.
#include "controllers/ctl.h"

#include <stdio.h>
#include <string.h>

#define TICK "~tick" // no pod's key, because it has no '/'
#define TICK_MS 20000
#define FINISHED_MAX 12500

struct td_ctl_podgc {
	struct td_ctl *c;
	struct td_queue *queue;
};

void td_ctl_podgc_free(struct td_ctl_podgc *p)
{
	free(p);
}

static int force_delete(struct td_ctl *c, const struct td_object *pod, struct td_cancel *cancel, struct td_error *err)
{
	const struct td_kube_delete_opts opts = {.uid = pod->uid, .grace_s = 0};
	int r = td_kube_delete(c->kube, &td_pods, pod->ns, pod->name, &opts, cancel, err);
	return r == TD_NOT_FOUND || r == TD_CONFLICT ? 0 : r;
}

// Sets the phase to Failed before it deletes the pod: an owner that counts failures must see one.
static int fail_and_delete(struct td_ctl *c, const struct td_object *pod, const char *why, struct td_cancel *cancel,
			   struct td_error *err)
{
	if (!td_ctl_pod_finished(pod)) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *p = yyjson_mut_doc_get_root(d), *conds = td_jm_arr(d, p, "status.conditions");
		yyjson_val *old = td_jget(pod->root, "status.conditions"), *e;
		size_t i, n;
		yyjson_arr_foreach (old, i, n, e)
			if (!td_streq(td_jstr(e, "type"), "DisruptionTarget"))
				yyjson_mut_arr_append(conds, yyjson_val_mut_copy(d, e));

		td_ctl_pod_condition(d, conds, pod, TD_CONDITION("DisruptionTarget", "True", "DeletionByPodGC", why),
				     td_real_ms(c->clock));
		td_jm_str(d, p, "metadata.uid", pod->uid);
		td_jm_str(d, p, "metadata.resourceVersion", pod->rv);
		td_jm_str(d, p, "status.phase", "Failed");
		int r = td_kube_patch(c->kube, TD_AT(&td_pods, pod->ns, pod->name, "status"), TD_PATCH_MERGE, p, cancel,
				      NULL, err);
		if (r)
			return r == TD_NOT_FOUND ? 0 : r;
	}
	return force_delete(c, pod, cancel, err);
}

static bool tolerates(const yyjson_val *t, const yyjson_val *taint)
{
	const char *key = td_jstr_or(t, "key", ""), *op = td_jstr_or(t, "operator", "Equal"),
		   *effect = td_jstr_or(t, "effect", "");
	if (*effect && strcmp(effect, "NoExecute") != 0)
		return false;
	if (!*key)
		return !strcmp(op, "Exists");
	return td_streq(key, td_jstr(taint, "key")) &&
	       (!strcmp(op, "Exists") || td_streq(td_jstr_or(t, "value", ""), td_jstr_or(taint, "value", "")));
}

#define DEFAULT_TOLERATION_S 300LL

// The API server gives every pod tolerations of these two taints for 300 s (admission
// DefaultTolerationSeconds). A pod stored by an API server that did not do so yet has none of them.
// It counts as if it had them, so that an upgrade costs no pod when a node is silent for a moment.
static bool by_default(const yyjson_val *taint)
{
	const char *key = td_jstr(taint, "key");
	return td_streq(key, "node.kubernetes.io/not-ready") || td_streq(key, "node.kubernetes.io/unreachable");
}

// Milliseconds until the node's NoExecute taints end this pod; 0: now; -1: never.
static int64_t time_left(const struct td_object *pod, const struct td_object *node, int64_t now)
{
	int64_t least = -1;
	size_t i, n, j, m;
	yyjson_val *taint, *taints = td_jget(node->root, "spec.taints"), *t,
			   *ts = td_jget(pod->root, "spec.tolerations");

	yyjson_arr_foreach (taints, i, n, taint) {
		if (!td_streq(td_jstr(taint, "effect"), "NoExecute"))
			continue;

		bool tolerated = false;
		int64_t left = -1;
		yyjson_arr_foreach (ts, j, m, t) {
			if (!tolerates(t, taint))
				continue;
			tolerated = true;
			yyjson_val *s = td_jget(t, "tolerationSeconds");
			if (!yyjson_is_int(s))
				continue;
			int64_t end = td_ctl_time(taint, "timeAdded") +
				      (yyjson_get_sint(s) > 0 ? yyjson_get_sint(s) : 0) * 1000 - now;
			if (end < 0)
				end = 0;
			if (left < 0 || end < left)
				left = end;
		}

		if (!tolerated) {
			left = by_default(taint) ? td_ctl_time(taint, "timeAdded") + DEFAULT_TOLERATION_S * 1000 - now
						 : 0;
			left = left < 0 ? 0 : left;
		}

		if (left >= 0 && (least < 0 || left < least))
			least = left;
	}
	return least;
}

static int one_pod(struct td_ctl_podgc *g, const char *key, int64_t *again, struct td_cancel *cancel,
		   struct td_error *err)
{
	struct td_ctl *c = g->c;
	td_auto_free char *ns = NULL, *name = NULL;
	td_key_split(key, &ns, &name);

	td_auto(td_object_unref) struct td_object *pod = td_informer_get(c->pods, ns, name);
	if (!pod)
		return 0;

	const char *on = td_jstr_or(pod->root, "spec.nodeName", "");
	if (!*on)
		return td_object_deleting(pod) ? force_delete(c, pod, cancel, err) : 0;

	td_auto(td_object_unref) struct td_object *node = td_informer_get(c->nodes, NULL, on);
	if (node) {
		if (td_object_deleting(pod) || td_ctl_pod_finished(pod))
			return 0;

		int64_t left = time_left(pod, node, td_real_ms(c->clock));
		if (left > 0)
			*again = left;

		if (left)
			return 0;

		td_kube_record(c->rec, TD_ABOUT(pod, &td_pods), "Normal", "TaintManagerEviction",
			       "Marking for deletion Pod %s/%s", ns, name);
		const struct td_kube_delete_opts opts = {.uid = pod->uid, .grace_s = -1};
		int r = td_kube_delete(c->kube, &td_pods, ns, name, &opts, cancel, err);
		return r == TD_NOT_FOUND || r == TD_CONFLICT ? 0 : r;
	}

	// The node may be about to register.
	int64_t left = td_ctl_created(pod) + c->node_grace_ms - td_real_ms(c->clock);
	if (left > 0) {
		*again = left;
		return 0;
	}

	// The cache may lag.
	int r = td_kube_get(c->kube, &td_nodes, NULL, on, cancel, NULL, err);
	if (r != TD_NOT_FOUND)
		return r;
	return fail_and_delete(c, pod, "PodGC: node no longer exists", cancel, err);
}

static int tick(struct td_ctl_podgc *g, struct td_cancel *cancel, struct td_error *err)
{
	td_auto_objects struct td_objects all = {0}, done = {0};

	td_informer_list(g->c->pods, NULL, &all);
	for (size_t i = 0; i < all.n; i++)
		if (td_ctl_pod_finished(all.v[i]) && !td_object_deleting(all.v[i]))
			td_objects_add(&done, td_object_ref(all.v[i]));

	if (done.n <= FINISHED_MAX)
		return 0;

	td_ctl_sort(&done, td_ctl_by_creation);
	for (size_t i = 0; i < done.n - FINISHED_MAX; i++) {
		int r = force_delete(g->c, done.v[i], cancel, err);
		if (r)
			return r;
	}
	return 0;
}

static int reconcile(void *ctx, const char *key, int64_t *again, struct td_cancel *cancel, struct td_error *err)
{
	if (strcmp(key, TICK) != 0)
		return one_pod(ctx, key, again, cancel, err);
	*again = TICK_MS;
	return tick(ctx, cancel, err);
}

static void on_pod(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_ctl_podgc *g = ctx;
	if (!now)
		return;

	bool placed = *td_jstr_or(now->root, "spec.nodeName", "");
	bool newly = placed && (!old || !*td_jstr_or(old->root, "spec.nodeName", ""));
	if (newly || (!placed && td_object_deleting(now)))
		td_enqueue_self(g->queue, old, now);
}

static void on_node(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_ctl_podgc *g = ctx;
	const struct td_object *o = now ? now : old;
	if (old && now && td_jequal(td_jget(old->root, "spec.taints"), td_jget(now->root, "spec.taints")))
		return;
	if (!old && !yyjson_arr_size(td_jget(now->root, "spec.taints")))
		return;

	td_auto_objects struct td_objects l = {0};
	td_informer_by_index(g->c->pods, "node", o->name, &l);
	for (size_t i = 0; i < l.n; i++)
		td_enqueue_self(g->queue, NULL, l.v[i]);
}

void td_ctl_podgc(struct td_ctl *c, struct td_controller *ret)
{
	struct td_ctl_podgc *g = c->podgc = td_calloc(1, sizeof(*g));
	g->c = c;
	g->queue = td_queue_new(c->clock);
	*ret = (struct td_controller){"podgc", 1, g->queue, reconcile, g};
	td_informer_on_change(c->pods, on_pod, g);
	td_informer_on_change(c->nodes, on_node, g);
	td_queue_add(g->queue, TICK);
}
