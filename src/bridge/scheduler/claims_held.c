// Who holds a device of the pool by a ResourceClaim. A device is free only when no claim that has it
// is reserved for a pod that still is there, whoever made that reservation: admission policies keep
// others off (deploy/kustomize/base/70-pool.yaml), and here is seen who got past them, or was there
// before.
#include "bridge/scheduler/ask.h"
#include "bridge/scheduler/claims.h"

#include <string.h>

void td_claims_by_device(const struct td_object *claim, struct td_strv *ret)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (td_jget(claim->root, "status.allocation.devices.results"), i, n, x)
		if (!td_jbool(x, "adminAccess", false)) // such a one sees a device and does not take it
			td_strv_steal(ret, td_asprintf("%s/%s/%s", td_jstr_or(x, "driver", ""),
						       td_jstr_or(x, "pool", ""), td_jstr_or(x, "device", "")));
}

static struct td_object *cached(const struct td_informer *i, const char *ns, const char *name, const char *uid)
{
	struct td_object *pod = i ? td_informer_get(i, ns, name) : NULL;
	return pod && !strcmp(pod->uid, uid) ? pod : td_object_unref(pod);
}

// The pod of an entry of reservedFor, when it is there and has not ended. TD_NOT_FOUND: it is not.
// The caches have no pod of another scheduler that is not bound yet, and may be behind.
static int holder(struct td_bridge *b, const struct td_object *claim, yyjson_val *entry, struct td_cancel *c,
		  struct td_object **ret, struct td_error *err)
{
	const char *name = td_jstr(entry, "name"), *uid = td_jstr(entry, "uid");
	if (!name || !uid || !td_streq(td_jstr_or(entry, "resource", "pods"), "pods"))
		return td_fail(err, TD_NOT_FOUND, "no pod");

	td_auto(td_object_unref) struct td_object *pod = cached(b->pods, claim->ns, name, uid);
	if (!pod)
		pod = cached(b->others, claim->ns, name, uid);
	if (!pod) {
		int r = td_kube_get(b->kube, &td_pods, claim->ns, name, c, &pod, err);
		if (r)
			return r;
	}
	if (strcmp(pod->uid, uid) != 0 || td_kube_pod_ended(pod->root))
		return td_fail(err, TD_NOT_FOUND, "no pod");
	*ret = td_steal(pod);
	return 0;
}

// Slurm placed it: the bridge gave it a grant, or is about to bind it.
static bool slurms(const struct td_settings *s, const struct td_object *pod)
{
	return td_streq(td_jstr(pod->root, "spec.schedulerName"), s->scheduler) &&
	       (td_object_annotation(pod, TD_ANN_JOB) || !td_jstr(pod->root, "spec.nodeName"));
}

// The first pod that holds the device by a claim and whose uid is not `but`. but NULL: the first one
// that Slurm did not place. *ret NULL: there is none.
static int first(struct td_bridge *b, const struct td_settings *s, const struct td_dra_device *d, const char *but,
		 struct td_cancel *c, struct td_object **ret, struct td_error *err)
{
	td_auto_free char *key = td_asprintf("%s/%s/%s", s->devices.driver, d->pool, d->name);
	td_auto_objects struct td_objects l = {0};
	yyjson_val *x;
	size_t i, n;

	*ret = NULL;
	td_informer_by_index(b->claims, "device", key, &l);
	for (size_t k = 0; k < l.n; k++) {
		yyjson_arr_foreach (td_jget(l.v[k]->root, "status.reservedFor"), i, n, x) {
			td_auto(td_object_unref) struct td_object *pod = NULL;
			if (but && td_streq(td_jstr(x, "uid"), but))
				continue;
			int r = holder(b, l.v[k], x, c, &pod, err);
			if (r == TD_NOT_FOUND || (!r && !but && slurms(s, pod)))
				continue;
			if (!r)
				*ret = td_steal(pod);
			return r;
		}
	}
	return 0;
}

int td_claims_free(struct td_bridge *b, const struct td_settings *s, const struct td_object *pod,
		   const struct td_dra_device *d, struct td_cancel *c, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *other = NULL;
	int r = first(b, s, d, pod->uid, c, &other, err);
	if (r || !other)
		return r;
	return td_fail(err, TD_THROTTLED, "device %s of %s is held by pod %s/%s", d->name, d->pool, other->ns,
		       other->name);
}

// The pod that holds the i-th device and that Slurm did not place; lent: only where spec.shadows lends devices, else only
// elsewhere. *ret NULL: none.
static int by_others(struct td_bridge *b, const struct td_settings *s, const struct td_dra_device *d, bool lent,
		     struct td_cancel *c, struct td_object **ret, struct td_error *err)
{
	int r = first(b, s, d, NULL, c, ret, err);
	if (!r && *ret && td_settings_lends(s, (*ret)->ns) != lent)
		*ret = td_object_unref(*ret);
	return r;
}

int td_claims_lent(struct td_bridge *b, const struct td_settings *s, const char *node, uint64_t *ret,
		   struct td_cancel *c, struct td_error *err)
{
	td_auto_objects struct td_objects slices = {0};
	td_auto_dra struct td_dra_devices on = {0};
	uint64_t mask = 0;
	*ret = 0;
	if (!b->claims || !s->devices.dra)
		return 0;

	td_informer_by_index(b->slices, "node", node, &slices);
	int r = td_dra_devices(&slices, s->devices.driver, node, s->devices.attribute, &on, err);
	for (size_t i = 0; !r && i < on.n && i < 64; i++) {
		td_auto(td_object_unref) struct td_object *pod = NULL;
		if ((r = by_others(b, s, &on.v[i], true, c, &pod, err)))
			break;
		mask |= pod ? (uint64_t)1 << i : 0;
	}
	*ret = r ? 0 : mask;
	return r;
}

int td_claims_intruder(struct td_bridge *b, const struct td_settings *s, const char *node, struct td_cancel *c,
		       char **ret, struct td_error *err)
{
	*ret = NULL;
	td_auto_objects struct td_objects slices = {0};
	td_auto_dra struct td_dra_devices on = {0};
	if (!b->claims || !s->devices.dra)
		return 0;

	td_informer_by_index(b->slices, "node", node, &slices);
	if (td_dra_devices(&slices, s->devices.driver, node, s->devices.attribute, &on, NULL))
		return 0;
	for (size_t i = 0; i < on.n; i++) {
		td_auto(td_object_unref) struct td_object *pod = NULL;
		int r = by_others(b, s, &on.v[i], false, c, &pod, err);
		if (r)
			return r;
		if (pod) {
			*ret = td_asprintf("%s is held by pod %s/%s, which Slurm did not place: delete it",
					   on.v[i].name, pod->ns, pod->name);
			return 0;
		}
	}
	return 0;
}
