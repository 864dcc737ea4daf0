// The verbs, over a real server in this process.
// rows: F1.2
#include "apiserver/test/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define NS "/api/v1/namespaces/default"
#define POD(name)                                                                                                      \
	"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"" name                                       \
	"\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"debian:13\"}]}}"
#define CM(name)                                                                                                       \
	"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"" name "\"},\"data\":{\"a\":\"1\"}}"

static int setup(void **state)
{
	static struct harness h;
	harness_start(&h, 0);
	*state = &h;
	return 0;
}

static int teardown(void **state)
{
	harness_stop(*state);
	return 0;
}

static void who_may(void **state)
{
	struct harness *h = *state;
	h->as = NULL;
	expect(h, "GET", NS "/pods", NULL, NULL, 401, "reason", "Unauthorized");
	expect(h, "GET", "/version", NULL, NULL, 200, "minor", "34");
	assert_int_equal(ask(h, "GET", "/healthz", NULL, NULL, NULL), 200);
	assert_int_equal(ask(h, "GET", "/metrics", NULL, NULL, NULL), 401);
	h->as = "no.token.atall";
	expect(h, "GET", NS "/pods", NULL, NULL, 401, "reason", "Unauthorized");
	h->as = h->nobody;
	expect(h, "GET", NS "/secrets", NULL, NULL, 403, "message",
	       "secrets is forbidden: User \"eve\" cannot list resource \"secrets\" in API group \"\" in the namespace "
	       "\"default\"");
	expect(h, "GET", "/api/v1/nodes", NULL, NULL, 403, "message",
	       "nodes is forbidden: User \"eve\" cannot list resource \"nodes\" in API group \"\" at the cluster "
	       "scope");
	expect(h, "GET", "/apis", NULL, NULL, 200, "kind", "APIGroupList");
	h->as = h->admin;
	expect(h, "GET", NS "/pods", NULL, NULL, 200, "kind", "PodList");
}

static void objects(void **state)
{
	struct harness *h = *state;
	h->as = h->admin;
	expect(h, "POST", NS "/configmaps", JSON, CM("a"), 201, "metadata.namespace", "default");
	expect(h, "POST", NS "/configmaps", JSON, CM("a"), 409, "reason", "AlreadyExists");
	expect(h, "POST", "/api/v1/namespaces/nope/configmaps", JSON, CM("a"), 404, "details.kind", "namespaces");
	expect(h, "POST", NS "/configmaps", JSON, CM("A_"), 422, "details.causes.[0].field", "metadata.name");
	expect(h, "POST", NS "/configmaps", JSON, "{\"kind\":\"Secret\"}", 400, "reason", "BadRequest");
	expect(h, "POST", NS "/configmaps", JSON, "{", 400, "reason", "BadRequest");
	expect(h, "POST", NS "/configmaps", "text/plain", "x", 415, "reason", "UnsupportedMediaType");
	expect(h, "POST", NS "/configmaps", "application/yaml", "metadata: {name: y}\ndata: {k: v}\n", 201, "data.k",
	       "v");
	expect(h, "POST", NS "/configmaps?fieldValidation=Strict", JSON, "{\"metadata\":{\"name\":\"s\"},\"bogus\":1}",
	       400, "message",
	       "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field "
	       "\"bogus\"");
	expect(h, "POST", NS "/configmaps?dryRun=All", JSON, CM("dry"), 201, "metadata.name", "dry");
	expect(h, "GET", NS "/configmaps/dry", NULL, NULL, 404, "message", "configmaps \"dry\" not found");

	td_auto_free char *rv = field(h, NS "/configmaps/a", "metadata.resourceVersion");
	td_auto_free char *stale =
		td_asprintf("{\"metadata\":{\"name\":\"a\",\"resourceVersion\":%s},\"data\":{\"a\":\"2\"}}", rv);
	expect(h, "PUT", NS "/configmaps/a", JSON, stale, 200, "data.a", "2");
	expect(h, "PUT", NS "/configmaps/a", JSON, stale, 409, "message",
	       "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your "
	       "changes to the latest version and try again");

	// An update without a version is unconditional.
	expect(h, "PUT", NS "/configmaps/a", JSON, CM("a"), 200, "data.a", "1");
	expect(h, "PUT", NS "/configmaps/a", JSON, "{\"metadata\":{\"name\":\"b\"}}", 400, "reason", "BadRequest");
	expect(h, "PATCH", NS "/configmaps/a", MERGE, "{\"data\":{\"a\":null,\"b\":\"3\"}}", 200, "data.b", "3");
	expect(h, "PATCH", NS "/configmaps/a", MERGE, "{\"metadata\":{\"uid\":\"other\"}}", 422, "reason", "Invalid");
	expect(h, "PATCH", NS "/configmaps/a", MERGE, "{\"metadata\":{\"resourceVersion\":\"1\"}}", 409, "reason",
	       "Conflict");
	expect(h, "PATCH", NS "/configmaps/a", "application/json-patch+json",
	       "[{\"op\":\"test\",\"path\":\"/data/b\",\"value\":\"x\"}]", 422, "reason", "Invalid");

	// A patch that changes nothing writes nothing.
	td_auto_free char *before = field(h, NS "/configmaps/a", "metadata.resourceVersion");
	expect(h, "PATCH", NS "/configmaps/a", MERGE, "{\"data\":{\"b\":\"3\"}}", 200, NULL, NULL);
	td_auto_free char *after = field(h, NS "/configmaps/a", "metadata.resourceVersion");
	assert_string_equal(before, after);

	expect(h, "DELETE", NS "/configmaps/a", JSON, "{\"preconditions\":{\"uid\":\"other\"}}", 409, "details.kind",
	       "ConfigMap");
	expect(h, "PATCH", NS "/configmaps/a", MERGE, "{\"metadata\":{\"finalizers\":[\"x.io/hold\"]}}", 200, NULL,
	       NULL);

	// The finalizer holds the object, so the reply is the object itself.
	expect(h, "DELETE", NS "/configmaps/a", NULL, NULL, 200, "kind", "ConfigMap");
	td_auto_free char *ts = field(h, NS "/configmaps/a", "metadata.deletionTimestamp");
	assert_true(*ts);
	expect(h, "PATCH", NS "/configmaps/a", MERGE, "{\"metadata\":{\"finalizers\":[\"x.io/hold\",\"x.io/more\"]}}",
	       422, "reason", "Invalid");
	expect(h, "PATCH", NS "/configmaps/a", MERGE, "{\"metadata\":{\"finalizers\":null}}", 200, NULL, NULL);
	expect(h, "GET", NS "/configmaps/a", NULL, NULL, 404, NULL, NULL);
	expect(h, "DELETE", NS "/configmaps/y", NULL, NULL, 200, "status", "Success");
	expect(h, "POST", NS "/configmaps", JSON, "{\"metadata\":{\"generateName\":\"g-\"}}", 201, NULL, NULL);
}

