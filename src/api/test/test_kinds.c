// Every built-in kind compiles, its defaults are valid by its own schema, and they are those of
// Kubernetes.
// rows: F1.2
#include "api/test/testlib.h"

#include <time.h>

#include "api/schema_priv.h"

static struct td_json *defaulted(const struct td_kind *k, const yyjson_val *v)
{
	yyjson_mut_doc *d = td_jm_copy(v);
	td_schema_prune(k->schema, yyjson_mut_doc_get_root(d), NULL);
	td_schema_default(k->schema, d, yyjson_mut_doc_get_root(d));
	if (k->set_defaults)
		k->set_defaults(d, yyjson_mut_doc_get_root(d));
	return td_jm_done(d);
}

// Checks that every default below a node is valid in its place.
static void walk(const struct td_schema *s, const char *kind)
{
	if (s->def) {
		yyjson_mut_doc *d = td_jm_copy(s->def);
		td_schema_default(s, d, yyjson_mut_doc_get_root(d));
		td_auto(td_json_unref) struct td_json *j = td_jm_done(d);
		td_auto_causes struct td_causes c = {0};
		if (td_schema_validate(s, td_json_root(j), &c))
			fail_msg("%s: default refused: %s: %s", kind, c.v[0].field, c.v[0].message);
	}

	if (s->limits && s->limits->pattern && !td_pattern_ok(s->limits->pattern->text))
		fail_msg("%s: pattern %s", kind, s->limits->pattern->text);
	for (size_t i = 0; i < s->n_props; i++)
		walk(s->props[i].s, kind);
	if (s->additional)
		walk(s->additional, kind);
	if (s->items)
		walk(s->items, kind);
}

