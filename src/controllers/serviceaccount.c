// Makes what every namespace has: the ServiceAccount "default" and the ConfigMap kube-root-ca.crt.
#include "controllers/ctl.h"

#include <string.h>

#define CA_MAP "kube-root-ca.crt"

static int account(struct ctl *c, const char *ns, struct td_cancel *cancel, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = td_informer_get(c->serviceaccounts, ns, "default");
	if (o)
		return 0;

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *p = yyjson_mut_doc_get_root(d);
	td_jm_str(d, p, "apiVersion", "v1");
	td_jm_str(d, p, "kind", "ServiceAccount");
	td_jm_str(d, p, "metadata.name", "default");
	td_jm_str(d, p, "metadata.namespace", ns);
	int r = td_kube_create(c->kube, &td_serviceaccounts, ns, p, cancel, NULL, err);
	return r == TD_EXISTS ? 0 : r;
}

static int root_ca(struct ctl *c, const char *ns, struct td_cancel *cancel, struct td_error *err)
{
	if (!c->ca)
		return 0;
	td_auto(td_object_unref) struct td_object *o = td_informer_get(c->configmaps, ns, CA_MAP);
	if (o && td_streq(td_jkey_str(td_jget(o->root, "data"), "ca.crt"), c->ca))
		return 0;

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *p = yyjson_mut_doc_get_root(d);
	td_jm_key_str(d, td_jm_obj(d, p, "data"), "ca.crt", c->ca);

	if (o) {
		td_jm_str(d, p, "metadata.uid", o->uid);
		return td_kube_patch(c->kube, TD_AT(&td_configmaps, ns, CA_MAP), TD_PATCH_MERGE, p, cancel, NULL, err);
	}

	td_jm_str(d, p, "apiVersion", "v1");
	td_jm_str(d, p, "kind", "ConfigMap");
	td_jm_str(d, p, "metadata.name", CA_MAP);
	td_jm_str(d, p, "metadata.namespace", ns);
	td_jm_key_str(
		d, td_jm_obj(d, p, "metadata.annotations"), "kubernetes.io/description",
		"Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such "
		"as the "
		"internal service IP or "
		"kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.");

	int r = td_kube_create(c->kube, &td_configmaps, ns, p, cancel, NULL, err);
	return r == TD_EXISTS ? 0 : r;
}

static int reconcile(void *ctx, const char *key, int64_t *again, struct td_cancel *cancel, struct td_error *err)
{
	struct ctl *c = ctx;
	td_auto(td_object_unref) struct td_object *ns = td_informer_get(c->namespaces, NULL, key);
	if (!ns || td_object_deleting(ns))
		return 0;
	int r = account(c, key, cancel, err);
	return r ? r : root_ca(c, key, cancel, err);
}

static void on_piece(void *queue, struct td_object *old, struct td_object *now)
{
	const struct td_object *o = now ? now : old;
	if ((!now && td_streq(o->name, "default")) || td_streq(o->name, CA_MAP))
		td_queue_add(queue, o->ns);
}

void ctl_serviceaccount(struct ctl *c, struct td_controller *ret)
{
	*ret = (struct td_controller){"serviceaccount", 1, td_queue_new(c->clock), reconcile, c};
	td_informer_on_change(c->namespaces, td_enqueue_self, ret->queue);
	td_informer_on_change(c->serviceaccounts, on_piece, ret->queue);
	td_informer_on_change(c->configmaps, on_piece, ret->queue);
}
