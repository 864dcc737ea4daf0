// Children of the workload controllers: claiming, creating and deleting them; and what a pod's
// state says.
#include "controllers/ctl.h"

#include "api/condition.h"
#include "api/selector.h"
#include "base/hash.h"
#include "base/names.h"
#include "base/rand.h"

#include <stdio.h>
#include <string.h>

// ---- owners ----

static const char *api_version(const struct td_gvr *gvr, char *buf, size_t n)
{
	if (*gvr->group)
		snprintf(buf, n, "%s/%s", gvr->group, gvr->version);
	else
		snprintf(buf, n, "%s", gvr->version);
	return buf;
}

static void owner_ref(yyjson_mut_doc *d, yyjson_mut_val *arr, const struct td_object *owner, const struct td_gvr *gvr)
{
	char av[128];
	yyjson_mut_val *ref = yyjson_mut_arr_add_obj(d, arr);
	td_jm_str(d, ref, "apiVersion", api_version(gvr, av, sizeof(av)));
	td_jm_str(d, ref, "kind", gvr->kind);
	td_jm_str(d, ref, "name", owner->name);
	td_jm_str(d, ref, "uid", owner->uid);
	td_jm_bool(d, ref, "controller", true);
	td_jm_bool(d, ref, "blockOwnerDeletion", true);
}

void td_ctl_set_owner(yyjson_mut_doc *d, yyjson_mut_val *o, const struct td_object *owner, const struct td_gvr *gvr)
{
	td_jm_del(o, "metadata.ownerReferences");
	owner_ref(d, td_jm_arr(d, o, "metadata.ownerReferences"), owner, gvr);
}

// Rewrites the ownerReferences of `o` without `owner`, or with it (adopt). The patch carries the
// resourceVersion, so that nobody else's reference is lost.
static int change_owner(struct td_ctl *c, const struct td_gvr *gvr, const struct td_object *o,
			const struct td_object *owner, const struct td_gvr *adopt, struct td_cancel *cancel,
			struct td_object **ret, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *p = yyjson_mut_doc_get_root(d);
	td_jm_str(d, p, "metadata.uid", o->uid);
	td_jm_str(d, p, "metadata.resourceVersion", o->rv);

	yyjson_mut_val *arr = td_jm_arr(d, p, "metadata.ownerReferences");
	size_t i, n;
	yyjson_val *ref, *refs = td_jget(o->root, "metadata.ownerReferences");
	yyjson_arr_foreach (refs, i, n, ref)
		if (!td_streq(td_jstr(ref, "uid"), owner->uid))
			yyjson_mut_arr_append(arr, yyjson_val_mut_copy(d, ref));
	if (adopt)
		owner_ref(d, arr, owner, adopt);
	return td_kube_patch(c->kube, TD_AT(gvr, o->ns, o->name), TD_PATCH_MERGE, p, cancel, ret, err);
}

int td_ctl_claim(struct td_ctl *c, struct td_informer *inf, const struct td_gvr *gvr, const struct td_object *owner,
		 const struct td_gvr *owner_gvr, struct td_cancel *cancel, struct td_objects *ret, struct td_error *err)
{
	td_auto(td_selector_free) struct td_selector *sel = NULL;
	int r = td_selector_from_object(td_jget(owner->root, "spec.selector"), &sel, err);
	if (r)
		return td_wrap(err, "spec.selector of %s %s/%s", owner_gvr->kind, owner->ns, owner->name);

	bool leaving = td_object_deleting(owner);
	td_auto_objects struct td_objects own = {0}, orphans = {0};
	td_informer_by_index(inf, "owner", owner->uid, &own);
	for (size_t i = 0; i < own.n; i++) {
		struct td_object *o = own.v[i];
		if (!td_streq(td_jstr(td_object_owner(o), "uid"), owner->uid))
			continue;
		if (td_selector_matches(sel, td_jget(o->root, "metadata.labels"))) {
			td_objects_add(ret, td_object_ref(o));
		} else if (!leaving && !td_object_deleting(o)) {
			r = change_owner(c, gvr, o, owner, NULL, cancel, NULL, err);
			if (r && r != TD_NOT_FOUND && r != TD_CONFLICT)
				return td_wrap(err, "releasing %s %s/%s", gvr->kind, o->ns, o->name);
		}
	}

	if (leaving)
		return 0;

	td_informer_by_index(inf, "orphan", owner->ns, &orphans);
	bool asked = false;

	for (size_t i = 0; i < orphans.n; i++) {
		struct td_object *o = orphans.v[i];
		if (td_object_deleting(o) || !td_selector_matches(sel, td_jget(o->root, "metadata.labels")))
			continue;
		// Only a Job has a use for pods that have finished.
		if (gvr == &td_pods && owner_gvr != &td_jobs && td_ctl_pod_finished(o))
			continue;
		if (!asked) {
			// The cached owner may be gone by now. An adopted child would be collected
			// with it.
			td_auto(td_object_unref) struct td_object *live = NULL;
			r = td_kube_get(c->kube, owner_gvr, owner->ns, owner->name, cancel, &live, err);
			if (r)
				return r;
			if (!td_streq(live->uid, owner->uid) || td_object_deleting(live))
				return td_fail(err, TD_CONFLICT, "%s %s/%s was deleted or replaced", owner_gvr->kind,
					       owner->ns, owner->name);
			asked = true;
		}

		struct td_object *now = NULL;
		r = change_owner(c, gvr, o, owner, owner_gvr, cancel, &now, err);
		if (!r)
			td_objects_add(ret, now);
		else if (r != TD_NOT_FOUND && r != TD_CONFLICT && r != TD_INVALID)
			return td_wrap(err, "adopting %s %s/%s", gvr->kind, o->ns, o->name);
	}
	return 0;
}

