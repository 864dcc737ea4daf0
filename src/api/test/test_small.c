// Quantities, selectors, placement and Status: tables of small cases.
// rows: F1.2 A5.3
#include "api/api.h"
#include "api/kubeconfig.h"
#include "api/person.h"
#include "api/storagequota.h"
#include "api/taint.h"
#include "api/test/testlib.h"

#include "api/quantity_priv.h"
#include "base/file.h"

#include <stdlib.h>

static void assert_fault(enum td_name_rule rule, const char *name, const char *part)
{
	td_auto_strv struct td_strv l = {0};
	td_name_faults(rule, name, &l);
	if (!part) {
		assert_int_equal(l.n, 0);
		return;
	}
	for (size_t i = 0; i < l.n; i++)
		if (strstr(l.v[i], part))
			return;
	fail_msg("\"%s\": no fault \"%s\" among %zu", name, part, l.n);
}

static void test_name_faults(void **state)
{
	assert_fault(TD_N_SUBDOMAIN, "a.b-c", NULL);
	assert_fault(
		TD_N_SUBDOMAIN, "a_b",
		"regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')");
	assert_fault(TD_N_LABEL, "1a", NULL);
	assert_fault(TD_N_LABEL, "a.b", "must not contain dots");
	assert_fault(TD_N_LABEL, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		     "must be no more than 63 characters");

	assert_fault(TD_N_LABEL_1035, "1a", "a DNS-1035 label");
	assert_fault(TD_N_QUALIFIED, "x.y/Z_a.b", NULL);
	assert_fault(TD_N_QUALIFIED, "/a", "prefix part must be non-empty");
	assert_fault(TD_N_QUALIFIED, "a/", "name part must be non-empty");
	assert_fault(TD_N_QUALIFIED, "A/b", "prefix part a lowercase RFC 1123 subdomain");
	assert_fault(TD_N_QUALIFIED, "a/b/c", "a qualified name must consist of");
	assert_fault(TD_N_LABEL_VALUE, "", NULL);
	assert_fault(TD_N_LABEL_VALUE, "a b", "a valid label must be");
	assert_fault(TD_N_CONFIG_KEY, "..", "must not be '..'");
	assert_fault(TD_N_CONFIG_KEY, "..x", "must not start with '..'");
	assert_fault(TD_N_CONFIG_KEY, "a/b", "a valid config key");
}

