// Input: a YAML stream of a schema (or a CRD) and two values. The target runs the whole engine on
// them, also with the schemas of Pods, Deployments and other kinds.
// rows: F1.2
#include "api/kinds.h"
#include "api/selector.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void engine(const struct td_schema *s, const yyjson_val *a, const yyjson_val *b)
{
	td_auto_causes struct td_causes c = {0};
	td_auto_strv struct td_strv unknown = {0};

	yyjson_mut_doc *d = td_jm_copy(a);
	td_schema_prune(s, yyjson_mut_doc_get_root(d), &unknown);
	td_schema_default(s, d, yyjson_mut_doc_get_root(d));
	td_auto(td_json_unref) struct td_json *now = td_jm_done(d), *r1 = NULL, *r2 = NULL, *r3 = NULL;
	td_schema_validate(s, td_json_root(now), &c);
	td_strategic_merge(s, a, b, &r1, NULL);
	struct td_api_apply o = {.manager = "m1", .subresource = "", .api_version = "v1"},
			    p = {.manager = "m2", .subresource = "", .api_version = "v1", .force = true};
	if (!td_schema_apply(s, a, b, &o, &c, &r2, NULL))
		td_schema_apply(s, td_json_root(r2), a, &p, NULL, &r3, NULL);
	if (yyjson_is_obj(td_json_root(now))) {
		d = td_jm_copy(td_json_root(now));
		td_schema_track(s, yyjson_is_obj((yyjson_val *)(uintptr_t)b) ? b : NULL, d, yyjson_mut_doc_get_root(d),
				&o);
		yyjson_mut_doc_free(d);
	}
}

static void kind(const char *group, const char *name, const yyjson_val *a, const yyjson_val *b)
{
	const struct td_kind *k = td_kind_builtin(group, name);
	td_auto_causes struct td_causes c = {0};
	if (!yyjson_is_obj((yyjson_val *)(uintptr_t)a))
		return;
	engine(k->schema, a, b);
	td_meta_check(k, a, &c);

	yyjson_mut_doc *d = td_jm_copy(a);
	td_schema_prune(k->schema, yyjson_mut_doc_get_root(d), NULL);
	td_schema_default(k->schema, d, yyjson_mut_doc_get_root(d));
	if (k->set_defaults)
		k->set_defaults(d, yyjson_mut_doc_get_root(d));

	td_auto(td_json_unref) struct td_json *now = td_jm_done(d);
	td_schema_validate(k->schema, td_json_root(now), &c);
	if (k->check) {
		k->check(td_json_root(now), NULL, &c);
		k->check(td_json_root(now), b, &c);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	td_auto_json_list struct td_json_list l = {0};
	if (size > 1 << 14 || td_yaml_parse((const char *)data, size, &l, NULL) || !l.n)
		return 0;
	const yyjson_val *a = td_json_root(l.v[0]), *b = td_json_root(l.v[l.n > 1]),
			 *v = td_json_root(l.v[l.n > 2 ? 2 : 0]);

	td_auto(td_schema_free) struct td_schema *s = NULL;
	if (!td_schema_compile(l.v[0], a, &s, NULL))
		engine(s, b, v);
	kind("", "Pod", a, b);
	kind("", "Secret", a, b);
	kind("apps", "Deployment", a, b);
	kind("apps", "StatefulSet", a, b);
	kind("batch", "Job", a, b);
	kind("apiextensions.k8s.io", "CustomResourceDefinition", a, b);

	const char *why;
	td_api_pod_fits_node(a, b, false, &why);
	td_api_pod_request(a, "cpu");
	td_auto(td_selector_free) struct td_selector *sel = NULL;
	if (!td_selector_from_object(a, &sel, NULL))
		td_selector_matches(sel, b);
	return 0;
}
