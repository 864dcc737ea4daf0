// The cross-field rules of built-in kinds: what users often get wrong, and what must pass.
// rows: F1.2 F1.5
#include "api/block.h"
#include "api/grant.h"
#include "api/othercluster.h"
#include "api/test/testlib.h"

#include <arpa/inet.h>

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

static void check(const char *group, const char *kind, const char *now, const char *old, const char *reason,
		  const char *field, const char *part)
{
	const struct td_kind *k = td_kind_builtin(group, kind);
	td_auto(td_json_unref) struct td_json *n = stored(k, now), *o = old ? stored(k, old) : NULL;
	td_auto_causes struct td_causes c = {0};
	size_t sum = td_schema_validate(k->schema, td_json_root(n), &c);
	if (k->check)
		sum += k->check(td_json_root(n), td_json_root(o), &c);
	sum += td_served_check(k, td_json_root(n), td_json_root(o), &c);

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
	pod("containers: [{name: a, image: x}, {name: a, image: x}]", "FieldValueDuplicate", "spec.containers[1].name",
	    "\"a\"");
	pod("containers: [{image: x}, {image: x}]", "FieldValueDuplicate", "spec.containers[1].name", "\"\"");
	pod("containers: [{image: x}, {image: x}]", "FieldValueRequired", "spec.containers[1].name", "");
	pod(C1 ", initContainers: [{name: c, image: x}]", "FieldValueDuplicate", "spec.containers[0].name", "\"c\"");

	pod(C("volumeMounts: [{name: v, mountPath: /v}]"), "FieldValueNotFound",
	    "spec.containers[0].volumeMounts[0].name", "\"v\"");
	pod(C("volumeMounts: [{name: v, mountPath: /v, subPath: a/../b}]") ", volumes: [{name: v}]",
	    "FieldValueInvalid", "spec.containers[0].volumeMounts.subPath", "..");
	pod(C("volumeMounts: [{name: v, mountPath: /v, subPath: a/..b}]") ", volumes: [{name: v}]", NULL, NULL, NULL);
	pod(C1 ", volumes: [{name: v, emptyDir: {}, hostPath: {path: /x}}]", "FieldValueForbidden", "spec.volumes[0]",
	    "more than 1");

	pod(C("resources: {requests: {cpu: '2'}, limits: {cpu: 1500m}}"), "FieldValueInvalid",
	    "spec.containers[0].resources.requests", "must be less than or equal to cpu limit of 1500m");
	pod(C("resources: {requests: {nvidia.com/gpu: 1}}"), "FieldValueRequired",
	    "spec.containers[0].resources.limits", "Limit must be set");
	pod(C("resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}}"), "FieldValueInvalid",
	    "spec.containers[0].resources.requests", "must be equal to");
	pod(C("resources: {limits: {nvidia.com/gpu: 500m}}"), "FieldValueInvalid",
	    "spec.containers[0].resources.limits[nvidia.com/gpu]", "integer");
	pod(C("resources: {limits: {nvidia.com/gpu: 2}}"), NULL, NULL, NULL);
	pod(C("resources: {limits: {gpus: 2}}"), "FieldValueInvalid", "spec.containers[0].resources.limits[gpus]",
	    "<domain>/<name>");
	pod(C("resources: {limits: {memory: 5 Gi}}"), "FieldValueInvalid",
	    "spec.containers[0].resources.limits[memory]", "suffixes");

	pod(C("livenessProbe: {}"), "FieldValueRequired", "spec.containers[0].livenessProbe", "handler");
	pod(C("livenessProbe: {tcpSocket: {port: 1}, exec: {command: [x]}}"), "FieldValueForbidden",
	    "spec.containers[0].livenessProbe", "more than 1");

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
	update(C1, C1 ", initContainers: [{name: i, image: x}]", "FieldValueForbidden", "spec.initContainers",
	       "add or remove");

	update(C1 ", tolerations: [{key: a, operator: Exists}]",
	       C1 ", tolerations: [{key: a, operator: Exists}, {key: b, operator: Exists}]", NULL, NULL, NULL);
	update(C1 ", tolerations: [{key: a, operator: Exists}]", C1, "FieldValueForbidden", "spec.tolerations",
	       "tolerationSeconds");
	// tolerationSeconds may change.
	update(C1 ", tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]",
	       C1 ", tolerations: [{key: a, operator: Exists, effect: NoExecute}]", NULL, NULL, NULL);

	update(C1 ", activeDeadlineSeconds: 10", C1 ", activeDeadlineSeconds: 5", NULL, NULL, NULL);
	update(C1 ", activeDeadlineSeconds: 10", C1 ", activeDeadlineSeconds: 15", "FieldValueInvalid",
	       "spec.activeDeadlineSeconds", "less than");

	update(C1 ", schedulingGates: [{name: g}]", C1 ", nodeSelector: {a: b}", NULL, NULL, NULL);
	update(C1, C1 ", schedulingGates: [{name: g}]", "FieldValueForbidden", "spec.schedulingGates", "only deletion");
	update(C1, C1 ", nodeSelector: {a: b}", "FieldValueForbidden", "spec", "nodeSelector");
}

