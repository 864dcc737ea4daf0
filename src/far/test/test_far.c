// rows: D5.4
// What of a pod may go to another cluster, what is made of it there, how it is shown, and which kubeconfigs are believed.
#include "far/copy.h"
#include "far/face.h"
#include "far/far.h"
#include "far/link.h"
#include "far/refs.h"

#include "api/condition.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/names.h"
#include "http/client.h"
#include "http/pki.h"
#include "kube/test/fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define UID "5e556ff1-6501-49fa-84f7-46f82b65eccd"

static struct td_json *yaml(const char *text)
{
	td_auto_json_list struct td_json_list l = {0};
	struct td_error e = TD_ERROR_INIT;
	if (td_yaml_parse(text, strlen(text), &l, &e) || l.n != 1)
		fail_msg("%s", e.msg);
	return td_json_ref(l.v[0]);
}

static struct td_json *pod_with(const char *spec)
{
	td_auto_free char *text = td_asprintf("metadata: {name: train.a, namespace: ml, uid: " UID
					      ", labels: {app: x}, annotations: {y: z}}\n"
					      "spec:\n  schedulerName: tandem\n  nodeName: east-n0\n  priority: 5\n"
					      "  tolerations: [{key: a, operator: Exists}]\n%s",
					      spec);
	return yaml(text);
}

#define PLAIN "  containers: [{name: c, image: i, command: [a], resources: {requests: {cpu: 1}}}]\n"

static void test_refuses_by_name(void **state)
{
	static const struct {
		const char *spec, *field;
	} bad[] = {
		{PLAIN "  volumes: [{name: v, hostPath: {path: /}}]\n", "spec.volumes[0].hostPath"},
		{PLAIN "  volumes: [{name: e, emptyDir: {}}, {name: v, nfs: {server: s, path: /}}]\n",
		 "spec.volumes[1].nfs"},
		{PLAIN "  volumes: [{name: v, projected: {sources: [{secret: {name: s}}, {serviceAccountToken: {path: "
		       "t}}]}}]\n",
		 "spec.volumes[0].projected.sources[1].serviceAccountToken"},
		{PLAIN "  volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {}}}}]\n",
		 "spec.volumes[0].ephemeral"},
		{PLAIN "  hostNetwork: true\n", "spec.hostNetwork"},
		{PLAIN "  hostPID: true\n", "spec.hostPID"},
		{PLAIN "  serviceAccountName: other\n", "spec.serviceAccountName"},
		{PLAIN "  resourceClaims: [{name: s}]\n", "spec.resourceClaims"},
		{PLAIN "  runtimeClassName: kata\n", "spec.runtimeClassName"},
		{PLAIN "  fieldOfTomorrow: {a: b}\n", "spec.fieldOfTomorrow"},
		{PLAIN "  securityContext: {sysctls: [{name: a, value: b}]}\n", "spec.securityContext.sysctls"},
		{"  containers: [{name: c, image: i, securityContext: {privileged: true}}]\n",
		 "spec.containers[0].securityContext.privileged"},
		{"  containers: [{name: c, image: i, securityContext: {capabilities: {add: [SYS_ADMIN]}}}]\n",
		 "spec.containers[0].securityContext.capabilities.add"},
		{"  containers: [{name: c, image: i, ports: [{containerPort: 1, hostPort: 1}]}]\n",
		 "spec.containers[0].ports[0].hostPort"},
		{"  containers: [{name: c, image: i, envFrom: [{prefix: A, fileRef: {name: s}}]}]\n",
		 "spec.containers[0].envFrom[0].fileRef"},
		{"  containers: [{name: c, image: i, env: [{name: A, value: b}, {name: B, valueFrom: {fileKeyRef: "
		 "{name: s, key: k}}}]}]\n",
		 "spec.containers[0].env[1].valueFrom"},
		{"  containers: [{name: c, image: i, env: [{name: B, valueFrom: {fieldRef: {fieldPath: "
		 "spec.serviceAccountName}}}]}]\n",
		 "spec.containers[0].env[0].valueFrom"},
		{"  containers: [{name: c, image: i, livenessProbe: {httpGet: {host: 10.0.0.1, port: 1}}}]\n",
		 "spec.containers[0].livenessProbe.httpGet.host"},
		{"  containers: [{name: c, image: i, lifecycle: {preStop: {tcpSocket: {host: h, port: 1}}}}]\n",
		 "spec.containers[0].lifecycle.preStop.tcpSocket.host"},
		{"  containers: [{name: c, image: i, volumeDevices: [{name: v, devicePath: /x}]}]\n",
		 "spec.containers[0].volumeDevices"},
		{"  containers: [{name: c, image: i, resources: {claims: [{name: x}]}}]\n",
		 "spec.containers[0].resources.claims"},
		{PLAIN "  initContainers: [{name: c, image: i, securityContext: {procMount: Unmasked}}]\n",
		 "spec.initContainers[0].securityContext.procMount"},
	};
	for (size_t i = 0; i < TD_LEN(bad); i++) {
		td_auto(td_json_unref) struct td_json *p = pod_with(bad[i].spec);
		struct td_error e = TD_ERROR_INIT;
		assert_int_equal(td_far_copy_check(td_json_root(p), &e), TD_INVALID);
		size_t n = strlen(bad[i].field);
		if (strncmp(e.msg, bad[i].field, n) != 0 || e.msg[n] != ':')
			fail_msg("%s: %s", bad[i].field, e.msg);
	}
}

