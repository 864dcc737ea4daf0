// Which accounts' native jobs have which filter of system calls (spank/filter.h), and who has which file systems of
// storage groups (spank/groupfs.h): the ConfigMap CLUSTER-filters beside the SlurmCluster, which slurmd and login pods
// have mounted. It is written before an account is made, so that no job comes first but in the moments until the kubelets
// have it.
#include "operator/tenant.h"

#include "base/log.h"

#include <string.h>

const char *td_op_tenant_filter(const struct td_op_tenant_pass *p, size_t at)
{
	const yyjson_val *o = td_op_tenant_says(p, at, "spec.seccompProfile.type");
	const char *type = o ? td_jstr(o, "spec.seccompProfile.type") : NULL;
	if (td_streq(type, "Localhost"))
		return td_arena_printf(p->arena, "localhost/%s",
				       td_jstr_or(o, "spec.seccompProfile.localhostProfile", ""));
	return type ? td_arena_strdup(p->arena, type) : NULL;
}

int td_op_tenant_filters(struct td_op_tenant_pass *p, struct td_error *err)
{
	td_auto_buf struct td_buf list = {0};
	if (!p->sc)
		return 0;
	// One that is not valid, or that goes, has the account that it had.
	for (size_t i = 0; i < p->n; i++) {
		const char *filter = td_op_tenant_filter(p, i);
		if (filter && p->v[i].account)
			td_buf_printf(&list, "%s %s\n", p->v[i].account, filter);
		const char *was = td_jstr(p->v[i].o->root, "status.account");
		if (filter && was && !td_streq(was, p->v[i].account))
			td_buf_printf(&list, "%s %s\n", was, filter);
	}
	td_auto_free char *name = td_asprintf("%s-filters", p->cluster);
	td_auto(td_object_unref) struct td_object *live = td_informer_get(p->ts->op->configmaps, p->ns, name);
	size_t left;
	td_auto_free char *people = td_op_storage_people(p, &left);
	if (!live && !list.len && !*people)
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "apiVersion", "v1");
	td_jm_str(d, o, "kind", "ConfigMap");
	td_jm_str(d, o, "metadata.name", name);
	td_jm_str(d, o, "metadata.namespace", p->ns);
	td_jm_key_str(d, td_jm_obj(d, o, "metadata.labels"), TD_LABEL_CLUSTER, p->cluster);
	td_jm_key_str(d, td_jm_obj(d, o, "metadata.labels"), "app.kubernetes.io/managed-by", "tandem");
	td_jm_str(d, o, "data.accounts", td_buf_str(&list));
	td_jm_str(d, o, "data.files", people);
	td_jm_strf(d, o, "data.left", "%zu", left); // storagegroups.c tells of them
	td_op_own(d, o, p->sc->root, &td_slurmclusters);
	struct td_op_want w = {.gvr = &td_configmaps, .obj = td_json_from_mut(o)};
	int r = td_op_ensure(p->ts->op, &w, p->c, err);
	td_json_unref(w.obj);
	return r;
}
