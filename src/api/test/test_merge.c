// Strategic merge patches and server-side apply on real kinds.
// rows: F1.2
#include "api/test/testlib.h"

static const struct td_schema *of(const char *group, const char *kind)
{
	return td_kind_builtin(group, kind)->schema;
}

static void smp(const char *target, const char *patch, const char *want)
{
	td_auto(td_json_unref) struct td_json *t = Y(target), *p = Y(patch), *r = NULL;
	struct td_error err = TD_ERROR_INIT;
	if (td_strategic_merge(of("", "Pod"), td_json_root(t), td_json_root(p), &r, &err))
		fail_msg("%s: %s", patch, err.msg);
	td_auto(td_json_unref) struct td_json *w = Y(want);
	// The order of lists counts, the order of keys does not.
	if (!td_jequal(td_json_root(r), td_json_root(w)))
		assert_json(td_json_root(r), want);
}

static void test_strategic(void **state)
{
	// Merge keys: containers and env by name, ports by containerPort; volumes have $retainKeys.
	smp("{spec: {containers: [{name: a, image: x}, {name: b, image: y}]}}",
	    "{spec: {containers: [{name: b, image: z}]}}",
	    "{spec: {containers: [{name: a, image: x}, {name: b, image: z}]}}");
	smp("{spec: {containers: [{name: a, env: [{name: K, value: '1'}, {name: L, value: '2'}]}]}}",
	    "{spec: {containers: [{name: a, env: [{name: L, value: '3'}, {name: M, value: '4'}]}]}}",
	    "{spec: {containers: [{name: a, env: [{name: K, value: '1'}, {name: L, value: '3'}, {name: M, value: "
	    "'4'}]}]}}");
	smp("{spec: {containers: [{name: a, ports: [{containerPort: 80, name: w}]}]}}",
	    "{spec: {containers: [{name: a, ports: [{containerPort: 80, protocol: UDP}, {containerPort: 81}]}]}}",
	    "{spec: {containers: [{name: a, ports: [{containerPort: 80, name: w, protocol: UDP}, {containerPort: "
	    "81}]}]}}");
	smp("{spec: {volumes: [{name: v, emptyDir: {}}]}}",
	    "{spec: {volumes: [{name: v, $retainKeys: [name, hostPath], hostPath: {path: /x}}]}}",
	    "{spec: {volumes: [{name: v, hostPath: {path: /x}}]}}");

	// Atomic lists are replaced, null deletes, maps are joined.
	smp("{spec: {containers: [{name: a, command: [x, y], args: [z]}]}}",
	    "{spec: {containers: [{name: a, command: [q], args: null}]}}",
	    "{spec: {containers: [{name: a, command: [q]}]}}");
	smp("{metadata: {labels: {a: b, c: d}}}", "{metadata: {labels: {a: null, e: f}}}",
	    "{metadata: {labels: {c: d, e: f}}}");

	// The directives.
	smp("{spec: {containers: [{name: a}, {name: b}]}}", "{spec: {containers: [{name: a, $patch: delete}]}}",
	    "{spec: {containers: [{name: b}]}}");
	smp("{spec: {containers: [{name: a, image: x}]}}", "{spec: {containers: [{$patch: replace}, {name: n}]}}",
	    "{spec: {containers: [{name: n}]}}");
	smp("{metadata: {labels: {a: b}}}", "{metadata: {labels: {$patch: replace, c: d}}}",
	    "{metadata: {labels: {c: d}}}");
	smp("{metadata: {labels: {a: b}, name: x}}", "{metadata: {labels: {$patch: delete}}}", "{metadata: {name: x}}");
	smp("{metadata: {finalizers: [a/x, b/x]}}",
	    "{metadata: {$deleteFromPrimitiveList/finalizers: [a/x], finalizers: [c/x]}}",
	    "{metadata: {finalizers: [c/x, b/x]}}");

	// A new item without an order comes before items that only the server has, as in a real API
	// server.
	smp("{spec: {containers: [{name: a}]}}", "{spec: {containers: [{name: n}]}}",
	    "{spec: {containers: [{name: n}, {name: a}]}}");

	// With an order, named items come in that order, and items that only the server has keep
	// their place.
	smp("{spec: {containers: [{name: a}, {name: s}, {name: b}]}}",
	    "{spec: {$setElementOrder/containers: [{name: b}, {name: a}], containers: [{name: a, image: q}]}}",
	    "{spec: {containers: [{name: s}, {name: b}, {name: a, image: q}]}}");
	smp("{spec: {containers: [{name: a}, {name: b}]}}",
	    "{spec: {$setElementOrder/containers: [{name: b}, {name: a}]}}",
	    "{spec: {containers: [{name: b}, {name: a}]}}");

	smp("{spec: {containers: [{name: a}]}}",
	    "{spec: {$setElementOrder/containers: [{name: n}, {name: a}], containers: [{name: n}]}}",
	    "{spec: {containers: [{name: n}, {name: a}]}}");
	smp("{}", "{spec: {containers: [{name: a, $patch: delete}, {name: b, image: null}]}}",
	    "{spec: {containers: [{name: b}]}}");

	td_auto(td_json_unref) struct td_json *t = Y("{spec: {containers: [{name: a}]}}"),
					      *p = Y("{spec: {containers: [{image: b}]}}"), *r = NULL;

	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_strategic_merge(of("", "Pod"), td_json_root(t), td_json_root(p), &r, &err), TD_INVALID);
	assert_null(r);
	assert_non_null(strstr(err.msg, "name"));
}