static void test_quantity(void **state)
{
	static const struct {
		const char *s;
		long long milli, ceil;
		const char *canonical;
	} ok[] = {
		{"0", 0, 0, "0"},
		{"1", 1000, 1, "1"},
		{"500m", 500, 1, "500m"},
		{"1500m", 1500, 2, "1500m"},
		{"0.5", 500, 1, "500m"},
		{".5", 500, 1, "500m"},
		{"5.", 5000, 5, "5"},
		{"2Gi", 2147483648000LL, 2147483648LL, "2Gi"},
		{"1024Mi", 1073741824000LL, 1073741824LL, "1Gi"},
		{"1.5Gi", 1610612736000LL, 1610612736LL, "1536Mi"},
		{"1k", 1000000, 1000, "1k"},
		{"1000", 1000000, 1000, "1k"},
		{"1e3", 1000000, 1000, "1e3"},
		{"1E3", 1000000, 1000, "1e3"},
		{"1E", 1000000000000000000LL, 1000000000000000000LL, "1E"},
		{"1e-3", 1, 1, "1m"},
		{"100u", 1, 1, "1m"},
		{"1n", 1, 1, "1m"},
		{"-1", -1000, -1, "-1"},
		{"-1500m", -1500, -2, "-1500m"},
		{"+3", 3000, 3, "3"},
		{"0Mi", 0, 0, "0"},
		{"512", 512000, 512, "512"},
		{"1000000000", 1000000000000LL, 1000000000LL, "1G"},
		{"0.0000000000000000000000001", 1, 1, "1m"},
	};
	static const char *const bad[] = {
		"",         "m",   "1.2.3", "1 Gi", "1g",   "Gi",  "1ki",   "0x10",
		"1e",       "1e+", "--1",   "1mm",  "1KiB", "abc", "1e999", "9999999999999999999999999",
		"99999999E"};

	for (size_t i = 0; i < TD_LEN(ok); i++) {
		int64_t m = -7, c = -7;
		char buf[TD_QUANTITY_LEN];
		struct td_error err = TD_ERROR_INIT;
		if (strcmp(ok[i].s, "1E")) {
			assert_int_equal(td_quantity_milli(ok[i].s, &m, &err), 0);
			assert_int_equal(m, ok[i].milli);
		} else {
			assert_int_equal(td_quantity_milli(ok[i].s, &m, &err), TD_INVALID);
			assert_int_equal(m, -7);
		}
		assert_int_equal(td_quantity_ceil(ok[i].s, &c, &err), 0);
		assert_int_equal(c, ok[i].ceil);
		assert_int_equal(td_quantity_canonical(ok[i].s, buf, &err), 0);
		assert_string_equal(buf, ok[i].canonical);
	}

	for (size_t i = 0; i < TD_LEN(bad); i++) {
		int64_t m = -7;
		struct td_error err = TD_ERROR_INIT;
		if (td_quantity_milli(bad[i], &m, &err) != TD_INVALID)
			fail_msg("\"%s\" was taken", bad[i]);
		assert_int_equal(m, -7);
		assert_true(err.msg[0]);
	}

	// Thousandths of more than 64 bits: no number of a schema can be so large, but an object
	// may hold one.
	static const char *const large[] = {"100001000000000000010m", "-100001000000000000010m",
					    "9223372036854775806001m"};
	for (size_t i = 0; i < TD_LEN(large); i++) {
		char same[TD_QUANTITY_LEN];
		assert_int_equal(td_quantity_canonical(large[i], same, NULL), 0);
		assert_string_equal(same, large[i]);
	}

	char buf[32];
	assert_string_equal(td_quantity_format_milli(1500, buf, sizeof(buf)), "1500m");
	assert_string_equal(td_quantity_format_milli(2000, buf, sizeof(buf)), "2");
	assert_string_equal(td_quantity_format_bytes(20LL << 30, buf, sizeof(buf)), "20Gi");
	assert_string_equal(td_quantity_format_bytes(1536LL << 20, buf, sizeof(buf)), "1536Mi");
	assert_string_equal(td_quantity_format_bytes(1000, buf, sizeof(buf)), "1000");
}

static void test_label_selector(void **state)
{
	static const struct {
		const char *sel, *labels;
		bool match;
		const char *text;
	} t[] = {
		{"", "{}", true, ""},
		{"a=b", "{a: b}", true, "a=b"},
		{"a==b", "{a: b}", true, "a=b"},
		{"a=b", "{a: c}", false, "a=b"},
		{"a=", "{a: ''}", true, "a="},
		{"a!=b", "{}", true, "a!=b"},
		{"a!=b", "{a: b}", false, "a!=b"},
		{"e", "{e: x}", true, "e"},
		{"e", "{}", false, "e"},
		{"!e", "{}", true, "!e"},
		{" ! e ", "{e: x}", false, "!e"},
		{"g in (y, x)", "{g: x}", true, "g in (x,y)"},
		{"g in (x)", "{g: x}", true, "g=x"},
		{"g in (x,y)", "{}", false, "g in (x,y)"},
		{"h notin (z,y)", "{}", true, "h notin (y,z)"},
		{"h notin (z)", "{h: z}", false, "h!=z"},
		{"b=1,a=2", "{a: '2', b: '1'}", true, "a=2,b=1"},
		{"b=1,a=2", "{a: '2'}", false, "a=2,b=1"},
		{"example.com/in=x", "{example.com/in: x}", true, "example.com/in=x"},
		{"n>3", "{n: '4'}", true, "n>3"},
		{"n<3", "{n: '4'}", false, "n<3"},
		{"n>3", "{n: x}", false, "n>3"},
	};
	static const char *const bad[] = {"a in x", "a in (x", "=b",         "a b", "a=b c", "a=b,", "!",
					  "a!b",    ",",       "a in (x;y)", "-a",  "a=-b",  "a>x",  "a@b"};

	for (size_t i = 0; i < TD_LEN(t); i++) {
		td_auto(td_selector_free) struct td_selector *s = NULL;
		td_auto(td_json_unref) struct td_json *l = Y(t[i].labels);
		struct td_error err = TD_ERROR_INIT;
		if (td_selector_parse(t[i].sel, &s, &err))
			fail_msg("%s: %s", t[i].sel, err.msg);
		if (td_selector_matches(s, td_json_root(l)) != t[i].match)
			fail_msg("%s on %s", t[i].sel, t[i].labels);
		td_auto_free char *text = td_selector_text(s);
		assert_string_equal(text, t[i].text);
		td_auto(td_selector_free) struct td_selector *again = NULL;
		assert_int_equal(td_selector_parse(text, &again, &err), 0);
	}

	for (size_t i = 0; i < TD_LEN(bad); i++) {
		struct td_selector *s = NULL;
		if (td_selector_parse(bad[i], &s, NULL) != TD_INVALID)
			fail_msg("\"%s\" was taken", bad[i]);
		assert_null(s);
	}
}