// The copy of a pod that may go there.
static struct td_json *copy_of(struct td_json *pod)
{
	struct td_error e = TD_ERROR_INIT;
	if (td_far_copy_check(td_json_root(pod), &e))
		fail_msg("%s", e.msg);
	td_auto(td_json_unref) struct td_json *set =
		yaml("metadata: {name: east, namespace: slurm, uid: set-uid}\n"
		     "spec: {otherCluster: {claims: [{namespace: other, claim: data, there: theirs}, "
		     "{namespace: ml, claim: data, there: sets, readOnly: true}, "
		     "{namespace: ml, claim: home, there: homes}]}}\n");
	if (td_far_claims_check(td_json_root(pod), td_json_root(set), &e)) {
		assert_non_null(strstr(e.msg, "spec.volumes[1].persistentVolumeClaim: the claim \"sets\" is here, and "
					      "NodeSet slurm/east names none"));
		assert_non_null(strstr(e.msg, "{namespace: ml, claim: sets, there: NAME}"));
		return NULL;
	}
	const struct td_far_copy to = {"tandem", "gpu07", td_json_root(set)};
	return td_jm_done(td_far_copy_make(td_json_root(pod), &to));
}

// A claim has the name there that the NodeSet says for its namespace, and no pod can say a name of that cluster.
static void test_claims(void **state)
{
	td_auto(td_json_unref) struct td_json *p =
		pod_with(PLAIN "  volumes: [{name: d, persistentVolumeClaim: {claimName: data}}, "
			       "{name: h, persistentVolumeClaim: {claimName: home, readOnly: true}}]\n");
	td_auto(td_json_unref) struct td_json *copy = copy_of(p);
	td_auto_free char *volumes = td_json_text(td_jget(td_json_root(copy), "spec.volumes"), NULL);
	assert_string_equal(volumes,
			    "[{\"name\":\"d\",\"persistentVolumeClaim\":{\"claimName\":\"sets\",\"readOnly\":true}},"
			    "{\"name\":\"h\",\"persistentVolumeClaim\":{\"claimName\":\"homes\",\"readOnly\":true}}]");
	td_auto(td_json_unref) struct td_json *theirs =
		pod_with(PLAIN "  volumes: [{name: e, emptyDir: {}}, {name: d, persistentVolumeClaim: {claimName: "
			       "sets}}]\n");
	assert_null(copy_of(theirs));
	// What nobody need reach there can be told from the rest; nothing else of its labels goes along.
	td_auto(td_json_unref) struct td_json *session = yaml("metadata: {name: session-a, namespace: ml, uid: " UID
							      ", labels: {tandem.dev/session: a}}\nspec:\n" PLAIN);
	td_auto(td_json_unref) struct td_json *closed = copy_of(session);
	assert_string_equal(td_jkey_str(td_jget(td_json_root(closed), "metadata.labels"), TD_LABEL_FROM_SESSION),
			    "true");
}

static void test_the_copy(void **state)
{
	// What a real API server adds to each pod: its token's volume, and fields that are false.
	td_auto(td_json_unref) struct td_json *p =
		pod_with("  hostNetwork: false\n  priorityClassName: high\n  activeDeadlineSeconds: 60\n"
			 "  volumes: [{name: e, emptyDir: {}}, {name: kube-api-access-x7, projected: {sources: []}}]\n"
			 "  containers:\n  - name: c\n    image: i\n    resizePolicy: [{resourceName: cpu}]\n    "
			 "volumeMounts: [{name: kube-api-access-x7, "
			 "mountPath: /var/run}, {name: e, mountPath: /e}]\n"
			 "    env: [{name: N, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: U, valueFrom: "
			 "{fieldRef: {fieldPath: metadata.uid}}},"
			 " {name: I, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]\n");
	td_auto(td_json_unref) struct td_json *copy = copy_of(p);
	td_auto_free char *text = td_json_text(td_json_root(copy), NULL);
	assert_string_equal(
		text,
		"{\"spec\":{\"containers\":[{\"env\":[{\"name\":\"N\",\"value\":\"train.a\"},{\"name\":\"U\",\"value\":"
		"\"" UID "\"},{\"name\":\"I\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"status.podIP\"}}}],"
		"\"volumeMounts\":[{\"name\":\"e\",\"mountPath\":\"/e\"}],"
		"\"name\":\"c\",\"image\":\"i\",\"resizePolicy\":[{\"resourceName\":\"cpu\"}]}],\"volumes\":[{\"name\":"
		"\"e\",\"emptyDir\":{}}],"
		"\"activeDeadlineSeconds\":60,"
		"\"automountServiceAccountToken\":false,\"enableServiceLinks\":false,\"affinity\":{\"nodeAffinity\":{"
		"\"requiredDuringSchedulingIgnoredDuringExecution\":{\"nodeSelectorTerms\":[{\"matchFields\":[{\"key\":"
		"\"metadata.name\",\"operator\":\"In\","
		"\"values\":[\"gpu07\"]}]}]}}}},\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"ml-"
		"train-a-5e556ff16501\",\"namespace\":\"tandem\","
		"\"labels\":{\"tandem.dev/from-nodeset\":\"set-uid\",\"tandem.dev/from-pod\":\"" UID
		"\"},\"annotations\":{\"tandem.dev/from-name\":\"ml/train.a\",\"tandem.dev/other-node\":\"gpu07\"}}}");
}

