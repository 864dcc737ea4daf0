// What the containers of a Tenant's pods may hold of a node's disk: the annotation tandem.dev/ephemeral-storage of their
// namespace, "20Gi", as the operator has it from the Tenant. A container that names no limit gets it; one with a higher
// limit, and an emptyDir in memory without a size, are refused. On a cluster deploy/kustomize/base/60-admission.yaml
// refuses all three.
#include "apiserver/srv.h"

#include "api/quantity.h"
#include "base/names.h"

static int too_much(struct td_req *q, yyjson_mut_val *pod, const char *where, const char *most, const char *fix,
		    struct td_refusal *r)
{
	return td_srv_forbid(
		q, r, td_jm_getstr(pod, "metadata.name"),
		"%s: a container of a pod of namespace %s may hold %.40s of a node's disk, as its Tenant says: %s",
		where, q->ns, most, fix);
}

int td_srv_disk(struct td_req *q, yyjson_mut_doc *d, struct td_refusal *r)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *x;
	td_auto(td_item_unref) struct td_item *ns = td_srv_space(q);
	const char *most = ns ? td_jkey_str(td_jget(td_item_root(ns), "metadata.annotations"), TD_ANN_DISK) : NULL;
	int64_t limit, has;
	size_t i, n;
	if (!most || td_quantity_ceil(most, &limit, NULL))
		return 0;
	for (struct td_srv_container c = {.pod = o}; td_srv_container_next(&c);) {
		yyjson_mut_val *limits = td_jm_obj(d, c.is, "resources.limits"),
			       *said = limits ? yyjson_mut_obj_get(limits, "ephemeral-storage") : NULL;
		if (said && yyjson_mut_is_str(said) && !td_quantity_ceil(yyjson_mut_get_str(said), &has, NULL) &&
		    has > limit)
			return too_much(q, o, "a container's resources.limits.ephemeral-storage", most,
					"write no more than that", r);
		if (said || !limits)
			continue;
		td_jm_key_str(d, limits, "ephemeral-storage", most);
		// Otherwise it would ask for the limit, too.
		yyjson_mut_val *asks = td_jm_obj(d, c.is, "resources.requests");
		if (asks && !yyjson_mut_obj_get(asks, "ephemeral-storage"))
			td_jm_key_str(d, asks, "ephemeral-storage", "0");
	}
	yyjson_mut_arr_foreach (td_jm_get(o, "spec.volumes"), i, n, x) {
		yyjson_mut_val *e = yyjson_mut_is_obj(x) ? td_jm_get(x, "emptyDir") : NULL;
		if (e && td_streq(td_jm_getstr(e, "medium"), "Memory") && !td_jm_get(e, "sizeLimit"))
			return too_much(q, o, "spec.volumes: an emptyDir in memory (medium: Memory)", most,
					"write its sizeLimit", r);
	}
	return 0;
}