static void test_selector_object(void **state)
{
	td_auto(td_json_unref) struct td_json *o = Y("{matchLabels: {a: b}, matchExpressions: [{key: c, operator: In, "
						     "values: [d, e]}, {key: f, operator: DoesNotExist}]}");
	td_auto(td_json_unref) struct td_json *yes = Y("{a: b, c: d}"), *no = Y("{a: b, c: d, f: x}"), *empty = Y("{}");
	td_auto(td_selector_free) struct td_selector *s = NULL, *none = NULL, *all = NULL;

	assert_int_equal(td_selector_from_object(td_json_root(o), &s, NULL), 0);
	assert_true(td_selector_matches(s, td_json_root(yes)));
	assert_false(td_selector_matches(s, td_json_root(no)));
	td_auto_free char *t = td_selector_text(s);
	assert_string_equal(t, "a=b,c in (d,e),!f");

	assert_int_equal(td_selector_from_object(NULL, &none, NULL), 0);
	assert_false(td_selector_matches(none, td_json_root(yes)));
	assert_int_equal(td_selector_from_object(td_json_root(empty), &all, NULL), 0);
	assert_true(td_selector_matches(all, NULL));

	td_auto(td_json_unref) struct td_json *bad = Y("{matchExpressions: [{key: c, operator: In}]}");
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_selector_from_object(td_json_root(bad), &s, &err), TD_INVALID);
	assert_non_null(strstr(err.msg, "matchExpressions[0].values"));
}

static void test_field_selector(void **state)
{
	td_auto(td_field_selector_free) struct td_field_selector *s = NULL;
	assert_int_equal(td_field_selector_parse("metadata.name=x,status.phase!=Running", &s, NULL), 0);
	td_auto(td_json_unref) struct td_json *a = Y("{metadata: {name: x}, status: {phase: Pending}}"),
					      *b = Y("{metadata: {name: x}, status: {phase: Running}}"),
					      *c = Y("{metadata: {name: x}}"), *d = Y("{metadata: {name: y}}");

	assert_true(td_field_selector_matches(s, td_json_root(a)));
	assert_false(td_field_selector_matches(s, td_json_root(b)));
	assert_true(td_field_selector_matches(s, td_json_root(c)));
	assert_false(td_field_selector_matches(s, td_json_root(d)));
	assert_string_equal(td_field_selector_exact(s, "metadata.name"), "x");
	assert_null(td_field_selector_exact(s, "status.phase"));
	assert_string_equal(td_field_selector_path(s, 1), "status.phase");
	assert_null(td_field_selector_path(s, 2));

	td_auto(td_field_selector_free) struct td_field_selector *e = NULL, *u = NULL;
	assert_int_equal(td_field_selector_parse("spec.nodeName=", &e, NULL), 0);
	assert_true(td_field_selector_matches(e, td_json_root(c)));
	assert_int_equal(td_field_selector_parse("spec.unschedulable=false", &u, NULL), 0);
	assert_true(td_field_selector_matches(u, td_json_root(c)));

	struct td_field_selector *bad = NULL;
	assert_int_equal(td_field_selector_parse("metadata.name", &bad, NULL), TD_INVALID);
	assert_int_equal(td_field_selector_parse("=x", &bad, NULL), TD_INVALID);
}

