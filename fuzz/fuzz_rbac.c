// Input: a YAML stream of {owner: RULES, wanted: RULES}, a question, then roles and bindings. An
// owner whose rules cover the wanted ones may do all that these allow, so nobody grants more than
// they have. A decision equals the answer of each of the user's rules. What is written can be read
// again.
// rows: F1.2
#include "apiserver/rbac.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void check(int ok)
{
	if (!ok)
		abort();
}

static bool any_allows(const struct td_rbac_rules *l, const struct td_rbac_ask *a)
{
	bool yes = false;
	for (size_t i = 0; i < l->n; i++)
		yes |= td_rbac_rule_allows(&l->v[i], a);
	return yes;
}

static void written(const struct td_rbac_rules *l)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *list = td_jm_arr(d, root, "rules");
	for (size_t i = 0; i < l->n; i++)
		td_rbac_rule_write(d, list, &l->v[i]);
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(root);
	td_auto_rules struct td_rbac_rules back = {0};
	td_rbac_rules_read(td_jget(td_json_root(j), "rules"), &back);
	check(td_rbac_rules_equal(l, &back));
}

// Whether this is a name in a request, not in a rule: no stars, and a slash separates a resource
// from its subresource.
static bool plain(const char *s)
{
	return !strpbrk(s, "*/");
}

static void covering(const yyjson_val *rules, const struct td_rbac_ask *a)
{
	td_auto_rules struct td_rbac_rules owner = {0}, wanted = {0}, missing = {0};
	td_rbac_rules_read(td_jkey(rules, "owner"), &owner);
	td_rbac_rules_read(td_jkey(rules, "wanted"), &wanted);
	written(&owner);
	check(td_rbac_covers(&wanted, &wanted, NULL));
	bool all = td_rbac_covers(&owner, &wanted, &missing);
	check(all == !missing.n);
	td_auto_free char *text = td_rbac_missing_text(&missing);
	check(all == !*text);
	bool is_plain =
		plain(a->verb) && plain(a->group) && plain(a->resource) && plain(a->sub) && !strchr(a->name, '*');
	if (all && (a->path ? plain(a->verb) && !strchr(a->path, '*') : is_plain) && any_allows(&wanted, a))
		check(any_allows(&owner, a));
}

static int by_key(const void *x, const void *y)
{
	const struct td_item *a = *(struct td_item *const *)x, *b = *(struct td_item *const *)y;
	return td_item_cmp(a->ns, a->name, b->ns, b->name);
}

static void decisions(const struct td_json_list *l, const struct td_rbac_ask *a)
{
	static const char *const kinds[] = {"ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"};
	struct td_items v[4] = {{0}};
	for (size_t i = 2; i < l->n; i++) {
		const yyjson_val *o = td_json_root(l->v[i]);
		for (size_t k = 0; k < TD_LEN(kinds); k++) {
			if (!td_streq(td_jstr(o, "kind"), kinds[k]) ||
			    !*td_jstr_or(o, "metadata.namespace", "") != !(k % 2))
				continue;
			td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(o);
			td_items_add(&v[k], td_item_new(d, 1, 1));
		}
	}
	for (size_t k = 0; k < TD_LEN(kinds); k++)
		if (v[k].n)
			qsort(v[k].v, v[k].n, sizeof(*v[k].v), by_key);
	td_auto(td_rbac_unref) struct td_rbac *r = td_rbac_new(&v[0], &v[1], &v[2], &v[3]);
	td_auto_rules struct td_rbac_rules rules = {0};
	td_auto_free char *why = NULL, *fault = NULL;
	bool yes = td_rbac_allows(r, a, &why);
	td_rbac_rules_for(r, a->user, a->groups, a->path ? "" : a->ns, &rules, &fault);
	check(yes == any_allows(&rules, a) && (!yes || why));
	for (size_t k = 0; k < TD_LEN(kinds); k++)
		td_items_done(&v[k]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	td_auto_json_list struct td_json_list l = {0};
	if (size > 1 << 13 || td_yaml_parse((const char *)data, size, &l, NULL) || l.n < 2)
		return 0;
	const yyjson_val *q = td_json_root(l.v[1]);
	td_auto_strv struct td_strv groups = {0};
	const char *group = td_jstr(q, "member");
	if (group)
		td_strv_add(&groups, group);
	const struct td_rbac_ask a = {.user = td_jstr_or(q, "user", ""),
				      .groups = &groups,
				      .verb = td_jstr_or(q, "verb", ""),
				      .path = td_jstr(q, "path"),
				      .group = td_jstr_or(q, "group", ""),
				      .resource = td_jstr_or(q, "resource", ""),
				      .sub = td_jstr_or(q, "sub", ""),
				      .name = td_jstr_or(q, "name", ""),
				      .ns = td_jstr_or(q, "ns", "")};
	covering(td_json_root(l.v[0]), &a);
	decisions(&l, &a);
	return 0;
}
