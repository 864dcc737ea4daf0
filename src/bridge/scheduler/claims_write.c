// Writes the ResourceClaims of a granted pod before its Binding, and clears them when the grant has
// ended without one. Every write carries the claim's uid and resourceVersion. The next write is
// found from the claim itself (td_claim_next()), so it is found again after a crash or a lost
// reply.
#include "bridge/scheduler/ask.h"
#include "bridge/scheduler/claims.h"

#include "base/log.h"

#include <string.h>

enum { TRIES = 8 }; // writes and reads of one claim, before it counts as changing all the time

static struct td_object *get_claim(void *ctx, const char *ns, const char *name)
{
	return td_informer_get(((struct td_bridge *)ctx)->claims, ns, name);
}

static struct td_object *get_class(void *ctx, const char *name)
{
	return td_informer_get(((struct td_bridge *)ctx)->classes, NULL, name);
}

int td_ask_claims(struct td_bridge *b, const struct td_settings *s, const struct td_object *pod, struct td_claims *ret,
		  struct td_error *err)
{
	if (!td_claims_any(pod->root))
		return 0;

	td_auto_free char *name = td_asprintf("SlurmCluster %s/%s", b->o.ns, b->o.cluster);
	const struct td_claims_from from = {get_claim, get_class, b};

	if (s->devices.dra && !b->claims)
		return td_fail(err, TD_INVALID,
			       "spec.resourceClaims: this API server does not serve resource.k8s.io/v1 (Kubernetes "
			       "1.34 and newer do), which spec.devices[0].source DRA of %s needs",
			       name);
	return td_claims_read(s, name, pod->root, &from, ret, err);
}

long long td_ask_claimed(struct td_bridge *b, const struct td_settings *s, const struct td_object *pod)
{
	td_auto_claims struct td_claims l = {0};
	return td_ask_claims(b, s, pod, &l, NULL) ? 0 : l.count;
}

// Puts the claim's uid and resourceVersion into a patch.
static void names(yyjson_mut_doc *d, const struct td_object *claim)
{
	td_jm_str(d, yyjson_mut_doc_get_root(d), "metadata.uid", claim->uid);
	td_jm_str(d, yyjson_mut_doc_get_root(d), "metadata.resourceVersion", claim->rv);
}

// No device of the grant is held by a pod that still is there (claims_held.c).
static int devices_free(struct td_bridge *b, const struct td_settings *s, const struct td_object *pod,
			const struct td_json *want, const struct td_dra_devices *on, struct td_cancel *c,
			struct td_error *err)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(td_json_root(want), "allocation.devices.results"), i, n, x) {
		for (size_t k = 0; k < on->n; k++) {
			if (!td_streq(on->v[k].name, td_jstr(x, "device")) ||
			    !td_streq(on->v[k].pool, td_jstr(x, "pool")))
				continue;
			int r = td_claims_free(b, s, pod, &on->v[k], c, err);
			if (r)
				return r;
		}
	}
	return 0;
}

static int add_finalizer(struct td_bridge *b, const struct td_object *claim, struct td_cancel *c,
			 struct td_object **ret, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);

	names(d, claim);
	td_jm_copyval(d, root, "metadata.finalizers", td_jget(claim->root, "metadata.finalizers"));
	yyjson_mut_arr_add_strcpy(d, td_jm_arr(d, root, "metadata.finalizers"), TD_DRA_FINALIZER);

	return td_kube_patch(b->kube, TD_AT(&td_resourceclaims, claim->ns, claim->name), TD_PATCH_MERGE, root, c, ret,
			     err);
}

static int allocate(struct td_bridge *b, const struct td_object *claim, const yyjson_val *want, struct td_cancel *c,
		    struct td_object **ret, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);

	names(d, claim);
	// An allocation that is there is the wanted one, and the API does not let it be written
	// again.
	if (!td_jget(claim->root, "status.allocation"))
		td_jm_copyval(d, root, "status.allocation", td_jkey(want, "allocation"));
	td_jm_copyval(d, root, "status.reservedFor", td_jkey(want, "reservedFor"));

	return td_kube_patch(b->kube, TD_AT(&td_resourceclaims, claim->ns, claim->name, "status"), TD_PATCH_MERGE, root,
			     c, ret, err);
}