#define NODE "{metadata: {name: n1, labels: {zone: a, gpus: '8', disk: ssd}}, spec: {taints: [%s], unschedulable: %s}}"

static void test_fit(void **state)
{
	static const struct {
		const char *pod, *taints, *unschedulable;
		bool ignore, fits;
	} t[] = {
		{"{}", "", "false", false, true},
		{"{nodeSelector: {zone: a}}", "", "false", false, true},
		{"{nodeSelector: {zone: b}}", "", "false", false, false},
		{"{}", "", "true", false, false},
		{"{}", "", "true", true, true},
		{"{tolerations: [{key: node.kubernetes.io/unschedulable, operator: Exists, effect: NoSchedule}]}", "",
		 "true", false, true},
		{"{tolerations: [{operator: Exists}]}", "{key: a, value: b, effect: NoExecute}", "true", false, true},
		{"{}", "{key: a, value: b, effect: NoSchedule}", "false", false, false},
		{"{}", "{key: a, value: b, effect: PreferNoSchedule}", "false", false, true},
		{"{tolerations: [{key: a, value: b}]}", "{key: a, value: b, effect: NoSchedule}", "false", false, true},
		{"{tolerations: [{key: a, value: c}]}", "{key: a, value: b, effect: NoSchedule}", "false", false,
		 false},
		{"{tolerations: [{key: a, operator: Exists, effect: NoExecute}]}", "{key: a, effect: NoSchedule}",
		 "false", false, false},
		{"{tolerations: [{key: '', operator: Equal, value: b}]}", "{key: a, value: b, effect: NoSchedule}",
		 "false", false, false},
		{"{}", "{key: node.kubernetes.io/unschedulable, effect: NoSchedule}", "false", true, true},
	};

	for (size_t i = 0; i < TD_LEN(t); i++) {
		td_auto_free char *n = td_asprintf(NODE, t[i].taints, t[i].unschedulable);
		td_auto(td_json_unref) struct td_json *node = Y(n), *pod = Y(t[i].pod);
		const char *why = NULL;
		if (td_api_pod_fits_node(td_json_root(pod), td_json_root(node), t[i].ignore, &why) != t[i].fits)
			fail_msg("case %zu: %s", i, why ? why : "fits");
		assert_true(t[i].fits || why);
	}

	static const struct {
		const char *terms;
		bool fits;
	} aff[] = {
		{"[{matchExpressions: [{key: gpus, operator: Gt, values: ['4']}]}]", true},
		{"[{matchExpressions: [{key: gpus, operator: Lt, values: ['8']}]}]", false},
		{"[{matchExpressions: [{key: zone, operator: In, values: [b]}]}, {matchFields: [{key: metadata.name, "
		 "operator: In, values: [n1]}]}]",
		 true},
		{"[{matchExpressions: [{key: zone, operator: In, values: [a]}, {key: disk, operator: NotIn, values: "
		 "[ssd]}]}]",
		 false},
		{"[{matchExpressions: [{key: none, operator: NotIn, values: [x]}, {key: none, operator: "
		 "DoesNotExist}]}]",
		 true},
		{"[{}]", false},
		{"[]", false},
		{"[{matchFields: [{key: metadata.name, operator: NotIn, values: [n1]}]}]", false},
	};

	td_auto_free char *n = td_asprintf(NODE, "", "false");
	td_auto(td_json_unref) struct td_json *node = Y(n);
	for (size_t i = 0; i < TD_LEN(aff); i++) {
		td_auto_free char *p =
			td_asprintf("{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
				    "{nodeSelectorTerms: %s}}}}",
				    aff[i].terms);
		td_auto(td_json_unref) struct td_json *pod = Y(p);
		if (td_api_pod_fits_node(td_json_root(pod), td_json_root(node), false, NULL) != aff[i].fits)
			fail_msg("affinity %s", aff[i].terms);
	}
}