static void applying(void **state)
{
	struct harness *h = *state;
	h->as = h->admin;
	const char *apply = "application/apply-patch+yaml";
	expect(h, "PATCH", NS "/configmaps/ap?fieldManager=m1", apply,
	       "apiVersion: v1\nkind: ConfigMap\ndata: {a: '1'}\n", 201, "data.a", "1");
	expect(h, "PATCH", NS "/configmaps/ap?fieldManager=m2", apply,
	       "apiVersion: v1\nkind: ConfigMap\ndata: {a: '2'}\n", 409, "message",
	       "Apply failed with 1 conflict: conflict with \"m1\": .data.a");
	expect(h, "PATCH", NS "/configmaps/ap?fieldManager=m2&force=true", apply,
	       "apiVersion: v1\nkind: ConfigMap\ndata: {a: '2'}\n", 200, "data.a", "2");
	expect(h, "PATCH", NS "/configmaps/ap", apply, "apiVersion: v1\nkind: ConfigMap\n", 422, NULL, NULL);
}

static void scaling(void **state)
{
	struct harness *h = *state;
	h->as = h->admin;
#define DS "/apis/apps/v1/namespaces/default/deployments"
#define SCALE(n) "apiVersion: autoscaling/v1\nkind: Scale\nspec: {replicas: " n "}\n"
	const char *apply = "application/apply-patch+yaml";
	expect(h, "PATCH", DS "/sc?fieldManager=m1", apply,
	       "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 3, selector: {matchLabels: {a: b}}, template: "
	       "{metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}\n",
	       201, NULL, NULL);
	expect(h, "PATCH", DS "/sc/scale?fieldManager=sc", apply, SCALE("5"), 409, "message",
	       "Apply failed with 1 conflict: conflict with \"m1\": .spec.replicas");
	expect(h, "PATCH", DS "/sc/scale", apply, SCALE("5"), 422, "details.kind", "PatchOptions");
	expect(h, "PATCH", DS "/sc/scale?fieldManager=sc&force=true", apply, SCALE("5"), 200, "kind", "Scale");
	expect(h, "GET", DS "/sc", NULL, NULL, 200, "metadata.managedFields.[0].subresource", "scale");
	expect(h, "PATCH", DS "/sc/scale?fieldManager=sc", apply, SCALE("-1"), 422, "details.kind", "Scale");
	expect(h, "PATCH", DS "/sc/scale?fieldManager=sc", apply, "apiVersion: apps/v1\nkind: Deployment\n", 400, NULL,
	       NULL);
	expect(h, "PATCH", DS "/sc/scale?fieldManager=sc", apply,
	       "apiVersion: autoscaling/v1\nkind: Scale\nspec: {bogus: 1}\n", 400, NULL, NULL);
	expect(h, "PATCH", DS "/sc/scale", "text/plain", "{}", 415, NULL, NULL);
	expect(h, "PATCH", DS "/none/scale?fieldManager=sc", apply, SCALE("5"), 404, NULL, NULL);
	expect(h, "PATCH", DS "/sc/scale?fieldManager=sc", apply, "apiVersion: autoscaling/v1\nkind: Scale\nspec: {}\n",
	       200, NULL, NULL);
	td_auto_free char *n = field(h, DS "/sc", "spec.replicas");
	assert_string_equal(n, "0"); // given up by its only owner
}