void td_ctl_enqueue_matching(struct td_queue *q, const struct td_objects *owners, const struct td_object *o)
{
	for (size_t i = 0; i < owners->n; i++) {
		td_auto(td_selector_free) struct td_selector *sel = NULL;
		if (td_selector_from_object(td_jget(owners->v[i]->root, "spec.selector"), &sel, NULL) ||
		    !td_selector_matches(sel, td_jget(o->root, "metadata.labels")))
			continue;
		td_auto_free char *key = td_key_of(owners->v[i]);
		td_queue_add(q, key);
	}
}

// ---- making and deleting pods ----

yyjson_mut_doc *td_ctl_pod_from(const struct td_object *owner, const struct td_gvr *gvr, const char *name)
{
	yyjson_val *t = td_jget(owner->root, "spec.template");
	yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "apiVersion", "v1");
	td_jm_str(d, o, "kind", "Pod");
	td_jm_str(d, o, "metadata.name", name);
	td_jm_str(d, o, "metadata.namespace", owner->ns);
	td_jm_copyval(d, o, "metadata.labels", td_jget(t, "metadata.labels"));
	td_jm_copyval(d, o, "metadata.annotations", td_jget(t, "metadata.annotations"));
	// Whose it is, as of this template: the server refuses the pod if it is another's by now (apiserver/whose.c).
	const char *user = td_object_annotation(owner, TD_ANN_USER);
	if (user)
		td_jm_key_str(d, td_jm_obj(d, o, "metadata.annotations"), TD_ANN_USER, user);
	else if (td_jm_get(o, "metadata.annotations"))
		yyjson_mut_obj_remove_key(td_jm_get(o, "metadata.annotations"), TD_ANN_USER);
	td_jm_copyval(d, o, "metadata.finalizers", td_jget(t, "metadata.finalizers"));
	td_ctl_set_owner(d, o, owner, gvr);
	td_jm_copyval(d, o, "spec", td_jget(t, "spec"));
	return d;
}

int td_ctl_create_pod(struct td_ctl *c, struct ctl_expect *e, const struct td_object *owner, const struct td_gvr *gvr,
		      yyjson_mut_doc *pod, struct td_cancel *cancel, struct td_error *err)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(pod);
	const char *name = td_jm_getstr(o, "metadata.name");
	struct td_error why = TD_ERROR_INIT;
	td_ctl_expect_create(e, owner->uid, name);
	int r = td_kube_create(c->kube, &td_pods, owner->ns, o, cancel, NULL, &why);
	if (!r) {
		td_kube_record(c->rec, TD_ABOUT(owner, gvr), "Normal", "SuccessfulCreate", "Created pod: %s", name);
		return 0;
	}

	// It was not made, or nobody knows. If it was made after all, it shows up in the cache and
	// is counted there.
	td_ctl_expect_seen(e, owner->uid, name);
	if (err)
		*err = why;
	if (r != TD_EXISTS && r != TD_CANCELLED)
		td_kube_record(c->rec, TD_ABOUT(owner, gvr), "Warning", "FailedCreate", "Error creating: %s", why.msg);
	return r;
}

int td_ctl_delete_pod(struct td_ctl *c, struct ctl_expect *e, const struct td_object *owner, const struct td_gvr *gvr,
		      const struct td_object *pod, struct td_cancel *cancel, struct td_error *err)
{
	const struct td_kube_delete_opts opts = {.uid = pod->uid, .grace_s = -1};
	struct td_error why = TD_ERROR_INIT;

	td_ctl_expect_delete(e, owner->uid, pod->uid);
	int r = td_kube_delete(c->kube, &td_pods, pod->ns, pod->name, &opts, cancel, &why);
	if (!r) {
		td_kube_record(c->rec, TD_ABOUT(owner, gvr), "Normal", "SuccessfulDelete", "Deleted pod: %s",
			       pod->name);
		return 0;
	}
	td_ctl_expect_seen(e, owner->uid, pod->uid);
	if (r == TD_NOT_FOUND || r == TD_CONFLICT)
		return 0; // it is gone, or another pod has the name
	if (err)
		*err = why;
	if (r != TD_CANCELLED)
		td_kube_record(c->rec, TD_ABOUT(owner, gvr), "Warning", "FailedDelete", "Error deleting %s: %s",
			       pod->name, why.msg);
	return r;
}