#define DEPLOY(sel, labels, more)                                                                                      \
	"{metadata: {name: d}, spec: {selector: {matchLabels: {" sel "}}, template: {metadata: {labels: {" labels      \
	"}}, spec: {containers: [{"                                                                                    \
	"name: c, image: x}]" more "}}}}"

static void test_workloads(void **state)
{
	static const char *const kinds[] = {"Deployment", "ReplicaSet", "StatefulSet"};
	for (size_t i = 0; i < TD_LEN(kinds); i++) {
		check("apps", kinds[i], DEPLOY("a: b", "a: b", ""), NULL, NULL, NULL, NULL);
		check("apps", kinds[i], DEPLOY("a: b", "a: c", ""), NULL, "FieldValueInvalid",
		      "spec.template.metadata.labels", "`selector` does not match template `labels`");
		check("apps", kinds[i], DEPLOY("", "a: c", ""), NULL, "FieldValueInvalid", "spec.selector",
		      "empty selector");
		check("apps", kinds[i], DEPLOY("a: b", "a: b", ", restartPolicy: Never"), NULL,
		      "FieldValueNotSupported", "spec.template.spec.restartPolicy", "\"Always\"");
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
	      "{metadata: {name: d}, spec: {strategy: {type: Recreate, rollingUpdate: {}}, selector: {matchLabels: {a: "
	      "b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}}}",
	      NULL, "FieldValueForbidden", "spec.strategy.rollingUpdate", "Recreate");

	// In a pod a limit is also the request; in a template it is not.
	td_auto(td_json_unref) struct td_json *limited =
		stored(k, "{metadata: {name: d}, spec: {template: {spec: {containers: [{name: c, image: x, resources: "
			  "{limits: {cpu: 1}}}]}}}}");
	assert_null(td_jget(td_json_root(limited), "spec.template.spec.containers.[0].resources.requests"));
	td_auto(td_json_unref) struct td_json *p =
		stored(td_kind_builtin("", "Pod"),
		       "{spec: {containers: [{name: c, image: x, resources: {limits: {cpu: 1}}}]}}");
	assert_string_equal(td_jstr(td_json_root(p), "spec.containers.[0].resources.requests.cpu"), "1");

	const struct td_kind *ss = td_kind_builtin("apps", "StatefulSet");
	td_auto(td_json_unref) struct td_json *s = stored(ss, DEPLOY("a: b", "a: b", ""));
	assert_string_equal(td_jstr(td_json_root(s), "spec.podManagementPolicy"), "OrderedReady");
	assert_int_equal(td_jint(td_json_root(s), "spec.updateStrategy.rollingUpdate.partition", -1), 0);

	static const char claims[] = "{metadata: {name: s}, spec: {volumeClaimTemplates: [{metadata: {name: data}}], "
				     "selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: "
				     "{containers: [{name: c, image: x}]}}}}";
	check("apps", "StatefulSet", claims, NULL, "FieldValueForbidden", "spec.volumeClaimTemplates", "emptyDir");
	static const char parts[] =
		"{metadata: {name: s}, spec: {updateStrategy: {rollingUpdate: {partition: 1}}, selector: {matchLabels: "
		"{a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}}}";
	check("apps", "StatefulSet", parts, NULL, "FieldValueForbidden", "spec.updateStrategy.rollingUpdate.partition",
	      "OnDelete");
	check("apps", "StatefulSet", claims, claims, NULL, NULL, NULL);
}