static void test_request(void **state)
{
	td_auto(td_json_unref) struct td_json *p =
		Y("{containers: [{resources: {requests: {cpu: 500m, memory: 1Gi, nvidia.com/gpu: '2'}}}, {resources: "
		  "{limits: {cpu: '1'}}}], initContainers: [{resources: {requests: {cpu: '4'}}}, {restartPolicy: "
		  "Always, resources: {requests: {cpu: 250m, memory: 512Mi}}}, {resources: {requests: {cpu: '1', "
		  "memory: 3Gi}}}], overhead: {cpu: 100m}}");

	const yyjson_val *v = td_json_root(p);
	assert_int_equal(td_api_pod_request(v, "cpu"), 4100);
	assert_int_equal(td_api_pod_request(v, "memory"), (3LL << 30) + (512LL << 20));
	assert_int_equal(td_api_pod_request(v, "nvidia.com/gpu"), 2);
	assert_int_equal(td_api_pod_request(v, "other"), 0);

	td_auto_strv struct td_strv names = {0};
	td_api_pod_request_names(v, &names);
	assert_int_equal(names.n, 3);

	td_auto(td_json_unref) struct td_json *q = Y(
		"{resources: {requests: {cpu: '2'}}, containers: [{resources: {requests: {cpu: '1', memory: 1Gi}}}]}");
	assert_int_equal(td_api_pod_request(td_json_root(q), "cpu"), 2000);
	assert_int_equal(td_api_pod_request(td_json_root(q), "memory"), 1LL << 30);
}

static void test_status(void **state)
{
	td_auto_causes struct td_causes c = {0};
	td_cause_add(&c, "FieldValueRequired", "spec.a", "Required value");
	td_auto_free char *one = td_status_invalid_message("", "Pod", "x", &c);
	assert_string_equal(one, "Pod \"x\" is invalid: spec.a: Required value");

	td_cause_add(&c, "FieldValueInvalid", "spec.b", "Invalid value: %d: too large", 7);
	td_auto_free char *two = td_status_invalid_message("", "Pod", "x", &c);
	assert_string_equal(two, "Pod \"x\" is invalid: [spec.a: Required value, spec.b: Invalid value: 7: too large]");

	struct td_status s = {422, "Invalid", two, "Pod", "", "x", NULL, &c, 0, false};
	td_auto_free char *text = td_status_text(&s, NULL);
	td_auto(td_json_unref) struct td_json *j = Y(text);
	assert_string_equal(td_jstr(td_json_root(j), "status"), "Failure");
	assert_string_equal(td_jstr(td_json_root(j), "details.causes.[1].field"), "spec.b");
	assert_null(td_jget(td_json_root(j), "details.group"));
	assert_int_equal(td_jint(td_json_root(j), "code", 0), 422);

	assert_string_equal(td_status_reason(404), "NotFound");
}

static void test_conditions(void **state)
{
	static const char text[] = "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\","
				   "\"lastTransitionTime\":\"then\"},{\"type\":\"Old\",\"status\":\"True\"}]}}";
	td_auto(td_json_unref) struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	const yyjson_val *o = td_json_root(j);
	assert_non_null(td_condition(o, "Ready"));
	assert_true(!td_condition_true(o, "Ready") && td_condition_true(o, "Old") && !td_condition_true(o, "None"));
	assert_true(!td_condition(NULL, "Ready") && !td_condition_true(NULL, "Ready"));

	// lastTransitionTime stays when the status is the same. A new status gets now, and so does
	// an old condition without a time.
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *list = td_jm_arr(d, yyjson_mut_doc_get_root(d), "status.conditions");
	const struct td_condition_want v[] = {
		{.type = "Ready", .status = "False", .reason = "R", .message = "m", .generation = 3},
		{.type = "Ready", .status = "True", .reason = "R", .heartbeat = true},
		{.type = "Old", .status = "True", .reason = "R", .updated = true},
	};
	for (size_t i = 0; i < TD_LEN(v); i++)
		td_condition_add(d, list, td_jget(o, "status.conditions"), &v[i], 0);
	td_auto(td_json_unref) struct td_json *made = td_jm_done(td_steal(d));
	td_auto_free char *shown = td_json_text(td_json_root(made), NULL);
	assert_string_equal(
		shown,
		"{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\",\"observedGeneration\":3,"
		"\"lastTransitionTime\":\"then\",\"reason\":\"R\",\"message\":\"m\"},{\"type\":\"Ready\",\"status\":"
		"\"True\",\"lastHeartbeatTime\":\"1970-01-01T00:00:00Z\",\"lastTransitionTime\":\"1970-01-01T00:00:"
		"00Z\",\"reason\":\"R\"},{\"type\":\"Old\",\"status\":\"True\",\"lastUpdateTime\":\"1970-01-01T00:00:"
		"00Z\",\"lastTransitionTime\":\"1970-01-01T00:00:00Z\",\"reason\":\"R\"}]}}");
}