static void test_table(void **state)
{
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	size_t n;
	const struct td_kind *const *t = td_kinds_builtin(&n);
	clock_gettime(CLOCK_MONOTONIC, &b);
	print_message("%zu kinds in %.1f ms\n", n,
		      (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6);

	assert_true(n >= 15);
	for (size_t i = 0; i < n; i++) {
		assert_non_null(t[i]->schema);
		assert_non_null(td_schema_declared(t[i]->schema, "metadata"));
		assert_true(t[i]->n_columns > 0);
		walk(t[i]->schema, t[i]->kind);
	}

	assert_non_null(td_kind_builtin("", "Pod"));
	assert_non_null(td_kind_builtin("apps", "Deployment"));
	assert_null(td_kind_builtin("", "Deployment"));
	assert_true(td_kind_builtin("apps", "StatefulSet")->scale);
	assert_string_equal(td_kind_builtin("apps", "StatefulSet")->scale_spec, ".spec.replicas");
	assert_false(td_kind_builtin("", "Node")->namespaced);
}

// A comma in a text without quotes ends it in YAML's short form, and what follows becomes a keyword that
// kubectl and API servers refuse: "or waits here.: null".
static void no_null(yyjson_val *v, const char *kind, const char *key)
{
	size_t i, n;
	yyjson_val *k, *x;
	if (yyjson_is_null(v))
		fail_msg("%s: \"%s\" has no value", kind, key);
	yyjson_arr_foreach (v, i, n, x)
		no_null(x, kind, key);
	yyjson_obj_foreach (v, i, n, k, x)
		no_null(x, kind, yyjson_get_str(k));
}

static void test_crds(void **state)
{
	size_t n, own = 0;
	const struct td_kind *const *t = td_kinds_builtin(&n);
	for (size_t i = 0; i < n; i++) {
		if (!td_kind_has_crd(t[i]))
			continue;
		td_auto(td_json_unref) struct td_json *crd = td_kind_crd(t[i]->kind);
		no_null(td_json_root(crd), t[i]->kind, "");
		own++;
	}
	assert_true(own >= 10);
}

static void test_pod_defaults(void **state)
{
	const struct td_kind *k = td_kind_builtin("", "Pod");
	td_auto(td_json_unref) struct td_json *in = Y(
		"{apiVersion: v1, kind: Pod, metadata: {name: a, creationTimestamp: null}, spec: {containers: [{name: "
		"c, image: debian, resources: {limits: {cpu: 0.5, memory: 1024Mi}}, ports: [{containerPort: 80}], "
		"readinessProbe: {httpGet: {port: http}}}], volumes: [{name: v, configMap: {name: x}}], bogus: 1}}");
	td_auto(td_json_unref) struct td_json *j = defaulted(k, td_json_root(in));
	const yyjson_val *o = td_json_root(j);
	td_auto_causes struct td_causes c = {0};
	if (td_schema_validate(k->schema, o, &c))
		fail_msg("%s: %s", c.v[0].field, c.v[0].message);

	assert_null(td_jget(o, "spec.bogus"));
	assert_string_equal(td_jstr(o, "spec.restartPolicy"), "Always");
	assert_string_equal(td_jstr(o, "spec.dnsPolicy"), "ClusterFirst");
	assert_string_equal(td_jstr(o, "spec.schedulerName"), "default-scheduler");
	assert_int_equal(td_jint(o, "spec.terminationGracePeriodSeconds", 0), 30);
	assert_string_equal(td_jstr(o, "spec.containers.[0].terminationMessagePath"), "/dev/termination-log");
	assert_string_equal(td_jstr(o, "spec.containers.[0].ports.[0].protocol"), "TCP");
	assert_string_equal(td_jstr(o, "spec.containers.[0].resources.limits.cpu"), "500m");
	assert_string_equal(td_jstr(o, "spec.containers.[0].resources.limits.memory"), "1Gi");
	assert_int_equal(td_jint(o, "spec.containers.[0].readinessProbe.periodSeconds", 0), 10);
	assert_int_equal(td_jint(o, "spec.volumes.[0].configMap.defaultMode", 0), 420);
}

// Shared parts are compiled once, keywords beside a $ref make a node of its own, and no $ref shows
// outside.
static void test_shared(void **state)
{
	const struct td_schema *pod = td_kind_builtin("", "Pod")->schema,
			       *dep = td_kind_builtin("apps", "Deployment")->schema;
	const struct td_schema *template = td_schema_declared(td_schema_declared(dep, "spec"), "template");
	const struct td_schema *spec = td_schema_declared(pod, "spec");
	assert_non_null(spec);
	assert_ptr_equal(td_schema_declared(template, "spec"), spec);
	assert_ptr_equal(td_schema_declared(pod, "metadata"), td_schema_declared(dep, "metadata"));

	const struct td_schema *containers = td_schema_declared(spec, "containers"),
			       *init = td_schema_declared(spec, "initContainers");
	assert_ptr_equal(containers->items, init->items);
	assert_non_null(containers->limits); // minItems stands beside the $ref
	assert_int_equal(containers->limits->min_items, 1);
	assert_null(init->limits);

	// properties stand beside the $ref.
	const struct td_schema *debug = td_schema_declared(spec, "ephemeralContainers")->items;
	assert_non_null(td_schema_declared(debug, "image"));
	assert_non_null(td_schema_declared(debug, "targetContainerName"));
	assert_null(td_schema_declared(containers->items, "targetContainerName"));

	size_t n;
	const struct td_kind *const *t = td_kinds_builtin(&n);
	for (size_t i = 0; i < n; i++) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		td_auto_free char *text = td_json_mut_text(td_kind_openapi(t[i], d), NULL);
		assert_null(strstr(text, "$ref"));
		assert_non_null(strstr(text, "\"generateName\""));
	}
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = td_kind_openapi(td_kind_builtin("apps", "Deployment"), d);
	assert_string_equal(td_jm_getstr(o, "properties.spec.properties.template.properties.spec.properties.containers."
					    "items.properties.image.type"),
			    "string");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_crds),
		cmocka_unit_test(test_pod_defaults),
		cmocka_unit_test(test_shared),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