// A member has its rank's name there, and is told those of all; what its pod says itself wins.
static void test_a_gang(void **state)
{
	td_auto(td_json_unref) struct td_json *p = yaml(
		"metadata: {name: w-1, namespace: ml, uid: " UID
		", labels: {app: x, tandem.dev/gang: w}, annotations: {"
		"tandem.dev/gang-uid: ask, tandem.dev/gang-rank: '1', tandem.dev/gang-world: '2', "
		"tandem.dev/gang-hosts: 'w-0,w-1'}}\n"
		"spec: {subdomain: w, hostname: w-1, containers: [{name: c, image: i, env: [{name: MASTER_PORT, value: "
		"'1'}, "
		"{name: H, valueFrom: {fieldRef: {fieldPath: \"metadata.annotations['tandem.dev/gang-hosts']\"}}}, "
		"{name: L, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['app']\"}}}]}]}\n");
	td_auto(td_json_unref) struct td_json *copy = copy_of(p);
	td_auto_free char *env = td_json_text(td_jget(td_json_root(copy), "spec.containers.[0].env"), NULL);
#define G "g2f2fc7f2e9ce"
	assert_string_equal(env, "[{\"name\":\"RANK\",\"value\":\"1\"},{\"name\":\"WORLD_SIZE\",\"value\":\"2\"},"
				 "{\"name\":\"MASTER_ADDR\",\"value\":\"" G "-0.copies\"},"
				 "{\"name\":\"TANDEM_GANG_HOSTS\",\"value\":\"" G "-0.copies," G "-1.copies\"},"
				 "{\"name\":\"MASTER_PORT\",\"value\":\"1\"},"
				 "{\"name\":\"H\",\"value\":\"" G "-0.copies," G "-1.copies\"},"
				 "{\"name\":\"L\",\"value\":\"x\"}]");
	assert_string_equal(td_jstr(td_json_root(copy), "spec.hostname"), G "-1");
	assert_string_equal(td_jstr(td_json_root(copy), "spec.subdomain"), "copies");
	assert_string_equal(td_jkey_str(td_jget(td_json_root(copy), "metadata.labels"), TD_LABEL_FROM_GANG), "true");
}

static void test_names_fit(void **state)
{
	td_auto(td_json_unref) struct td_json *p = yaml(
		"metadata: {namespace: n, name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbb, uid: " UID
		"}\n");
	td_auto_free char *name = td_far_copy_name(td_json_root(p));
	assert_string_equal(name, "n-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-5e556ff16501");
	assert_true(strlen(name) <= 63);
}