static void test_kubeconfig(void **state)
{
	// The path of a home is a value, whatever stands in it.
	char home[] = "/tmp/td-api: it's {user} #XXXXXX";
	struct td_error err = TD_ERROR_INIT;
	assert_non_null(mkdtemp(home));
	td_auto_free char *dir = td_asprintf("%s/kubeconfig", home), *path = td_asprintf("%s/admin.conf", dir);
	assert_int_equal(td_mkdir_p(dir, 0700, &err), 0);
	assert_int_equal(td_kubeconfig_write(home, "admin", 6443, &err), 0);

	td_auto_buf struct td_buf text = {0};
	td_auto_json_list struct td_json_list l = {0};
	assert_int_equal(td_file_read(path, 1 << 20, &text, &err), 0);
	assert_int_equal(td_yaml_parse(td_buf_str(&text), text.len, &l, &err), 0);
	yyjson_val *o = td_json_root(l.v[0]);
	td_auto_free char *ca = td_asprintf("%s/pki/ca.crt", home), *key = td_asprintf("%s/pki/admin.key", home);
	assert_string_equal(td_jstr(o, "clusters.[0].cluster.server"), "https://127.0.0.1:6443");
	assert_string_equal(td_jstr(o, "clusters.[0].cluster.certificate-authority"), ca);
	assert_string_equal(td_jstr(o, "users.[0].user.client-key"), key);
	assert_string_equal(td_jstr(o, "contexts.[0].context.user"), "admin");
	assert_int_equal(td_rm_rf(home, &err), 0);
}

// Node with this list of taints. Caller unrefs.
static struct td_json *tainted(const char *taints)
{
	td_auto_free char *text = td_asprintf("{\"spec\":{\"taints\":%s}}", taints);
	struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	return j;
}

static char *with(const char *taints, bool drain, bool down)
{
	td_auto(td_json_unref) struct td_json *node = tainted(taints);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	bool changed = td_taints_set(d, yyjson_mut_doc_get_root(d), td_json_root(node), drain, down);
	td_auto(td_json_unref) struct td_json *made = td_jm_done(td_steal(d));
	char *text = td_json_text(td_json_root(made), NULL);
	assert_int_equal(changed, strcmp(text, "{}") != 0);
	return text;
}