static void health(void **state)
{
	struct harness *h = *state;
	static const char *const all[] = {"/healthz", "/livez", "/readyz"};

	for (size_t i = 0; i < TD_LEN(all); i++) {
		td_auto_free char *ping = td_asprintf("%s/ping", all[i]), *none = td_asprintf("%s/nothing", all[i]),
				  *told = td_asprintf("%s?verbose&exclude=ping", all[i]);
		h->as = NULL;
		assert_int_equal(ask(h, "GET", told, NULL, NULL, NULL), 200);
		// Single checks need authentication.
		assert_int_equal(ask(h, "GET", ping, NULL, NULL, NULL), 401);
		h->as = h->admin;
		assert_int_equal(ask(h, "GET", ping, NULL, NULL, NULL), 200);
		assert_int_equal(ask(h, "GET", none, NULL, NULL, NULL), 404);
	}

	__atomic_store_n(&h->srv.ready, false, __ATOMIC_RELEASE);
	assert_int_equal(ask(h, "GET", "/readyz", NULL, NULL, NULL), 500);
	assert_int_equal(ask(h, "GET", "/readyz/ping", NULL, NULL, NULL), 200);
	assert_int_equal(ask(h, "GET", "/livez", NULL, NULL, NULL), 200);
	__atomic_store_n(&h->srv.ready, true, __ATOMIC_RELEASE);
}

static void tolerations(void **state)
{
	struct harness *h = *state;
	static const struct {
		const char *given;
		size_t n;
	} all[] = {{"[]", 2},
		   {"[{\"operator\":\"Exists\"}]", 1},
		   {"[{\"operator\":\"Exists\",\"effect\":\"NoSchedule\"}]", 3},
		   {"[{\"key\":\"node.kubernetes.io/"
		    "not-ready\",\"operator\":\"Exists\",\"effect\":\"NoExecute\",\"tolerationSeconds\":1}]",
		    2}};

	h->as = h->admin;
	for (size_t i = 0; i < TD_LEN(all); i++) {
		td_auto(td_json_unref) struct td_json *p = NULL;
		td_auto_free char *body = td_asprintf("{\"metadata\":{\"name\":\"tol%zu\"},\"spec\":{\"tolerations\":%"
						      "s,\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}",
						      i, all[i].given);
		assert_int_equal(ask(h, "POST", NS "/pods", JSON, body, &p), 201);
		yyjson_val *l = td_jget(td_json_root(p), "spec.tolerations");
		assert_int_equal(yyjson_arr_size(l), all[i].n);
	}

	expect(h, "PATCH", NS "/pods/tol1", MERGE, "{\"spec\":{\"tolerations\":null}}", 422, "details.causes.[0].field",
	       "spec.tolerations");
	// A patch may remove these tolerations: the server sets them again.
	expect(h, "PATCH", NS "/pods/tol0", MERGE, "{\"spec\":{\"tolerations\":null}}", 200, NULL, NULL);
}

static void grants(void **state)
{
	struct harness *h = *state;
	static const char grant[] = "{\"metadata\":{\"annotations\":{\"tandem.dev/devices\":\"{}\"}}}";

	h->as = h->admin;
	expect(h, "POST", NS "/pods", JSON,
	       "{\"metadata\":{\"name\":\"g\"},\"spec\":{\"schedulerName\":\"tandem\",\"containers\":[{\"name\":\"c\","
	       "\"image\":\"i\"}]}}",
	       201, "status.phase", "Pending");
	expect(h, "PATCH", NS "/pods/g", MERGE, grant, 403, "reason", "Forbidden");
	expect(h, "PATCH", NS "/pods/g", MERGE,
	       "{\"metadata\":{\"annotations\":{\"tandem.dev/all-devices\":\"true\"}}}", 403, "reason", "Forbidden");
	expect(h, "POST", "/apis/apps/v1/namespaces/default/deployments", JSON,
	       "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"selector\":{\"matchLabels\":{\"a\":\"b\"}},\"template\":{"
	       "\"metadata\":{\"labels\":{\"a\":\"b\"},\"annotations\":{\"tandem.dev/"
	       "all-devices\":\"true\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}}",
	       403, "details.name", "d");

	// The status subresource is no way round the check.
	expect(h, "PATCH", NS "/pods/g/status", MERGE, grant, 403, "reason", "Forbidden");
	h->as = h->bridge;
	expect(h, "PATCH", NS "/pods/g", MERGE, grant, 200, NULL, NULL);

	// What is there may stay, but not change.
	h->as = h->admin;
	expect(h, "PATCH", NS "/pods/g", MERGE, "{\"metadata\":{\"labels\":{\"x\":\"y\"}}}", 200, NULL, NULL);
	expect(h, "PATCH", NS "/pods/g", MERGE, "{\"metadata\":{\"annotations\":{\"tandem.dev/devices\":null}}}", 403,
	       NULL, NULL);
	expect(h, "POST", NS "/pods", JSON, POD("plain"), 201, NULL, NULL);

	// A pod that Slurm did not place gets no devices.
	h->as = h->bridge;
	expect(h, "PATCH", NS "/pods/plain", MERGE, grant, 403, NULL, NULL);
	h->as = h->admin;
}