static void test_status(void **state)
{
	td_auto(td_json_unref) struct td_json *p =
		yaml("metadata: {name: a, namespace: ml, uid: " UID ", resourceVersion: '7'}\n"
		     "status: {phase: Pending, conditions: [{type: PodScheduled, status: 'True'}, {type: Ready, "
		     "status: 'False'}]}\n");
	td_auto(td_json_unref) struct td_json *c =
		yaml("metadata: {name: ml-a, namespace: tandem}\n"
		     "status: {phase: Running, podIP: 10.0.0.1, hostIP: 10.0.0.2, qosClass: Guaranteed, "
		     "containerStatuses: [{name: c, ready: true, state: {running: {startedAt: x}}}],"
		     " conditions: [{type: PodScheduled, status: 'True'}, {type: Ready, status: 'True', "
		     "observedGeneration: 1}, {type: Foreign, status: 'True'}]}\n");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_far_copy_status(td_json_root(p), td_json_root(c), 1000);
	assert_non_null(d);
	td_auto(td_json_unref) struct td_json *patch = td_json_from_mut(yyjson_mut_doc_get_root(d));
	td_auto_free char *text = td_json_text(td_json_root(patch), NULL);
	assert_string_equal(text, "{\"status\":{\"phase\":\"Running\",\"containerStatuses\":[{\"name\":\"c\",\"ready\":"
				  "true,\"state\":{\"running\":{\"startedAt\":\"x\"}}}],"
				  "\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"True\"},{\"type\":\"Ready\","
				  "\"status\":\"True\"},"
				  "{\"type\":\"tandem.dev/"
				  "OtherCluster\",\"status\":\"True\",\"lastTransitionTime\":\"1970-01-01T00:00:01Z\","
				  "\"reason\":\"Made\",\"message\":\"its copy in the other cluster is "
				  "tandem/ml-a\"}]},\"metadata\":{\"uid\":\"" UID "\",\"resourceVersion\":\"7\"}}");
	// What is shown already is not written again.
	td_auto(td_json_unref) struct td_json *now = NULL;
	assert_int_equal(td_json_merge_patch(td_json_root(p), td_json_root(patch), &now, NULL), 0);
	assert_null(td_far_copy_status(td_json_root(now), td_json_root(c), 9000));

	// Why it finds no node there is said in that cluster's words.
	td_auto(td_json_unref) struct td_json *lost = yaml(
		"metadata: {name: ml-a, namespace: tandem}\nspec: {}\nstatus: {phase: Pending, conditions: [{type: "
		"PodScheduled, status: 'False', message: persistentvolumeclaim \"homes\" not found}]}\n");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *w = td_far_copy_status(td_json_root(p), td_json_root(lost), 1000);
	td_auto(td_json_unref) struct td_json *waits = td_json_from_mut(yyjson_mut_doc_get_root(w));
	const yyjson_val *why = td_condition(td_json_root(waits), TD_COND_OTHER);
	assert_string_equal(td_jstr(why, "reason"), "WaitsThere");
	assert_string_equal(td_jstr(why, "message"),
			    "its copy in the other cluster is tandem/ml-a, and finds no node: persistentvolumeclaim "
			    "\"homes\" not found");

	// It fails here while nobody knows how it is there: no container runs any more.
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *o = td_jm_new();
	td_far_copy_over(o, yyjson_mut_doc_get_root(o), td_json_root(now), NULL, 2000);
	td_auto(td_json_unref) struct td_json *over = td_json_from_mut(yyjson_mut_doc_get_root(o));
	assert_int_equal(td_jint(td_json_root(over), "containerStatuses.[0].state.terminated.exitCode", 0), 137);
	assert_false(td_jbool(td_json_root(over), "containerStatuses.[0].ready", true));
	assert_string_equal(td_jstr(td_jfind(td_jget(td_json_root(over), "conditions"), "type", "Ready"), "status"),
			    "False");
}

static void test_kubeconfigs(void **state)
{
#define CLUSTERS "clusters: [{name: c, cluster: {server: 'https://10.0.0.1:6443', certificate-authority-data: QQ==}}]\n"
#define REST "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
	static const struct {
		const char *text, *says;
	} bad[] = {
		{CLUSTERS REST
		 "users: [{name: u, user: {tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}}]\n",
		 "users[0].user.tokenFile"},
		{CLUSTERS REST "users: [{name: u, user: {client-certificate: /a, client-key: /b}}]\n",
		 "users[0].user.client-certificate"},
		{CLUSTERS REST "users: [{name: u, user: {exec: {command: sh}}}]\n", "users[0].user.exec"},
		{CLUSTERS REST "users: [{name: v, user: {token: t}}, {name: u, user: {auth-provider: {name: a}}}]\n",
		 "users[1].user.auth-provider"},
		{REST "clusters: [{name: c, cluster: {server: 'https://a', certificate-authority: "
		      "/etc/ssl/x}}]\nusers: [{name: u, user: {token: t}}]\n",
		 "clusters[0].cluster.certificate-authority"},
		{REST "clusters: [{name: c, cluster: {server: 'http://a', certificate-authority-data: QQ==}}]\nusers: "
		      "[{name: u, user: {token: t}}]\n",
		 "clusters[0].cluster.server"},
		{REST "clusters: [{name: c, cluster: {server: 'https://a'}}]\nusers: [{name: u, user: {token: t}}]\n",
		 "clusters[0].cluster.certificate-authority-data"},
		{"a: b\n---\nc: d\n", "one document"},
		{"", "one document"},
		{"[", ""},
		{CLUSTERS "users: [{name: u, user: {token: t}}]\n", "current-context"},
	};
	for (size_t i = 0; i < TD_LEN(bad); i++) {
		struct td_error e = TD_ERROR_INIT;
		struct td_kube *k = NULL;
		assert_true(td_far_client(bad[i].text, strlen(bad[i].text), &k, &e) < 0);
		assert_null(k);
		if (!strstr(e.msg, bad[i].says))
			fail_msg("%s: %s", bad[i].says, e.msg);
	}
}

static const char *answer; // NULL: 404 without a word of an API server's

static void there(struct td_http_x *x, void *ctx)
{
	bool list = strstr(td_http_target(x), "/api/v1/namespaces/tandem/pods?") &&
		    strstr(td_http_target(x), "fieldSelector=metadata.name%3Dml-train-a-5e556ff16501");
	const char *text = answer ? answer : "default backend";
	td_http_send(x, answer && list ? 200 : 404, "application/json", text, strlen(text));
}

