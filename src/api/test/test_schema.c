// The schema engine on many small schemas, and CRDs.
// rows: A2.1 F1.2
#include "api/test/testlib.h"

#include "api/schema_priv.h"

static struct td_schema *compile(const char *text)
{
	td_auto(td_json_unref) struct td_json *j = Y(text);
	struct td_schema *s = NULL;
	struct td_error err = TD_ERROR_INIT;
	if (td_schema_compile(j, td_json_root(j), &s, &err))
		fail_msg("%s: %s", text, err.msg);
	return s;
}

static void test_validate(void **state)
{
	static const struct {
		const char *schema, *value, *field, *reason; // reason NULL: valid
	} t[] = {
		{"{type: string}", "x", "", NULL},
		{"{type: string}", "1", "", "FieldValueTypeInvalid"},
		{"{type: integer}", "1", "", NULL},
		{"{type: integer}", "1.0", "", NULL},
		{"{type: integer}", "1.5", "", "FieldValueTypeInvalid"},
		{"{type: integer}", "'1'", "", "FieldValueTypeInvalid"},
		{"{type: number}", "1.5", "", NULL},
		{"{type: boolean}", "true", "", NULL},
		{"{type: boolean}", "'true'", "", "FieldValueTypeInvalid"},
		{"{type: integer, minimum: 1}", "0", "", "FieldValueInvalid"},
		{"{type: integer, minimum: 1, exclusiveMinimum: true}", "1", "", "FieldValueInvalid"},
		{"{type: integer, maximum: 5}", "6", "", "FieldValueInvalid"},
		{"{type: integer, multipleOf: 3}", "7", "", "FieldValueInvalid"},
		{"{type: integer, format: int32}", "3000000000", "", "FieldValueInvalid"},
		{"{type: string, enum: [a, b]}", "c", "", "FieldValueNotSupported"},
		{"{type: string, minLength: 1}", "''", "", "FieldValueRequired"},
		{"{type: string, maxLength: 2}", "äöü", "", "FieldValueTooLong"},
		{"{type: string, maxLength: 3}", "äöü", "", NULL},
		{"{type: string, pattern: '^[a-z]+$'}", "aB", "", "FieldValueInvalid"},
		{"{type: string, pattern: '^\\d{2}(?:x|y)$'}", "12y", "", NULL},
		{"{type: string, pattern: '^[\\w.-]+$'}", "a_b.c-d", "", NULL},
		{"{type: string, pattern: '^[\\]\\-]$'}", "']'", "", NULL},
		{"{type: string, format: date-time}", "'2026-01-31T12:00:00Z'", "", NULL},
		{"{type: string, format: date-time}", "yesterday", "", "FieldValueInvalid"},
		{"{type: string, format: byte}", "YWI=", "", NULL},
		{"{type: string, format: byte}", "YW*=", "", "FieldValueInvalid"},
		{"{type: string, format: duration}", "1h30m", "", NULL},
		{"{type: string, format: duration}", "'30'", "", "FieldValueInvalid"},
		{"{x-kubernetes-int-or-string: true}", "25%", "", NULL},
		{"{x-kubernetes-int-or-string: true}", "3", "", NULL},
		{"{x-kubernetes-int-or-string: true}", "true", "", "FieldValueTypeInvalid"},
		{"{x-kubernetes-int-or-string: true, format: quantity}", "0.5", "", NULL},
		{"{x-kubernetes-int-or-string: true, format: quantity}", "5 Gi", "", "FieldValueInvalid"},
		{"{type: string, nullable: true}", "null", "", NULL},
		{"{type: string}", "null", "", "FieldValueTypeInvalid"},
		{"{type: object, required: [a], properties: {a: {type: string}}}", "{}", "a", "FieldValueRequired"},
		{"{type: object, properties: {a: {type: object, properties: {b: {type: string}}}}}", "{a: {b: 1}}",
		 "a.b", "FieldValueTypeInvalid"},
		{"{type: object, additionalProperties: {type: integer}}", "{x: 1, nvidia.com/gpu: a}",
		 "[nvidia.com/gpu]", "FieldValueTypeInvalid"},
		{"{type: object, properties: {l: {type: array, items: {type: integer}}}}", "{l: [1, a]}", "l[1]",
		 "FieldValueTypeInvalid"},
		{"{type: object, additionalProperties: {type: string}, maxProperties: 1}", "{a: b, c: d}", "",
		 "FieldValueTooMany"},
		{"{type: array, minItems: 1, items: {type: string}}", "[]", "", "FieldValueRequired"},
		{"{type: array, maxItems: 1, items: {type: string}}", "[a, b]", "", "FieldValueTooMany"},
		{"{type: array, x-kubernetes-list-type: set, items: {type: string}}", "[a, b, a]", "[2]",
		 "FieldValueDuplicate"},
		{"{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [n], items: {type: object, "
		 "required: [n], properties: {n: {type: string}}}}",
		 "[{n: a}, {n: a}]", "[1].n", "FieldValueDuplicate"},
		{"{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [n, p], items: {type: object, "
		 "required: [n], properties: {n: {type: string}, p: {type: string, default: TCP}}}}",
		 "[{n: a}, {n: a, p: TCP}]", "[1]", "FieldValueDuplicate"},
		{"{type: object, properties: {a: {type: string}, b: {type: string}}, oneOf: [{required: [a]}, "
		 "{required: [b]}]}",
		 "{a: x, b: y}", "", "FieldValueInvalid"},
		{"{type: object, properties: {a: {type: string}, b: {type: string}}, oneOf: [{required: [a]}, "
		 "{required: [b]}]}",
		 "{a: x}", "", NULL},
		{"{type: integer, anyOf: [{minimum: 10}, {maximum: 1}]}", "5", "", "FieldValueInvalid"},
		{"{type: integer, allOf: [{minimum: 1}, {maximum: 3}]}", "5", "", "FieldValueInvalid"},
		{"{type: string, not: {enum: [bad]}}", "bad", "", "FieldValueInvalid"},
		{"{type: string, not: {enum: [bad]}}", "good", "", NULL},
	};

	for (size_t i = 0; i < TD_LEN(t); i++) {
		td_auto(td_schema_free) struct td_schema *s = compile(t[i].schema);
		td_auto_free char *wrapped = td_asprintf("{v: %s}", t[i].value);
		td_auto(td_json_unref) struct td_json *v = Y(wrapped);
		td_auto_causes struct td_causes c = {0};
		size_t n = td_schema_validate(s, td_jkey(td_json_root(v), "v"), &c);
		if (!t[i].reason && n)
			fail_msg("%s on %s: %s: %s", t[i].schema, t[i].value, c.v[0].field, c.v[0].message);
		if (t[i].reason && !has_cause(&c, t[i].reason, t[i].field, ""))
			fail_msg("%s on %s: no %s at %s", t[i].schema, t[i].value, t[i].reason, t[i].field);
	}
}

