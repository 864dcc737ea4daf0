// The rules of metadata, for every kind.
#include "api/kinds_priv.h"

#include <stdio.h>
#include <string.h>

#include "api/names.h"

enum { ANNOTATIONS_MAX = 256 << 10 };

static void faults(enum td_name_rule rule, const char *s, const char *shown, const char *field, struct td_causes *ret)
{
	td_auto_strv struct td_strv l = {0};
	td_name_faults(rule, s, &l);
	for (size_t i = 0; i < l.n; i++)
		td_cause_add(ret, "FieldValueInvalid", field, "Invalid value: \"%.260s\": %s", shown, l.v[i]);
}

static enum td_name_rule rule_of(const struct td_kind *k)
{
	if (k && !*k->group && !strcmp(k->kind, "Namespace"))
		return TD_N_LABEL;
	if (k && !*k->group && !strcmp(k->kind, "Service"))
		return TD_N_LABEL_1035;
	if (k && !strcmp(k->group, "apps") && !strcmp(k->kind, "StatefulSet"))
		return TD_N_LABEL;
	return TD_N_SUBDOMAIN;
}

static void check_name(const struct td_kind *k, const yyjson_val *meta, struct td_causes *ret)
{
	const char *name = td_jstr(meta, "name"), *gen = td_jstr(meta, "generateName"),
		   *ns = td_jstr(meta, "namespace");

	if (!name && !gen)
		td_cause_add(ret, "FieldValueRequired", "metadata.name",
			     "Required value: name or generateName is required");
	// As in Kubernetes: roles, their bindings and events have any name that fits into a path
	// ("system:node"). Names of PodDisruptionBudgets are not checked.
	bool rbac = k && (!strcmp(k->group, "rbac.authorization.k8s.io") || (!*k->group && !strcmp(k->kind, "Event")));
	bool any = k && !strcmp(k->kind, "PodDisruptionBudget");
	const char *fault = rbac && name ? td_api_path_segment_fault(name) : NULL;

	if (fault)
		td_cause_add(ret, "FieldValueInvalid", "metadata.name", "Invalid value: \"%.260s\": %s", name, fault);
	if (name && !rbac && !any)
		faults(rule_of(k), name, name, "metadata.name", ret);
	// The server appends letters and digits, so a '-' at the end is correct.
	if (gen && *gen && !rbac && !any) {
		td_auto_free char *probe = td_strdup(gen);
		size_t n = strlen(probe);
		if (n > 1 && probe[n - 1] == '-')
			probe[n - 1] = 'a';
		faults(rule_of(k), probe, gen, "metadata.generateName", ret);
	}

	if (k && k->namespaced && !ns)
		td_cause_add(ret, "FieldValueRequired", "metadata.namespace", "Required value");
	if (k && !k->namespaced && ns)
		td_cause_add(ret, "FieldValueForbidden", "metadata.namespace", "Forbidden: not allowed on this type");
	if (k && k->namespaced && ns)
		faults(TD_N_LABEL, ns, ns, "metadata.namespace", ret);
}

void td_labels_check(const yyjson_val *labels, const char *field, struct td_causes *ret)
{
	size_t i, max;
	yyjson_val *k, *v;
	yyjson_obj_foreach (td_unconst(labels), i, max, k, v) {
		const char *key = td_keystr(k), *value = yyjson_get_str(v);
		faults(TD_N_QUALIFIED, key, key, field, ret);
		if (value)
			faults(TD_N_LABEL_VALUE, value, value, field, ret);
	}
}

static void check_annotations(const yyjson_val *a, struct td_causes *ret)
{
	size_t i, max, total = 0;
	yyjson_val *k, *v;

	yyjson_obj_foreach (td_unconst(a), i, max, k, v) {
		td_auto_free char *key = td_strdup(td_keystr(k));
		total += yyjson_get_len(k) + yyjson_get_len(v);
		// Keys of annotations may have capitals.
		for (char *p = key; *p; p++)
			if (*p >= 'A' && *p <= 'Z')
				*p = (char)(*p + 32);
		faults(TD_N_QUALIFIED, key, td_keystr(k), "metadata.annotations", ret);
	}

	if (total > ANNOTATIONS_MAX)
		td_cause_add(ret, "FieldValueTooLong", "metadata.annotations",
			     "Too long: may not be more than %d bytes", ANNOTATIONS_MAX);
}

