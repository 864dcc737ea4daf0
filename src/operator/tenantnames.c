// What agents call the Tenant of a Slurm account whose Tenant has another name (spec.account): the operator writes it on
// the Nodes of the pool, and where all are called alike nothing is there (gate/telemetry.h).
#include "operator/nodeset.h"

// NAMES_MOST: an annotation has its bounds; accounts beyond are called by their own names.
enum { NAMES_MOST = 500 };

char *td_op_tenant_names(struct td_op *op, const char *ns, const char *cluster)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_auto_objects struct td_objects tenants = {0};
	td_informer_list(op->tenants, NULL, &tenants);
	td_op_sort(&tenants); // the same Tenants, the same words
	size_t n = 0;
	for (size_t i = 0; i < tenants.n && n < NAMES_MOST; i++) {
		const struct td_object *t = tenants.v[i];
		const char *account = td_jstr(t->root, "status.account");
		if (!account || !*account || td_streq(account, t->name) ||
		    !td_streq(td_jstr(t->root, "spec.cluster.namespace"), ns) ||
		    !td_streq(td_jstr(t->root, "spec.cluster.name"), cluster))
			continue;
		td_jm_key_str(d, yyjson_mut_doc_get_root(d), account, t->name);
		n++;
	}
	return n ? td_json_mut_text(yyjson_mut_doc_get_root(d), NULL) : NULL;
}

int td_op_row_tenants(const struct td_op_pass *p, const struct td_op_row *x, const char *names, struct td_error *err)
{
	if (!x->node || x->n.host)
		return 0;
	const char *text = x->n.matched && x->pod ? names : NULL;
	if (td_streq(td_object_annotation(x->node, TD_ANN_TENANT_NAMES), text))
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *notes = td_jm_obj(d, root, "metadata.annotations");
	td_jm_str(d, root, "metadata.uid", x->node->uid);
	td_jm_key_set(d, notes, TD_ANN_TENANT_NAMES, text ? yyjson_mut_strcpy(d, text) : yyjson_mut_null(d));
	int r = td_kube_patch(p->op->k, TD_AT(&td_nodes, NULL, x->name), TD_PATCH_MERGE, root, p->c, NULL, err);
	return r == TD_NOT_FOUND || r == TD_CONFLICT ? 0 : r ? td_wrap(err, "annotating node %s", x->name) : 0;
}