static void test_bounded(void **state)
{
	td_auto(td_schema_free) struct td_schema *s = compile("{type: array, items: {type: string}}");
	td_auto_buf struct td_buf b = {0};
	td_buf_puts(&b, "[0");
	for (int i = 0; i < 500; i++)
		td_buf_puts(&b, ",0");
	td_buf_puts(&b, "]");
	td_auto(td_json_unref) struct td_json *v = Y(td_buf_str(&b));
	td_auto_causes struct td_causes c = {0};
	assert_int_equal(td_schema_validate(s, td_json_root(v), &c), 64);
	assert_int_equal(c.n, 64);
}

// Patterns are in the language of RE2: a pattern may match anywhere, characters are those of
// Unicode, and "$" is the end of the text. What RE2 lacks is refused.
static void test_patterns(void **state)
{
	static const char *const good[][3] = {
		// A pattern, a text that it matches, and one that it does not match.
		{"b+", "abc", "ac"},
		{"^.{3}$", "äöü", "äöüß"},
		{"^a$", "a", "a\n"},
		{"^(?i)ABC$", "abc", "abd"},
		{"^(?P<year>[0-9]{4})-(?:0[1-9]|1[0-2])$", "2026-01", "2026-13"},
		{"^(a|b)*?c$", "ababc", "abab"},
		{"^[]a]+$", "a]", "b"},
		{"^[^]a]$", "b", "]"},
		{"^[[:alpha:]]+$", "ab", "a1"},
		{"^\\p{Greek}+$", "αβγ", "abc"},
		{"^\\Qa+(\\E$", "a+(", "aa"},
		{"^\\x41\\x{42}$", "AB", "ab"},
		{"^a{2}b{1,}c{0,2}$", "aab", "ab"},
		{"^{x}$", "{x}", "x"},
		{"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", "a-b.c", "a-.c"},
		{"^/[^\\s]*$", "/x", "/ x"},
	};

	for (size_t i = 0; i < TD_LEN(good); i++) {
		struct td_pattern p = {.text = good[i][0]};
		if (!td_pattern_ok(p.text))
			fail_msg("%s is refused", p.text);
		if (!td_pattern_matches(&p, good[i][1], strlen(good[i][1])) ||
		    td_pattern_matches(&p, good[i][2], strlen(good[i][2])))
			fail_msg("%s: wrong answer", p.text);
		td_pattern_done(&p);
	}

	static const char *const bad[] = {"[",        "(",          "a**",
					  "a{2}{3}",  "a*+",        "a{2}+",
					  "a{1001}",  "a{,3}",      "(a)\\1",
					  "(?=a)",    "(?!a)",      "(?<=a)b",
					  "(?<!a)b",  "(?>a)",      "(?#x)",
					  "(?|a)",    "(?R)",       "(?1)",
					  "(?P>a)",   "(?P=a)",     "(?(1)a)",
					  "(?C1)",    "(*ACCEPT)a", "(*UCP)a",
					  "(?x)a",    "\\k<a>",     "\\g1",
					  "\\Ka",     "\\R",        "\\X",
					  "\\N",      "\\C",        "\\h",
					  "\\Z",      "\\Ga",       "[\\b]",
					  "[[:<:]]a", "a\\",        "((((a{1000}){1000}){1000}){1000})"};

	for (size_t i = 0; i < TD_LEN(bad); i++)
		if (td_pattern_ok(bad[i]))
			fail_msg("%s is taken", bad[i]);

	td_auto_free char *deep = td_malloc(2001);
	memset(deep, '(', 1000);
	memset(deep + 1000, ')', 1000);
	deep[2000] = '\0';
	assert_false(td_pattern_ok(deep));

	// A NUL is a character like others. A text above the bounds does not match.
	struct td_pattern nul = {.text = "^a.b$"}, any = {.text = "x"}, slow = {.text = "^(([a-z])+.)+[A-Z]([a-z])+$"};
	assert_true(td_pattern_matches(&nul, "a\0b", 3));
	td_auto_free char *text = td_malloc(70000);
	memset(text, 'x', 70000);
	assert_true(td_pattern_matches(&any, text, 60000));
	assert_false(td_pattern_matches(&any, text, 70000));

	// A backtracking matcher would try this for years.
	assert_false(td_pattern_matches(&slow, text, 5000));
	td_pattern_done(&nul);
	td_pattern_done(&any);
	td_pattern_done(&slow);
}