static void check_owners(const yyjson_val *owners, struct td_causes *ret)
{
	size_t i, max;
	yyjson_val *o;
	const yyjson_val *controller = NULL;

	yyjson_arr_foreach (td_unconst(owners), i, max, o) {
		static const char *const need[] = {"apiVersion", "kind", "name", "uid"};
		for (size_t n = 0; n < TD_LEN(need); n++) {
			const char *s = td_jstr(o, need[n]), *slash = s ? strchr(s, '/') : NULL;
			if (s && *s && !(n == 0 && slash && strchr(slash + 1, '/')))
				continue;
			td_auto_free char *f = td_asprintf("metadata.ownerReferences.%s", need[n]);
			td_cause_add(ret, "FieldValueInvalid", f, "Invalid value: \"%s\": %smust not be empty",
				     s ? s : "", n ? "" : "version ");
		}

		if (td_streq(td_jstr(o, "kind"), "Event") && (td_streq(td_jstr(o, "apiVersion"), "v1") ||
							      td_streq(td_jstr(o, "apiVersion"), "events.k8s.io/v1"))) {
			td_auto_free char *t = td_json_text(o, NULL);
			td_cause_add(ret, "FieldValueInvalid", "metadata.ownerReferences",
				     "Invalid value: %s: %s, Kind=Event is disallowed from being an owner", t,
				     td_streq(td_jstr(o, "apiVersion"), "v1") ? "/v1" : "events.k8s.io/v1");
		}

		if (!td_jbool(o, "controller", false))
			continue;
		if (controller) {
			td_auto_free char *all = td_json_text(owners, NULL);
			td_cause_add(ret, "FieldValueInvalid", "metadata.ownerReferences",
				     "Invalid value: %s: Only one reference can have Controller set to true. Found "
				     "\"true\" in references for %s/%s and %s/%s",
				     all, td_jstr_or(controller, "kind", ""), td_jstr_or(controller, "name", ""),
				     td_jstr_or(o, "kind", ""), td_jstr_or(o, "name", ""));
		}
		controller = o;
	}
}

static void check_finalizers(const yyjson_val *list, struct td_causes *ret)
{
	static const char *const standard[] = {"kubernetes", "orphan", "foregroundDeletion"};
	size_t i, max;
	yyjson_val *f;
	bool seen[TD_LEN(standard)] = {0};

	yyjson_arr_foreach (td_unconst(list), i, max, f) {
		const char *s = yyjson_is_str(f) ? yyjson_get_str(f) : "";
		bool known = strchr(s, '/') != NULL;
		faults(TD_N_QUALIFIED, s, s, "metadata.finalizers", ret);
		for (size_t k = 0; k < TD_LEN(standard); k++)
			if (!strcmp(s, standard[k]))
				known = seen[k] = true;
		if (known)
			continue;

		td_auto_free char *field = td_asprintf("metadata.finalizers[%zu]", i);
		td_cause_add(ret, "FieldValueInvalid", field,
			     "Invalid value: \"%.200s\": name is neither a standard finalizer name nor is it fully "
			     "qualified",
			     s);
	}

	if (!seen[1] || !seen[2])
		return;
	td_auto_free char *all = td_json_text(list, NULL);
	td_cause_add(ret, "FieldValueInvalid", "metadata.finalizers",
		     "Invalid value: %s: finalizer orphan and foregroundDeletion cannot be both set", all);
}

size_t td_meta_check(const struct td_kind *k, const yyjson_val *obj, struct td_causes *ret)
{
	size_t before = ret->n;
	yyjson_val *meta = td_jkey(obj, "metadata");

	check_name(k, meta, ret);
	td_labels_check(td_jkey(meta, "labels"), "metadata.labels", ret);
	check_annotations(td_jkey(meta, "annotations"), ret);
	check_owners(td_jkey(meta, "ownerReferences"), ret);
	check_finalizers(td_jkey(meta, "finalizers"), ret);

	long long generation = td_jint(meta, "generation", 0);
	if (generation < 0)
		td_cause_add(ret, "FieldValueInvalid", "metadata.generation",
			     "Invalid value: %lld: must be greater than or equal to 0", generation);
	return ret->n - before;
}
