// Role-based access control: what the four kinds of rbac.authorization.k8s.io allow. Pure: one compiled, immutable
// state of them, and questions about it. Rules only ever add; nothing denies. As
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/ says. rbac_cache.c keeps the state of a store at hand.
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
// Appends the rules of a JSON array; what is of a wrong type is left out (the schema refuses it).
void td_rbac_rules_read(const yyjson_val *array, struct td_rbac_rules *ret);
void td_rbac_rules_add(struct td_rbac_rules *to, const struct td_rbac_rule *rule); // a copy
// As in an object: empty lists left out.
void td_rbac_rule_write(yyjson_mut_doc *d, yyjson_mut_val *array, const struct td_rbac_rule *rule);

struct td_rbac_ask { // one question. Strings are "" when absent
	const char *user;
	const struct td_strv *groups;
	const char *verb;
	const char *path; // not NULL: of no resource; the rest is not looked at
	const char *group, *resource, *sub, *name, *ns;
};
bool td_rbac_rule_allows(const struct td_rbac_rule *r, const struct td_rbac_ask *a);

struct td_rbac; // reference-counted
// From all objects of the four kinds, each list ordered by namespace and name.
struct td_rbac *td_rbac_new(const struct td_items *cluster_roles, const struct td_items *roles,
			    const struct td_items *cluster_bindings, const struct td_items *bindings);
struct td_rbac *td_rbac_ref(struct td_rbac *r);
struct td_rbac *td_rbac_unref(struct td_rbac *r);
TD_DEFINE_AUTO(struct td_rbac *, td_rbac_unref)

// *ret_why (may be NULL; caller frees): which binding allows it, or "RBAC: …" about bindings whose role is missing, or
// NULL.
bool td_rbac_allows(const struct td_rbac *r, const struct td_rbac_ask *a, char **ret_why);
// Every rule that the user has in that namespace ("": cluster-wide only), appended as copies. *ret_fault as above; may
// be NULL.
void td_rbac_rules_for(const struct td_rbac *r, const char *user, const struct td_strv *groups, const char *ns,
		       struct td_rbac_rules *ret, char **ret_fault);
// The rules of the role that a binding in ns names ("": a ClusterRoleBinding); NULL: there is none.
const struct td_rbac_rules *td_rbac_role(const struct td_rbac *r, const char *kind, const char *ns, const char *name);

// Whether who has `owner` may do all that `wanted` allows; else *ret_missing (may be NULL): what is missing, each rule
// with one verb.
bool td_rbac_covers(const struct td_rbac_rules *owner, const struct td_rbac_rules *wanted,
		    struct td_rbac_rules *ret_missing);
// What is missing as text, one `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}` a line, sorted.
char *td_rbac_missing_text(const struct td_rbac_rules *missing);
bool td_rbac_rules_equal(const struct td_rbac_rules *a, const struct td_rbac_rules *b); // the order counts

// ---- rbac_cache.c: the state of a store, right after every write that was answered ----
struct td_store;
struct td_rbac_cache;
struct td_rbac_cache *td_rbac_cache_new(struct td_store *s);
struct td_rbac_cache *td_rbac_cache_free(struct td_rbac_cache *c); // before the store is closed
struct td_rbac *td_rbac_cache_get(struct td_rbac_cache *c);        // new reference
