// The cross-field rules of built-in kinds: what users trip over, and what must pass.
#include "api/test/testlib.h"

static struct td_json *stored(const struct td_kind *k, const char *text)
{
	td_auto(td_json_unref) struct td_json *in = Y(text);
	yyjson_mut_doc *d = td_jm_copy(td_json_root(in));
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_schema_prune(k->schema, root, NULL);
	td_schema_default(k->schema, d, root);
	if (k->set_defaults)
		k->set_defaults(d, root);
	return td_jm_done(d);
}

static void check(const char *group, const char *kind, const char *now, const char *old, const char *reason, const char *field,
		  const char *part)
{
	const struct td_kind *k = td_kind_builtin(group, kind);
	td_auto(td_json_unref) struct td_json *n = stored(k, now), *o = old ? stored(k, old) : NULL;
	td_auto_causes struct td_causes c = {0};
	size_t sum = td_schema_validate(k->schema, td_json_root(n), &c);
	if (k->check)
		sum += k->check(td_json_root(n), td_json_root(o), &c);
	assert_int_equal(sum, c.n);
	if (!reason && c.n)
		fail_msg("%s: %s: %s", now, c.v[0].field, c.v[0].message);
	if (reason && !has_cause(&c, reason, field, part))
		fail_msg("%s: no %s at %s with \"%s\"", now, reason, field, part);
}

#define POD(spec) "{metadata: {name: p}, spec: {" spec "}}"
#define C1 "containers: [{name: c, image: x}]"
#define C(more) "containers: [{name: c, image: x, " more "}]"

static void pod(const char *spec, const char *reason, const char *field, const char *part)
{
	td_auto_free char *t = td_asprintf("{metadata: {name: p}, spec: {%s}}", spec);
	check("", "Pod", t, NULL, reason, field, part);
}

static void test_pod(void **state)
{
	pod(C1, NULL, NULL, NULL);
	pod("containers: []", "FieldValueRequired", "spec.containers", "");
	pod("nodeName: x", "FieldValueRequired", "spec.containers", "");
	pod("containers: [{image: x}]", "FieldValueRequired", "spec.containers[0].name", "");
	pod("containers: [{name: c}]", "FieldValueRequired", "spec.containers[0].image", "");
	pod("containers: [{name: C_, image: x}]", "FieldValueInvalid", "spec.containers[0].name", "RFC 1123 label");
	pod("containers: [{name: a, image: x}, {name: a, image: x}]", "FieldValueDuplicate", "spec.containers[1].name", "\"a\"");
	pod(C1 ", initContainers: [{name: c, image: x}]", "FieldValueDuplicate", "spec.containers[0].name", "\"c\"");
	pod(C("volumeMounts: [{name: v, mountPath: /v}]"), "FieldValueNotFound", "spec.containers[0].volumeMounts[0].name", "\"v\"");
	pod(C("volumeMounts: [{name: v, mountPath: /v, subPath: a/../b}]") ", volumes: [{name: v}]", "FieldValueInvalid",
	    "spec.containers[0].volumeMounts[0].subPath", "..");
	pod(C("volumeMounts: [{name: v, mountPath: /v, subPath: a/..b}]") ", volumes: [{name: v}]", NULL, NULL, NULL);
	pod(C1 ", volumes: [{name: v, emptyDir: {}, hostPath: {path: /x}}]", "FieldValueForbidden", "spec.volumes[0]", "more than 1");
	pod(C("resources: {requests: {cpu: '2'}, limits: {cpu: 1500m}}"), "FieldValueInvalid", "spec.containers[0].resources.requests[cpu]",
	    "must be less than or equal to cpu limit of 1500m");
	pod(C("resources: {requests: {nvidia.com/gpu: 1}}"), "FieldValueRequired", "spec.containers[0].resources.requests[nvidia.com/gpu]",
	    "Limit must be set");
	pod(C("resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}}"), "FieldValueInvalid",
	    "spec.containers[0].resources.requests[nvidia.com/gpu]", "must be equal to");
	pod(C("resources: {limits: {nvidia.com/gpu: 500m}}"), "FieldValueInvalid", "spec.containers[0].resources.limits[nvidia.com/gpu]",
	    "integer");
	pod(C("resources: {limits: {nvidia.com/gpu: 2}}"), NULL, NULL, NULL);
	pod(C("resources: {limits: {gpus: 2}}"), "FieldValueInvalid", "spec.containers[0].resources.limits[gpus]", "<domain>/<name>");
	pod(C("resources: {limits: {memory: 5 Gi}}"), "FieldValueInvalid", "spec.containers[0].resources.limits[memory]", "suffixes");
	pod(C("livenessProbe: {}"), "FieldValueRequired", "spec.containers[0].livenessProbe", "handler");
	pod(C("livenessProbe: {tcpSocket: {port: 1}, exec: {command: [x]}}"), "FieldValueForbidden", "spec.containers[0].livenessProbe",
	    "more than 1");
	pod(C1 ", restartPolicy: Sometimes", "FieldValueNotSupported", "spec.restartPolicy", "\"Always\"");
	pod(C1 ", tolerations: [{operator: Equal}]", "FieldValueInvalid", "spec.tolerations[0].operator", "Exists");
	pod(C("env: [{name: A, value: x, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]"), "FieldValueInvalid",
	    "spec.containers[0].env[0].valueFrom", "not empty");
	pod(C("env: [{name: A, value: x}, {name: A, value: y}]"), NULL, NULL, NULL);
}