static void test_structural(void **state)
{
	static const char *const bad[] = {
		"{properties: {a: {type: string}}}",
		"{type: object, properties: {a: {}}}",
		"{type: object, properties: {a: {type: array}}}",
		"{type: object, properties: {a: {type: strnig}}}",
		"{type: object, properties: {a: {type: string}}, additionalProperties: {type: string}}",
		"{type: object, additionalProperties: false}",
		"{type: object, properties: {a: {$ref: x}}}",
		"{type: object, properties: {a: {type: string, pattern: '['}}}",
		"{type: object, properties: {a: {type: string, pattern: '(?=x)'}}}",
		"{type: array, items: {type: string}, uniqueItems: true}",
		"{type: array, items: {type: object}, x-kubernetes-list-type: map}",
		("{type: array, items: {type: object, properties: {n: {type: string}}}, x-kubernetes-list-type: map, "
		 "x-kubernetes-list-map-keys: [n]}"),
		"{type: array, items: {type: object}, x-kubernetes-list-type: bag}",
		"{type: string, x-kubernetes-int-or-string: true}",
		"{type: string, x-kubernetes-embedded-resource: true}",
		"{type: object, properties: {a: 3}}",
	};
	for (size_t i = 0; i < TD_LEN(bad); i++) {
		td_auto(td_json_unref) struct td_json *j = Y(bad[i]);
		struct td_schema *s = NULL;
		struct td_error err = TD_ERROR_INIT;
		if (td_schema_compile(j, td_json_root(j), &s, &err) != TD_INVALID)
			fail_msg("%s was taken", bad[i]);
		assert_null(s);
		assert_true(err.msg[0]);
	}

	td_auto(td_json_unref) struct td_json *j =
		Y("{type: object, properties: {spec: {type: object, properties: {x: {type: array, items: {}}}}}}");
	struct td_schema *s = NULL;
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_schema_compile(j, td_json_root(j), &s, &err), TD_INVALID);
	assert_non_null(strstr(err.msg, "properties[spec].properties[x].items: type: Required value"));
}