// ---- pods ----

bool td_ctl_pod_finished(const struct td_object *pod)
{
	return td_kube_pod_ended(pod->root);
}

bool td_ctl_pod_active(const struct td_object *pod)
{
	return !td_ctl_pod_finished(pod) && !td_object_deleting(pod);
}

static yyjson_val *ready_condition(const struct td_object *pod)
{
	return td_condition(pod->root, "Ready");
}

bool td_ctl_pod_ready(const struct td_object *pod)
{
	return td_streq(td_jstr(ready_condition(pod), "status"), "True");
}

bool td_ctl_pod_available(const struct td_object *pod, long long min_ready_s, int64_t now_ms, int64_t *ret_wait_ms)
{
	yyjson_val *ready = ready_condition(pod);
	if (!td_streq(td_jstr(ready, "status"), "True"))
		return false;
	int64_t since = td_ctl_time(ready, "lastTransitionTime");
	if (min_ready_s <= 0 || (since && since + min_ready_s * 1000 <= now_ms))
		return true;

	int64_t left = since + min_ready_s * 1000 - now_ms;
	if (ret_wait_ms && (*ret_wait_ms <= 0 || left < *ret_wait_ms))
		*ret_wait_ms = left > 0 ? left : 1;
	return false;
}

int64_t td_ctl_time(const yyjson_val *v, const char *path)
{
	int64_t ms = 0;
	const char *s = td_jstr(v, path);
	if (!s || td_time_parse(s, &ms))
		return 0;
	return ms;
}

int64_t td_ctl_created(const struct td_object *o)
{
	return td_ctl_time(o->root, "metadata.creationTimestamp");
}

void td_ctl_sort(struct td_objects *l, int (*cmp)(const void *, const void *))
{
	if (l->n > 1)
		qsort(l->v, l->n, sizeof(*l->v), cmp);
}

int td_ctl_by_creation(const void *a, const void *b)
{
	const struct td_object *x = *(struct td_object *const *)a, *y = *(struct td_object *const *)b;
	int64_t tx = td_ctl_created(x), ty = td_ctl_created(y);
	return tx != ty ? (tx < ty ? -1 : 1) : strcmp(x->name, y->name);
}

// ---- hash ----

static int by_key(const void *a, const void *b)
{
	return strcmp(yyjson_get_str(*(yyjson_val *const *)a), yyjson_get_str(*(yyjson_val *const *)b));
}

// The parser bounds the depth (TD_JSON_DEPTH).
static uint64_t hash_val(uint64_t h, const yyjson_val *cv)
{
	yyjson_val *v = (yyjson_val *)cv, *e;
	size_t i, n;
	if (yyjson_is_obj(v)) {
		size_t len = yyjson_obj_size(v), k = 0;
		td_auto_free yyjson_val **keys = td_calloc(len + 1, sizeof(*keys));
		yyjson_val *key;
		yyjson_obj_foreach (v, i, n, key, e)
			keys[k++] = key;

		qsort(keys, len, sizeof(*keys), by_key);
		h = td_hash(h, "{", 1);
		for (i = 0; i < len; i++) {
			h = td_hash(h, yyjson_get_str(keys[i]), yyjson_get_len(keys[i]) + 1);
			h = hash_val(h, yyjson_obj_iter_get_val(keys[i]));
		}
		return td_hash(h, "}", 1);
	}

	if (yyjson_is_arr(v)) {
		h = td_hash(h, "[", 1);
		yyjson_arr_foreach (v, i, n, e)
			h = hash_val(h, e);
		return td_hash(h, "]", 1);
	}

	td_auto_free char *s = td_json_text(v, &n);
	return td_hash(h, s, n + 1);
}

const char *td_ctl_hash(const yyjson_val *v, int salt, char buf[CTL_HASH_LEN])
{
	// Kubernetes' own alphabet: without vowels there are no words.
	static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
	uint64_t h = hash_val(TD_HASH, v);
	if (salt)
		h = td_hash(h, &salt, sizeof(salt));
	h ^= h >> 32;
	for (int i = 0; i < 10; i++, h /= 27)
		buf[i] = letters[h % 27];
	buf[10] = '\0';
	return buf;
}