#define MINE "{\"key\":\"mine\",\"value\":\"x\",\"effect\":\"NoExecute\"}"
#define DRAIN "{\"key\":\"tandem.dev/slurm-drain\",\"effect\":\"NoSchedule\"}"
#define DOWN "{\"key\":\"tandem.dev/slurm-down\",\"effect\":\"NoSchedule\"}"
static void test_taints(void **state)
{
	static const struct {
		const char *has;
		bool drain, down;
		const char *patch; // its list; "": none
	} v[] = {
		{"null", false, false, ""},
		{"null", true, true, "[" DRAIN "," DOWN "]"},
		{"[" MINE "]", false, true, "[" MINE "," DOWN "]"},
		{"[" MINE "," DOWN "]", false, true, ""},
		{"[" DOWN "," MINE "]", true, false, "[" MINE "," DRAIN "]"},
		{"[" DRAIN "]", false, false, "null"},
		{"[" DRAIN "," DOWN "]", true, false, "[" DRAIN "]"},
	};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		td_auto_free char *got = with(v[i].has, v[i].drain, v[i].down),
				  *want = *v[i].patch ? td_asprintf("{\"spec\":{\"taints\":%s}}", v[i].patch)
						      : td_strdup("{}");
		assert_string_equal(got, want);
	}

	static const struct {
		const char *a, *b;
		bool same;
	} s[] = {
		{"null", "[" DRAIN "]", true},
		{"[" DOWN "," MINE "]", "[" MINE "," DRAIN "]", true},
		{"[" MINE "]", "[" DOWN "]", false},
		{"null", "[" MINE "]", false},
		{"[" MINE "]", "[{\"key\":\"mine\",\"value\":\"y\",\"effect\":\"NoExecute\"}]", false},
	};
	for (size_t i = 0; i < TD_LEN(s); i++) {
		td_auto(td_json_unref) struct td_json *a = tainted(s[i].a), *b = tainted(s[i].b);
		assert_int_equal(td_taints_same_others(td_json_root(a), td_json_root(b)), s[i].same);
		assert_int_equal(td_taints_same_others(td_json_root(b), td_json_root(a)), s[i].same);
	}
	assert_true(!td_taint_ours(NULL) && !td_taint_ours("mine"));
}

// rows: A13.3
static void test_people(void **state)
{
	td_auto(td_arena_free) struct td_arena *a = td_arena_new();
	td_auto_buf struct td_buf b = {0};
	const struct td_person ann = {3000, 3000, "5000,5001", "ann", "/home/ann", "ann"},
			       bob = {3001, 5000, "", "bob", "/home/bob", "oidc:ann"};
	struct td_person p = ann;
	td_buf_puts(&b, TD_PERSON_PROJECT);
	assert_true(td_person_write(&b, &ann) && td_person_write(&b, &bob));
	size_t whole = b.len;
	// What would be read as another line or another number is not written.
	p.kube = "x\n3001:3001::bob:/home/bob:eve";
	assert_false(td_person_write(&b, &p));
	p.kube = "";
	assert_false(td_person_write(&b, &p));
	p = ann;
	p.home = "/home/a:b";
	assert_false(td_person_write(&b, &p));
	assert_int_equal(b.len, whole);
	const char *text = td_buf_str(&b);
	assert_string_equal(text, "project\n3000:3000:5000,5001:ann:/home/ann:ann\n3001:5000::bob:/home/bob:oidc:ann");
	assert_true(td_person_project(text) && !td_person_project("projects") && !td_person_project("posix\nproject"));

	assert_true(td_person_find(text, "ann", a, &p) && p.uid == 3000 && p.gid == 3000);
	assert_string_equal(p.groups, "5000,5001");
	assert_true(td_person_find(text, "oidc:ann", a, &p) && p.uid == 3001 && p.gid == 5000 && !*p.groups);
	assert_string_equal(p.home, "/home/bob");
	static const char *const nobody[] = {"", "bob", "nn", ":ann", "project", "/home/ann:ann", "c:ann"};
	for (size_t i = 0; i < TD_LEN(nobody); i++)
		assert_false(td_person_find(text, nobody[i], a, &p));
	assert_false(td_person_find(text, NULL, a, &p) || td_person_find(NULL, "ann", a, &p));
	// Root is nobody, nor is what is no number.
	static const char *const broken[] = {"posix\n0:3000::ann:/home/ann:ann",  "posix\n3000:0::ann:/home/ann:ann",
					     "posix\n3000:-1::ann:/home/ann:ann", "posix\n4294967295:1::a:/home/a:ann",
					     "posix\nx:1::a:/home/a:ann",         "posix\n3000:3000:ann"};
	for (size_t i = 0; i < TD_LEN(broken); i++)
		assert_false(td_person_find(broken[i], "ann", a, &p));
}

