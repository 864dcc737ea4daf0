// Rules of metadata that hold for every kind.
#include "api/kinds_priv.h"

#include <stdio.h>
#include <string.h>

#include "api/names.h"

enum { ANNOTATIONS_MAX = 256 << 10 };
#define SUBDOMAIN                                                                                                                          \
	"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "   \
	"alphanumeric character (e.g. 'example.com')"
#define LABEL                                                                                                                              \
	"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "            \
	"alphanumeric "                                                                                                                    \
	"character (e.g. 'my-name'), at most 63 characters"

static void check_name(const struct td_kind *k, const yyjson_val *meta, struct td_causes *ret)
{
	static const char *const label_kinds[] = {"Namespace", "Service"};
	bool label = false;
	for (size_t i = 0; k && !*k->group && i < TD_LEN(label_kinds); i++)
		label = label || !strcmp(k->kind, label_kinds[i]);
	const char *name = td_jstr(meta, "name"), *gen = td_jstr(meta, "generateName"), *ns = td_jstr(meta, "namespace");
	if (!name && !gen)
		td_cause_add(ret, "FieldValueRequired", "metadata.name", "Required value: name or generateName is required");
	if (name && !(label ? td_is_dns_label(name) : td_is_dns_subdomain(name)))
		td_cause_add(ret, "FieldValueInvalid", "metadata.name", "Invalid value: \"%.260s\": %s", name, label ? LABEL : SUBDOMAIN);
	if (gen && !name) {
		td_auto_free char *probe = td_asprintf("%sx", gen);
		if (!td_is_dns_subdomain(probe))
			td_cause_add(ret, "FieldValueInvalid", "metadata.generateName", "Invalid value: \"%.260s\": %s", gen, SUBDOMAIN);
	}
	if (k && k->namespaced && !ns)
		td_cause_add(ret, "FieldValueRequired", "metadata.namespace", "Required value");
	if (k && !k->namespaced && ns)
		td_cause_add(ret, "FieldValueForbidden", "metadata.namespace", "Forbidden: not allowed on this type");
	if (k && k->namespaced && ns && !td_is_dns_label(ns))
		td_cause_add(ret, "FieldValueInvalid", "metadata.namespace", "Invalid value: \"%.260s\": %s", ns, LABEL);
}

void td_labels_check(const yyjson_val *labels, const char *field, struct td_causes *ret)
{
	size_t i, max;
	yyjson_val *k, *v;
	yyjson_obj_foreach (td_unconst(labels), i, max, k, v) {
		const char *key = td_keystr(k), *value = yyjson_get_str(v);
		if (!td_is_qualified_name(key))
			td_cause_add(
				ret, "FieldValueInvalid", field,
				"Invalid value: \"%.260s\": name part must consist of alphanumeric characters, '-', '_' or '.', and must "
				"start and end "
				"with an alphanumeric character, with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
				key);
		if (value && !td_is_label_value(value))
			td_cause_add(ret, "FieldValueInvalid", field,
				     "Invalid value: \"%.260s\": a valid label must be an empty string or consist of alphanumeric "
				     "characters, '-', '_' or "
				     "'.', and must start and end with an alphanumeric character, at most 63 characters",
				     value);
	}
}

static void check_annotations(const yyjson_val *a, struct td_causes *ret)
{
	size_t i, max, total = 0;
	yyjson_val *k, *v;
	yyjson_obj_foreach (td_unconst(a), i, max, k, v) {
		td_auto_free char *key = td_strdup(td_keystr(k));
		total += yyjson_get_len(k) + yyjson_get_len(v);
		for (char *p = key; *p; p++) // keys of annotations may be written in capitals
			if (*p >= 'A' && *p <= 'Z')
				*p = (char)(*p + 32);
		if (!td_is_qualified_name(key))
			td_cause_add(
				ret, "FieldValueInvalid", "metadata.annotations",
				"Invalid value: \"%.260s\": name part must consist of alphanumeric characters, '-', '_' or '.', and must "
				"start and end "
				"with an alphanumeric character, with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
				td_keystr(k));
	}
	if (total > ANNOTATIONS_MAX)
		td_cause_add(ret, "FieldValueTooLong", "metadata.annotations", "Too long: may not be more than %d bytes", ANNOTATIONS_MAX);
}

static void check_owners(const yyjson_val *owners, struct td_causes *ret)
{
	size_t i, max;
	yyjson_val *o;
	const char *controller = NULL;
	yyjson_arr_foreach (td_unconst(owners), i, max, o) {
		static const char *const need[] = {"apiVersion", "kind", "name", "uid"};
		for (size_t n = 0; n < TD_LEN(need); n++) {
			const char *s = td_jstr(o, need[n]);
			if (s && *s)
				continue;
			td_auto_free char *f = td_asprintf("metadata.ownerReferences[%zu].%s", i, need[n]);
			td_cause_add(ret, "FieldValueInvalid", f, "Invalid value: \"\": must not be empty");
		}
		if (!td_jbool(o, "controller", false))
			continue;
		if (controller)
			td_cause_add(ret, "FieldValueInvalid", "metadata.ownerReferences",
				     "Invalid value: \"%s\": Only one reference can have Controller set to true. Found \"true\" in "
				     "references for %s and %s",
				     td_jstr_or(o, "name", ""), controller, td_jstr_or(o, "name", ""));
		controller = td_jstr_or(o, "name", "");
	}
}

size_t td_meta_check(const struct td_kind *k, const yyjson_val *obj, struct td_causes *ret)
{
	size_t before = ret->n, i, max;
	yyjson_val *meta = td_jkey(obj, "metadata"), *f;
	check_name(k, meta, ret);
	td_labels_check(td_jkey(meta, "labels"), "metadata.labels", ret);
	check_annotations(td_jkey(meta, "annotations"), ret);
	check_owners(td_jkey(meta, "ownerReferences"), ret);
	yyjson_arr_foreach (td_jkey(meta, "finalizers"), i, max, f) {
		const char *s = yyjson_get_str(f);
		if (s && td_is_qualified_name(s) &&
		    (strchr(s, '/') || !strcmp(s, "orphan") || !strcmp(s, "foregroundDeletion") || !strcmp(s, "kubernetes")))
			continue;
		td_auto_free char *field = td_asprintf("metadata.finalizers[%zu]", i);
		td_cause_add(ret, "FieldValueInvalid", field, "Invalid value: \"%.200s\": write <domain>/<name>", s ? s : "");
	}
	return ret->n - before;
}