static void binding(void **state)
{
	struct harness *h = *state;
	h->as = h->admin;
#define BIND(name, uid, node)                                                                                          \
	"{\"apiVersion\":\"v1\",\"kind\":\"Binding\",\"metadata\":{\"name\":\"" name "\",\"uid\":\"" uid               \
	"\"},\"target\":{\"kind\":\"Node\",\"name\":\"" node "\"}}"
	expect(h, "POST", NS "/pods", JSON, POD("b1"), 201, NULL, NULL);
	expect(h, "POST", NS "/pods/b1/binding", JSON, BIND("b1", "other", "n0"), 409, "details.kind", "pods");
	expect(h, "POST", NS "/pods/zz/binding", JSON, BIND("zz", "", "n0"), 404, "details.kind", "pods");
	expect(h, "POST", NS "/pods/b1/binding", JSON, BIND("b2", "", "n0"), 400, "message",
	       "name in URL does not match name in Binding object");
	expect(h, "POST", NS "/pods/b1/binding", JSON, BIND("b1", "", ""), 500, NULL, NULL);
	expect(h, "POST", NS "/pods/b1/binding", JSON,
	       "{\"metadata\":{\"name\":\"b1\",\"annotations\":{\"k\":\"v\"}},\"target\":{\"kind\":\"Node\",\"name\":"
	       "\"n0\"}}",
	       201, "status", "Success");
	expect(h, "GET", NS "/pods/b1", NULL, NULL, 200, "spec.nodeName", "n0");
	expect(h, "GET", NS "/pods/b1", NULL, NULL, 200, "metadata.annotations.k", "v");
	expect(h, "GET", NS "/pods/b1", NULL, NULL, 200, "status.conditions.[0].type", "PodScheduled");
	td_auto_free char *gen = field(h, NS "/pods/b1", "metadata.generation");
	assert_string_equal(gen, "1");
	expect(h, "POST", NS "/pods/b1/binding", JSON, BIND("b1", "", "n1"), 409, "message",
	       "Operation cannot be fulfilled on pods/binding \"b1\": pod b1 is already assigned to node \"n0\"");
	expect(h, "PATCH", NS "/pods/b1", MERGE, "{\"spec\":{\"nodeName\":\"n2\"}}", 422, "reason", "Invalid");

	// Grace: a pod on a node gets its grace period; force ends it; an unscheduled pod is
	// removed at once.
	expect(h, "DELETE", NS "/pods/b1", NULL, NULL, 200, NULL, NULL);
	td_auto_free char *grace = field(h, NS "/pods/b1", "metadata.deletionGracePeriodSeconds");
	assert_string_equal(grace, "30");
	expect(h, "DELETE", NS "/pods/b1?gracePeriodSeconds=60", NULL, NULL, 200, NULL, NULL);
	free(grace);
	grace = field(h, NS "/pods/b1", "metadata.deletionGracePeriodSeconds");
	assert_string_equal(grace, "30"); // may only get shorter
	expect(h, "DELETE", NS "/pods/b1?gracePeriodSeconds=0", NULL, NULL, 200, NULL, NULL);
	expect(h, "GET", NS "/pods/b1", NULL, NULL, 404, NULL, NULL);
	expect(h, "POST", NS "/pods", JSON, POD("b3"), 201, NULL, NULL);
	expect(h, "GET", NS "/pods/b3/log", NULL, NULL, 204, NULL, NULL);
	expect(h, "GET", NS "/pods/b3/log?container=zz", NULL, NULL, 400, "message",
	       "container zz is not valid for pod b3");
	expect(h, "DELETE", NS "/pods/b3", NULL, NULL, 200, NULL, NULL);
	expect(h, "GET", NS "/pods/b3", NULL, NULL, 404, NULL, NULL);
	h->as = h->admin;
}

static void budget_status(struct harness *h, const char *status)
{
	td_auto_free char *body = td_asprintf("{\"status\":%s}", status);
	expect(h, "PATCH", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web/status", MERGE, body, 200, NULL,
	       NULL);
}

