// PodDisruptionBudget: how many healthy pods it has, how many it wants, and so how many may be
// evicted now. The rules are those of Kubernetes' disruption controller.
//
// The API server subtracts what it grants from the status itself (apiserver/evict.c) and notes the
// pod in status.disruptedPods. Until its deletion is seen, or two minutes have passed, that pod no
// longer counts as healthy. Every write here carries the resourceVersion that it was made from, so
// that no grant is overwritten.
#include "controllers/ctl.h"

#include "api/selector.h"

#include <stdio.h>
#include <string.h>

#define DELETION_TIMEOUT_MS 120000
#define CONDITION "DisruptionAllowed"

struct budget {
	struct ctl *c;
	struct td_object *b; // borrowed
	struct td_objects pods;
	long long expected, desired, healthy;
	size_t unmanaged;
	int64_t now, again;
	struct td_cancel *cancel;
};

static struct disruption { // one per process, like the controller
	struct ctl *c;
	struct td_queue *queue;
} self;

// Returns NULL if the budget selects nothing.
static struct td_selector *selector_of(const struct td_object *b)
{
	struct td_selector *s = NULL;
	yyjson_val *sel = td_jget(b->root, "spec.selector");
	return sel && td_selector_from_object(sel, &s, NULL) == 0 ? s : NULL;
}

// ---- how many pods there should be: the sum of the scales of their controllers ----
static int no_scale(const struct budget *x, const yyjson_val *ref, const char *group, struct td_error *err)
{
	const struct td_gvr *g;
	struct td_informer *inf;
	const char *kind = td_jstr_or(ref, "kind", ""), *plural = kind;
	for (size_t i = 0; ctl_informer_at(x->c, i, &g, &inf); i++)
		if (!strcmp(g->kind, kind) && !strcmp(g->group, group))
			plural = g->resource;
	return td_fail(err, TD_INVALID, "%s%s%s does not implement the scale subresource", plural, *group ? "." : "",
		       group);
}

// Adds the scale of an object whose resource a CRD defines; it is read from the scale subresource.
static int scale_of_custom(struct budget *x, const yyjson_val *ref, const char *group, struct td_strv *uids,
			   long long *sum, struct td_error *err)
{
	td_auto_objects struct td_objects crds = {0};
	const char *api = td_jstr_or(ref, "apiVersion", "");
	td_informer_list(x->c->crds, NULL, &crds);

	for (size_t i = 0; i < crds.n; i++) {
		const yyjson_val *spec = td_jget(crds.v[i]->root, "spec");
		if (!td_streq(td_jstr(spec, "group"), group) ||
		    !td_streq(td_jstr(spec, "names.kind"), td_jstr(ref, "kind")))
			continue;

		bool scales = false;
		size_t k, n;
		yyjson_val *v;
		yyjson_arr_foreach (td_jget(spec, "versions"), k, n, v)
			scales |=
				td_streq(td_jstr(v, "name"), strchr(api, '/') + 1) && td_jget(v, "subresources.scale");

		if (!scales)
			break;

		td_auto_free char *path =
			td_asprintf("/apis/%s/namespaces/%s/%s/%s/scale", api, x->b->ns,
				    td_jstr_or(spec, "names.plural", ""), td_jstr_or(ref, "name", ""));
		td_auto(td_json_unref) struct td_json *j = NULL;

		int r = td_kube_raw(x->c->kube, "GET", path, NULL, x->cancel, &j, err);
		if (r)
			return r;

		if (!td_strv_has(uids, td_jstr_or(ref, "uid", ""))) {
			td_strv_add(uids, td_jstr_or(ref, "uid", ""));
			*sum += td_jint(td_json_root(j), "spec.replicas", 0);
		}
		return 0;
	}
	return no_scale(x, ref, group, err);
}

static int add_scale(struct budget *x, const struct td_object *pod, const yyjson_val *ref, struct td_strv *uids,
		     long long *sum, struct td_error *err)
{
	const char *kind = td_jstr_or(ref, "kind", ""), *api = td_jstr_or(ref, "apiVersion", ""),
		   *name = td_jstr_or(ref, "name", ""), *uid = td_jstr_or(ref, "uid", "");
	const char *slash = strchr(api, '/');
	td_auto_free char *group = slash ? td_strndup(api, (size_t)(slash - api)) : td_strdup("");
	bool rs = !strcmp(kind, "ReplicaSet"), apps = !strcmp(group, "apps") && (rs || !strcmp(kind, "StatefulSet"));
	if (!apps)
		return slash ? scale_of_custom(x, ref, group, uids, sum, err) : no_scale(x, ref, group, err);

	td_auto(td_object_unref) struct td_object *set =
		td_informer_get(rs ? x->c->replicasets : x->c->statefulsets, pod->ns, name);
	td_auto(td_object_unref) struct td_object *deployment = NULL;
	struct td_object *o = set;

	yyjson_val *up = set ? td_object_owner(set) : NULL;
	if (rs && up && td_streq(td_jstr(up, "kind"), "Deployment")) {
		// The user scales the Deployment.
		deployment = td_informer_get(x->c->deployments, pod->ns, td_jstr_or(up, "name", ""));
		uid = td_jstr_or(up, "uid", ""); // a part of `set`
		o = deployment ? deployment : set;
	}

	if (!o || strcmp(o->uid, uid) != 0)
		return td_fail(err, TD_INVALID, "found no controllers for pod \"%s\"", pod->name);

	if (!td_strv_has(uids, o->uid)) {
		td_strv_add(uids, o->uid);
		*sum += td_jint(o->root, "spec.replicas", 1);
	}
	return 0;
}

