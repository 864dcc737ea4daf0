#include "kube/tenant.h"

bool td_kube_tenant_names(const struct td_object *tenant, const char *ns)
{
	yyjson_val *list = td_jget(tenant->root, "spec.namespaces"), *x;
	size_t i, n;
	yyjson_arr_foreach (list, i, n, x)
		if (td_streq(yyjson_get_str(x), ns))
			return true;
	return !list && td_streq(tenant->name, ns);
}

bool td_kube_tenant_is_project(const struct td_object *tenant)
{
	yyjson_val *spaces = td_jget(tenant->root, "spec.namespaces");
	return td_jstr(tenant->root, "spec.parent") && spaces && !yyjson_arr_size(spaces);
}

bool td_kube_tenant_runs(const yyjson_val *member)
{
	return member && !td_streq(td_jstr(member, "role"), "viewer");
}