static void test_default_prune(void **state)
{
	td_auto(td_schema_free) struct td_schema *s =
		compile("{type: object, properties: {a: {type: string, default: x}, o: {type: object, default: {}, "
			"properties: {p: {type: integer, default: 3}}}, m: {type: object, additionalProperties: {type: "
			"object, properties: {q: {type: string, default: z}}}}, l: {type: array, items: {type: object, "
			"properties: {r: {type: boolean, default: true}}}}, n: {type: string}, nn: {type: string, "
			"nullable: true}, free: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: "
			"{k: {type: object, properties: {v: {type: string}}}}}}}");

	td_auto(td_json_unref) struct td_json *in =
		Y("{m: {one: {}, two: {bad: 1}}, l: [{}, {r: false, s: 1}], bogus: {deep: 1}, n: null, nn: null, a: "
		  "null, free: {any: {thing: 1}, none: null, k: {v: x, w: y}}}");

	yyjson_mut_doc *d = td_jm_copy(td_json_root(in));
	td_auto_strv struct td_strv unknown = {0};
	td_schema_prune(s, yyjson_mut_doc_get_root(d), &unknown);
	td_schema_default(s, d, yyjson_mut_doc_get_root(d));
	td_auto(td_json_unref) struct td_json *out = td_jm_done(d);
	assert_json(td_json_root(out), "{a: x, o: {p: 3}, m: {one: {q: z}, two: {q: z}}, l: [{r: true}, {r: false}], "
				       "nn: null, free: {any: {thing: 1}, none: null, k: {v: x}}}");

	static const char *const want[] = {"m.two.bad", "l[1].s", "bogus", "free.k.w"};
	assert_int_equal(unknown.n, TD_LEN(want));
	for (size_t i = 0; i < TD_LEN(want); i++)
		assert_true(td_strv_has(&unknown, want[i]));
}

#define CRD(name, schema)                                                                                              \
	"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: " name                 \
	"}, spec: {group: example.com, scope: Namespaced, names: {plural: widgets, kind: Widget}, versions: [{name: "  \
	"v1, served: true, "                                                                                           \
	"storage: true, subresources: {status: {}, scale: {specReplicasPath: .spec.n, statusReplicasPath: "            \
	".status.n}}, "                                                                                                \
	"additionalPrinterColumns: [{name: N, type: integer, jsonPath: .spec.n}], schema: {openAPIV3Schema: " schema   \
	"}}]}}"

