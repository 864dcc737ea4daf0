// What became of the policies, in the SlurmCluster's status.policies; the operator makes a condition of it.
#include "bridge/policy/policies.h"

static bool same(const yyjson_val *is, const struct td_policies_state *v, size_t n)
{
	if (yyjson_arr_size((yyjson_val *)(uintptr_t)is) != n)
		return false;
	for (size_t i = 0; i < n; i++) {
		const yyjson_val *x = yyjson_arr_get((yyjson_val *)(uintptr_t)is, i);
		if (!td_streq(td_jstr(x, "name"), v[i].name) ||
		    !td_streq(td_jstr(x, "state"), v[i].problem ? "Failed" : "Ordering") ||
		    !td_streq(td_jstr(x, "message"), v[i].problem))
			return false;
	}
	return true;
}

int td_policies_show(struct td_bridge *b, const struct td_policies_state *v, size_t n, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(b->clusters, b->o.ns, b->o.cluster);
	if (!sc || same(td_jget(sc->root, "status.policies"), v, n))
		return 0;

	for (size_t i = 0; i < n; i++) {
		const yyjson_val *was = td_jfind(td_jget(sc->root, "status.policies"), "name", v[i].name);
		if (v[i].problem && !td_streq(td_jstr(was, "message"), v[i].problem))
			td_kube_record(
				b->recorder, TD_ABOUT(sc, &td_slurmclusters), "Warning", "PolicyFailed",
				"policy %s: %s. Its jobs wait in Slurm's own order; it is asked again every 30 seconds",
				v[i].name, v[i].problem);
	}
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "metadata.uid", sc->uid);
	yyjson_mut_val *list = td_jm_arr(d, root, "status.policies");
	for (size_t i = 0; i < n; i++) {
		yyjson_mut_val *x = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, x, "name", v[i].name);
		td_jm_str(d, x, "state", v[i].problem ? "Failed" : "Ordering");
		td_jm_str(d, x, "message", v[i].problem);
	}
	int r = td_kube_patch(b->kube, TD_AT(&td_slurmclusters, b->o.ns, b->o.cluster, "status"), TD_PATCH_MERGE, root,
			      b->cancel, NULL, err);
	return r ? td_wrap(err, "writing status.policies") : 0;
}