#define JOB(more, pod)                                                                                                 \
	"{metadata: {name: j, uid: u1}, spec: {" more                                                                  \
	"template: {spec: {restartPolicy: Never, containers: [{name: c, image: 'x:1'" pod "}]}}}}"

static void test_job(void **state)
{
	const struct td_kind *k = td_kind_builtin("batch", "Job");
	td_auto(td_json_unref) struct td_json *j = stored(k, JOB("", ""));
	const yyjson_val *v = td_json_root(j);
	assert_int_equal(td_jint(v, "spec.completions", 0), 1);
	assert_int_equal(td_jint(v, "spec.parallelism", 0), 1);
	assert_int_equal(td_jint(v, "spec.backoffLimit", 0), 6);
	assert_string_equal(td_jstr(v, "spec.completionMode"), "NonIndexed");
	assert_null(td_jget(v, "spec.selector")); // admission makes it, so nobody owns it
	assert_string_equal(td_jstr(v, "spec.template.spec.containers.[0].imagePullPolicy"), "IfNotPresent");

	check("batch", "Job", JOB("", ""), NULL, NULL, NULL, NULL);
	check("batch", "Job", JOB("", ""), JOB("", ""), NULL, NULL, NULL);
	check("batch", "Job", JOB("completionMode: Indexed, parallelism: 2, ", ""), NULL, "FieldValueRequired",
	      "spec.completions", "Indexed");
	check("batch", "Job", JOB("", ", command: [x]"), JOB("", ""), "FieldValueInvalid", "spec.template",
	      "immutable");
	check("batch", "Job", JOB("completions: 3, ", ""), JOB("completions: 2, ", ""), "FieldValueInvalid",
	      "spec.completions", "immutable");
	check("batch", "Job", JOB("completions: 3, parallelism: 3, completionMode: Indexed, ", ""),
	      JOB("completions: 2, parallelism: 2, completionMode: Indexed, ", ""), NULL, NULL, NULL);
	check("batch", "Job", "{metadata: {name: j}, spec: {template: {spec: {containers: [{name: c, image: x}]}}}}",
	      NULL, "FieldValueRequired", "spec.template.spec.restartPolicy", "\"OnFailure\", \"Never\"");
	check("batch", "Job", JOB("managedBy: x, ", ""), NULL, "FieldValueInvalid", "spec.managedBy",
	      "domain-prefixed");
}