// Clears the claim of a pod that is surely not bound: the pod is read now, and then its epoch is
// raised, so that no Binding of an older grant can succeed.
static int clear(struct td_bridge *b, const struct td_object *pod, const struct td_object *claim, struct td_cancel *c,
		 struct td_object **ret, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *now = NULL;
	int r = td_kube_get(b->kube, &td_pods, pod->ns, pod->name, c, &now, err);
	if (r)
		return r;
	if (strcmp(now->uid, pod->uid) != 0 || td_object_deleting(now) || td_jstr(now->root, "spec.nodeName"))
		return td_fail(err, TD_EXPIRED, "the pod is bound or going by now"); // the watch will tell the rest

	r = td_ask_raise_epoch(b, now, now->rv, c, err);
	if (r)
		return r == TD_CONFLICT || r == TD_UNCERTAIN ? td_fail(err, TD_EXPIRED, "the pod changed meanwhile")
							     : r;

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	names(d, claim);
	td_jm_set(d, root, "status.allocation", yyjson_mut_null(d));
	td_jm_set(d, root, "status.reservedFor", yyjson_mut_null(d));

	r = td_kube_patch(b->kube, TD_AT(&td_resourceclaims, claim->ns, claim->name, "status"), TD_PATCH_MERGE, root, c,
			  ret, err);
	if (!r)
		td_info("ResourceClaim %s/%s: devices of pod %s's ended grant taken back", claim->ns, claim->name,
			pod->name);

	return r;
}

// Brings one claim to the status `want`; NULL: to none.
static int settle(struct td_bridge *b, const struct td_object *pod, struct td_object *claim, const yyjson_val *want,
		  struct td_cancel *c, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = td_object_ref(claim);
	for (int i = 0; i < TRIES; i++) {
		struct td_claim_step st = td_claim_next(o->root, pod->uid, want);
		struct td_object *now = NULL;
		struct td_error e = TD_ERROR_INIT;
		int r = 0;

		if (st.what != TD_CLAIM_DONE && !td_lease_holds())
			return td_fail(err, TD_CANCELLED, "ResourceClaim %s/%s: another leads now", o->ns, o->name);

		switch (st.what) {
		case TD_CLAIM_DONE:
			return 0;
		case TD_CLAIM_WAIT:
			return td_fail(err, TD_NOT_FOUND, "ResourceClaim %s/%s: %s", o->ns, o->name, st.why);
		case TD_CLAIM_FINALIZER:
			r = add_finalizer(b, o, c, &now, &e);
			break;
		case TD_CLAIM_ALLOCATE:
			r = allocate(b, o, want, c, &now, &e);
			break;
		case TD_CLAIM_CLEAR:
			r = clear(b, pod, o, c, &now, &e);
			break;
		}

		td_debug("ResourceClaim %s/%s: step %d (%s): %d", o->ns, o->name, (int)st.what, st.why, r);

		// The claim changed, or the reply was lost: read what the claim is now.
		if (r == TD_CONFLICT || r == TD_UNCERTAIN)
			r = td_kube_get(b->kube, &td_resourceclaims, o->ns, o->name, c, &now, &e);
		if (!r && strcmp(now->uid, claim->uid) != 0) {
			td_object_unref(now);
			return td_fail(err, TD_NOT_FOUND, "ResourceClaim %s/%s is another one by now", o->ns, o->name);
		}
		if (r)
			return td_fail(err, r, "ResourceClaim %s/%s: %.400s", o->ns, o->name, e.msg);

		td_object_unref(o);
		o = now;
	}

	return td_fail(err, TD_TRANSIENT, "ResourceClaim %s/%s changes all the time", o->ns, o->name);
}

int td_ask_claims_give(struct td_bridge *b, const struct td_settings *s, struct td_ask *a, const struct td_object *pod,
		       struct td_cancel *c, struct td_error *err)
{
	td_auto_claims struct td_claims l = {0};
	td_auto_objects struct td_objects slices = {0};
	td_auto_dra struct td_dra_devices on = {0};
	struct td_json *want[TD_CLAIMS] = {0};

	int r = td_ask_claims(b, s, pod, &l, err);
	if (r || !l.n)
		return r;

	td_informer_by_index(b->slices, "node", a->nodes, &slices);
	struct td_error e = TD_ERROR_INIT;
	r = td_dra_devices(&slices, s->devices.driver, a->nodes, s->devices.attribute, &on, &e);
	if (r)
		return td_fail(err, r == TD_NOT_FOUND ? TD_THROTTLED : r, "%s", e.msg);

