// Who may say which network a pod is in (docs/tenants.md): the bridge writes the label tandem.dev/private-network,
// and the operator and the bridge the NetworkPolicies that are named tandem-tenant… and tandem-private-…, which
// nobody else deletes either: while one is gone, its door is open. Where a Tenant shuts the way out
// (annotation tandem.dev/egress of its namespaces), nobody else opens one: policies add up. On a cluster
// deploy/kustomize/base/60-admission.yaml refuses the same.
#include "apiserver/srv.h"

#include "base/names.h"

#include <string.h>

static const char *text(yyjson_mut_val *labels)
{
	yyjson_mut_val *v = labels ? yyjson_mut_obj_get(labels, TD_LABEL_PRIVATE_NET) : NULL;
	return v ? yyjson_mut_get_str(v) : NULL;
}

static int label(struct td_req *q, const struct td_item *old, yyjson_mut_val *o, bool pod, struct td_refusal *r)
{
	const char *where = pod ? "metadata.labels" : "spec.template.metadata.labels",
		   *was = old ? td_jkey_str(td_jget(td_item_root(old), where), TD_LABEL_PRIVATE_NET) : NULL;
	bool bridge = td_auth_is_role(&q->user) && td_streq(q->user.name, "system:tandem:bridge");
	if (td_streq(was, text(td_jm_get(o, where))) || (pod && bridge))
		return 0;
	return td_srv_forbid(
		q, r, td_jm_getstr(o, "metadata.name"),
		"the label " TD_LABEL_PRIVATE_NET
		" says which private network a pod is in, and only Tandem's bridge writes it: leave it as it is; "
		"annotation " TD_ANN_NETWORK ": " TD_NETWORK_PRIVATE " asks for a network");
}

static bool is_kind(const struct td_req *q, const char *group, const char *plural)
{
	return !strcmp(q->k->group, group) && !strcmp(q->k->plural, plural);
}

static bool own_name(const char *name)
{
	return name && (td_starts(name, "tandem-tenant") || td_starts(name, "tandem-private-"));
}

static bool keeper(const struct td_req *q)
{
	return td_auth_is_role(&q->user) || td_user_in(&q->user, "system:masters");
}

static int policy(struct td_req *q, yyjson_mut_val *o, struct td_refusal *r)
{
	const char *name = td_jm_getstr(o, "metadata.name");
	if (keeper(q))
		return 0;
	if (own_name(name))
		return td_srv_forbid(
			q, r, name,
			"policies named tandem-tenant… and tandem-private-… are Tandem's own: take another name");
	td_auto(td_item_unref) struct td_item *ns = td_srv_space(q);
	const char *shut = ns ? td_jkey_str(td_jget(td_item_root(ns), "metadata.annotations"), TD_ANN_EGRESS) : NULL;
	if (!shut || !yyjson_mut_arr_size(td_jm_get(o, "spec.egress")))
		return 0;
	return td_srv_forbid(
		q, r, name,
		"spec.egress: its Tenant says what pods of this namespace may reach (spec.egress of the Tenant): leave "
		"it out, or ask whoever keeps Tenants");
}

int td_srv_networks_delete(struct td_req *q, const char *name, struct td_refusal *r)
{
	if (!is_kind(q, "networking.k8s.io", "networkpolicies") || keeper(q) || !own_name(name))
		return 0;
	return td_srv_forbid(q, r, name,
			     "policies named tandem-tenant… and tandem-private-… are Tandem's own, and go with what "
			     "they are for: leave it");
}

int td_srv_networks(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, struct td_refusal *r)
{
	static const char *const makers[][2] = {
		{"apps", "deployments"}, {"apps", "replicasets"}, {"apps", "statefulsets"}, {"batch", "jobs"}};
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	if (is_kind(q, "", "pods"))
		return label(q, old, o, true, r);
	if (is_kind(q, "networking.k8s.io", "networkpolicies"))
		return policy(q, o, r);
	for (size_t i = 0; i < TD_LEN(makers); i++)
		if (is_kind(q, makers[i][0], makers[i][1]))
			return label(q, old, o, false, r);
	return 0;
}