static void pod_of(struct harness *h, const char *name, const char *phase, bool ready)
{
	td_auto_free char *body = td_asprintf("{\"metadata\":{\"name\":\"%s\",\"labels\":{\"app\":\"web\"}},\"spec\":{"
					      "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}",
					      name);
	td_auto_free char *path = td_asprintf(NS "/pods/%s/status", name);
	td_auto_free char *status =
		td_asprintf("{\"status\":{\"phase\":\"%s\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"%s\"}]}}",
			    phase, ready ? "True" : "False");
	expect(h, "POST", NS "/pods", JSON, body, 201, NULL, NULL);
	expect(h, "PATCH", path, MERGE, status, 200, NULL, NULL);
}

static void eviction(void **state)
{
	struct harness *h = *state;
	h->as = h->admin;
#define EVICT(name) "{\"apiVersion\":\"policy/v1\",\"kind\":\"Eviction\",\"metadata\":{\"name\":\"" name "\"}}"
#define PDB(name) "/apis/policy/v1/namespaces/default/poddisruptionbudgets" name
#define CAUSE "details.causes.[0].message"
	static const char web[] = "{\"metadata\":{\"name\":\"web\"},\"spec\":{\"minAvailable\":1,\"selector\":{"
				  "\"matchLabels\":{\"app\":\"web\"}}}}";
	expect(h, "POST", PDB(""), JSON, web, 201, NULL, NULL);
	td_auto_free char *zero = field(h, PDB("/web"), "status.disruptionsAllowed");
	assert_string_equal(zero, "0");
	pod_of(h, "e1", "Running", true);
	pod_of(h, "e2", "Running", true);

	// No controller has processed the budget yet.
	expect(h, "POST", NS "/pods/e1/eviction", JSON, EVICT("e1"), 429, CAUSE,
	       "The disruption budget web is still being processed by the server.");
	td_auto(td_json_unref) struct td_json *j = NULL;
	ask(h, "POST", NS "/pods/e1/eviction", JSON, EVICT("e1"), &j);
	assert_int_equal(td_jint(td_json_root(j), "details.retryAfterSeconds", 0), 10);
	assert_string_equal(td_jstr(td_json_root(j), "reason"), "TooManyRequests");
	assert_string_equal(td_jstr(td_json_root(j), "details.causes.[0].reason"), "DisruptionBudget");
	assert_string_equal(td_jstr(td_json_root(j), "message"),
			    "Cannot evict pod as it would violate the pod's disruption budget.");
	budget_status(h, "{\"observedGeneration\":1,\"disruptionsAllowed\":0,\"desiredHealthy\":6,\"currentHealthy\":6,"
			 "\"expectedPods\":6}");
	expect(h, "POST", NS "/pods/e1/eviction", JSON, EVICT("e1"), 429, CAUSE,
	       "The disruption budget web needs 6 healthy pods and has 6 currently");
	td_json_unref(j);
	ask(h, "POST", NS "/pods/e1/eviction", JSON, EVICT("e1"), &j);
	assert_null(td_jget(td_json_root(j), "details.retryAfterSeconds"));
	budget_status(h, "{\"conditions\":[{\"type\":\"DisruptionAllowed\",\"status\":\"False\",\"reason\":"
			 "\"SyncFailed\",\"message\":\"no scale\"}]}");
	expect(h, "POST", NS "/pods/e1/eviction", JSON, EVICT("e1"), 429, CAUSE,
	       "The disruption budget web does not allow evicting pods currently because it failed sync: no scale");

	// One disruption is allowed: a dry run does not use it, the first eviction does, and the
	// second is refused. Nothing but the budget's status changes.
	budget_status(h, "{\"disruptionsAllowed\":1,\"desiredHealthy\":1,\"currentHealthy\":2,\"conditions\":[{"
			 "\"type\":\"DisruptionAllowed\",\"status\":\"True\",\"reason\":\"SufficientPods\"}]}");
	expect(h, "POST", NS "/pods/e1/eviction?dryRun=All", JSON, EVICT("e1"), 201, "status", "Success");
	expect(h, "POST", NS "/pods/e1/eviction", JSON, EVICT("e1"), 201, "status", "Success");
	expect(h, "GET", NS "/pods/e1", NULL, NULL, 404, NULL, NULL);
	td_auto_free char *left = field(h, PDB("/web"), "status.disruptionsAllowed"),
			  *e1 = field(h, PDB("/web"), "status.disruptedPods.e1");
	assert_string_equal(left, "0");
	assert_true(*e1);
	expect(h, "GET", PDB("/web"), NULL, NULL, 200, "status.conditions.[0].reason", "InsufficientPods");
	expect(h, "POST", NS "/pods/e2/eviction", JSON, EVICT("e2"), 429, NULL, NULL);

	// A plain delete asks no budget.
	expect(h, "DELETE", NS "/pods/e2", NULL, NULL, 200, NULL, NULL);
	// A pod that is not healthy may go while enough others are healthy.
	pod_of(h, "e3", "Running", false);
	budget_status(h, "{\"currentHealthy\":0}");
	expect(h, "POST", NS "/pods/e3/eviction", JSON, EVICT("e3"), 429, NULL, NULL);
	budget_status(h, "{\"currentHealthy\":1}");
	expect(h, "POST", NS "/pods/e3/eviction", JSON, EVICT("e3"), 201, NULL, NULL);
	pod_of(h, "e4", "Running", false);
	budget_status(h, "{\"currentHealthy\":0}");
	expect(h, "PATCH", PDB("/web"), MERGE, "{\"spec\":{\"unhealthyPodEvictionPolicy\":\"AlwaysAllow\"}}", 200, NULL,
	       NULL);
	expect(h, "POST", NS "/pods/e4/eviction", JSON, EVICT("e4"), 201, NULL, NULL);

	// Pods that do not run yet and pods that are done disrupt nothing.
	pod_of(h, "e5", "Pending", false);
	expect(h, "POST", NS "/pods/e5/eviction", JSON, EVICT("e5"), 201, NULL, NULL);
	pod_of(h, "e6", "Failed", false);
	expect(h, "POST", NS "/pods/e6/eviction", JSON, EVICT("e6"), 201, NULL, NULL);

	// A precondition on an old resourceVersion, and one on the latest.
	pod_of(h, "e7", "Pending", false);
	expect(h, "POST", NS "/pods/e7/eviction", JSON,
	       "{\"metadata\":{\"name\":\"e7\"},\"deleteOptions\":{\"preconditions\":{\"resourceVersion\":\"1\"}}}",
	       409, "reason", "Conflict");
	td_auto_free char *rv = field(h, NS "/pods/e7", "metadata.resourceVersion");
	td_auto_free char *good = td_asprintf(
		"{\"metadata\":{\"name\":\"e7\"},\"deleteOptions\":{\"preconditions\":{\"resourceVersion\":%s}}}", rv);
	expect(h, "POST", NS "/pods/e7/eviction", JSON, good, 201, NULL, NULL);

	// Two budgets select one pod.
	expect(h, "POST", PDB(""), JSON, "{\"metadata\":{\"name\":\"all\"},\"spec\":{\"selector\":{}}}", 201, NULL,
	       NULL);
	pod_of(h, "e8", "Running", true);
	expect(h, "POST", NS "/pods/e8/eviction", JSON, EVICT("e8"), 500, "message",
	       "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.");
	expect(h, "DELETE", NS "/pods/e8", NULL, NULL, 200, NULL, NULL);
	expect(h, "POST", PDB(""), JSON,
	       "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"minAvailable\":1,\"maxUnavailable\":1}}", 422,
	       "details.causes.[0].field", "spec");
	expect(h, "DELETE", PDB(""), NULL, NULL, 200, NULL, NULL);
}

