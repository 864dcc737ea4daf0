#include "local/manifests.h"

#include "api/kinds.h"
#include "base/embedded.h"

#include <string.h>

extern const struct td_embedded td_local_files[];

const char *td_manifests_text(size_t *ret_len)
{
	const struct td_embedded *f = td_embedded(td_local_files, "embedded.yaml");
	*ret_len = f->len;
	return f->text;
}

static const struct td_gvr *gvr_of(const char *kind)
{
	static const struct td_gvr *const known[] = {&td_networkpolicies, &td_namespaces,  &td_configmaps,
						     &td_slurmclusters,   &td_nodesets,    &td_serviceaccounts,
						     &td_roles_gvr,       &td_rolebindings};
	for (size_t k = 0; k < TD_LEN(known); k++)
		if (td_streq(known[k]->kind, kind))
			return known[k];
	return NULL;
}

// Creates one object unless it exists. Some API servers acknowledge a new CRD a moment before they
// serve it, so it tries again for a while.
static int create(struct td_kube *k, const struct td_gvr *g, yyjson_val *v, struct td_cancel *c, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(v);
	for (int tries = 0;; tries++) {
		int r = td_kube_create(k, g, td_jstr(v, "metadata.namespace"), yyjson_mut_doc_get_root(d), c, NULL,
				       err);
		if (r == TD_EXISTS)
			return 0;
		if ((r != TD_NOT_FOUND && r != TD_UNCERTAIN && r != TD_TRANSIENT) || tries == 50)
			return r ? td_wrap(err, "creating %s %s", g->kind, td_jstr_or(v, "metadata.name", "?")) : 0;
		if (td_cancel_wait(c, 100))
			return td_fail(err, TD_CANCELLED, "cancelled");
	}
}

int td_manifests_apply(struct td_kube *k, struct td_cancel *c, struct td_error *err)
{
	static const char *const kinds[] = {"SlurmCluster", "NodeSet",      "NodeAction", "HealthPolicy",
					    "NodeUpgrade",  "Tenant",       "Dataset",    "NodeToken",
					    "Federation",   "FederatedRun", "Project",    "NodeHistory"};
	for (size_t i = 0; i < TD_LEN(kinds); i++) {
		td_auto(td_json_unref) struct td_json *crd = td_kind_crd(kinds[i]);
		if (!crd)
			return td_fail(err, TD_INTERNAL, "kind %s has no CRD in this binary", kinds[i]);
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(crd));
		int r = td_kube_patch(k, TD_AT(&td_crds, NULL, td_jstr(td_json_root(crd), "metadata.name")),
				      TD_PATCH_APPLY, yyjson_mut_doc_get_root(d), c, NULL, err);
		if (r)
			return td_wrap(err, "applying the CRD of %s", kinds[i]);
	}

	size_t n;
	const char *text = td_manifests_text(&n);
	td_auto_json_list struct td_json_list docs = {0};
	int r = td_yaml_parse(text, n, &docs, err);
	if (r)
		return td_wrap(err, "deploy/embedded.yaml");

	for (size_t i = 0; i < docs.n; i++) {
		yyjson_val *v = td_json_root(docs.v[i]);
		const struct td_gvr *g = gvr_of(td_jstr(v, "kind"));
		if (!g)
			return td_fail(err, TD_INTERNAL, "deploy/embedded.yaml: kind %s is not expected there",
				       td_jstr_or(v, "kind", "?"));
		if ((r = create(k, g, v, c, err)))
			return r;
	}
	return 0;
}