static void test_crd(void **state)
{
	td_auto(td_json_unref) struct td_json *crd = Y(CRD(
		"widgets.example.com",
		"{type: object, properties: {spec: {type: object, properties: {n: {type: integer, default: 2}}}}}"));
	struct td_kind **v = NULL;
	size_t n = 0;
	struct td_error err = TD_ERROR_INIT;
	td_auto_causes struct td_causes c = {0};

	if (td_kind_from_crd(td_json_root(crd), &v, &n, &c, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(n, 1);
	assert_string_equal(v[0]->singular, "widget");
	assert_string_equal(v[0]->list_kind, "WidgetList");
	assert_true(v[0]->status && v[0]->scale && v[0]->namespaced && !v[0]->builtin);
	assert_string_equal(v[0]->columns[0].json_path, ".spec.n");
	assert_non_null(td_schema_declared(v[0]->schema, "metadata"));

	td_auto(td_json_unref) struct td_json *o =
		Y("{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, labels: {x: y}}, spec: {n: 4}}");
	assert_int_equal(td_schema_validate(v[0]->schema, td_json_root(o), &c), 0);
	td_kind_free(v[0]);
	free(v);

	static const struct {
		const char *crd, *field;
	} bad[] = {
		{CRD("wrong.example.com", "{type: object}"), "metadata.name"},
		{CRD("widgets.example.com", "{type: array, items: {type: string}}"),
		 "spec.versions[0].schema.openAPIV3Schema.type"},
		{CRD("widgets.example.com", "{type: object, properties: {spec: {properties: {}}}}"),
		 "spec.versions[0].schema.openAPIV3Schema.properties[spec]"},
#define AT "spec.versions[0].schema.openAPIV3Schema."
		{CRD("widgets.example.com", "{type: object, properties: {a: {type: object, default: {z: 1}, "
					    "properties: {y: {type: string}}}}}"),
		 AT "properties[a].default"},
		{CRD("widgets.example.com",
		     "{type: object, properties: {metadata: {type: object, properties: {labels: {type: object}}}}}"),
		 AT "properties[metadata]"},
		{CRD("widgets.example.com", "{type: object, properties: {kind: {type: integer}}}"),
		 AT "properties[kind].type"},
		{CRD("widgets.example.com", "{type: object, anyOf: [{type: object}]}"), AT "anyOf[0].type"},
		{CRD("widgets.example.com",
		     "{type: object, properties: {a: {type: object, not: {properties: {b: {nullable: true}}}}}}"),
		 AT "properties[a].not.properties[b].nullable"},
		{CRD("widgets.example.com", "{type: object, properties: {spec: {type: string, default: 3}}}"),
		 "spec.versions[0].schema.openAPIV3Schema.properties[spec].default"},
	};
	const struct td_kind *k = td_kind_builtin("apiextensions.k8s.io", "CustomResourceDefinition");
	for (size_t i = 0; i < TD_LEN(bad); i++) {
		td_auto(td_json_unref) struct td_json *b = Y(bad[i].crd);
		td_auto_causes struct td_causes why = {0};
		assert_int_equal(td_kind_from_crd(td_json_root(b), &v, &n, &why, &err), TD_INVALID);
		assert_true(has_cause(&why, NULL, bad[i].field, ""));
		td_auto_causes struct td_causes again = {0};
		assert_true(k->check(td_json_root(b), NULL, &again) > 0);
	}
}

// Accepted: what tools write for a field that is a number or a text, rules for names in metadata,
// and a default that is null.
static void test_crd_shapes(void **state)
{
	static const char *const good[] = {
		CRD("widgets.example.com", "{type: object, properties: {a: {x-kubernetes-int-or-string: true, anyOf: "
					   "[{type: integer}, {type: string}]}}}"),
		CRD("widgets.example.com", "{type: object, properties: {a: {x-kubernetes-int-or-string: true, allOf: "
					   "[{anyOf: [{type: integer}, {type: string}]}, {pattern: '^[0-9]+%?$'}]}}}"),
		CRD("widgets.example.com", "{type: object, properties: {metadata: {type: object, properties: {name: "
					   "{type: string, maxLength: 5}}}}}"),
		CRD("widgets.example.com", "{type: object, properties: {a: {type: object, default: null}}}"),
	};

	for (size_t i = 0; i < TD_LEN(good); i++) {
		td_auto(td_json_unref) struct td_json *g = Y(good[i]);
		struct td_kind **v = NULL;
		size_t n = 0;
		struct td_error err = TD_ERROR_INIT;
		if (td_kind_from_crd(td_json_root(g), &v, &n, NULL, &err))
			fail_msg("%s: %s", good[i], err.msg);
		td_kind_free(v[0]);
		free(v);
	}
}

static void test_own_crds(void **state)
{
	static const char *const kinds[] = {"SlurmCluster", "NodeSet"};
	const struct td_kind *crd_kind = td_kind_builtin("apiextensions.k8s.io", "CustomResourceDefinition");
	assert_null(td_kind_crd("Pod"));
	for (size_t i = 0; i < TD_LEN(kinds); i++) {
		td_auto(td_json_unref) struct td_json *crd = td_kind_crd(kinds[i]);
		if (!crd)
			fail_msg("no kind file for %s", kinds[i]);
		struct td_kind **v = NULL;
		size_t n = 0;
		struct td_error err = TD_ERROR_INIT;
		td_auto_causes struct td_causes c = {0};
		if (td_kind_from_crd(td_json_root(crd), &v, &n, &c, &err))
			fail_msg("%s: %s", kinds[i], err.msg);
		td_kind_free(v[0]);
		free(v);

		if (td_schema_validate(crd_kind->schema, td_json_root(crd), &c))
			fail_msg("%s: %s: %s", kinds[i], c.v[0].field, c.v[0].message);
		td_auto_free char *text = td_json_text(td_json_root(crd), NULL);
		assert_null(strstr(text, "x-tandem"));
		assert_null(strstr(text, "patch-strategy"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_validate),      cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_structural),    cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_default_prune), cmocka_unit_test(test_crd),
		cmocka_unit_test(test_crd_shapes),    cmocka_unit_test(test_own_crds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