	r = td_claims_plan(&l, s, pod->root, &(struct td_claims_grant){a->devices, a->nodes, &on}, want, err);
	for (size_t i = 0; !r && i < l.n; i++)
		r = devices_free(b, s, pod, want[i], &on, c, err);
	for (size_t i = 0; !r && i < l.n; i++)
		r = settle(b, pod, l.v[i].obj, td_json_root(want[i]), c, err);
	for (size_t i = 0; i < l.n; i++)
		td_json_unref(want[i]);

	return r;
}

int td_ask_claims_back(struct td_bridge *b, const struct td_object *pod, struct td_cancel *c, struct td_error *err)
{
	if (!b->claims || !td_claims_any(pod->root))
		return 0;

	td_auto_objects struct td_objects l = {0};
	td_informer_by_index(b->claims, "pod", pod->uid, &l);
	for (size_t i = 0; i < l.n; i++) {
		int r = settle(b, pod, l.v[i], NULL, c, err);
		if (r && r != TD_NOT_FOUND)
			return r;
	}
	return 0;
}

// ---- caches ----

static void by_pod(const struct td_object *claim, struct td_strv *ret)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(claim->root, "status.reservedFor"), i, n, x)
		if (td_jstr(x, "uid"))
			td_strv_add(ret, td_jstr(x, "uid"));
}

static void by_claim(const struct td_object *pod, struct td_strv *ret)
{
	static const char *const lists[] = {"spec.resourceClaims", "status.resourceClaimStatuses"};
	yyjson_val *x;
	size_t i, n;
	for (size_t k = 0; k < TD_LEN(lists); k++) {
		yyjson_arr_foreach (td_jget(pod->root, lists[k]), i, n, x) {
			const char *name = td_jstr(x, "resourceClaimName");
			if (name)
				td_strv_steal(ret, td_asprintf("%s/%s", pod->ns, name));
		}
	}
}

// The nodes of an allocation, by name.
static void queue_nodes(struct td_bridge *b, const struct td_object *claim)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(claim->root, "status.allocation.nodeSelector.nodeSelectorTerms.[0]."
						 "matchFields.[0].values"),
			    i, n, x)
		if (yyjson_is_str(x))
			td_queue_add(b->node_queue, yyjson_get_str(x));
}

// A claim changed: the unbound pods that name it are reconciled again, and the nodes on which
// somebody got a device, or let go of one.
static void on_claim(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_bridge *b = ctx;
	td_auto_objects struct td_objects pods = {0};
	td_auto_free char *key = td_key_of(now ? now : old);
	if (!old || !now || !td_jequal(td_jget(old->root, "status"), td_jget(now->root, "status"))) {
		if (old)
			queue_nodes(b, old);
		if (now)
			queue_nodes(b, now);
	}
	td_informer_by_index(b->pods, "claim", key, &pods);
	for (size_t i = 0; i < pods.n; i++) {
		if (td_jstr(pods.v[i]->root, "spec.nodeName"))
			continue;
		td_auto_free char *pod = td_key_of(pods.v[i]);
		td_queue_add(b->pod_queue, pod);
	}
}

int td_claims_watch(struct td_bridge *b, struct td_cancel *c, struct td_error *err)
{
	bool served = false;
	int r = td_dra_served(b->kube, &served, c, err);
	if (r || !served) {
		if (!r)
			td_warn("SlurmCluster %s/%s: spec.devices[0].source is DRA, and this API server does not serve "
				"resource.k8s.io/v1: pods with claims are refused",
				b->o.ns, b->o.cluster);
		return r;
	}

	const struct td_informer_opts co = {.resource = &td_resourceclaims}, so = {.resource = &td_resourceslices},
				      ko = {.resource = &td_deviceclasses};
	b->claims = td_informer_new(b->kube, &co);
	b->slices = td_informer_new(b->kube, &so);
	b->classes = td_informer_new(b->kube, &ko);

	td_informer_add_index(b->claims, "pod", by_pod);
	td_informer_add_index(b->claims, "device", td_claims_by_device);
	td_informer_add_index(b->slices, "node", td_dra_index_node);
	td_informer_add_index(b->pods, "claim", by_claim);
	td_informer_on_change(b->claims, on_claim, b);

	return 0;
}