static void update(const char *old, const char *now, const char *reason, const char *field, const char *part)
{
	td_auto_free char *o = td_asprintf("{metadata: {name: p}, spec: {%s}}", old),
			  *n = td_asprintf("{metadata: {name: p}, spec: {%s}}", now);
	check("", "Pod", n, o, reason, field, part);
}

static void test_pod_update(void **state)
{
	update(C1, C1, NULL, NULL, NULL);
	update(C1, "containers: [{name: c, image: 'y:1', imagePullPolicy: Always}]", NULL, NULL, NULL);
	update(C1, C1 ", nodeName: n1", "FieldValueForbidden", "spec", "spec.nodeName differs");
	update(C1, C("command: [q]"), "FieldValueForbidden", "spec",
	       "pod updates may not change fields other than `spec.containers[*].image`");
	update(C1, C1 ", initContainers: [{name: i, image: x}]", "FieldValueForbidden", "spec.initContainers", "add or remove");
	update(C1 ", tolerations: [{key: a, operator: Exists}]",
	       C1 ", tolerations: [{key: a, operator: Exists}, {key: b, operator: Exists}]", NULL, NULL, NULL);
	update(C1 ", tolerations: [{key: a, operator: Exists}]", C1, "FieldValueForbidden", "spec", "tolerations");
	update(C1 ", activeDeadlineSeconds: 10", C1 ", activeDeadlineSeconds: 5", NULL, NULL, NULL);
	update(C1 ", activeDeadlineSeconds: 10", C1 ", activeDeadlineSeconds: 15", "FieldValueInvalid", "spec.activeDeadlineSeconds",
	       "less than");
	update(C1 ", schedulingGates: [{name: g}]", C1 ", nodeSelector: {a: b}", NULL, NULL, NULL);
	update(C1, C1 ", schedulingGates: [{name: g}]", "FieldValueForbidden", "spec.schedulingGates", "only deletion");
	update(C1, C1 ", nodeSelector: {a: b}", "FieldValueForbidden", "spec", "nodeSelector");
}

#define DEPLOY(sel, labels, more)                                                                                                          \
	"{metadata: {name: d}, spec: {selector: {matchLabels: {" sel "}}, template: {metadata: {labels: {" labels                          \
	"}}, spec: {containers: [{"                                                                                                        \
	"name: c, image: x}]" more "}}}}"

static void test_workloads(void **state)
{
	static const char *const kinds[] = {"Deployment", "ReplicaSet", "StatefulSet"};
	for (size_t i = 0; i < TD_LEN(kinds); i++) {
		check("apps", kinds[i], DEPLOY("a: b", "a: b", ""), NULL, NULL, NULL, NULL);
		check("apps", kinds[i], DEPLOY("a: b", "a: c", ""), NULL, "FieldValueInvalid", "spec.template.metadata.labels",
		      "`selector` does not match template `labels`");
		check("apps", kinds[i], DEPLOY("", "a: c", ""), NULL, "FieldValueInvalid", "spec.selector", "empty selector");
		check("apps", kinds[i], DEPLOY("a: b", "a: b", ", restartPolicy: Never"), NULL, "FieldValueNotSupported",
		      "spec.template.spec.restartPolicy", "\"Always\"");
		check("apps", kinds[i], DEPLOY("x: y", "a: b, x: y", ""), DEPLOY("a: b", "a: b, x: y", ""),
		      i == 2 ? "FieldValueForbidden" : "FieldValueInvalid", i == 2 ? "spec" : "spec.selector",
		      i == 2 ? "statefulset" : "immutable");
	}
	const struct td_kind *k = td_kind_builtin("apps", "Deployment");
	td_auto(td_json_unref) struct td_json *d = stored(k, DEPLOY("a: b", "a: b", ""));
	const yyjson_val *v = td_json_root(d);
	assert_string_equal(td_jstr(v, "spec.strategy.rollingUpdate.maxSurge"), "25%");
	assert_int_equal(td_jint(v, "spec.replicas", 0), 1);
	assert_int_equal(td_jint(v, "spec.revisionHistoryLimit", 0), 10);
	assert_int_equal(td_jint(v, "spec.progressDeadlineSeconds", 0), 600);
	assert_string_equal(td_jstr(v, "spec.template.spec.containers.[0].imagePullPolicy"), "Always");
	check("apps", "Deployment",
	      "{metadata: {name: d}, spec: {strategy: {type: Recreate, rollingUpdate: {}}, selector: {matchLabels: {a: b}}, template: "
	      "{metadata: {labels: {a: "
	      "b}}, spec: {containers: [{name: c, image: x}]}}}}",
	      NULL, "FieldValueForbidden", "spec.strategy.rollingUpdate", "Recreate");
	const struct td_kind *ss = td_kind_builtin("apps", "StatefulSet");
	td_auto(td_json_unref) struct td_json *s = stored(ss, DEPLOY("a: b", "a: b", ""));
	assert_string_equal(td_jstr(td_json_root(s), "spec.podManagementPolicy"), "OrderedReady");
	assert_int_equal(td_jint(td_json_root(s), "spec.updateStrategy.rollingUpdate.partition", -1), 0);
	static const char claims[] =
		"{metadata: {name: s}, spec: {volumeClaimTemplates: [{metadata: {name: data}}], selector: {matchLabels: {a: b}}, "
		"template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}}}";
	check("apps", "StatefulSet", claims, NULL, "FieldValueForbidden", "spec.volumeClaimTemplates", "emptyDir");
	check("apps", "StatefulSet", claims, claims, NULL, NULL, NULL);
}

