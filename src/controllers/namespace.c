// Namespaces: one that is being deleted is emptied, then its finalizer "kubernetes" is removed.
#include "controllers/ctl.h"

#include <string.h>

struct sweep {
	struct td_ctl *c;
	const char *ns;
	struct td_cancel *cancel;
	size_t left; // found, and not yet seen to be gone
	// What stays for a reason of its own: "pods. has 1 resource instances".
	struct td_strv held;
	struct td_strv finalizers; // of what is held; one entry for each place
	int r;
	struct td_error *err;
};

static void sweep_done(struct sweep *s)
{
	td_strv_done(&s->held);
	td_strv_done(&s->finalizers);
}

// Deletes the objects of one resource, and counts those that were still there.
static void sweep(void *ctx, const struct td_gvr *gvr)
{
	struct sweep *s = ctx;
	if (s->r || !gvr->namespaced)
		return;

	td_auto_objects struct td_objects l = {0};
	s->r = td_kube_list(s->c->kube, gvr, s->ns, NULL, NULL, s->cancel, &l, s->err);
	if (s->r == TD_NOT_FOUND) // its CRD is gone by now
		s->r = 0;

	size_t held = 0;

	for (size_t i = 0; i < l.n && !s->r; i++) {
		const struct td_object *o = l.v[i];
		yyjson_val *f, *all = td_jget(o->root, "metadata.finalizers");
		size_t k, n;
		yyjson_arr_foreach (all, k, n, f)
			td_strv_add(&s->finalizers, yyjson_get_str(f));
		held += td_object_deleting(o) || yyjson_arr_size(all);
		s->left++;
		if (td_object_deleting(o))
			continue;
		const struct td_kube_delete_opts opts = {.uid = o->uid, .grace_s = -1, .propagation = "Background"};
		s->r = td_kube_delete(s->c->kube, gvr, s->ns, o->name, &opts, s->cancel, s->err);
		if (s->r == TD_NOT_FOUND || s->r == TD_CONFLICT)
			s->r = 0;
	}

	if (held) {
		td_auto_free char *text =
			td_asprintf("%s.%s has %zu resource instances", gvr->resource, gvr->group, held);
		td_strv_add(&s->held, text);
	}
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

// Formats a list, sorted: "x.io/a in 2 resource instances, x.io/b in 1 resource instances".
static char *counted(struct td_strv *l)
{
	struct td_buf b = {0};
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_text);
	for (size_t i = 0, same; i < l->n; i += same) {
		for (same = 1; i + same < l->n && td_streq(l->v[i], l->v[i + same]); same++)
			;
		td_buf_printf(&b, "%s%s in %zu resource instances", i ? ", " : "", l->v[i], same);
	}
	return td_buf_take(&b);
}

static char *joined(const struct td_strv *l)
{
	struct td_buf b = {0};
	for (size_t i = 0; i < l->n; i++)
		td_buf_printf(&b, "%s%s", i ? ", " : "", l->v[i]);
	return td_buf_take(&b);
}