static int apply(const struct td_schema *s, struct td_json **live, const char *manager, bool force, const char *config,
		 struct td_causes *causes, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *c = Y(config);
	const struct td_api_apply o = {.manager = manager,
				       .subresource = "",
				       .api_version = "v1",
				       .force = force,
				       .now_ms = 1700000000000,
				       .typed = true};

	struct td_json *r = NULL;
	int rc = td_schema_apply(s, td_json_root(*live), td_json_root(c), &o, causes, &r, err);
	if (!rc) {
		td_json_unref(*live);
		*live = r;
	}
	return rc;
}

static void must(const struct td_schema *s, struct td_json **live, const char *manager, const char *config)
{
	struct td_error err = TD_ERROR_INIT;
	if (apply(s, live, manager, false, config, NULL, &err))
		fail_msg("apply by %s: %s", manager, err.msg);
}

static void test_apply_order(void **state)
{
	// Seen on a real API server: items that another manager applied keep their place before
	// mine.
	td_auto(td_json_unref) struct td_json *live = Y("{apiVersion: v1, kind: Pod, metadata: {name: p}}");
	const struct td_schema *s = of("", "Pod");
	must(s, &live, "m1",
	     "{apiVersion: v1, kind: Pod, metadata: {name: p, finalizers: [x/f]}, spec: {containers: [{name: a}]}}");
	must(s, &live, "m2",
	     "{apiVersion: v1, kind: Pod, metadata: {name: p, finalizers: [x/g]}, spec: {containers: [{name: b}]}}");
	assert_json(td_jget(td_json_root(live), "metadata.finalizers"), "[x/f, x/g]");
	assert_json(td_jget(td_json_root(live), "spec.containers"), "[{name: a}, {name: b}]");
	must(s, &live, "m2",
	     "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}, {name: b}]}}");
	assert_json(td_jget(td_json_root(live), "spec.containers"), "[{name: a}, {name: c}, {name: b}]");
}