static int expected_scale(struct budget *x, struct td_error *err)
{
	td_auto_strv struct td_strv uids = {0};
	x->expected = 0;
	for (size_t i = 0; i < x->pods.n; i++) {
		const yyjson_val *ref = td_object_owner(x->pods.v[i]);
		int r = ref ? add_scale(x, x->pods.v[i], ref, &uids, &x->expected, err) : 0;
		if (r)
			return r;
		x->unmanaged += !ref;
	}
	return 0;
}

static int count(struct budget *x, struct td_error *err)
{
	yyjson_val *min = td_jget(x->b->root, "spec.minAvailable"), *max = td_jget(x->b->root, "spec.maxUnavailable");
	int r = 0;
	if (max && (r = expected_scale(x, err)) == 0)
		x->desired = x->expected - ctl_int_or_percent(max, x->expected, true, "0");
	else if (!r && yyjson_is_int(min))
		x->expected = (long long)x->pods.n;
	else if (!r && min)
		r = expected_scale(x, err);

	if (!max && min)
		x->desired = ctl_int_or_percent(min, x->expected, true, "0");

	if (x->desired < 0)
		x->desired = 0;
	return r;
}

// ---- status ----
// Returns the grants whose pod still exists and is not being deleted. Counts the healthy pods
// beside them.
static yyjson_mut_val *grants(struct budget *x, yyjson_mut_doc *d)
{
	yyjson_mut_val *kept = yyjson_mut_obj(d);
	yyjson_val *was = td_jget(x->b->root, "status.disruptedPods");

	for (size_t i = 0; i < x->pods.n; i++) {
		const struct td_object *p = x->pods.v[i];
		const char *when = td_jkey_str(was, p->name);
		int64_t t;
		if (td_object_deleting(p))
			continue;

		if (when && td_time_parse(when, &t) == 0) {
			int64_t left = t + DELETION_TIMEOUT_MS - x->now;
			if (left > 0) {
				td_jm_key_str(d, kept, p->name, when);
				x->again = x->again && x->again < left ? x->again : left;
				continue;
			}
			td_record(x->c->rec, TD_ABOUT(p, &td_pods), "Warning", "NotDeleted",
				  "Pod was expected by PDB %s/%s to be deleted but it wasn't", x->b->ns, x->b->name);
		}
		x->healthy += ctl_pod_ready(p);
	}
	return kept;
}

static void set_condition(struct budget *x, yyjson_mut_doc *d, yyjson_mut_val *s, const struct td_condition_want *w)
{
	yyjson_mut_val *a = td_jm_arr(d, s, "conditions");
	td_condition_add(d, a, td_jget(x->b->root, "status.conditions"), w, x->now);
	if (!w->generation) // said all the same
		td_jm_int(d, yyjson_mut_arr_get_last(a), "observedGeneration", 0);
}

// Writes those fields of `s` that differ, with the resourceVersion that they were made from.
// *ret_wrote: something was written.
static int write_status(struct budget *x, const yyjson_mut_val *s, bool *ret_wrote, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *want = td_json_from_mut(s);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *p = yyjson_mut_doc_get_root(d), *out = td_jm_obj(d, p, "status");
	yyjson_val *have = td_jget(x->b->root, "status"), *k, *v, *name, *w;
	size_t i, n, j, m;

	yyjson_obj_foreach (td_json_root(want), i, n, k, v) {
		yyjson_val *old = td_jkey(have, yyjson_get_str(k));
		bool empty = yyjson_is_obj(v) && !yyjson_obj_size(v);
		if (td_jequal(old, v) || (empty && !yyjson_obj_size(old)))
			continue;
		td_jm_key_set(d, out, yyjson_get_str(k), yyjson_val_mut_copy(d, v));
		// A merge patch removes only what it says is null.
		yyjson_obj_foreach (yyjson_is_obj(v) ? old : NULL, j, m, name, w)
			if (!td_jkey(v, yyjson_get_str(name)))
				td_jm_key_set(d, td_jm_get(out, yyjson_get_str(k)), yyjson_get_str(name),
					      yyjson_mut_null(d));
	}

	*ret_wrote = yyjson_mut_obj_size(out) > 0;
	if (!*ret_wrote)
		return 0;

	td_jm_str(d, p, "metadata.uid", x->b->uid);
	td_jm_str(d, p, "metadata.resourceVersion", x->b->rv);
	return td_kube_patch(x->c->kube, TD_AT(&td_pdbs, x->b->ns, x->b->name, "status"), TD_PATCH_MERGE, p, x->cancel,
			     NULL, err);
}

