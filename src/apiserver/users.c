// User namespaces of a Tenant's pods: the annotation tandem.dev/user-namespaces of its namespace, "required", as the
// operator has it from the Tenant. A pod that says nothing gets hostUsers: false; one that says true is refused. On a
// cluster deploy/kustomize/base/60-admission.yaml refuses both.
#include "apiserver/srv.h"

#include "base/names.h"

int td_srv_users(struct td_req *q, yyjson_mut_doc *d, struct td_refusal *r)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *host = td_jm_get(o, "spec.hostUsers");
	td_auto(td_item_unref) struct td_item *ns = td_srv_space(q);
	if (!ns || !td_jkey_str(td_jget(td_item_root(ns), "metadata.annotations"), TD_ANN_USERS))
		return 0;
	if (host && yyjson_mut_is_true(host))
		return td_srv_forbid(q, r, td_jm_getstr(o, "metadata.name"),
				     "spec.hostUsers: pods of namespace %s have user namespaces of their own, as its "
				     "Tenant says: leave it out, or write hostUsers: false",
				     q->ns);
	td_jm_bool(d, o, "spec.hostUsers", false);
	return 0;
}