static void namespaces(void **state)
{
	struct harness *h = *state;
	h->as = h->admin;
	expect(h, "POST", "/api/v1/namespaces", JSON, "{\"metadata\":{\"name\":\"t\"}}", 201, "status.phase", "Active");
	expect(h, "POST", "/api/v1/namespaces/t/configmaps", JSON, CM("x"), 201, NULL, NULL);
	expect(h, "DELETE", "/api/v1/namespaces/t", NULL, NULL, 200, "status.phase", "Terminating");
	expect(h, "POST", "/api/v1/namespaces/t/configmaps", JSON, CM("y"), 403, "details.causes.[0].reason",
	       "NamespaceTerminating");
	expect(h, "PUT", "/api/v1/namespaces/t/finalize", JSON,
	       "{\"metadata\":{\"name\":\"t\"},\"spec\":{\"finalizers\":[]}}", 200, NULL, NULL);
	expect(h, "GET", "/api/v1/namespaces/t", NULL, NULL, 404, NULL, NULL);
	expect(h, "DELETE", "/api/v1/namespaces/default", NULL, NULL, 403, NULL, NULL);
}

static const char crd[] =
	"{\"apiVersion\":\"apiextensions.k8s.io/"
	"v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{\"name\":\"widgets.x.io\"},\"spec\":{\"group\":\"x."
	"io\",\"scope\":\"Namespaced\",\"names\":{\"plural\":\"widgets\",\"kind\":\"Widget\"},\"versions\":[{\"name\":"
	"\"v1\",\"served\":true,\"storage\":true,\"subresources\":{\"status\":{}},\"schema\":{\"openAPIV3Schema\":{"
	"\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\","
	"\"minimum\":1},\"color\":{\"type\":\"string\",\"default\":\"blue\"}}},\"status\":{\"type\":\"object\",\"x-"
	"kubernetes-preserve-unknown-fields\":true}}}}}]}}";