#define JOB(more, pod)                                                                                                                     \
	"{metadata: {name: j, uid: u1}, spec: {" more "template: {spec: {restartPolicy: Never, containers: [{name: c, image: 'x:1'" pod    \
	"}]}}}}"

static void test_job(void **state)
{
	const struct td_kind *k = td_kind_builtin("batch", "Job");
	td_auto(td_json_unref) struct td_json *j = stored(k, JOB("", ""));
	const yyjson_val *v = td_json_root(j);
	assert_int_equal(td_jint(v, "spec.completions", 0), 1);
	assert_int_equal(td_jint(v, "spec.parallelism", 0), 1);
	assert_int_equal(td_jint(v, "spec.backoffLimit", 0), 6);
	assert_string_equal(td_jstr(v, "spec.completionMode"), "NonIndexed");
	assert_string_equal(td_jkey_str(td_jget(v, "spec.selector.matchLabels"), "batch.kubernetes.io/controller-uid"), "u1");
	assert_string_equal(td_jkey_str(td_jget(v, "spec.template.metadata.labels"), "job-name"), "j");
	assert_string_equal(td_jstr(v, "spec.template.spec.containers.[0].imagePullPolicy"), "IfNotPresent");
	check("batch", "Job", JOB("", ""), NULL, NULL, NULL, NULL);
	check("batch", "Job", JOB("", ""), JOB("", ""), NULL, NULL, NULL);
	check("batch", "Job", JOB("completionMode: Indexed, parallelism: 2, ", ""), NULL, "FieldValueRequired", "spec.completions",
	      "Indexed");
	check("batch", "Job", JOB("", ", command: [x]"), JOB("", ""), "FieldValueInvalid", "spec.template", "immutable");
	check("batch", "Job", JOB("completions: 3, ", ""), JOB("completions: 2, ", ""), "FieldValueInvalid", "spec.completions",
	      "immutable");
	check("batch", "Job", JOB("completions: 3, parallelism: 3, completionMode: Indexed, ", ""),
	      JOB("completions: 2, parallelism: 2, completionMode: Indexed, ", ""), NULL, NULL, NULL);
	check("batch", "Job", "{metadata: {name: j}, spec: {template: {spec: {containers: [{name: c, image: x}]}}}}", NULL,
	      "FieldValueNotSupported", "spec.template.spec.restartPolicy", "\"OnFailure\", \"Never\"");
}

