// Whose a pod is: the annotation tandem.dev/user, as the server has proved it at the creation. The bridge charges the
// person with what the pod holds (a Tenant's spec.perUser.pods), so nobody writes another's name.
//
// It is kept in namespaces of Tenants, on pods and on what pods are made from: of these it is who changed the template
// of pods last. What a controller makes is its owner's. Whom the server does not know so, has none: then the pod is the
// namespace's own.
#include "apiserver/srv.h"

#include "base/names.h"

#include <string.h>

static const struct {
	const char *kind, *group, *plural;
} makers[] = {{"Deployment", "apps", "deployments"},
	      {"ReplicaSet", "apps", "replicasets"},
	      {"StatefulSet", "apps", "statefulsets"},
	      {"Job", "batch", "jobs"}};

static bool makes_pods(const struct td_kind *k)
{
	for (size_t i = 0; i < TD_LEN(makers); i++)
		if (!strcmp(k->group, makers[i].group) && !strcmp(k->plural, makers[i].plural))
			return true;
	return false;
}

static bool of_tenant(struct td_req *q)
{
	td_auto(td_item_unref) struct td_item *ns = td_srv_space(q);
	return ns && td_jkey_str(td_jget(td_item_root(ns), "metadata.labels"), TD_LABEL_TENANT);
}

static const char *said(yyjson_mut_val *o)
{
	yyjson_mut_val *notes = td_jm_get(o, "metadata.annotations"),
		       *v = yyjson_mut_is_obj(notes) ? yyjson_mut_obj_get(notes, TD_ANN_USER) : NULL;
	return v ? yyjson_mut_get_str(v) : NULL;
}

static void say(yyjson_mut_doc *d, yyjson_mut_val *o, const char *user)
{
	if (user)
		td_jm_key_str(d, td_jm_obj(d, o, "metadata.annotations"), TD_ANN_USER, user);
	else if (td_jm_get(o, "metadata.annotations"))
		yyjson_mut_obj_remove_key(td_jm_get(o, "metadata.annotations"), TD_ANN_USER);
}

// Whose the controlling owner is; NULL: nobody's. The caller frees it.
static char *owners(struct td_req *q, yyjson_mut_val *o)
{
	yyjson_mut_val *refs = td_jm_get(o, "metadata.ownerReferences"), *x;
	size_t i, n, k;
	yyjson_mut_arr_foreach (refs, i, n, x) {
		yyjson_mut_val *controls = yyjson_mut_is_obj(x) ? td_jm_get(x, "controller") : NULL;
		const char *kind = controls ? td_jm_getstr(x, "kind") : NULL, *name = td_jm_getstr(x, "name");
		for (k = 0; kind && name && yyjson_mut_get_bool(controls) && k < TD_LEN(makers); k++) {
			if (strcmp(kind, makers[k].kind) != 0)
				continue;
			td_auto(td_item_unref) struct td_item *it = td_store_get(
				q->s->store, td_store_table(q->s->store, makers[k].group, makers[k].plural), q->ns,
				name);
			if (it && td_streq(td_jstr(td_item_root(it), "metadata.uid"), td_jm_getstr(x, "uid")))
				return td_strdup(
					td_jkey_str(td_jget(td_item_root(it), "metadata.annotations"), TD_ANN_USER));
		}
	}
	return NULL;
}

// Only what the pods run counts: who scales another's workload takes nothing over.
static bool template_differs(const struct td_item *old, yyjson_mut_val *o)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *was = td_jm_copy(td_item_root(old));
	yyjson_mut_val *a = td_jm_get(yyjson_mut_doc_get_root(was), "spec.template"),
		       *b = td_jm_get(o, "spec.template");
	return !a || !b || !yyjson_mut_equals(a, b);
}

int td_srv_whose(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, struct td_refusal *r)
{
	bool pods = !strcmp(q->k->group, "") && !strcmp(q->k->plural, "pods"), role = td_auth_is_role(&q->user);
	if (!pods && !makes_pods(q->k))
		return 0;
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	const char *now = said(o),
		   *was = old ? td_jkey_str(td_jget(td_item_root(old), "metadata.annotations"), TD_ANN_USER) : NULL;
	if (now && !role && strcmp(now, q->user.name) != 0 && !td_streq(now, was)) {
		const char *name = td_jm_getstr(o, "metadata.name");
		td_refuse(r, 403, NULL,
			  "%s \"%s\" is forbidden: metadata.annotations[\"" TD_ANN_USER
			  "\"] says whose it is, which the server writes itself (\"%s\"): leave it out",
			  q->plural, name ? name : "", q->user.name);
		return td_refuse_about(r, q->k->group, q->plural, name);
	}

	bool controllers = role && td_streq(q->user.name, "system:tandem:controllers");
	if (old) // a pod's maker stays; what pods are made from is who changed it last
		say(d, o, !pods && !role && of_tenant(q) && template_differs(old, o) ? q->user.name : was);
	else if (controllers) {
		bool tenants = of_tenant(q);
		td_auto_free char *its = tenants ? owners(q, o) : NULL;
		// The template was read before this: if somebody else has written another since, it is not his.
		if (tenants && !td_streq(now, its)) {
			td_refuse(r, 409, "Conflict",
				  "%s \"%s\" is made from what was %s's, which is %s's by now: read it again",
				  q->plural, td_jm_getstr(o, "metadata.name"), now ? now : "nobody",
				  its ? its : "nobody");
			return td_refuse_about(r, q->k->group, q->plural, td_jm_getstr(o, "metadata.name"));
		}
		say(d, o, its);
	} else if (!role) // the roles of Tandem name whom they act for, or nobody
		say(d, o, of_tenant(q) ? q->user.name : NULL);
	return 0;
}
