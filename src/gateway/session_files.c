// The file systems of its owner's storage groups in a session's pod (spec.storageGroups, docs/tenants.md): at the path that
// they have in his jobs, and in nobody else's session. They come as homes do: directories of the nodes (--homes-path), or
// claims of the session's namespace with the name that the SlurmCluster says (--homes-claim).
#include "gateway/sessions.h"

#include "base/groupfiles.h"
#include "base/log.h"

void td_session_files_add(const yyjson_val *entry, yyjson_mut_doc *pod)
{
	yyjson_mut_val *spec = td_jm_get(yyjson_mut_doc_get_root(pod), "spec"),
		       *v = yyjson_mut_arr_add_obj(pod, td_jm_arr(pod, spec, "volumes")),
		       *m = yyjson_mut_arr_add_obj(pod, td_jm_get(spec, "containers.[0].volumeMounts"));
	const char *claim = td_jstr(entry, "claim"), *sub = td_jstr(entry, "subPath");
	td_auto_free char *name = td_asprintf("storage-%s", td_jstr_or(entry, "name", ""));
	td_jm_str(pod, v, "name", name);
	if (claim)
		td_jm_str(pod, v, "persistentVolumeClaim.claimName", claim);
	else
		td_jm_str(pod, v, "hostPath.path", td_jstr_or(entry, "hostPath", ""));
	td_jm_str(pod, m, "name", name);
	td_jm_str(pod, m, "mountPath", td_jstr_or(entry, "mountPath", ""));
	if (sub)
		td_jm_str(pod, m, "subPath", sub);
	if (td_jbool(entry, "readOnly", false))
		td_jm_bool(pod, m, "readOnly", true);
}

// Is it something that pods in this namespace can have?
static bool there(const struct td_gateway_ask *q, const char *ns, const yyjson_val *entry)
{
	const char *claim = td_jstr(entry, "claim");
	if (!claim)
		return q->g->o.homes_path && !q->g->o.homes_claim;
	struct td_error e = TD_ERROR_INIT;
	td_auto(td_object_unref) struct td_object *o = NULL;
	if (!q->g->o.homes_claim)
		return false;
	int r = td_kube_get(q->g->kube, &td_pvcs, ns, claim, td_gateway_cancel(q), &o, &e);
	if (r && r != TD_NOT_FOUND)
		td_warn("a session in %s is without %s: %s", ns, td_jstr_or(entry, "mountPath", ""), e.msg);
	return !r;
}

void td_session_files(const struct td_gateway_ask *q, const yyjson_val *sc, const char *ns, yyjson_mut_doc *pod)
{
	td_auto_objects struct td_objects l = {0};
	struct td_error e = TD_ERROR_INIT;
	struct td_groupfiles g;
	if (!yyjson_arr_size(td_jget(sc, "spec.storageGroups")))
		return;
	// The gateway may list ConfigMaps there, where its bills are.
	td_auto_free char *one = td_asprintf("metadata.name=%s-filters", q->g->o.cluster);
	if (td_kube_list(q->g->kube, &td_configmaps, q->g->o.ns, NULL, one, td_gateway_cancel(q), &l, &e)) {
		td_warn("sessions are without file systems of storage groups: %s", e.msg);
		return;
	}
	for (td_groupfiles_begin(&g, l.n ? td_jstr_or(l.v[0]->root, "data.files", "") : "", q->user.name);
	     td_groupfiles_next(&g);) {
		const yyjson_val *entry = td_jfind(td_jget(sc, "spec.storage"), "name", g.name);
		// The list may be of a moment before.
		if (entry && td_streq(td_jstr(entry, "mountPath"), g.path) &&
		    !td_streq(td_jstr(entry, "where"), "login") && there(q, ns, entry))
			td_session_files_add(entry, pod);
	}
}