// What a real API server refuses, as seen there.
static void test_parts(void **state)
{
#define PART(c, more, reason, field, part)                                                                             \
	check("", "Pod", POD("containers: [{name: c, image: x, " c "}]" more), NULL, reason, field, part)
	PART("envFrom: [{}]", "", "FieldValueInvalid", "spec.containers[0].envFrom", "must specify one of");
	PART("env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: ''}}}]", "", "FieldValueRequired",
	     "spec.containers[0].env[0].valueFrom.secretKeyRef.key", "");
	PART("lifecycle: {preStop: {}}", "", "FieldValueRequired", "spec.containers[0].lifecycle.preStop",
	     "handler type");
	PART("ports: [{containerPort: 80, name: A_b}]", "", "FieldValueInvalid", "spec.containers[0].ports[0].name",
	     "alpha-numeric");
	PART("ports: [{containerPort: 80, name: '80'}]", "", "FieldValueInvalid", "spec.containers[0].ports[0].name",
	     "at least one letter");
	PART("ports: [{containerPort: 80, name: a}, {containerPort: 81, name: a}]", "", "FieldValueDuplicate",
	     "spec.containers[0].ports[1].name", "");
	PART("livenessProbe: {tcpSocket: {port: 0}}", "", "FieldValueInvalid",
	     "spec.containers[0].livenessProbe.tcpSocket.port", "between 1 and");
	PART("securityContext: {privileged: true, allowPrivilegeEscalation: false}", "", "FieldValueInvalid",
	     "spec.containers[0].securityContext", "privileged");
	PART("command: [x]", ", nodeSelector: {'a b': c}", "FieldValueInvalid", "spec.nodeSelector", "name part");
	PART("command: [x]", ", nodeName: A_b", "FieldValueInvalid", "spec.nodeName", "subdomain");
	PART("command: [x]", ", tolerations: [{key: 'a b', operator: Exists}]", "FieldValueInvalid",
	     "spec.tolerations[0].key", "name part");
	PART("ports: [{containerPort: 80, name: web}], envFrom: [{configMapRef: {name: m}}], lifecycle: {preStop: "
	     "{exec: {command: [x]}}}",
	     ", nodeSelector: {a.b/c: d}, nodeName: n1", NULL, NULL, NULL);

	check("", "Secret", "{metadata: {name: s}, type: kubernetes.io/tls, data: {tls.crt: ''}}", NULL,
	      "FieldValueRequired", "data[tls.key]", "");
	check("", "Service", "{metadata: {name: v}, spec: {clusterIP: None, ports: [{port: 80, targetPort: Bad_}]}}",
	      NULL, "FieldValueInvalid", "spec.ports[0].targetPort", "alpha-numeric");
	check("", "Service",
	      "{metadata: {name: v}, spec: {clusterIP: None}, status: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}}",
	      NULL, "FieldValueForbidden", "status.loadBalancer.ingress", "LoadBalancer");
	check("apps", "Deployment", "{metadata: {name: d}}", NULL, "FieldValueRequired", "spec.selector", "");
}

static void test_core(void **state)
{
	check("", "ConfigMap", "{metadata: {name: c}, data: {'a/b': x}}", NULL, "FieldValueInvalid", "data[a/b]",
	      "config key");
	check("", "ConfigMap", "{metadata: {name: c}, data: {a: y}, immutable: true}",
	      "{metadata: {name: c}, data: {a: x}, immutable: true}", "FieldValueForbidden", "data", "immutable");
	check("", "Secret", "{metadata: {name: c}, type: b}", "{metadata: {name: c}, type: a}", "FieldValueInvalid",
	      "type", "immutable");
	check("scheduling.k8s.io", "PriorityClass", "{metadata: {name: c}, value: 2}",
	      "{metadata: {name: c}, value: 1}", "FieldValueForbidden", "value", "may not be changed");
	check("", "Service", "{metadata: {name: s}, spec: {clusterIP: None, ports: [{port: 80}]}}", NULL, NULL, NULL,
	      NULL);

	td_auto(td_json_unref) struct td_json *s =
		stored(td_kind_builtin("", "Secret"), "{metadata: {name: c}, stringData: {k: hello, e: ''}}");
	assert_json(td_jkey(td_json_root(s), "data"), "{k: aGVsbG8=, e: ''}");
	assert_null(td_jkey(td_json_root(s), "stringData"));
	assert_string_equal(td_jstr(td_json_root(s), "type"), "Opaque");
	td_auto(td_json_unref) struct td_json *v =
		stored(td_kind_builtin("", "Service"), "{metadata: {name: c}, spec: {ports: [{port: 80}]}}");
	assert_int_equal(td_jint(td_json_root(v), "spec.ports.[0].targetPort", 0), 80);
}

static void status(const char *now, const char *reason, const char *field, const char *part)
{
	td_auto_free char *n = td_asprintf("{metadata: {name: p}, spec: {" C1 "}, status: {%s}}", now);
	check("", "Pod", n, "{metadata: {name: p}, spec: {" C1 "}}", reason, field, part);
}

