// Namespaces: one that is being deleted is emptied, then its finalizer "kubernetes" is taken off.
#include "controllers/ctl.h"

#include <string.h>

struct sweep {
	struct ctl *c;
	const char *ns;
	struct td_cancel *cancel;
	size_t left;
	int r;
	struct td_error *err;
};

// Deletes what is there of one resource; counts what was still found.
static void sweep(void *ctx, const struct td_gvr *gvr)
{
	struct sweep *s = ctx;
	if (s->r || !gvr->namespaced)
		return;
	td_auto_objects struct td_objects l = {0};
	s->r = td_kube_list(s->c->kube, gvr, s->ns, NULL, NULL, s->cancel, &l, s->err);
	if (s->r == TD_NOT_FOUND) // a CRD that went away meanwhile
		s->r = 0;
	for (size_t i = 0; i < l.n && !s->r; i++) {
		s->left++;
		if (td_object_deleting(l.v[i]))
			continue;
		const struct td_delete opts = {.uid = l.v[i]->uid, .grace_s = -1, .propagation = "Background"};
		s->r = td_kube_delete(s->c->kube, gvr, s->ns, l.v[i]->name, &opts, s->cancel, s->err);
		if (s->r == TD_NOT_FOUND || s->r == TD_CONFLICT)
			s->r = 0;
	}
}

static int finalize(struct ctl *c, const struct td_object *ns, struct td_cancel *cancel, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(ns->root);
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *all = td_jm_arr(d, o, "spec.finalizers"), *f;
	td_jm_str(d, o, "apiVersion", "v1"); // absent in items of a list
	td_jm_str(d, o, "kind", "Namespace");
	yyjson_mut_arr_iter it;
	yyjson_mut_arr_iter_init(all, &it);
	while ((f = yyjson_mut_arr_iter_next(&it)))
		if (td_streq(yyjson_mut_get_str(f), "kubernetes"))
			yyjson_mut_arr_iter_remove(&it);
	int r = td_kube_update(c->kube, &td_namespaces, NULL, ns->name, "finalize", o, cancel, NULL, err);
	return r == TD_NOT_FOUND ? 0 : r;
}

static int reconcile(void *ctx, const char *key, int64_t *again, struct td_cancel *cancel, struct td_error *err)
{
	struct ctl *c = ctx;
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
	struct sweep s = {.c = c, .ns = key, .cancel = cancel, .err = err};
	// Custom resources first (their controllers clean up), then what makes pods, then pods and the rest.
	ctl_gc_each_dynamic(c, sweep, &s);
	static const struct td_gvr *const order[] = {&td_deployments, &td_statefulsets, &td_jobs, &td_replicasets};
	for (size_t k = 0; k < TD_LEN(order); k++)
		sweep(&s, order[k]);
	const struct td_gvr *gvr;
	struct td_informer *inf;
	for (size_t k = 0; ctl_informer_at(c, k, &gvr, &inf); k++)
		if (gvr != order[0] && gvr != order[1] && gvr != order[2] && gvr != order[3])
			sweep(&s, gvr);
	if (!s.r && !s.left)
		sweep(&s, &td_events);
	if (s.r)
		return s.r;
	if (s.left) { // pods take their grace; look again until nothing is found
		*again = 500;
		return 0;
	}
	return finalize(c, ns, cancel, err);
}

void ctl_namespace(struct ctl *c, struct td_controller *ret)
{
	*ret = (struct td_controller){"namespace", 2, td_queue_new(c->clock), reconcile, c};
	td_informer_on_change(c->namespaces, td_enqueue_self, ret->queue);
}