static void test_what_people_find(void **state)
{
	td_auto(td_arena_free) struct td_arena *a = td_arena_new();
	td_auto_buf struct td_buf b = {0};
	const struct td_person_mount v[] = {{false, false, "home", "/shared/home", "/home", ""},
					    {true, true, "data", "sets", "/data", "a/b"}};
	struct td_person_mount m;
	for (size_t i = 0; i < TD_LEN(v); i++)
		td_person_mount_write(&b, &v[i]);
	assert_string_equal(td_buf_str(&b), "rw:host:home:/shared/home:/home:\nro:claim:data:sets:/data:a/b");
	td_buf_puts(&b, "\nno line");
	const char *at = td_buf_str(&b);
	assert_true(td_person_mount_next(&at, a, &m) && !m.read_only && !m.claim);
	assert_string_equal(m.source, "/shared/home");
	assert_true(td_person_mount_next(&at, a, &m) && m.read_only && m.claim);
	assert_string_equal(m.sub, "a/b");
	assert_false(td_person_mount_next(&at, a, &m));
}

// rows: C1.2
static void test_storage_words(void **state)
{
	assert_string_equal(td_api_storage_word("storage"), "requests.storage");
	assert_string_equal(td_api_storage_word("persistentvolumeclaims"), "persistentvolumeclaims");
	assert_true(td_api_storage_bytes("storage") && td_api_storage_bytes("requests.storage"));
	assert_false(td_api_storage_bytes("persistentvolumeclaims"));
	const char *fast = "fast.storageclass.storage.k8s.io/requests.storage",
		   *n = "fast.storageclass.storage.k8s.io/persistentvolumeclaims";
	assert_string_equal(td_api_storage_word(fast), fast);
	assert_string_equal(td_api_storage_word(n), n);
	assert_true(td_api_storage_bytes(fast));
	assert_false(td_api_storage_bytes(n));
	const char *const none[] = {"cpu",
				    "nvidia.com/gpu",
				    "requests.storage", // one way to write it
				    ".storageclass.storage.k8s.io/requests.storage",
				    "fast.storageclass.storage.k8s.io/size",
				    "storages"};
	for (size_t i = 0; i < TD_LEN(none); i++)
		assert_null(td_api_storage_word(none[i]));

	assert_int_equal(td_api_storage_counts("requests.storage", 5, "any"), 5);
	assert_int_equal(td_api_storage_counts("persistentvolumeclaims", 5, ""), 1);
	assert_int_equal(td_api_storage_counts(fast, 5, "fast"), 5);
	assert_int_equal(td_api_storage_counts(fast, 5, "faster"), 0);
	assert_int_equal(td_api_storage_counts(fast, 5, ""), 0);
	assert_int_equal(td_api_storage_counts(n, 5, "fast"), 1);

	// Whatever way a size is written, it counts.
	static const struct {
		const char *json;
		int64_t n;
	} sizes[] = {{"\"2Ki\"", 2048},
		     {"\"1500m\"", 2},
		     {"5", 5},
		     {"0.5", 1},
		     {"2.0", 2},
		     {"1e19", INT64_MAX},
		     {"1e300", INT64_MAX},
		     {"9223372036854775808", INT64_MAX},
		     {"\"20E\"", INT64_MAX},
		     {"-3", 0},
		     {"-3.5", 0},
		     {"null", 0}};
	for (size_t i = 0; i < TD_LEN(sizes); i++) {
		td_auto(td_json_unref) struct td_json *j = NULL;
		td_auto_free char *text = td_asprintf("{\"v\":%s}", sizes[i].json);
		assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
		assert_true(td_api_storage_amount(td_jget(td_json_root(j), "v")) == sizes[i].n);
	}
	assert_int_equal(td_api_storage_amount(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_name_faults),      cmocka_unit_test(test_quantity),
		cmocka_unit_test(test_label_selector),   cmocka_unit_test(test_selector_object),
		cmocka_unit_test(test_field_selector),   cmocka_unit_test(test_fit),
		cmocka_unit_test(test_request),          cmocka_unit_test(test_status),
		cmocka_unit_test(test_conditions),       cmocka_unit_test(test_kubeconfig),
		cmocka_unit_test(test_taints),           cmocka_unit_test(test_people),
		cmocka_unit_test(test_what_people_find), cmocka_unit_test(test_storage_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
