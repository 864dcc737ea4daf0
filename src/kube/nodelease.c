#include "kube/nodelease.h"

#include "base/clock.h"

#define LEASE_NS "kube-node-lease"
enum { LEASE_S = 40 }; // a kubelet's default

int td_kube_node_beat(struct td_kube *k, const struct td_object *node, const char *label, const char *value,
		      struct td_cancel *c, struct td_error *err)
{
	char t[TD_TIME_LEN];
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_time_format_micro(td_real_ms(&td_clock_system), t);
	td_jm_str(d, root, "spec.renewTime", t);
	int r = td_kube_patch(k, TD_AT(&td_leases, LEASE_NS, node->name), TD_PATCH_MERGE, root, c, NULL, err);
	if (r != TD_NOT_FOUND)
		return r;
	td_jm_str(d, root, "apiVersion", "coordination.k8s.io/v1");
	td_jm_str(d, root, "kind", "Lease");
	td_jm_str(d, root, "metadata.name", node->name);
	td_jm_str(d, root, "metadata.namespace", LEASE_NS);
	if (label)
		td_jm_key_str(d, td_jm_obj(d, root, "metadata.labels"), label, value);
	td_jm_str(d, root, "spec.holderIdentity", node->name);
	td_jm_int(d, root, "spec.leaseDurationSeconds", LEASE_S);
	yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, td_jm_arr(d, root, "metadata.ownerReferences"));
	td_jm_str(d, o, "apiVersion", "v1");
	td_jm_str(d, o, "kind", "Node");
	td_jm_str(d, o, "name", node->name);
	td_jm_str(d, o, "uid", node->uid);
	r = td_kube_create(k, &td_leases, LEASE_NS, root, c, NULL, err);
	return r == TD_EXISTS ? 0 : r; // another has just made it
}