static void test_track_typed(void **state)
{
	// Structures that a built-in kind always has, and what the server writes into status,
	// belong to nobody.
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_auto(td_json_unref) struct td_json *sent =
		Y("{metadata: {generateName: g-}, spec: {strategy: {type: Recreate}, template: {metadata: {labels: {a: "
		  "b}}, spec: {containers: [{name: c}]}}}, status: {replicas: 0}}");
	yyjson_mut_doc_set_root(d, yyjson_val_mut_copy(d, td_json_root(sent)));

	struct td_api_apply o = {.manager = "m",
				 .subresource = "",
				 .api_version = "apps/v1",
				 .now_ms = 1,
				 .typed = true,
				 .no_status = true};

	td_schema_track(of("apps", "Deployment"), NULL, d, yyjson_mut_doc_get_root(d), &o);
	td_auto(td_json_unref) struct td_json *now = td_json_from_mut(yyjson_mut_doc_get_root(d));
	assert_json(td_jget(td_json_root(now), "metadata.managedFields.[0].fieldsV1"),
		    "{'f:metadata': {'f:generateName': {}}, 'f:spec': {'f:strategy': {'f:type': {}}, 'f:template': "
		    "{'f:metadata': {'f:labels': {'.': {}, 'f:a': {}}}, 'f:spec': {'f:containers': "
		    "{'k:{\"name\":\"c\"}': {'.': {}, 'f:name': {}}}}}}}");

	// [{}] starts anew: the object is not tracked until the next apply.
	td_jm_set(d, yyjson_mut_doc_get_root(d), "metadata.managedFields", yyjson_mut_arr(d));
	yyjson_mut_arr_add_obj(d, td_jm_get(yyjson_mut_doc_get_root(d), "metadata.managedFields"));
	td_schema_track(of("apps", "Deployment"), td_json_root(now), d, yyjson_mut_doc_get_root(d), &o);
	assert_null(td_jm_get(yyjson_mut_doc_get_root(d), "metadata.managedFields"));
}

static void test_tidy(void **state)
{
	td_auto(td_json_unref) struct td_json *sent =
		Y("{spec: {nodeSelector: {}, tolerations: [], securityContext: {}, containers: [{name: a, env: [], "
		  "resources: {limits: {}}}], volumes: [{name: v, emptyDir: {}}]}}");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(sent));
	td_schema_tidy(of("", "Pod"), yyjson_mut_doc_get_root(d));
	td_auto(td_json_unref) struct td_json *now = td_json_from_mut(yyjson_mut_doc_get_root(d));
	assert_json(td_json_root(now), "{spec: {securityContext: {}, containers: [{name: a, resources: {}}], volumes: "
				       "[{name: v, emptyDir: {}}]}}");
}

static void test_duplicates(void **state)
{
	static const char text[] = "{\"a\":{\"x\":1,\"y\":2,\"x\":3},\"l\":[{\"k\":1,\"k\":2}],\"b\":1}";
	struct td_json *j = NULL;

	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	td_auto_strv struct td_strv twice = {0};
	assert_true(td_duplicates_drop(&j, &twice));
	assert_int_equal(twice.n, 2);
	assert_string_equal(twice.v[0], "a.x");
	assert_string_equal(twice.v[1], "l[0].k");
	assert_json(td_json_root(j), "{a: {x: 3, y: 2}, l: [{k: 2}], b: 1}");

	assert_false(td_duplicates_drop(&j, &twice));
	td_json_unref(j);
}

static void assert_owned(const struct td_json *j, const char *manager, const char *want)
{
	size_t i, max;
	yyjson_val *e;
	yyjson_arr_foreach (td_jget(td_json_root(j), "metadata.managedFields"), i, max, e) {
		if (!strcmp(td_jstr_or(e, "manager", ""), manager)) {
			assert_non_null(want);
			assert_json(td_jkey(e, "fieldsV1"), want);
			return;
		}
	}
	assert_null(want);
}