static void custom(void **state)
{
	struct harness *h = *state;
	h->as = h->admin;
#define W "/apis/x.io/v1/namespaces/default/widgets"
	assert_int_equal(ask(h, "GET", W, NULL, NULL, NULL), 404);

	expect(h, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", JSON, crd, 201,
	       "status.conditions.[1].type", "Established");
	expect(h, "POST", W, JSON,
	       "{\"apiVersion\":\"x.io/"
	       "v1\",\"kind\":\"Widget\",\"metadata\":{\"name\":\"w\"},\"spec\":{\"n\":1,\"junk\":2},\"status\":{\"a\":"
	       "1}}",
	       201, "spec.color", "blue");
	td_auto_free char *junk = field(h, W "/w", "spec.junk"), *status = field(h, W "/w", "status");
	assert_string_equal(junk, "");
	assert_string_equal(status, ""); // status changes only through /status

	expect(h, "PATCH", W "/w", MERGE, "{\"spec\":{\"n\":0}}", 422, "details.causes.[0].field", "spec.n");
	expect(h, "PATCH", W "/w", "application/strategic-merge-patch+json", "{\"spec\":{\"n\":2}}", 415, NULL, NULL);
	expect(h, "PATCH", W "/w/status", MERGE, "{\"spec\":{\"n\":5},\"status\":{\"x\":\"y\"}}", 200, "status.x", "y");
	td_auto_free char *n = field(h, W "/w", "spec.n"), *gen = field(h, W "/w", "metadata.generation");
	assert_string_equal(n, "1");
	assert_string_equal(gen, "1");

	expect(h, "PATCH", W "/w", MERGE, "{\"metadata\":{\"finalizers\":[\"x.io/hold\"]}}", 200, NULL, NULL);
	expect(h, "DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.x.io", NULL, NULL, 200,
	       NULL, NULL);
	expect(h, "POST", W, JSON, "{\"metadata\":{\"name\":\"late\"}}", 405, NULL, NULL);

	// The removal of the last object removes the CRD.
	expect(h, "PATCH", W "/w", MERGE, "{\"metadata\":{\"finalizers\":null}}", 200, NULL, NULL);
	expect(h, "GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.x.io", NULL, NULL, 404, NULL,
	       NULL);
	assert_int_equal(ask(h, "GET", W, NULL, NULL, NULL), 404);
}

// Tandem's own kinds are in the table of kinds, but as in a real API server they are served only
// when somebody has applied their CRD.
static void own_kinds(void **state)
{
	struct harness *h = *state;
	h->as = h->admin;
	td_auto(td_json_unref) struct td_json *own = td_kind_crd("NodeSet");
	td_auto_free char *text = td_json_text(td_json_root(own), NULL);
	td_auto_free char *version =
		td_asprintf("/apis/tandem.dev/%s", td_jstr(td_json_root(own), "spec.versions.[0].name"));
	td_auto_free char *list = td_asprintf("%s/namespaces/default/nodesets", version);
	assert_int_equal(ask(h, "GET", list, NULL, NULL, NULL), 404);
	assert_int_equal(ask(h, "GET", version, NULL, NULL, NULL), 404);
	expect(h, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", JSON, text, 201, "spec.names.kind",
	       "NodeSet");
	expect(h, "GET", list, NULL, NULL, 200, "kind", "NodeSetList");
	expect(h, "DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodesets.tandem.dev", NULL, NULL,
	       200, NULL, NULL);
	assert_int_equal(ask(h, "GET", list, NULL, NULL, NULL), 404);
}

static void paging(void **state)
{
	struct harness *h = *state;
	h->as = h->admin;
	for (int i = 0; i < 7; i++) {
		td_auto_free char *b =
			td_asprintf("{\"metadata\":{\"name\":\"p%d\",\"labels\":{\"page\":\"yes\"}}}", i);
		expect(h, "POST", NS "/configmaps", JSON, b, 201, NULL, NULL);
	}

	td_auto(td_json_unref) struct td_json *one = NULL, *two = NULL;
	assert_int_equal(ask(h, "GET", NS "/configmaps?labelSelector=page%3Dyes&limit=4", NULL, NULL, &one), 200);
	assert_int_equal(yyjson_arr_size(td_jget(td_json_root(one), "items")), 4);

	// A change between two pages is not seen on the second.
	expect(h, "DELETE", NS "/configmaps/p6", NULL, NULL, 200, NULL, NULL);
	expect(h, "POST", NS "/configmaps", JSON, "{\"metadata\":{\"name\":\"p55\",\"labels\":{\"page\":\"yes\"}}}",
	       201, NULL, NULL);
	td_auto_free char *next = td_asprintf(NS "/configmaps?labelSelector=page%%3Dyes&limit=4&continue=%s",
					      td_jstr(td_json_root(one), "metadata.continue"));
	assert_int_equal(ask(h, "GET", next, NULL, NULL, &two), 200);
	assert_int_equal(yyjson_arr_size(td_jget(td_json_root(two), "items")), 3);
	assert_string_equal(td_jstr(td_json_root(two), "items.[2].metadata.name"), "p6");
	assert_string_equal(td_jstr(td_json_root(two), "metadata.resourceVersion"),
			    td_jstr(td_json_root(one), "metadata.resourceVersion"));
	expect(h, "GET", NS "/configmaps?continue=garbage", NULL, NULL, 400, NULL, NULL);
	expect(h, "GET", NS "/configmaps?fieldSelector=spec.foo%3Dx", NULL, NULL, 400, NULL, NULL);
	expect(h, "GET", NS "/configmaps?resourceVersion=999999", NULL, NULL, 504, "details.causes.[0].reason",
	       "ResourceVersionTooLarge");
	expect(h, "DELETE", NS "/configmaps?labelSelector=page", NULL, NULL, 200, NULL, NULL);
}