// Allows no eviction while nobody knows how many pods there should be.
static int fail_safe(struct budget *x, const struct td_error *why, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *s = yyjson_mut_doc_get_root(d);
	bool wrote;

	td_jm_int(d, s, "disruptionsAllowed", 0);
	set_condition(x, d, s,
		      TD_CONDITION(CONDITION, "False", "SyncFailed", why->msg,
				   .generation = td_jint(x->b->root, "status.observedGeneration", 0)));

	int r = write_status(x, s, &wrote, err);
	if (!r && wrote)
		td_record(x->c->rec, TD_ABOUT(x->b, &td_pdbs), "Warning", "CalculateExpectedPodCountFailed",
			  "Failed to calculate the number of expected pods: %s", why->msg);
	return r;
}

static int write_counts(struct budget *x, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *s = yyjson_mut_doc_get_root(d), *kept = grants(x, d);
	long long generation = td_jint(x->b->root, "metadata.generation", 0),
		  allowed = x->expected > 0 && x->healthy > x->desired ? x->healthy - x->desired : 0;
	bool wrote;

	td_jm_set(d, s, "disruptedPods", kept);
	td_jm_int(d, s, "observedGeneration", generation);
	td_jm_int(d, s, "expectedPods", x->expected);
	td_jm_int(d, s, "desiredHealthy", x->desired);
	td_jm_int(d, s, "currentHealthy", x->healthy);
	td_jm_int(d, s, "disruptionsAllowed", allowed);
	set_condition(x, d, s,
		      TD_CONDITION(CONDITION, allowed ? "True" : "False",
				   allowed ? "SufficientPods" : "InsufficientPods", "", .generation = generation));

	int r = write_status(x, s, &wrote, err);
	if (r || !wrote)
		return r;

	if (!x->pods.n)
		td_record(x->c->rec, TD_ABOUT(x->b, &td_pdbs), "Normal", "NoPods", "No matching pods found");
	if (x->unmanaged)
		td_record(x->c->rec, TD_ABOUT(x->b, &td_pdbs), "Warning", "UnmanagedPods",
			  "%zu pods selected by this PodDisruptionBudget have no controller and are not counted in "
			  "spec.maxUnavailable or "
			  "a share of spec.minAvailable: set spec.minAvailable to an integer value",
			  x->unmanaged);
	return 0;
}

static void budget_done(struct budget *x)
{
	td_objects_done(&x->pods);
}

static int reconcile(void *ctx, const char *key, int64_t *again, struct td_cancel *cancel, struct td_error *err)
{
	struct ctl *c = ctx;
	td_auto_free char *ns = NULL, *name = NULL;
	td_key_split(key, &ns, &name);
	td_auto(td_object_unref) struct td_object *b = td_informer_get(c->pdbs, ns, name);
	if (!b || td_object_deleting(b))
		return 0;

	struct budget x
		__attribute__((cleanup(budget_done))) = {.c = c, .b = b, .cancel = cancel, .now = td_real_ms(c->clock)};

	td_auto_objects struct td_objects all = {0};
	td_auto(td_selector_free) struct td_selector *sel = selector_of(b);
	if (sel)
		td_informer_list(c->pods, ns, &all);

	for (size_t i = 0; i < all.n; i++)
		if (td_selector_matches(sel, td_jget(all.v[i]->root, "metadata.labels")))
			td_objects_add(&x.pods, td_object_ref(all.v[i]));

	struct td_error why = TD_ERROR_INIT;
	int r = count(&x, &why);
	if (r == TD_CANCELLED)
		return r;

	r = r ? fail_safe(&x, &why, err) : write_counts(&x, err);
	*again = x.again;
	return r == TD_NOT_FOUND ? 0 : r;
}

static void on_pod(void *ctx, struct td_object *old, struct td_object *now)
{
	struct disruption *x = ctx;
	td_auto_objects struct td_objects l = {0};

	td_informer_list(x->c->pdbs, now ? now->ns : old->ns, &l);
	for (size_t i = 0; i < l.n; i++) {
		td_auto(td_selector_free) struct td_selector *s = selector_of(l.v[i]);
		if (s && ((now && td_selector_matches(s, td_jget(now->root, "metadata.labels"))) ||
			  (old && td_selector_matches(s, td_jget(old->root, "metadata.labels")))))
			td_enqueue_self(x->queue, NULL, l.v[i]);
	}
}

void ctl_disruption(struct ctl *c, struct td_controller *ret)
{
	*ret = (struct td_controller){"disruption", 1, td_queue_new(c->clock), reconcile, c};
	self = (struct disruption){c, ret->queue};
	td_informer_on_change(c->pdbs, td_enqueue_self, ret->queue);
	td_informer_on_change(c->pods, on_pod, &self);
}