static void test_addresses(void **state)
{
	status("podIP: 10.1.2.3", NULL, NULL, NULL);
	status("podIP: 010.1.2.3", NULL, NULL, NULL); // leading zeros are accepted
	status("podIP: x", "FieldValueInvalid", "status.podIPs[0]", "valid IP");
	status("podIPs: [{ip: 10.1.2.256}]", "FieldValueInvalid", "status.podIPs[0]", "valid IP");
	status("podIPs: [{ip: 10.1.2.3}, {ip: 'fd00::1'}]", NULL, NULL, NULL);
	status("podIPs: [{ip: 10.1.2.3}, {ip: 10.1.2.4}]", "FieldValueInvalid", "status.podIPs", "each IP family");
	status("hostIP: 10.0.0.1, hostIPs: [{ip: 10.0.0.2}]", "FieldValueInvalid", "status.hostIPs[0].ip", "hostIP");
	// What was stored before stays writable.
	check("", "Pod", "{metadata: {name: p, labels: {a: b}}, spec: {" C1 "}, status: {podIPs: [{ip: x}]}}",
	      "{metadata: {name: p}, spec: {" C1 "}, status: {podIPs: [{ip: x}]}}", NULL, NULL, NULL);
}

static void node(const char *spec, const char *old, const char *reason, const char *field, const char *part)
{
	td_auto_free char *n = td_asprintf("{metadata: {name: n}, spec: {%s}}", spec),
			  *o = old ? td_asprintf("{metadata: {name: n}, spec: {%s}}", old) : NULL;
	check("", "Node", n, o, reason, field, part);
}

static void test_node(void **state)
{
	node("taints: [{key: e.x/a, value: v, effect: NoSchedule}, {key: e.x/a, effect: NoExecute}]", NULL, NULL, NULL,
	     NULL);
	node("taints: [{key: a b, effect: NoSchedule}]", NULL, "FieldValueInvalid", "metadata.taints[0].key",
	     "name part");
	node("taints: [{key: a, value: b c, effect: NoSchedule}]", NULL, "FieldValueInvalid",
	     "metadata.taints[0].value", "label");
	node("taints: [{key: a, effect: NoSchedule}, {key: a, value: b, effect: NoSchedule}]", NULL,
	     "FieldValueDuplicate", "metadata.taints[1]", "key and effect");
	node("podCIDR: 10.1.0.0/33", NULL, "FieldValueInvalid", "spec.podCIDRs[0]", "valid CIDR");
	node("podCIDR: 10.1.0.0", NULL, "FieldValueInvalid", "spec.podCIDRs[0]", "valid CIDR");
	node("podCIDRs: [10.1.0.0/24, 'fd00::/64']", NULL, NULL, NULL, NULL);
	node("podCIDRs: [10.1.0.0/24, 10.2.0.0/24]", NULL, "FieldValueInvalid", "spec.podCIDRs", "each IP family");
	node("podCIDR: 10.1.0.0/24", "unschedulable: true", NULL, NULL, NULL);
	node("podCIDR: 10.2.0.0/24", "podCIDR: 10.1.0.0/24", "FieldValueForbidden", "spec.podCIDRs", "may not change");
	node("providerID: y", "providerID: x", "FieldValueForbidden", "spec.providerID", "may not change");
	check("", "Node", "{metadata: {name: n}, status: {addresses: [{type: A, address: x}, {type: A, address: x}]}}",
	      NULL, "FieldValueDuplicate", "status.addresses[1]", "x");

	td_auto(td_json_unref) struct td_json *both =
		stored(td_kind_builtin("", "Node"), "{metadata: {name: n}, spec: {podCIDR: 10.1.0.0/24}}");
	assert_json(td_jget(td_json_root(both), "spec.podCIDRs"), "[10.1.0.0/24]");
}