// Only an API server's own word counts for a copy that is gone, and for one that is there only its own UID.
static void test_surely_gone(void **state)
{
#define LIST(labels)                                                                                                   \
	"{\"metadata\": {\"resourceVersion\": \"7\"}, \"items\": [{\"metadata\": {\"name\": "                          \
	"\"ml-train-a-5e556ff16501\", \"namespace\": \"tandem\", \"uid\": \"u\", \"labels\": {" labels "}}}]}"
	struct fake *f = fake_start(there, NULL);
	struct td_far_link l = {.there = fake_client(f), .ns = (char *)"tandem"};
	td_auto(td_json_unref) struct td_json *j = pod_with(PLAIN);
	td_auto(td_object_unref) struct td_object *pod = td_object_new(td_json_ref(j));
	td_auto(td_cancel_unref) struct td_cancel *c = td_cancel_new();
	answer = "{\"metadata\": {\"resourceVersion\": \"7\"}, \"items\": []}";
	assert_int_equal(td_far_copy_gone(&l, pod, c, NULL), 0);
	answer = LIST("\"tandem.dev/from-pod\": \"somebody else's\"");
	assert_int_equal(td_far_copy_gone(&l, pod, c, NULL), 0);
	answer = LIST("\"tandem.dev/from-pod\": \"" UID "\"");
	assert_int_equal(td_far_copy_gone(&l, pod, c, NULL), TD_TRANSIENT);
	answer = NULL;
	assert_int_equal(td_far_copy_gone(&l, pod, c, NULL), TD_TRANSIENT);
	answer = "{}"; // no list
	assert_true(td_far_copy_gone(&l, pod, c, NULL) < 0);
	td_kube_free(l.there);
	fake_stop(f);
}

static const char files[] =
	"metadata: {name: a, namespace: ml, uid: " UID "}\n"
	"spec:\n"
	"  imagePullSecrets: [{name: pull}]\n"
	"  volumes: [{name: kube-api-access-1, projected: {sources: [{configMap: {name: kube-root-ca.crt}}]}}, {name: "
	"s, secret: "
	"{secretName: key, optional: true}}, {name: c, configMap: {name: conf}}, {name: p, projected: {sources: "
	"[{secret: {name: "
	"key}}, {configMap: {name: more, optional: true}}]}}]\n"
	"  initContainers: [{name: i, env: [{name: A, valueFrom: {secretKeyRef: {name: init, key: k}}}]}]\n"
	"  containers: [{name: c, envFrom: [{configMapRef: {name: conf}}, {secretRef: {name: env}}], env: [{name: A, "
	"valueFrom: "
	"{configMapKeyRef: {name: one, key: k}}}]}]\n";

static void test_what_a_pod_names(void **state)
{
	td_auto(td_json_unref) struct td_json *p = yaml(files);
	td_auto_far_refs struct td_far_refs refs = {0};
	td_auto_buf struct td_buf b = {0};
	td_far_refs_of(td_json_root(p), &refs);
	for (size_t i = 0; i < refs.n; i++)
		td_buf_printf(&b, "%s%s%s ", refs.v[i].secret ? "s/" : "c/", refs.v[i].name,
			      refs.v[i].optional ? "?" : "");
	// One that is needed anywhere is needed. The token's volume is not the pod's.
	assert_string_equal(td_buf_str(&b), "s/key c/conf c/more? s/init c/one s/env s/pull? ");
}

// No name that a pod says goes there as it is, so none is another namespace's, whatever it is called.
static void test_names_there(void **state)
{
	td_auto(td_json_unref) struct td_json *p = yaml(files);
	td_auto(td_json_unref) struct td_json *copy = copy_of(p);
	td_auto_far_refs struct td_far_refs here = {0}, there = {0};
	td_far_refs_of(td_json_root(p), &here);
	td_far_refs_of(td_json_root(copy), &there);
	assert_int_equal(here.n, there.n);
	for (size_t i = 0; i < here.n; i++) {
		td_auto_free char *key = td_far_ref_key(here.v[i].secret, "ml", here.v[i].name),
				  *want = td_far_ref_there("set-uid", key);
		assert_string_equal(there.v[i].name, want);
		assert_int_equal(there.v[i].optional, here.v[i].optional);
	}
	static const char *const all[] = {"s/a-b/c", "s/a/b-c", "s/a/b.c", "c/a/b-c", "s/a-b.c/d"};
	for (size_t i = 0; i < TD_LEN(all); i++)
		for (size_t k = 0; k < i; k++) {
			td_auto_free char *x = td_far_ref_there("u", all[i]), *y = td_far_ref_there("u", all[k]),
					  *z = td_far_ref_there("v", all[i]);
			assert_string_not_equal(x, y);
			assert_string_not_equal(x, z);
		}
	td_auto_free char *one = td_far_ref_there("u", "s/a/b.c");
	assert_string_equal(one, "a-b-c-da9babfdeb610bb691ef50d5e6874b85");
}

// ---- who may ask for a stream, and what becomes of it there ----

static struct td_kube *asked; // whom the face asks

