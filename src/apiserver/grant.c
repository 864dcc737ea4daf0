// Who writes roles and bindings gives rights away, so they must have them: a role holds only what its writer may do already (or the verb
// `escalate` on it is theirs), a binding names only a role of which they have every rule (or the verb `bind` on it is theirs). Read before
// validation, from the object as it would be stored. And what a ClusterRole with an aggregationRule holds, which the server writes.
#include "apiserver/srv.h"

#include "base/log.h"

#include <string.h>

#define GROUP "rbac.authorization.k8s.io"

static bool is(const struct td_kind *k, const char *plural)
{
	return !strcmp(k->group, GROUP) && !strcmp(k->plural, plural);
}

static int forbid(struct td_req *q, const char *name, const char *why, struct td_refusal *r)
{
	td_refuse(r, 403, NULL, "%s." GROUP " \"%s\" is forbidden: %s", q->plural, name, why);
	return td_refuse_about(r, GROUP, q->plural, name);
}

// Does the user have all of these in the request's namespace?
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
	return forbid(q, name, td_buf_str(&b), r);
}

static bool may(struct td_req *q, const char *verb, const char *resource, const char *name)
{
	struct td_rbac_ask a = {.verb = verb, .group = GROUP, .resource = resource, .sub = "", .name = name, .ns = q->ns};
	return td_auth_ask(q->s, &q->user, &a, NULL);
}

// Taking away finalizers and owners grants nothing: the garbage collector does it.
static bool only_housekeeping(const struct td_item *old, yyjson_mut_val *now)
{
	static const char *const fields[] = {"ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation", "selfLink"};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *a = td_jm_copy(td_item_root(old)), *b = td_jm_new();
	yyjson_mut_val *copy = yyjson_mut_val_mut_copy(b, now);
	for (size_t i = 0; i < TD_LEN(fields); i++) {
		td_auto_free char *path = td_asprintf("metadata.%s", fields[i]);
		td_jm_del(yyjson_mut_doc_get_root(a), path);
		td_jm_del(copy, path);
	}
	td_auto(td_json_unref) struct td_json *x = td_json_from_mut(yyjson_mut_doc_get_root(a)), *y = td_json_from_mut(copy);
	return td_jequal(td_json_root(x), td_json_root(y));
}

static int role(struct td_req *q, const struct td_item *old, const yyjson_val *now, const char *name, struct td_refusal *r)
{
	if (may(q, "escalate", q->plural, q->name))
		return 0;
	td_auto_rules struct td_rbac_rules wanted = {0}, all = {0};
	td_rbac_rules_read(td_jkey(now, "rules"), &wanted);
	int rc = confirm(q, name, &wanted, r);
	if (rc < 0)
		return rc;
	static const char selectors[] = "aggregationRule.clusterRoleSelectors";
	if (!yyjson_arr_size(td_jget(now, selectors)) && !(old && yyjson_arr_size(td_jget(td_item_root(old), selectors))))
		return 0;
	// It may gather anything, now or later.
	char star[] = "*", *one = star;
	const struct td_strv any = {&one, 1, 0};
	const struct td_rbac_rule full[] = {{.verbs = any, .groups = any, .resources = any}, {.verbs = any, .urls = any}};
	td_rbac_rules_add(&all, &full[0]);
	td_rbac_rules_add(&all, &full[1]);
	return confirm(q, name, &all, r) < 0 ? forbid(q, name, "must have cluster-admin privileges to use the aggregationRule", r) : 0;
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
		td_refuse(r, 404, NULL, "%s." GROUP " \"%s\" not found", q->plural, ref); // so the real one calls a role here
		return td_refuse_about(r, GROUP, q->plural, ref);
	}
	return confirm(q, name, rules, r);
}

int td_grant_check(struct td_req *q, const struct td_item *old, yyjson_mut_doc *d, struct td_refusal *r)
{
	const struct td_kind *k = q->k;
	bool is_role = is(k, "roles") || is(k, "clusterroles");
	if ((!is_role && !is(k, "rolebindings") && !is(k, "clusterrolebindings")) || td_user_in(&q->user, "system:masters"))
		return 0;
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	if (old && only_housekeeping(old, o))
		return 0;
	td_auto(td_json_unref) struct td_json *now = td_json_from_mut(o);
	const char *name = td_jstr_or(td_json_root(now), "metadata.name", "");
	return is_role ? role(q, old, td_json_root(now), name, r) : binding(q, td_json_root(now), name, r);
}

// ---- aggregation ----
// One ClusterRole; again when somebody was faster.
static bool update(struct td_srv *s, struct td_table *t, const struct td_item *role_, const struct td_items *all)
{
	td_auto_rules struct td_rbac_rules want = {0}, have = {0};
	if (!td_rbac_aggregate(role_, all, &want))
		return false;
	td_auto(td_json_unref) struct td_json *doc = td_item_doc(role_);
	td_rbac_rules_read(td_jkey(td_json_root(doc), "rules"), &have);
	if (td_rbac_rules_equal(&have, &want))
		return false;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(doc));
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *a = yyjson_mut_arr(d);
	for (size_t i = 0; i < want.n; i++)
		td_rbac_rule_write(d, a, &want.v[i]);
	td_jm_set(d, o, "rules", a);
	td_jm_del(o, "metadata.resourceVersion");
	const struct td_write w = {.table = t, .ns = "", .name = role_->name, .base = role_->rv, .doc = d};
	struct td_error err = TD_ERROR_INIT;
	if (td_store_write(s->store, &w, NULL, &err) < 0 && err.code != TD_CONFLICT && err.code != TD_NOT_FOUND)
		td_warn("ClusterRole %s: its aggregated rules are not brought up to date: %s", role_->name, err.msg);
	return true;
}

void td_grant_written(struct td_srv *s, const struct td_kind *k)
{
	if (is(k, "clusterroles"))
		td_grant_aggregate(s);
}

void td_grant_aggregate(struct td_srv *s)
{
	struct td_table *t = td_store_table(s->store, GROUP, "clusterroles");
	// What one gathers others may gather from it: until nothing changes. Circles end, because no rule comes twice.
	for (int round = 0; round < 16; round++) {
		td_auto_items struct td_items all = {0};
		uint64_t rv;
		bool changed = false;
		if (td_store_list(s->store, t, NULL, 0, &all, &rv, NULL) < 0)
			return;
		for (size_t i = 0; i < all.n; i++)
			changed |= update(s, t, all.v[i], &all);
		if (!changed)
			return;
	}
}
