// Rules of the kinds of rbac.authorization.k8s.io.
#include "api/kinds_priv.h"

#include <string.h>

#include "api/selector.h"

#define GROUP "rbac.authorization.k8s.io"

static void at(struct td_causes *c, const char *reason, const char *where, const char *field, const char *text)
{
	td_auto_free char *f = td_asprintf("%s.%s", where, field);
	td_cause_add(c, reason, f, "%s", text);
}

static void unsupported(struct td_causes *c, const char *where, const char *field, const char *value,
			const char *supported)
{
	td_auto_free char *text = td_asprintf("Unsupported value: \"%.200s\": supported values: %s", value, supported);
	at(c, "FieldValueNotSupported", where, field, text);
}

// Names of these kinds may be anything that fits into a path: "system:node", "a role".
const char *td_api_path_segment_fault(const char *name)
{
	if (!strcmp(name, "."))
		return "may not be '.'";
	if (!strcmp(name, ".."))
		return "may not be '..'";
	return strchr(name, '/') ? "may not contain '/'" : strchr(name, '%') ? "may not contain '%'" : NULL;
}

static void rules_check(const yyjson_val *obj, bool namespaced, struct td_causes *ret)
{
	yyjson_val *r;
	size_t i, n;
	yyjson_arr_foreach (td_jkey(obj, "rules"), i, n, r) {
		td_auto_free char *where = td_asprintf("rules[%zu]", i);
		size_t urls = yyjson_arr_size(td_jkey(r, "nonResourceURLs")),
		       groups = yyjson_arr_size(td_jkey(r, "apiGroups")),
		       resources = yyjson_arr_size(td_jkey(r, "resources")),
		       names = yyjson_arr_size(td_jkey(r, "resourceNames"));
		if (!yyjson_arr_size(td_jkey(r, "verbs")))
			at(ret, "FieldValueRequired", where, "verbs",
			   "Required value: verbs must contain at least one value");

		if (urls) {
			td_auto_free char *list = td_json_text(td_jkey(r, "nonResourceURLs"), NULL);
			td_auto_free char *a = td_asprintf(
				"Invalid value: %.300s: namespaced rules cannot apply to non-resource URLs", list);
			td_auto_free char *b = td_asprintf("Invalid value: %.300s: rules cannot apply to both regular "
							   "resources and non-resource URLs",
							   list);
			if (namespaced)
				at(ret, "FieldValueInvalid", where, "nonResourceURLs", a);
			if (groups || resources || names)
				at(ret, "FieldValueInvalid", where, "nonResourceURLs", b);
			continue;
		}

		if (!groups)
			at(ret, "FieldValueRequired", where, "apiGroups",
			   "Required value: resource rules must supply at least one api group");
		if (!resources)
			at(ret, "FieldValueRequired", where, "resources",
			   "Required value: resource rules must supply at least one resource");
	}
}

static void subject_check(const yyjson_val *s, const char *where, bool namespaced, struct td_causes *ret)
{
	const char *kind = td_jstr_or(s, "kind", ""), *name = td_jstr_or(s, "name", ""),
		   *group = td_jstr_or(s, "apiGroup", "");

	if (!*name)
		at(ret, "FieldValueRequired", where, "name", "Required value");
	if (!strcmp(kind, "ServiceAccount")) {
		if (*name && !td_is_dns_subdomain(name)) {
			td_auto_free char *text =
				td_asprintf("Invalid value: \"%.260s\": no name of a service account", name);
			at(ret, "FieldValueInvalid", where, "name", text);
		}
		if (*group)
			unsupported(ret, where, "apiGroup", group, "\"\"");
		if (!namespaced && !*td_jstr_or(s, "namespace", ""))
			at(ret, "FieldValueRequired", where, "namespace", "Required value");
	} else if (!strcmp(kind, "User") || !strcmp(kind, "Group")) {
		if (strcmp(group, GROUP) != 0)
			unsupported(ret, where, "apiGroup", group, "\"" GROUP "\"");
	} else {
		unsupported(ret, where, "kind", kind, "\"ServiceAccount\", \"User\", \"Group\"");
	}
}

static void binding(const yyjson_val *obj, const yyjson_val *old, bool namespaced, struct td_causes *ret)
{
	const yyjson_val *ref = td_jkey(obj, "roleRef");
	const char *kind = td_jstr_or(ref, "kind", ""), *name = td_jstr_or(ref, "name", ""),
		   *group = td_jstr_or(ref, "apiGroup", "");

	if (strcmp(group, GROUP) != 0)
		unsupported(ret, "roleRef", "apiGroup", group, "\"" GROUP "\"");
	if (strcmp(kind, "ClusterRole") != 0 && !(namespaced && !strcmp(kind, "Role")))
		unsupported(ret, "roleRef", "kind", kind, namespaced ? "\"Role\", \"ClusterRole\"" : "\"ClusterRole\"");

	const char *bad = td_api_path_segment_fault(name);
	if (!*name) {
		at(ret, "FieldValueRequired", "roleRef", "name", "Required value");
	} else if (bad) {
		td_auto_free char *text = td_asprintf("Invalid value: \"%.260s\": %s", name, bad);
		at(ret, "FieldValueInvalid", "roleRef", "name", text);
	}

	yyjson_val *s;
	size_t i, n;
	yyjson_arr_foreach (td_jkey(obj, "subjects"), i, n, s) {
		td_auto_free char *where = td_asprintf("subjects[%zu]", i);
		subject_check(s, where, namespaced, ret);
	}

	if (old && !td_jequal(ref, td_jkey(old, "roleRef")))
		td_cause_add(ret, "FieldValueInvalid", "roleRef",
			     "Invalid value: {\"APIGroup\":\"%.100s\",\"Kind\":\"%.100s\",\"Name\":\"%.260s\"}: cannot "
			     "change roleRef",
			     group, kind, name);
}

size_t td_role_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	size_t before = ret->n;
	(void)old;
	rules_check(obj, true, ret);
	return ret->n - before;
}

size_t td_clusterrole_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	size_t before = ret->n;
	rules_check(obj, false, ret);
	yyjson_val *sum = td_jkey(obj, "aggregationRule");
	if (sum && !yyjson_is_null(sum) && !(old && td_jequal(sum, td_jkey(old, "aggregationRule"))))
		td_cause_add(ret, "FieldValueForbidden", "aggregationRule",
			     "Forbidden: is not served by the embedded API: write the rules themselves");
	return ret->n - before;
}

size_t td_rolebinding_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	size_t before = ret->n;
	binding(obj, old, true, ret);
	return ret->n - before;
}

size_t td_clusterrolebinding_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	size_t before = ret->n;
	binding(obj, old, false, ret);
	return ret->n - before;
}

void td_binding_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	yyjson_mut_val *s;
	size_t i, n;
	yyjson_mut_arr_foreach (td_jm_get(obj, "subjects"), i, n, s) {
		const char *kind = yyjson_mut_is_obj(s) ? td_jm_getstr(s, "kind") : NULL,
			   *group = kind ? td_jm_getstr(s, "apiGroup") : NULL;
		if (kind && (!strcmp(kind, "User") || !strcmp(kind, "Group")) && (!group || !*group))
			td_jm_str(d, s, "apiGroup", GROUP);
	}
}
