// Escalation check: roles and bindings grant rights, so their writer must have these rights. A role
// may hold only what its writer is allowed to do (unless the writer has the verb `escalate` on it).
// A binding may name only a role whose every rule the writer has (unless the writer has the verb
// `bind` on it). The check runs before validation, on the object as it would be stored.
#include "apiserver/srv.h"

#include <string.h>

#define GROUP "rbac.authorization.k8s.io"

static bool is(const struct td_kind *k, const char *plural)
{
	return !strcmp(k->group, GROUP) && !strcmp(k->plural, plural);
}

// Refuses unless the user has all of these rules in the request's namespace.
static int confirm(struct td_req *q, const char *name, const struct td_rbac_rules *wanted, struct td_refusal *r)
{
	td_auto(td_rbac_unref) struct td_rbac *rbac = td_rbac_cache_get(q->s->rbac);
	td_auto_rules struct td_rbac_rules own = {0}, missing = {0};
	td_auto_free char *fault = NULL;
	td_rbac_rules_for(rbac, q->user.name, &q->user.groups, q->ns, &own, &fault);
	if (td_rbac_covers(&own, wanted, &missing))
		return 0;
	td_auto_free char *text = td_rbac_missing_text(&missing);
	td_auto_buf struct td_buf b = {0};
	td_buf_printf(&b, "user \"%s\" (groups=[", q->user.name);
	for (size_t i = 0; i < q->user.groups.n; i++)
		td_buf_printf(&b, "%s\"%s\"", i ? " " : "", q->user.groups.v[i]);
	td_buf_printf(&b, "]) is attempting to grant RBAC permissions not currently held:\n%s", text);
	if (fault)
		td_buf_printf(&b, "; resolution errors: [%s]", fault);
	return td_srv_forbid(q, r, name, "%s", td_buf_str(&b));
}

static bool may(struct td_req *q, const char *verb, const char *resource, const char *name)
{
	struct td_rbac_ask a = {
		.verb = verb, .group = GROUP, .resource = resource, .sub = "", .name = name, .ns = q->ns};
	return td_auth_ask(q->s, &q->user, &a, NULL);
}

// Whether only finalizers, owners and the like change. That grants nothing; the garbage collector
// does it.
static bool only_housekeeping(const struct td_item *old, yyjson_mut_val *now)
{
	static const char *const fields[] = {"ownerReferences", "finalizers", "managedFields",
					     "resourceVersion", "generation", "selfLink"};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *a = td_jm_copy(td_item_root(old)), *b = td_jm_new();
	yyjson_mut_val *copy = yyjson_mut_val_mut_copy(b, now);
	for (size_t i = 0; i < TD_LEN(fields); i++) {
		td_auto_free char *path = td_asprintf("metadata.%s", fields[i]);
		td_jm_del(yyjson_mut_doc_get_root(a), path);
		td_jm_del(copy, path);
	}
	td_auto(td_json_unref) struct td_json *x = td_json_from_mut(yyjson_mut_doc_get_root(a)),
					      *y = td_json_from_mut(copy);
	return td_jequal(td_json_root(x), td_json_root(y));
}

static int role(struct td_req *q, const yyjson_val *now, const char *name, struct td_refusal *r)
{
	td_auto_rules struct td_rbac_rules wanted = {0};
	if (may(q, "escalate", q->plural, q->name))
		return 0;
	td_rbac_rules_read(td_jkey(now, "rules"), &wanted);
	return confirm(q, name, &wanted, r);
}

static int binding(struct td_req *q, const yyjson_val *now, const char *name, struct td_refusal *r)
{
	const char *kind = td_jstr_or(now, "roleRef.kind", ""), *ref = td_jstr_or(now, "roleRef.name", "");
	bool cluster = !strcmp(kind, "ClusterRole");
	if (!cluster && strcmp(kind, "Role") != 0)
		return 0; // validation refuses it
	if (may(q, "bind", cluster ? "clusterroles" : "roles", ref))
		return 0;
	td_auto(td_rbac_unref) struct td_rbac *rbac = td_rbac_cache_get(q->s->rbac);
	const struct td_rbac_rules *rules = td_rbac_role(rbac, kind, q->ns, ref);
	if (!rules) {
		// A real API server names a missing role by the binding's resource here.
		td_refuse(r, 404, NULL, "%s." GROUP " \"%s\" not found", q->plural, ref);
		return td_refuse_about(r, GROUP, q->plural, ref);
	}
	return confirm(q, name, rules, r);
}

int td_srv_grant_check(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, struct td_refusal *r)
{
	const struct td_kind *k = q->k;
	bool is_role = is(k, "roles") || is(k, "clusterroles");
	if ((!is_role && !is(k, "rolebindings") && !is(k, "clusterrolebindings")) ||
	    td_user_in(&q->user, "system:masters"))
		return 0;
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	if (old && only_housekeeping(old, o))
		return 0;
	td_auto(td_json_unref) struct td_json *now = td_json_from_mut(o);
	const char *name = td_jstr_or(td_json_root(now), "metadata.name", "");
	return is_role ? role(q, td_json_root(now), name, r) : binding(q, td_json_root(now), name, r);
}