static void test_event(void **state)
{
#define EVENT(more) "{metadata: {name: e, namespace: a}, involvedObject: {namespace: a}" more "}"
#define NEW "eventTime: '2026-01-01T00:00:00.000000Z', "
#define WHO "reportingComponent: x.y/c, reportingInstance: i, action: Do, reason: Done"
	check("", "Event", EVENT(""), NULL, NULL, NULL, NULL);
	check("", "Event", EVENT(", " NEW WHO), NULL, NULL, NULL, NULL);
	check("", "Event", EVENT(", " NEW "reason: R"), NULL, "FieldValueRequired", "action", "");
	check("", "Event", EVENT(", " NEW "reason: R"), NULL, "FieldValueRequired", "reportingInstance", "");
	check("", "Event", EVENT(", " NEW "reportingComponent: a b"), NULL, "FieldValueInvalid", "reportingComponent",
	      "name part");
	check("", "Event", EVENT(", eventTime: '2026-01-01T00:00:00Z'"), NULL, "FieldValueInvalid", "eventTime",
	      "microseconds");
	check("", "Event", "{metadata: {name: e, namespace: a}, involvedObject: {namespace: b}}", NULL,
	      "FieldValueInvalid", "involvedObject.namespace", "does not match");

	td_auto_free char *word = td_malloc(130), *long_word = NULL;
	memset(word, 'a', 129);
	word[129] = 0;
	long_word =
		td_asprintf(EVENT(", " NEW "reportingComponent: c, reportingInstance: i, reason: R, action: %s"), word);
	check("", "Event", long_word, NULL, "FieldValueInvalid", "action", "128");
}

static void test_times(void **state)
{
	static const struct {
		const char *in, *out; // out NULL: refused
	} lease[] = {
		{"2026-01-01T00:00:00.123456Z", "2026-01-01T00:00:00.123456Z"},
		{"2026-01-01T01:02:03.123456+01:30", "2025-12-31T23:32:03.123456Z"},
		{"2026-01-01T00:00:00Z", NULL},
		{"2026-01-01T00:00:00.1234567Z", NULL},
		{"2026-02-30T00:00:00.000000Z", NULL},
		{"2026-01-01t00:00:00.000000z", NULL},
	};
	for (size_t i = 0; i < TD_LEN(lease); i++) {
		const struct td_kind *k = td_kind_builtin("coordination.k8s.io", "Lease");
		td_auto_free char *t = td_asprintf("{metadata: {name: l}, spec: {renewTime: '%s'}}", lease[i].in);
		if (lease[i].out) {
			td_auto(td_json_unref) struct td_json *l = stored(k, t);
			assert_string_equal(td_jstr(td_json_root(l), "spec.renewTime"), lease[i].out);
		}
		check("coordination.k8s.io", "Lease", t, NULL, lease[i].out ? NULL : "FieldValueInvalid",
		      "spec.renewTime", "microseconds");
	}

	td_auto(td_json_unref) struct td_json *e =
		stored(td_kind_builtin("", "Event"), EVENT(", firstTimestamp: '2026-01-01T00:00:00.5+01:00'"));
	// Event times are stored in whole seconds.
	assert_string_equal(td_jstr(td_json_root(e), "firstTimestamp"), "2025-12-31T23:00:00Z");
}

static void test_generated(void **state)
{
#define OWNJOB(labels, more)                                                                                           \
	"{metadata: {name: j, uid: u}, spec: {" more "template: {metadata: {labels: {" labels                          \
	"}}, spec: {restartPolicy: Never, " C1 "}}}"                                                                   \
	"}"
#define MADE "selector: {matchLabels: {batch.kubernetes.io/controller-uid: u}}, "
#define LABELS "batch.kubernetes.io/controller-uid: u, batch.kubernetes.io/job-name: j, job-name: j, controller-uid: "
	check("batch", "Job", OWNJOB(LABELS "u", MADE), NULL, NULL, NULL, NULL);
	check("batch", "Job", OWNJOB(LABELS "x", MADE), NULL, "FieldValueInvalid",
	      "spec.template.metadata.labels[controller-uid]", "'u'");
	check("batch", "Job", OWNJOB("batch.kubernetes.io/controller-uid: u", MADE), NULL, "FieldValueRequired",
	      "spec.template.metadata.labels[job-name]", "'j'");
	check("batch", "Job", OWNJOB(LABELS "u, a: b", "selector: {matchLabels: {a: b}}, "), NULL, "FieldValueInvalid",
	      "spec.selector", "auto-generated");
	check("batch", "Job", OWNJOB("a: b", "manualSelector: true, selector: {matchLabels: {a: b}}, "), NULL, NULL,
	      NULL, NULL);
}

