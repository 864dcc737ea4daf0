// Rules and defaults of CustomResourceDefinition. compile.c has the rules of its schemas.
#include "api/kinds_priv.h"

#include <stdlib.h>
#include <string.h>

// Groups of Kubernetes itself are protected. A resource that the server has built in cannot be
// defined again, because both would be stored under the same key.
static void crd_protected(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	static const char note[] = "api-approved.kubernetes.io",
			  field[] = "metadata.annotations[api-approved.kubernetes.io]";

	const char *group = td_jstr_or(obj, "spec.group", ""), *plural = td_jstr_or(obj, "spec.names.plural", "");
	const char *why = td_jkey_str(td_jget(obj, "metadata.annotations"), note);
	bool theirs = !strcmp(group, "k8s.io") || !strcmp(group, "kubernetes.io") || td_ends(group, ".k8s.io") ||
		      td_ends(group, ".kubernetes.io");

	if (theirs && !old && (!why || !*why))
		td_cause_add(ret, "FieldValueRequired", field,
			     "Required value: protected groups must have approval annotation \"%s\", see "
			     "https://github.com/kubernetes/enhancements/pull/1111",
			     note);
	else if (theirs && !old && !strstr(why, "://") && !td_starts(why, "unapproved"))
		td_cause_add(ret, "FieldValueInvalid", field,
			     "Invalid value: \"%.200s\": protected groups must have approval annotation \"%s\" with "
			     "either a URL or a reason starting with \"unapproved\", see "
			     "https://github.com/kubernetes/enhancements/pull/1111",
			     why, note);

	size_t n;
	const struct td_kind *const *k = td_kinds_builtin(&n);
	for (size_t i = 0; i < n; i++)
		if (!td_kind_has_crd(k[i]) && !strcmp(k[i]->group, group) && !strcmp(k[i]->plural, plural))
			td_cause_add(ret, "FieldValueInvalid", "spec.names.plural",
				     "Invalid value: \"%.200s\": the server itself has this resource in group \"%s\": "
				     "choose another group",
				     plural, group);
}

size_t td_crd_check(const yyjson_val *obj, const yyjson_val *old, struct td_causes *ret)
{
	size_t before = ret->n, n = 0;
	struct td_kind **v = NULL;
	if (!td_kind_from_crd(obj, &v, &n, ret, NULL)) {
		while (n)
			td_kind_free(v[--n]);
		free(v);
	}

	crd_protected(obj, old, ret);
	td_immutable_check(obj, old, "spec.group", ret);
	td_immutable_check(obj, old, "spec.scope", ret);
	td_immutable_check(obj, old, "spec.names.kind", ret);
	td_immutable_check(obj, old, "spec.names.plural", ret);
	return ret->n - before;
}

void td_crd_defaults(yyjson_mut_doc *d, yyjson_mut_val *obj)
{
	const char *kind = td_jm_getstr(obj, "spec.names.kind");
	if (!kind)
		return;

	if (!td_jm_getstr(obj, "spec.names.singular")) {
		td_auto_free char *low = td_strdup(kind);
		for (char *p = low; *p; p++)
			if (*p >= 'A' && *p <= 'Z')
				*p = (char)(*p + 32);
		td_jm_str(d, obj, "spec.names.singular", low);
	}
	if (!td_jm_getstr(obj, "spec.names.listKind"))
		td_jm_strf(d, obj, "spec.names.listKind", "%sList", kind);
}
