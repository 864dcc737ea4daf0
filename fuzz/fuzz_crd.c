// Input: a YAML stream of a CustomResourceDefinition and an object. The target does what the API
// server does with both: the checks of the CRD, its kinds, their OpenAPI, and pruning, defaulting
// and validation of the object. A CRD that passes the check can be served.
// rows: F1.2
#include "api/kinds.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void object(const struct td_kind *k, const yyjson_val *v)
{
	td_auto_causes struct td_causes c = {0};
	td_auto_strv struct td_strv unknown = {0};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(v);
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);

	td_schema_prune(k->schema, o, &unknown);
	td_schema_default(k->schema, d, o);
	td_auto(td_json_unref) struct td_json *once = td_json_from_mut(o);
	td_meta_check(k, td_json_root(once), &c);
	td_schema_validate(k->schema, td_json_root(once), &c);

	// Pruning and defaulting are idempotent.
	td_schema_prune(k->schema, o, NULL);
	td_schema_default(k->schema, d, o);
	td_auto(td_json_unref) struct td_json *twice = td_json_from_mut(o);
	if (!td_jequal(td_json_root(once), td_json_root(twice)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	td_auto_json_list struct td_json_list l = {0};
	if (size > 1 << 14 || td_yaml_parse((const char *)data, size, &l, NULL) || !l.n ||
	    !yyjson_is_obj(td_json_root(l.v[0])))
		return 0;

	const yyjson_val *crd = td_json_root(l.v[0]), *v = td_json_root(l.v[l.n > 1]);
	const struct td_kind *def = td_kind_builtin("apiextensions.k8s.io", "CustomResourceDefinition");
	td_auto_causes struct td_causes checked = {0}, causes = {0};
	size_t bad = td_schema_validate(def->schema, crd, &checked) + def->check(crd, NULL, &checked), n = 0;
	struct td_kind **kinds = NULL;
	int rc = td_kind_from_crd(crd, &kinds, &n, &causes, NULL);
	if (rc < 0 && !bad)
		abort();

	for (size_t i = 0; rc == 0 && i < n; i++) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		td_kind_openapi(kinds[i], d);
		if (yyjson_is_obj((yyjson_val *)(uintptr_t)v))
			object(kinds[i], v);
		td_kind_free(kinds[i]);
	}
	free(kinds);
	return 0;
}