static void face(struct td_http_x *x, void *ctx)
{
	const char *path = td_http_path(x);
	size_t n;
	if (td_starts(path, "/target/")) {
		td_auto_strv struct td_strv f = {0};
		td_strv_split(&f, path + strlen("/target"), '/');
		td_auto_free char *t = td_far_target(x, &f, "tandem", "ml-a-1");
		td_http_send(x, 200, "text/plain", t ? t : "none", strlen(t ? t : "none"));
	} else if (!strcmp(path, "/ask")) {
		td_auto_far_caller struct td_far_caller w = {0};
		struct td_error e = TD_ERROR_INIT;
		int r = td_far_caller(asked, x, &w, NULL, &e);
		if (!r)
			r = td_far_caller_may(asked, &w, td_http_query(x, "verb"), "east-n0", NULL, &e);
		td_auto_free char *text = td_asprintf("\"%s\"", !r                        ? "yes"
								: r == TD_UNAUTHENTICATED ? "who"
								: r == TD_DENIED          ? "no"
											  : e.msg);
		td_http_send(x, 200, "application/json", text, strlen(text));
	} else if (strstr(path, "tokenreviews")) {
		const char *t =
			strstr(td_http_body(x, &n), "\"token\":\"good\"")
				? "{\"status\":{\"authenticated\":true,\"user\":{\"username\":\"api\",\"uid\":\"7\","
				  "\"groups\":[\"g\"],\"extra\":{\"k\":[\"v\"]}}}}"
				: "{\"status\":{\"error\":\"bad\"}}";
		td_http_send(x, 201, "application/json", t, strlen(t));
	} else {
		// All of him is asked about, and the one node.
		const char *t = strstr(td_http_body(x, &n),
				       "\"spec\":{\"user\":\"api\",\"uid\":\"7\",\"extra\":{\"k\":[\"v\"]},"
				       "\"groups\":[\"g\"],\"resourceAttributes\":{\"verb\":\"get\",\"version\":"
				       "\"v1\",\"resource\":\"nodes\",\"subresource\":\"proxy\",\"name\":"
				       "\"east-n0\"}}")
					? "{\"status\":{\"allowed\":true}}"
					: "{\"status\":{\"allowed\":false}}";
		td_http_send(x, 201, "application/json", t, strlen(t));
	}
}

// header NULL: none.
static void check_get(struct fake *f, const char *path, const char *header, const char *want)
{
	const char *const headers[] = {header, NULL};
	const struct td_http_client_opts o = {.base_url = fake_url(f)};
	td_auto(td_http_client_free) struct td_http_client *c = NULL;
	td_auto_reply struct td_http_reply r = {0};
	assert_int_equal(td_http_client_new(&o, &c, NULL), 0);
	const struct td_http_call call = {.method = "GET", .path = path, .headers = headers};
	assert_int_equal(td_http_do(c, &call, NULL, &r, NULL), 0);
	assert_string_equal(td_buf_str(&r.body), want);
}

static void check_ask(struct fake *f, const char *token, const char *verb, const char *want)
{
	td_auto_free char *header = td_asprintf("Authorization: %s", token), *path = td_asprintf("/ask?verb=%s", verb);
	check_get(f, path, header, want);
}

static void check_target(struct fake *f, const char *path, const char *want)
{
	td_auto_free char *at = td_asprintf("/target%s", path);
	check_get(f, at, NULL, want);
}

static void test_streams(void **state)
{
#define THERE "/api/v1/namespaces/tandem/pods/ml-a-1/"
	struct fake *f = fake_start(face, NULL);
	asked = fake_client(f);
	check_ask(f, "Bearer good", "get", "\"yes\"");
	check_ask(f, "Bearer good", "create", "\"no\"");
	check_ask(f, "Bearer bad", "get", "\"who\"");
	check_ask(f, "Basic good", "get", "\"who\"");
	check_ask(f, "Bearer ", "get", "\"who\"");

	check_target(f, "/containerLogs/ml/a/c?follow=true&tailLines=5&insecureSkipTLSVerifyBackend=true&x=y",
		     THERE "log?container=c&follow=true&tailLines=5");
	check_target(f, "/exec/ml/a/c?command=sh&command=a%20%26b%3Dc&input=1&output=1&tty=1",
		     THERE "exec?container=c&stdin=1&stdout=1&tty=1&command=sh&command=a%20%26b%3Dc");
	check_target(f, "/attach/ml/a/c?stdin=true&stderr=true", THERE "attach?container=c&stdin=true&stderr=true");
	check_target(f, "/portForward/ml/a?port=80", THERE "portforward?&ports=80");
	check_target(f, "/exec/ml/a/c%2F..%3Fx?command=y", "none");
	check_target(f, "/exec/ml/a/c%3Fx%26y?command=y", THERE "exec?container=c%3Fx%26y&command=y");
	check_target(f, "/containerLogs/ml/a", "none");
	check_target(f, "/run/ml/a/c", "none");
	check_target(f, "/logs/", "none");
	td_kube_free(asked);
	fake_stop(f);
}

static char *client_ca; // PEM

static void authentication(struct td_http_x *x, void *ctx)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	size_t n;
	td_jm_str(d, root, "apiVersion", "v1");
	td_jm_str(d, root, "kind", "ConfigMap");
	td_jm_str(d, root, "metadata.name", "extension-apiserver-authentication");
	td_jm_str(d, root, "metadata.namespace", "kube-system");
	td_jm_key_str(d, td_jm_obj(d, root, "data"), "client-ca-file", client_ca);
	td_auto_free char *text = td_json_mut_text(root, &n);
	td_http_send(x, 200, "application/json", text, n);
}