// Differences that t/test_parity.py has found against a real API server.
static void as_the_real_one(void **state)
{
	struct harness *h = *state;
#define MAPS NS "/configmaps"
	static const char twice[] = "{\"metadata\":{\"name\":\"twice\"},\"data\":{\"a\":\"1\",\"a\":\"2\"}}";

	expect(h, "POST", MAPS "?fieldValidation=Strict", JSON, twice, 400, "reason", "BadRequest");
	// The last value counts, and the first is never visible.
	expect(h, "POST", MAPS, JSON, twice, 201, "data.a", "2");
	td_auto(td_json_unref) struct td_json *list = NULL, *pods = NULL;
	assert_int_equal(ask(h, "GET", MAPS, NULL, NULL, &list), 200);
	yyjson_val *first = yyjson_arr_get_first(td_jget(td_json_root(list), "items"));
	assert_non_null(first);
	assert_null(td_jget(first, "kind")); // the list names the kind
	assert_null(td_jget(first, "apiVersion"));
	expect(h, "POST", MAPS, "application/merge-patch+json", "{\"metadata\":{\"name\":\"p\"}}", 415, "reason",
	       "UnsupportedMediaType");
	expect(h, "PUT", MAPS "/twice", JSON, "{\"metadata\":{}}", 400, "reason", "BadRequest");
	expect(h, "PATCH", MAPS "/twice?force=true", MERGE, "{}", 422, "details.kind", "PatchOptions");
	expect(h, "PATCH", MAPS "/twice", MERGE, "{\"data\":5}", 422, "details.causes.[0].field", "patch");
	expect(h, "PATCH", MAPS "/twice", MERGE, "{\"metadata\":{\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}}", 422,
	       "details.causes.[0].field", "metadata.deletionTimestamp");
	expect(h, "DELETE", MAPS "/twice", JSON, "{\"dryRun\":[\"Some\"]}", 422, "details.kind", "DeleteOptions");
	expect(h, "DELETE", MAPS "/twice", JSON, "{\"dryRun\":[\"All\"]}", 200, "status", "Success");
	expect(h, "GET", MAPS "/twice", NULL, NULL, 200, "data.a", "2");
	expect(h, "GET", MAPS "?resourceVersionMatch=Exact", NULL, NULL, 422, "details.kind", "ListOptions");
	expect(h, "GET", NS "/pods?fieldSelector=spec.none%3D1", NULL, NULL, 400, "message",
	       "field label not supported: spec.none");
	expect(h, "POST", "/api", JSON, "{}", 405, "reason", "MethodNotAllowed");
	expect(h, "GET", "/apis/apps/v9", NULL, NULL, 404, "reason", "NotFound");

	// The write that removes the last finalizer is answered with what was written.
	expect(h, "PATCH", MAPS "/twice", MERGE, "{\"metadata\":{\"finalizers\":[\"x.y/z\"]}}", 200, NULL, NULL);
	expect(h, "DELETE", MAPS "/twice", NULL, NULL, 200, "metadata.finalizers.[0]", "x.y/z");
	td_auto(td_json_unref) struct td_json *gone = NULL;
	assert_int_equal(ask(h, "PATCH", MAPS "/twice", MERGE, "{\"metadata\":{\"finalizers\":null}}", &gone), 200);
	assert_null(td_jget(td_json_root(gone), "metadata.finalizers"));
	expect(h, "GET", MAPS "/twice", NULL, NULL, 404, "reason", "NotFound");

	// The deletion of a Job that does not say what becomes of its pods leaves them.
	static const char job[] = "{\"metadata\":{\"name\":\"j\"},\"spec\":{\"template\":{\"spec\":{\"restartPolicy\":"
				  "\"Never\",\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}}";
	expect(h, "POST", "/apis/batch/v1/namespaces/default/jobs", JSON, job, 201, "metadata.labels.job-name", "j");
	expect(h, "DELETE", "/apis/batch/v1/namespaces/default/jobs/j", NULL, NULL, 200, "metadata.finalizers.[0]",
	       "orphan");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scaling),    cmocka_unit_test(health),          cmocka_unit_test(tolerations),
		cmocka_unit_test(who_may),    cmocka_unit_test(objects),         cmocka_unit_test(applying),
		cmocka_unit_test(grants),     cmocka_unit_test(binding),         cmocka_unit_test(eviction),
		cmocka_unit_test(namespaces), cmocka_unit_test(custom),          cmocka_unit_test(own_kinds),
		cmocka_unit_test(paging),     cmocka_unit_test(as_the_real_one),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
