// Role-based access control: what the four kinds of rbac.authorization.k8s.io allow. Pure: one
// compiled, immutable state of those objects, and questions about it. Rules only ever allow; no
// rule denies. The rules are those of
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/. rbac_cache.c keeps the compiled
// state of a store up to date.
#pragma once

#include "apiserver/item.h"
#include "base/mem.h"

struct td_rbac_rule {
	struct td_strv verbs, groups, resources, names, urls;
};
struct td_rbac_rules { // owned
	struct td_rbac_rule *v;
	size_t n;
};
void td_rbac_rules_done(struct td_rbac_rules *r);
#define td_auto_rules __attribute__((cleanup(td_rbac_rules_done)))
// Appends the rules of a JSON array. Leaves out values of a wrong type; the schema refuses those.
void td_rbac_rules_read(const yyjson_val *array, struct td_rbac_rules *ret);
void td_rbac_rules_add(struct td_rbac_rules *to, const struct td_rbac_rule *rule); // a copy
// Appends the rule to a JSON array, as it stands in an object: without empty lists.
void td_rbac_rule_write(yyjson_mut_doc *d, yyjson_mut_val *array, const struct td_rbac_rule *rule);

struct td_rbac_ask { // one question; strings are "" when absent
	const char *user;
	const struct td_strv *groups;
	const char *verb;
	const char *path; // not NULL: a path that is no resource; the fields below are not read
	const char *group, *resource, *sub, *name, *ns;
};
bool td_rbac_rule_allows(const struct td_rbac_rule *r, const struct td_rbac_ask *a);

struct td_rbac; // reference-counted
// Compiles all objects of the four kinds. Each list is ordered by namespace and name.
struct td_rbac *td_rbac_new(const struct td_items *cluster_roles, const struct td_items *roles,
			    const struct td_items *cluster_bindings, const struct td_items *bindings);
struct td_rbac *td_rbac_ref(struct td_rbac *r);
struct td_rbac *td_rbac_unref(struct td_rbac *r);
TD_DEFINE_AUTO(struct td_rbac *, td_rbac_unref)

// Whether *a is allowed. *ret_why (may be NULL; the caller frees it): which binding allows it, or
// "RBAC: …" about bindings whose role is missing, or NULL.
bool td_rbac_allows(const struct td_rbac *r, const struct td_rbac_ask *a, char **ret_why);
// Appends copies of every rule that the user has in that namespace ("": cluster-wide rules only).
// *ret_fault (may be NULL): as *ret_why above.
void td_rbac_rules_for(const struct td_rbac *r, const char *user, const struct td_strv *groups, const char *ns,
		       struct td_rbac_rules *ret, char **ret_fault);
// The rules of the role that a binding in namespace ns names (ns "": a ClusterRoleBinding). NULL:
// there is no such role.
const struct td_rbac_rules *td_rbac_role(const struct td_rbac *r, const char *kind, const char *ns, const char *name);

// Whether the rules `owner` allow everything that `wanted` allows. If not, *ret_missing (may be
// NULL) gets what is missing, each rule with one verb.
bool td_rbac_covers(const struct td_rbac_rules *owner, const struct td_rbac_rules *wanted,
		    struct td_rbac_rules *ret_missing);
// The missing rules as text, one `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}` a
// line, sorted. The caller frees it.
char *td_rbac_missing_text(const struct td_rbac_rules *missing);
// Whether both have the same rules in the same order.
bool td_rbac_rules_equal(const struct td_rbac_rules *a, const struct td_rbac_rules *b);

// ---- rbac_cache.c: the rules of a store; every answered write is in them ----
struct td_store;
struct td_rbac_cache;
struct td_rbac_cache *td_rbac_cache_new(struct td_store *s);
struct td_rbac_cache *td_rbac_cache_free(struct td_rbac_cache *c); // before the store is closed
struct td_rbac *td_rbac_cache_get(struct td_rbac_cache *c);        // new reference