static void test_apply_configmap(void **state)
{
	const struct td_schema *s = of("", "ConfigMap");
	td_auto(td_json_unref) struct td_json *live = NULL;

	must(s, &live, "m1",
	     "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: n, labels: {l: '1'}}, data: {a: '1', b: "
	     "'2'}}");
	assert_owned(live, "m1", "{f:metadata: {f:labels: {f:l: {}}}, f:data: {f:a: {}, f:b: {}}}");

	// Another manager shares an equal value. A different value is a conflict, named as
	// Kubernetes names it.
	must(s, &live, "m2", "{metadata: {name: c}, data: {b: '2', c: '3'}}");
	assert_owned(live, "m2", "{f:data: {f:b: {}, f:c: {}}}");

	td_auto_causes struct td_causes c = {0};
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(apply(s, &live, "m2", false, "{metadata: {name: c}, data: {a: x, c: '3'}}", &c, &err),
			 TD_CONFLICT);
	assert_string_equal(err.msg, "Apply failed with 1 conflict: conflict with \"m1\": .data.a");
	assert_int_equal(c.n, 1);
	assert_string_equal(c.v[0].reason, "FieldManagerConflict");
	assert_string_equal(c.v[0].field, ".data.a");
	assert_string_equal(c.v[0].message, "conflict with \"m1\"");
	assert_int_equal(apply(s, &live, "m2", false, "{metadata: {name: c}, data: {a: x, b: y}}", NULL, &err),
			 TD_CONFLICT);
	assert_string_equal(err.msg, "Apply failed with 2 conflicts: conflicts with \"m1\":\n- .data.a\n- .data.b");

	// Force takes the field. What m1 no longer applies and nobody else has goes away; what m2
	// has stays.
	assert_int_equal(apply(s, &live, "m2", true, "{metadata: {name: c}, data: {a: x, b: '2'}}", NULL, &err), 0);
	assert_json(td_jget(td_json_root(live), "data"), "{a: x, b: '2'}");
	assert_owned(live, "m1", "{f:metadata: {f:labels: {f:l: {}}}, f:data: {f:b: {}}}");
	assert_owned(live, "m2", "{f:data: {f:a: {}, f:b: {}}}");
	must(s, &live, "m1", "{metadata: {name: c}}");
	assert_json(td_jget(td_json_root(live), "data"), "{a: x, b: '2'}");
	assert_null(td_jget(td_json_root(live), "metadata.labels"));
	assert_owned(live, "m1", NULL);
	must(s, &live, "m2", "{metadata: {name: c}}");
	assert_null(td_jget(td_json_root(live), "data"));
	assert_null(td_jget(td_json_root(live), "metadata.managedFields"));
}

static void test_apply_lists(void **state)
{
	const struct td_schema *s = of("", "Pod");
	td_auto(td_json_unref) struct td_json *live = NULL;
	must(s, &live, "m1",
	     "{metadata: {name: p}, spec: {containers: [{name: a, image: x, command: [run], ports: [{containerPort: "
	     "80}]}], nodeSelector: {k: v}}}");
	assert_owned(live, "m1",
		     "{f:spec: {f:nodeSelector: {}, f:containers: {'k:{\"name\":\"a\"}': {.: {}, f:name: {}, f:image: "
		     "{}, f:command: {}, f:ports: {'k:{\"containerPort\":80,\"protocol\":\"TCP\"}': {.: {}, "
		     "f:containerPort: {}}}}}}}");

	must(s, &live, "m2", "{spec: {containers: [{name: b, image: y}, {name: a, env: [{name: E, value: '1'}]}]}}");
	assert_json(td_jget(td_json_root(live), "spec.containers"),
		    "[{name: b, image: y}, {name: a, image: x, command: [run], ports: [{containerPort: 80}], env: "
		    "[{name: E, value: '1'}]}]");

	// A change inside a list item conflicts by its key.
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(apply(s, &live, "m2", false, "{spec: {containers: [{name: a, image: z}]}}", NULL, &err),
			 TD_CONFLICT);
	assert_string_equal(err.msg,
			    "Apply failed with 1 conflict: conflict with \"m1\": .spec.containers[name=\"a\"].image");

	// An atomic list is one field.
	assert_int_equal(
		apply(s, &live, "m2", false, "{spec: {containers: [{name: a, command: [run, more]}]}}", NULL, &err),
		TD_CONFLICT);
	assert_string_equal(err.msg,
			    "Apply failed with 1 conflict: conflict with \"m1\": .spec.containers[name=\"a\"].command");

	// m2 lets go of b: the whole item goes, and its env in a goes too; what m1 has stays.
	must(s, &live, "m2", "{spec: {containers: [{name: a}]}}");
	assert_json(td_jget(td_json_root(live), "spec.containers"),
		    "[{name: a, image: x, command: [run], ports: [{containerPort: 80}]}]");

	// A list of type set has one field per value.
	must(s, &live, "m1", "{metadata: {finalizers: [x/a]}, spec: {containers: [{name: a, image: x}]}}");
	must(s, &live, "m3", "{metadata: {finalizers: [x/b]}}");
	assert_owned(live, "m3", "{f:metadata: {f:finalizers: {'v:\"x/b\"': {}}}}");
	must(s, &live, "m1", "{spec: {containers: [{name: a, image: x}]}}");
	assert_json(td_jget(td_json_root(live), "metadata.finalizers"), "[x/b]");

	// managedFields cannot be applied, and a manager is required.
	assert_int_equal(apply(s, &live, "m1", false, "{metadata: {managedFields: [{}]}}", NULL, &err), TD_INVALID);
	assert_int_equal(apply(s, &live, "", false, "{metadata: {name: p}}", NULL, &err), TD_INVALID);
}