static void test_meta(void **state)
{
	static const struct {
		const char *group, *kind, *meta, *field; // field NULL: valid
	} t[] = {
		{"", "Pod",
		 "{name: a.b-c, namespace: n, labels: {a/b: c}, annotations: {Example.com/Key: ' any \\n thing'}}",
		 NULL},
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
		 "metadata.ownerReferences.uid"},
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
#define REFUSED(spec, field, part)                                                                                     \
	check("policy", "PodDisruptionBudget", PDB(spec), NULL, "FieldValueInvalid", field, part)

	check("policy", "PodDisruptionBudget", PDB("minAvailable: 3"), NULL, NULL, NULL, NULL);
	check("policy", "PodDisruptionBudget", PDB("maxUnavailable: 100%"), NULL, NULL, NULL, NULL);
	REFUSED("minAvailable: 1, maxUnavailable: 1", "spec", "cannot be both set");
	REFUSED("minAvailable: -1", "spec.minAvailable", "non-negative");
	REFUSED("maxUnavailable: 101%", "spec.maxUnavailable", "100%");
	REFUSED("maxUnavailable: half", "spec.maxUnavailable", "percentage");
	check("policy", "PodDisruptionBudget", PDB("unhealthyPodEvictionPolicy: Never"), NULL, "FieldValueNotSupported",
	      "spec.unhealthyPodEvictionPolicy", "IfHealthyBudget");
	check("policy", "PodDisruptionBudget",
	      "{metadata: {name: a}, spec: {selector: {matchExpressions: [{key: a, operator: In}]}}}", NULL,
	      "FieldValueInvalid", "spec.selector", "");
}

static void test_not_served(void **state)
{
	static const char affine[] = "{metadata: {name: a}, spec: {sessionAffinity: ClientIP, ports: [{port: 80}]}}";
	check("", "Service", affine, NULL, "FieldValueForbidden", "spec.sessionAffinity",
	      "ClientIP is not served by the embedded API: ");
	check("", "Service", affine, affine, NULL, NULL, NULL);
	check("", "Service",
	      "{metadata: {name: a}, spec: {sessionAffinity: ClientIP, ports: [{port: 80, nodePort: 30000}]}}", affine,
	      "FieldValueForbidden", "spec.ports[0].nodePort", "headless");
	check("batch", "Job", JOB("successPolicy: {rules: []}, ", ""), NULL, "FieldValueForbidden",
	      "spec.successPolicy", "completions");
	check("batch", "Job", JOB("", ", env: [{name: E, valueFrom: {fileKeyRef: {key: a}}}]"), NULL,
	      "FieldValueForbidden", "spec.template.spec.containers[0].env[0].valueFrom.fileKeyRef", "embedded nodes");
	// SELinux labels have no effect on a node without SELinux, so they are accepted, as
	// everywhere.

	pod("securityContext: {seLinuxOptions: {level: 's0:c1,c2'}, seLinuxChangePolicy: MountOption}, " C(
		    "securityContext: {seLinuxOptions: {type: t}}"),
	    NULL, NULL, NULL);
	pod("securityContext: {seLinuxChangePolicy: Never}, " C1, "FieldValueNotSupported",
	    "spec.securityContext.seLinuxChangePolicy", "");
#define CRD(schema)                                                                                                    \
	"{metadata: {name: ts.a.io}, spec: {group: a.io, scope: Namespaced, names: {plural: ts, kind: T}, versions: "  \
	"[{name: v1, served: "                                                                                         \
	"true, storage: true, schema: {openAPIV3Schema: " schema "}}]}}"
	check("apiextensions.k8s.io", "CustomResourceDefinition",
	      CRD("{type: object, properties: {spec: {type: object, x-kubernetes-validations: [{rule: 'true'}]}}}"),
	      NULL, "FieldValueForbidden",
	      "spec.versions[0].schema.openAPIV3Schema.properties.spec.x-kubernetes-validations", "CEL");
	check("apiextensions.k8s.io", "CustomResourceDefinition", CRD("{type: object}"), NULL, NULL, NULL, NULL);
}