static void test_core(void **state)
{
	check("", "ConfigMap", "{metadata: {name: c}, data: {'a/b': x}}", NULL, "FieldValueInvalid", "data[a/b]", "config key");
	check("", "ConfigMap", "{metadata: {name: c}, data: {a: y}, immutable: true}",
	      "{metadata: {name: c}, data: {a: x}, immutable: true}", "FieldValueForbidden", "data", "immutable");
	check("", "Secret", "{metadata: {name: c}, type: b}", "{metadata: {name: c}, type: a}", "FieldValueInvalid", "type", "immutable");
	check("scheduling.k8s.io", "PriorityClass", "{metadata: {name: c}, value: 2}", "{metadata: {name: c}, value: 1}",
	      "FieldValueForbidden", "value", "may not be changed");
	check("", "Service", "{metadata: {name: s}, spec: {clusterIP: None, ports: [{port: 80}]}}", NULL, NULL, NULL, NULL);
	td_auto(td_json_unref) struct td_json *s =
		stored(td_kind_builtin("", "Secret"), "{metadata: {name: c}, stringData: {k: hello, e: ''}}");
	assert_json(td_jkey(td_json_root(s), "data"), "{k: aGVsbG8=, e: ''}");
	assert_null(td_jkey(td_json_root(s), "stringData"));
	assert_string_equal(td_jstr(td_json_root(s), "type"), "Opaque");
	td_auto(td_json_unref) struct td_json *v =
		stored(td_kind_builtin("", "Service"), "{metadata: {name: c}, spec: {ports: [{port: 80}]}}");
	assert_int_equal(td_jint(td_json_root(v), "spec.ports.[0].targetPort", 0), 80);
}

static void test_meta(void **state)
{
	static const struct {
		const char *group, *kind, *meta, *field; // field NULL: good
	} t[] = {
		{"", "Pod", "{name: a.b-c, namespace: n, labels: {a/b: c}, annotations: {Example.com/Key: ' any \\n thing'}}", NULL},
		{"", "Pod", "{name: A, namespace: n}", "metadata.name"},
		{"", "Pod", "{namespace: n}", "metadata.name"},
		{"", "Pod", "{generateName: a-, namespace: n}", NULL},
		{"", "Pod", "{name: a}", "metadata.namespace"},
		{"", "Node", "{name: a, namespace: n}", "metadata.namespace"},
		{"", "Namespace", "{name: a.b}", "metadata.name"},
		{"", "Pod", "{name: a, namespace: n, labels: {-a: b}}", "metadata.labels"},
		{"", "Pod", "{name: a, namespace: n, labels: {a: 'b c'}}", "metadata.labels"},
		{"", "Pod", "{name: a, namespace: n, annotations: {'a b': c}}", "metadata.annotations"},
		{"", "Pod", "{name: a, namespace: n, finalizers: [x]}", "metadata.finalizers[0]"},
		{"", "Pod", "{name: a, namespace: n, finalizers: [tandem.dev/x]}", NULL},
		{"", "Pod", "{name: a, namespace: n, ownerReferences: [{apiVersion: v1, kind: Pod, name: x}]}",
		 "metadata.ownerReferences[0].uid"},
	};
	for (size_t i = 0; i < TD_LEN(t); i++) {
		td_auto_free char *text = td_asprintf("{metadata: %s}", t[i].meta);
		td_auto(td_json_unref) struct td_json *o = Y(text);
		td_auto_causes struct td_causes c = {0};
		size_t n = td_meta_check(td_kind_builtin(t[i].group, t[i].kind), td_json_root(o), &c);
		if (!t[i].field && n)
			fail_msg("%s: %s: %s", t[i].meta, c.v[0].field, c.v[0].message);
		if (t[i].field && !has_cause(&c, NULL, t[i].field, ""))
			fail_msg("%s: taken", t[i].meta);
	}
}

static void test_budget(void **state)
{
#define PDB(spec) "{metadata: {name: a}, spec: {" spec ", selector: {matchLabels: {a: b}}}}"
#define REFUSED(spec, field, part) check("policy", "PodDisruptionBudget", PDB(spec), NULL, "FieldValueInvalid", field, part)
	check("policy", "PodDisruptionBudget", PDB("minAvailable: 3"), NULL, NULL, NULL, NULL);
	check("policy", "PodDisruptionBudget", PDB("maxUnavailable: 100%"), NULL, NULL, NULL, NULL);
	REFUSED("minAvailable: 1, maxUnavailable: 1", "spec", "cannot be both set");
	REFUSED("minAvailable: -1", "spec.minAvailable", "non-negative");
	REFUSED("maxUnavailable: 101%", "spec.maxUnavailable", "100%");
	REFUSED("maxUnavailable: half", "spec.maxUnavailable", "percentage");
	check("policy", "PodDisruptionBudget", PDB("unhealthyPodEvictionPolicy: Never"), NULL, "FieldValueNotSupported",
	      "spec.unhealthyPodEvictionPolicy", "IfHealthyBudget");
	check("policy", "PodDisruptionBudget", "{metadata: {name: a}, spec: {selector: {matchExpressions: [{key: a, operator: In}]}}}",
	      NULL, "FieldValueInvalid", "spec.selector", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_budget),    cmocka_unit_test(test_pod), cmocka_unit_test(test_pod_update),
		cmocka_unit_test(test_workloads), cmocka_unit_test(test_job), cmocka_unit_test(test_core),
		cmocka_unit_test(test_meta),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