static char *new_ca(const char *dir, const char *name)
{
	td_auto_free char *at = td_asprintf("%s/%s", dir, name), *file = td_asprintf("%s/ca.crt", at);
	struct td_buf b = {0};
	assert_int_equal(mkdir(at, 0700), 0);
	assert_int_equal(td_pki_ca_ensure(at, name, NULL), 0);
	assert_int_equal(td_file_read(file, 65536, &b, NULL), 0);
	return td_buf_take(&b);
}

// A CA that the API server no longer trusts is not trusted here for as long as the operator runs.
static void test_another_client_ca(void **state)
{
	char dir[] = "/tmp/test-far.XXXXXX";
	assert_non_null(mkdtemp(dir));
	td_auto_free char *one = new_ca(dir, "one"), *two = new_ca(dir, "two");
	struct fake *f = fake_start(authentication, NULL);
	struct td_kube *here = fake_client(f);
	const struct td_far_streams o = {.listen = "127.0.0.1:0", .address = "127.0.0.1", .pki = dir};
	struct td_far_face *served = NULL;
	td_auto(td_cancel_unref) struct td_cancel *c = td_cancel_new();
	client_ca = one;
	assert_int_equal(td_far_face_new(NULL, here, &o, c, &served, NULL), 0);
	assert_false(td_far_face_stale(served, c));
	client_ca = (char *)""; // nobody knows
	assert_false(td_far_face_stale(served, c));
	client_ca = two;
	assert_true(td_far_face_stale(served, c));
	td_far_face_free(served);
	td_kube_free(here);
	fake_stop(f);
	td_rm_rf(dir, NULL);
}

// ---- which cluster it is ----

static void lists(struct td_http_x *x, void *ctx)
{
#define NODE(name, own, id)                                                                                            \
	"{\"metadata\":{\"name\":\"" name "\",\"uid\":\"" name "\",\"resourceVersion\":\"1\",\"annotations\":{"        \
	"\"tandem.dev/other-cluster-nodeset\":\"" own "\",\"tandem.dev/other-cluster-id\":\"" id "\"}}}"
#define POD(name, node, phase)                                                                                         \
	"{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"ml\",\"uid\":\"" name                                    \
	"\",\"resourceVersion\":\"1\"},\"spec\":"                                                                      \
	"{\"nodeName\":\"" node "\"},\"status\":{\"phase\":\"" phase "\"}}"
	static const char nodes[] =
		"{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[" NODE("same", "s/east", "one") "," NODE(
			"used", "s/east", "two") "," NODE("idle", "s/east", "two") "," NODE("west", "s/west",
											    "two") "]}";
	static const char pods[] =
		"{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[" POD("a", "same", "Running") "," POD(
			"b", "used", "Running") "," POD("c", "idle", "Succeeded") "," POD("d", "west", "Running") "]}";
	const char *text = strstr(td_http_target(x), "watch=") ? "" : strstr(td_http_path(x), "pods") ? pods : nodes;
	td_http_send(x, 200, "application/json", text, strlen(text));
}

static void by_node(const struct td_object *o, struct td_strv *ret)
{
	td_strv_add(ret, td_jstr_or(o->root, "spec.nodeName", ""));
}

// Pods that run in the cluster of before keep the link from doing anything in this one.
static void test_astray(void **state)
{
	struct fake *f = fake_start(lists, NULL);
	td_auto(td_cancel_unref) struct td_cancel *c = td_cancel_new();
	struct td_kube *k = fake_client(f);
	const struct td_informer_opts nodes = {.resource = &td_nodes, .name = "a"},
				      pods = {.resource = &td_pods, .name = "b"};
	struct td_far_link l = {.own = (char *)"s/east",
				.id = (char *)"one",
				.nodes = td_informer_new(k, &nodes),
				.pods = td_informer_new(k, &pods)};
	td_informer_add_index(l.pods, "node", by_node);
	assert_int_equal(td_informer_start(l.nodes, c, NULL), 0);
	assert_int_equal(td_informer_start(l.pods, c, NULL), 0);
	struct td_informer *const both[] = {l.nodes, l.pods};
	assert_int_equal(td_informers_wait(both, 2, 60000, c, NULL), 0);
	assert_int_equal(td_far_nodes_astray(&l), 1);
	l.id = (char *)"two";
	assert_int_equal(td_far_nodes_astray(&l), 1);
	l.id = (char *)"three";
	assert_int_equal(td_far_nodes_astray(&l), 2);
	td_cancel_fire(c);
	td_informer_free(l.nodes);
	td_informer_free(l.pods);
	td_kube_free(k);
	fake_stop(f);
}

// ---- what is sent ----

static struct {
	const char *node; // the pod's
	atomic_int sent;
	atomic_bool down; // nobody says how the Secret is
} along;