// One grammar of blocks, whoever reads one: the numbers of an address are decimal, leading zeros or not.
static void test_blocks(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool good, six;
		uint32_t v4;
		uint8_t bits;
	} rows[] = {{"10.1.0.0/16", true, false, 0x0a010000, 16},
		    {"010.1.0.0/8", true, false, 0x0a010000, 8},
		    {"0.0.0.0/0", true, false, 0, 0},
		    {"2001:db8::/64", true, true, 0, 64},
		    {"10.1.0.0/33", false, false, 0, 0},
		    {"10.1.0.0/-1", false, false, 0, 0},
		    {"10.1.0/16", false, false, 0, 0},
		    {"10.1.0.0", false, false, 0, 0},
		    {"10.1.0.0/", false, false, 0, 0},
		    {"::/129", false, false, 0, 0}};
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		struct td_block b = {0};
		if (td_block_parse(rows[i].text, &b) != rows[i].good || b.six != rows[i].six ||
		    ntohl(b.v4) != rows[i].v4 || b.bits != rows[i].bits)
			fail_msg("%s", rows[i].text);
	}
}

// What a NodeSet says of another cluster, whoever reads it.
static void test_other_cluster(void **state)
{
	td_auto(td_json_unref) struct td_json
		*here = Y("spec: {affinity: {}}"),
		*there = Y("spec: {otherCluster: {claims: [{namespace: ml, claim: data, there: d}]}}");
	assert_false(td_api_other_cluster(td_json_root(here)));
	assert_true(td_api_other_cluster(td_json_root(there)));
	assert_null(td_api_other_claim(td_json_root(here), "ml", "data"));
	assert_null(td_api_other_claim(td_json_root(there), "bio", "data"));
	assert_null(td_api_other_claim(td_json_root(there), "ml", "more"));
	assert_string_equal(td_jstr(td_api_other_claim(td_json_root(there), "ml", "data"), "there"), "d");
}

// The share in a grant, whoever reads it.
static void test_grants(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int share;
	} rows[] = {{"{nvidia.com/gpu: '0'}", 0}, {"{nvidia.com/gpu: '0', share: '50'}", 50},
		    {"{share: '100'}", 100},      {"{share: '0'}", -1},
		    {"{share: '101'}", -1},       {"{share: 50}", -1},
		    {"{share: half}", -1}};
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		td_auto(td_json_unref) struct td_json *j = Y(rows[i].text);
		assert_int_equal(td_api_grant_share(td_json_root(j)), rows[i].share);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses),     cmocka_unit_test(test_node),
		cmocka_unit_test(test_event),         cmocka_unit_test(test_times),
		cmocka_unit_test(test_generated),     cmocka_unit_test(test_not_served),
		cmocka_unit_test(test_budget),        cmocka_unit_test(test_pod),
		cmocka_unit_test(test_pod_update),    cmocka_unit_test(test_workloads),
		cmocka_unit_test(test_job),           cmocka_unit_test(test_parts),
		cmocka_unit_test(test_core),          cmocka_unit_test(test_meta),
		cmocka_unit_test(test_blocks),        cmocka_unit_test(test_grants),
		cmocka_unit_test(test_other_cluster),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