// Says what the deletion waits for, in the conditions of the real controller. A namespace that is
// deleted without a wait gets no such write.
static int tell(const struct sweep *s, const struct td_object *ns, const char *failure, struct td_error *err)
{
	yyjson_val *old = td_jget(ns->root, "status.conditions");
	if (!failure && !s->held.n && !yyjson_arr_size(old))
		return 0;

	td_auto_free char *held = joined(&s->held), *finalizers = counted((struct td_strv *)&s->finalizers);

	const struct {
		const char *type, *bad, *message, *text, *good, *good_message;
	} all[] = {
		{"NamespaceDeletionContentFailure", "ContentDeletionFailed", "Failed to delete all resource types: ",
		 failure, "ContentDeleted", "All content successfully deleted, may be waiting on finalization"},
		{"NamespaceContentRemaining", "SomeResourcesRemain", "Some resources are remaining: ",
		 s->held.n ? held : NULL, "ContentRemoved", "All content successfully removed"},
		{"NamespaceFinalizersRemaining", "SomeFinalizersRemain",
		 "Some content in the namespace has finalizers remaining: ", s->finalizers.n ? finalizers : NULL,
		 "ContentHasNoFinalizers", "All content-preserving finalizers finished"},
	};

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *status = yyjson_mut_doc_get_root(d), *arr = td_jm_arr(d, status, "conditions");

	for (size_t i = 0; i < TD_LEN(all); i++) {
		td_auto_free char *text = all[i].text ? td_asprintf("%s%s", all[i].message, all[i].text) : NULL;
		td_condition_add(d, arr, old,
				 TD_CONDITION(all[i].type, text ? "True" : "False", text ? all[i].bad : all[i].good,
					      text ? text : all[i].good_message),
				 td_real_ms(s->c->clock));
	}

	int r = td_ctl_write_status(s->c, &td_namespaces, ns, status, s->cancel, err);
	return r == TD_NOT_FOUND || r == TD_CONFLICT ? 0 : r;
}

static int finalize(struct td_ctl *c, const struct td_object *ns, struct td_cancel *cancel, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(ns->root);
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *all = td_jm_arr(d, o, "spec.finalizers"), *f;
	td_jm_str(d, o, "apiVersion", "v1"); // absent in the items of a list
	td_jm_str(d, o, "kind", "Namespace");
	yyjson_mut_arr_iter it;
	yyjson_mut_arr_iter_init(all, &it);
	while ((f = yyjson_mut_arr_iter_next(&it)))
		if (td_streq(yyjson_mut_get_str(f), "kubernetes"))
			yyjson_mut_arr_iter_remove(&it);
	int r = td_kube_update(c->kube, TD_AT(&td_namespaces, NULL, ns->name, "finalize"), o, cancel, NULL, err);
	return r == TD_NOT_FOUND ? 0 : r;
}

static int reconcile(void *ctx, const char *key, int64_t *again, struct td_cancel *cancel, struct td_error *err)
{
	struct td_ctl *c = ctx;
	td_auto(td_object_unref) struct td_object *ns = td_informer_get(c->namespaces, NULL, key);
	if (!ns || !td_object_deleting(ns))
		return 0;

	bool ours = false;
	size_t i, n;
	yyjson_val *f, *all = td_jget(ns->root, "spec.finalizers");
	yyjson_arr_foreach (all, i, n, f)
		ours |= td_streq(yyjson_get_str(f), "kubernetes");

	if (!ours)
		return 0;

	struct td_error why = TD_ERROR_INIT;
	struct sweep s __attribute__((cleanup(sweep_done))) = {.c = c, .ns = key, .cancel = cancel, .err = &why};
	// Delete pods first: while a pod exists, nothing is deleted that it may need to end well.
	// Then delete custom resources, then the rest.
	sweep(&s, &td_pods);
	if (!s.left) {
		td_ctl_gc_each_dynamic(c, sweep, &s);
		const struct td_gvr *gvr;
		struct td_informer *inf;
		for (size_t k = 0; td_ctl_informer_at(c, k, &gvr, &inf); k++)
			if (gvr != &td_pods)
				sweep(&s, gvr);
	}

	if (!s.r && !s.left)
		sweep(&s, &td_events);

	if (s.r == TD_CANCELLED)
		return s.r;

	int r = tell(&s, ns, s.r ? why.msg : NULL, err);
	if (s.r && err)
		*err = why;
	if (s.r || r)
		return s.r ? s.r : r;

	if (s.left) {
		// Come back until nothing is found: pods take their grace period, finalizers their
		// time.
		*again = s.held.n ? 500 : 20;
		return 0;
	}
	return finalize(c, ns, cancel, err);
}

void td_ctl_namespace(struct td_ctl *c, struct td_controller *ret)
{
	*ret = (struct td_controller){"namespace", 2, td_queue_new(c->clock), reconcile, c};
	td_informer_on_change(c->namespaces, td_enqueue_self, ret->queue);
}
