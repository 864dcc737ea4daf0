// ControllerRevisions of a StatefulSet: one for each template that it had, named by the template's hash; what `kubectl rollout history` and
// `undo` read, and what pods below the partition are made from.
#include "controllers/ctl.h"

#include <string.h>

static int by_revision(const void *pa, const void *pb)
{
	const struct td_object *a = *(struct td_object *const *)pa, *b = *(struct td_object *const *)pb;
	long long x = td_jint(a->root, "revision", 0), y = td_jint(b->root, "revision", 0);
	return x != y ? (x < y ? -1 : 1) : ctl_by_creation(pa, pb);
}

// The patch that brings the template back.
static yyjson_mut_val *data_of(yyjson_mut_doc *d, const struct td_object *s)
{
	yyjson_mut_val *o = yyjson_mut_obj(d);
	td_jm_copyval(d, o, "spec.template", td_jget(s->root, "spec.template"));
	td_jm_key_str(d, td_jm_obj(d, o, "spec.template"), "$patch", "replace");
	return o;
}

// Creates the revision. One that is there already was made by us a moment ago, or its name is a hash that fits by chance.
static int make(struct ctl *c, const struct td_object *s, const char *name, long long number, struct td_cancel *cancel,
		struct td_object **ret, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *data = data_of(d, s);
	td_jm_str(d, o, "apiVersion", "apps/v1");
	td_jm_str(d, o, "kind", "ControllerRevision");
	td_jm_str(d, o, "metadata.name", name);
	td_jm_str(d, o, "metadata.namespace", s->ns);
	td_jm_copyval(d, o, "metadata.annotations", td_jget(s->root, "metadata.annotations"));
	td_jm_copyval(d, o, "metadata.labels", td_jget(s->root, "spec.template.metadata.labels"));
	td_jm_key_str(d, td_jm_obj(d, o, "metadata.labels"), "controller.kubernetes.io/hash", strrchr(name, '-') + 1);
	ctl_set_owner(d, o, s, &td_statefulsets);
	td_jm_int(d, o, "revision", number);
	td_jm_set(d, o, "data", data);
	int r = td_kube_create(c->kube, &td_revisions, s->ns, o, cancel, ret, err);
	if (r != TD_EXISTS)
		return r;
	td_auto(td_object_unref) struct td_object *live = NULL;
	if ((r = td_kube_get(c->kube, &td_revisions, s->ns, name, cancel, &live, err)))
		return r;
	td_auto(td_json_unref) struct td_json *want = td_json_from_mut(data);
	if (!td_streq(td_jstr(td_object_owner(live), "uid"), s->uid) || !td_jequal(td_jget(live->root, "data"), td_json_root(want)))
		return td_fail(err, TD_CONFLICT, "ControllerRevision %s/%s exists and is not (yet) this set's", s->ns, name);
	*ret = td_steal(live);
	return 0;
}

static int renumber(struct ctl *c, const struct td_object *rev, long long number, struct td_cancel *cancel, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *p = yyjson_mut_doc_get_root(d);
	td_jm_str(d, p, "metadata.uid", rev->uid);
	td_jm_str(d, p, "metadata.resourceVersion", rev->rv);
	td_jm_int(d, p, "revision", number);
	return td_kube_patch(c->kube, &td_revisions, rev->ns, rev->name, NULL, TD_PATCH_MERGE, p, cancel, NULL, err);
}

static bool in_use(const struct td_object *rev, const struct td_objects *pods, const char *update, const char *current)
{
	if (!strcmp(rev->name, update) || td_streq(rev->name, current))
		return true;
	for (size_t i = 0; i < pods->n; i++)
		if (td_streq(td_object_label(pods->v[i], "controller-revision-hash"), rev->name))
			return true;
	return false;
}

// Old ones beyond the limit go, the oldest first; never one that a pod has.
static int forget(struct ctl *c, const struct td_object *s, const struct td_objects *all, const struct td_objects *pods, const char *update,
		  struct td_cancel *cancel, struct td_error *err)
{
	const char *current = td_jstr(s->root, "status.currentRevision");
	long long idle = 0, limit = td_jint(s->root, "spec.revisionHistoryLimit", 10);
	for (size_t i = 0; i < all->n; i++)
		idle += !in_use(all->v[i], pods, update, current);
	for (size_t i = 0; i < all->n && idle > limit; i++) {
		const struct td_object *o = all->v[i];
		if (in_use(o, pods, update, current))
			continue;
		const struct td_delete opts = {.uid = o->uid, .grace_s = -1};
		int r = td_kube_delete(c->kube, &td_revisions, o->ns, o->name, &opts, cancel, err);
		if (r && r != TD_NOT_FOUND && r != TD_CONFLICT)
			return r;
		idle--;
	}
	return 0;
}

int ctl_revisions(struct ctl *c, const struct td_object *s, const char *name, const struct td_objects *pods, struct td_cancel *cancel,
		  struct td_object **ret_current, struct td_error *err)
{
	td_auto_objects struct td_objects all = {0};
	td_auto(td_object_unref) struct td_object *update = NULL;
	const char *current = td_jstr(s->root, "status.currentRevision");
	int r = ctl_claim(c, c->revisions, &td_revisions, s, &td_statefulsets, c->statefulsets, cancel, &all, err);
	if (r)
		return r;
	ctl_sort(&all, by_revision);
	long long newest = all.n ? td_jint(all.v[all.n - 1]->root, "revision", 0) : 0;
	for (size_t i = 0; i < all.n; i++) {
		if (!strcmp(all.v[i]->name, name))
			update = td_object_ref(all.v[i]);
		if (td_streq(all.v[i]->name, current) && strcmp(name, current) != 0 && !*ret_current)
			*ret_current = td_object_ref(all.v[i]);
	}
	if (!update)
		r = make(c, s, name, newest + 1, cancel, &update, err);
	else if (td_jint(update->root, "revision", 0) < newest) // went back to it: it is the newest again
		r = renumber(c, update, newest + 1, cancel, err);
	return r ? r : forget(c, s, &all, pods, name, cancel, err);
}
