// Which StorageClasses are in storage groups (spec.storageGroups), and which users have those: a label and an annotation of
// the StorageClass, by which the ValidatingAdmissionPolicy tandem-storage-groups refuses claims in namespaces that are no
// Tenant's. In a Tenant's a ResourceQuota does (storagegroups.c). The embedded plane has no StorageClasses: its API server
// looks at the groups itself.
#include "operator/tenant.h"

#include "base/log.h"

#include <string.h>

#define LABELLED "yes"

static const struct td_gvr classes = {"storage.k8s.io", "v1", "storageclasses", "StorageClass", false};

// Is the class in a group of one of these SlurmClusters? Adds the users of those groups.
static bool grouped(const struct td_objects *clusters, const char *class, struct td_strv *ret_users)
{
	bool any = false;
	for (size_t c = 0; c < clusters->n; c++) {
		yyjson_val *g, *u;
		size_t i, n, k, m;
		yyjson_arr_foreach (td_jget(clusters->v[c]->root, "spec.storageGroups"), i, n, g) {
			if (!td_jhas(td_jkey(g, "storageClasses"), class))
				continue;
			any = true;
			yyjson_arr_foreach (td_jkey(g, "users"), k, m, u)
				if (yyjson_is_str(u) && !td_strv_has(ret_users, yyjson_get_str(u)))
					td_strv_add(ret_users, yyjson_get_str(u));
		}
	}
	return any;
}

char *td_op_storage_class_users(const struct td_objects *clusters, const char *class)
{
	td_auto_strv struct td_strv users = {0};
	struct td_buf b = {0};
	if (!grouped(clusters, class, &users))
		return NULL;
	for (size_t i = 0; i < users.n; i++)
		td_buf_printf(&b, "%s%s", i ? " " : "", users.v[i]);
	return td_buf_take(&b);
}

static int mark(struct td_op_tenant_pass *p, const struct td_object *o, const char *users, struct td_error *err)
{
	const char *label = td_object_label(o, TD_LABEL_STORAGE_GROUP),
		   *has = td_object_annotation(o, TD_ANN_STORAGE_USERS);
	if (users ? td_streq(label, LABELLED) && td_streq(has, users) : !label && !has)
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *labels = td_jm_obj(d, root, "metadata.labels"),
		       *notes = td_jm_obj(d, root, "metadata.annotations");
	td_jm_key_set(d, labels, TD_LABEL_STORAGE_GROUP, users ? yyjson_mut_str(d, LABELLED) : yyjson_mut_null(d));
	td_jm_key_set(d, notes, TD_ANN_STORAGE_USERS, users ? yyjson_mut_strcpy(d, users) : yyjson_mut_null(d));
	int r = td_kube_patch(p->ts->op->k, TD_AT(&classes, NULL, o->name), TD_PATCH_MERGE, root, p->c, NULL, err);
	return r == TD_NOT_FOUND ? 0 : r;
}

void td_op_storage_classes(struct td_op_tenant_pass *p)
{
	td_auto_objects struct td_objects clusters = {0}, all = {0};
	struct td_error e = TD_ERROR_INIT;
	bool any = false;
	td_informer_list(p->ts->op->clusters, NULL, &clusters);
	for (size_t i = 0; i < clusters.n && !any; i++) {
		yyjson_val *g;
		size_t k, n;
		yyjson_arr_foreach (td_jget(clusters.v[i]->root, "spec.storageGroups"), k, n, g)
			any |= yyjson_arr_size(td_jkey(g, "storageClasses")) > 0;
	}
	if (!any && p->ts->classes_clean)
		return;
	int r = td_kube_list(p->ts->op->k, &classes, NULL, NULL, NULL, p->c, &all, &e);
	for (size_t i = 0; i < all.n; i++) { // one that cannot be marked leaves no other one open
		td_auto_free char *users = td_op_storage_class_users(&clusters, all.v[i]->name);
		int r2 = mark(p, all.v[i], users, &e);
		r = r2 ? r2 : r;
	}
	p->ts->classes_clean = r == TD_NOT_FOUND || (!r && !any);
	// Tenants are held by their quotas all the same.
	if (r && r != TD_NOT_FOUND && r != TD_CANCELLED && any)
		td_warn("storage groups: namespaces of no Tenant are not held back: StorageClasses: %s", e.msg);
}