static void files_of(struct td_http_x *x, void *ctx)
{
	static const char none[] = "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}";
	const char *path = td_http_path(x);
	td_auto_free char *text = NULL;
	if (strstr(path, "/secrets")) {
		along.sent += !strcmp(td_http_method(x), "POST");
		text = td_strdup(
			"{\"metadata\":{\"name\":\"key\",\"namespace\":\"ml\",\"uid\":\"k\",\"resourceVersion\":"
			"\"1\"},\"data\":{\"a\":\"YQ==\"}}");
	} else if (strstr(path, "/nodes")) {
		text = td_strdup("{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[" NODE(
			"ours", "s/east", "one") "," NODE("theirs", "t/east", "two") "]}");
	} else if (!strstr(path, "/namespaces/")) {
		text = td_asprintf(
			"{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[{\"metadata\":{\"name\":\"a\","
			"\"namespace\":\"ml\",\"uid\":\"a\",\"resourceVersion\":\"1\",\"annotations\":{\"" TD_ANN_JOB
			"\":\"7\"}},\"spec\":{\"nodeName\":\"%s\",\"volumes\":[{\"name\":\"v\",\"secret\":{"
			"\"secretName\":\"key\"}}]}}]}",
			along.node);
	}
	const char *say = strstr(td_http_target(x), "watch=") ? "" : text ? text : none;
	td_http_send(x, along.down && strstr(path, "/secrets") ? 500 : 200, "application/json", say, strlen(say));
}

// How many requests make the Secret there, when the pod that names it is on this node.
static int sent_for(const char *node)
{
	along.node = node;
	along.sent = 0;
	along.down = false;
	struct fake *f = fake_start(files_of, NULL);
	td_auto(td_cancel_unref) struct td_cancel *c = td_cancel_new();
	struct td_kube *k = fake_client(f);
	td_auto(td_object_unref) struct td_object *set =
		td_object_new(yaml("metadata: {name: east, namespace: s, uid: u}"));
	const struct td_informer_opts nodes = {.resource = &td_nodes, .name = "a"},
				      pods = {.resource = &td_pods, .name = "b"},
				      there = {.resource = &td_pods, .ns = "tandem", .name = "c"};
	struct td_far_link l = {.here = k,
				.there = k,
				.own = (char *)"s/east",
				.ns = (char *)"tandem",
				.set = set,
				.q = td_queue_new(&td_clock_system),
				.nodes = td_informer_new(k, &nodes),
				.far_nodes = td_informer_new(k, &nodes),
				.pods = td_informer_new(k, &pods),
				.far_pods = td_informer_new(k, &there)};
	struct td_informer *const all[] = {l.nodes, l.far_nodes, l.pods, l.far_pods};
	pthread_mutex_init(&l.lock, NULL);
	atomic_store(&l.answers, true);
	td_informer_add_index(l.pods, "source", td_far_index_source);
	td_informer_add_index(l.far_pods, "source", td_far_index_source_there);
	for (size_t i = 0; i < TD_LEN(all); i++)
		assert_int_equal(td_informer_start(all[i], c, NULL), 0);
	assert_int_equal(td_informers_wait(all, TD_LEN(all), 60000, c, NULL), 0);
	td_auto(td_object_unref) struct td_object *pod = td_informer_get(l.pods, "ml", "a");
	int64_t again = 0;
	assert_int_equal(td_far_sources_ready(&l, pod, NULL), TD_TRANSIENT); // it is looked at
	assert_int_equal(td_far_source_sync(&l, "s/ml/key", &again, c, NULL), 0);
	if (along.sent) { // what was sent is there still when it cannot be read here for a moment
		assert_int_equal(td_far_sources_ready(&l, pod, NULL), 0);
		along.down = true;
		assert_true(td_far_source_sync(&l, "s/ml/key", &again, c, NULL) < 0);
		assert_int_equal(td_far_sources_ready(&l, pod, NULL), 0);
	}
	td_cancel_fire(c);
	for (size_t i = 0; i < TD_LEN(all); i++)
		td_informer_free(all[i]);
	td_far_sources_free(&l);
	td_queue_free(l.q);
	pthread_mutex_destroy(&l.lock);
	td_kube_free(k);
	fake_stop(f);
	return along.sent;
}

// Of two NodeSets of one name, each in its own cluster, neither is sent what a pod on the other's nodes names.
static void test_sent_for_its_own_pods(void **state)
{
	assert_int_equal(sent_for("ours"), 1);
	assert_int_equal(sent_for("theirs"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refuses_by_name),
		cmocka_unit_test(test_the_copy),
		cmocka_unit_test(test_claims),
		cmocka_unit_test(test_another_client_ca),
		cmocka_unit_test(test_sent_for_its_own_pods),
		cmocka_unit_test(test_names_fit),
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_kubeconfigs),
		cmocka_unit_test(test_surely_gone),
		cmocka_unit_test(test_what_a_pod_names),
		cmocka_unit_test(test_names_there),
		cmocka_unit_test(test_streams),
		cmocka_unit_test(test_a_gang),
		cmocka_unit_test(test_astray),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