static void track(const struct td_schema *s, struct td_json **live, const char *manager, const char *sub,
		  const char *now)
{
	td_auto(td_json_unref) struct td_json *n = Y(now);

	yyjson_mut_doc *d = td_jm_copy(td_json_root(n));
	const struct td_api_apply o = {
		.manager = manager, .subresource = sub, .api_version = "v1", .now_ms = 1700000000000, .typed = true};
	td_schema_track(s, td_json_root(*live), d, yyjson_mut_doc_get_root(d), &o);
	td_json_unref(*live);
	*live = td_jm_done(d);
}

static void test_track(void **state)
{
	const struct td_schema *s = of("", "ConfigMap");
	td_auto(td_json_unref) struct td_json *live = NULL;

	track(s, &live, "kubectl-create", "",
	      "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, uid: u}, data: {a: '1', b: '2'}}");
	assert_owned(live, "kubectl-create", "{f:data: {.: {}, f:a: {}, f:b: {}}}");
	track(s, &live, "edit", "", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, uid: u}, data: {a: '9'}}");
	assert_owned(live, "kubectl-create", "{f:data: {}}");
	assert_owned(live, "edit", "{f:data: {f:a: {}}}");

	// A conflict with an Update names its version.
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(apply(s, &live, "m1", false, "{metadata: {name: c}, data: {a: x}}", NULL, &err), TD_CONFLICT);
	assert_string_equal(err.msg, "Apply failed with 1 conflict: conflict with \"edit\" using v1: .data.a");

	// A write that changes nothing records nothing.
	td_auto_free char *before = td_json_text(td_jget(td_json_root(live), "metadata.managedFields"), NULL);
	track(s, &live, "other", "", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, uid: u}, data: {a: '9'}}");
	td_auto_free char *after = td_json_text(td_jget(td_json_root(live), "metadata.managedFields"), NULL);
	assert_string_equal(before, after);

	// [{}] starts anew.
	track(s, &live, "other", "", "{metadata: {name: c, managedFields: [{}]}, data: {a: '9'}}");
	assert_null(td_jget(td_json_root(live), "metadata.managedFields"));

	// Old Update entries are joined.
	for (int i = 0; i < 15; i++) {
		td_auto_free char *m = td_asprintf("w%02d", i),
				  *v = td_asprintf("{metadata: {name: c}, data: {a: '9', k%d: x", i);
		td_auto_buf struct td_buf b = {0};
		td_buf_puts(&b, v);
		for (int j = 0; j < i; j++)
			td_buf_printf(&b, ", k%d: x", j);
		td_buf_puts(&b, "}}");
		track(s, &live, m, "", td_buf_str(&b));
	}

	assert_true(yyjson_arr_size(td_jget(td_json_root(live), "metadata.managedFields")) <= 10);
}

static void test_track_status(void **state)
{
	const struct td_schema *s = of("", "Pod");
	td_auto(td_json_unref) struct td_json *live = NULL;
	track(s, &live, "user", "", "{metadata: {name: p}, spec: {containers: [{name: a, image: x}]}}");
	track(s, &live, "agent", "status",
	      "{metadata: {name: p}, spec: {containers: [{name: a, image: x}]}, status: {phase: Running, conditions: "
	      "[{type: Ready, status: 'True'}]}}");
	assert_owned(live, "agent",
		     "{f:status: {f:phase: {}, f:conditions: {.: {}, 'k:{\"type\":\"Ready\"}': {.: {}, f:type: {}, "
		     "f:status: {}}}}}");
	assert_string_equal(td_jstr(td_json_root(live), "metadata.managedFields.[0].subresource"), "status");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strategic),    cmocka_unit_test(test_apply_order),
		cmocka_unit_test(test_track_typed),  cmocka_unit_test(test_tidy),
		cmocka_unit_test(test_duplicates),   cmocka_unit_test(test_apply_configmap),
		cmocka_unit_test(test_apply_lists),  cmocka_unit_test(test_track),
		cmocka_unit_test(test_track_status),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
