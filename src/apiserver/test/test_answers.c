// The server's answer is right, or says in plain words that the server does not support the
// request. Each test is a request of a real client that once got a wrong answer.
// rows: F1.2
#include "apiserver/test/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define NS "/api/v1/namespaces/default"
#define MAPS NS "/configmaps"

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

// Sends a request and checks that it is refused with that status, and that the message holds those
// words.
static void refused(struct harness *h, const char *method, const char *path, const char *body, int status,
		    const char *words)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	assert_int_equal(ask(h, method, path, JSON, body, &j), status);
	const char *message = td_jstr_or(td_json_root(j), "message", "");
	if (!strstr(message, words))
		fail_msg("%s %s: \"%s\" does not say \"%s\"", method, path, message, words);
}

static void a_timeout_is_a_duration(void **state)
{
	struct harness *h = *state;
	static const char *const bad[] = {"invalid", "5", "1x", "-"};
	static const char *const good[] = {"32s", "1m30s", "0", "1.5h", ""};
	for (size_t i = 0; i < TD_LEN(bad); i++) {
		td_auto_free char *list = td_asprintf(MAPS "?timeout=%s", bad[i]),
				  *groups = td_asprintf("/apis?timeout=%s", bad[i]);
		refused(h, "GET", list, NULL, 400, "invalid timeout specified in the request URL");
		refused(h, "GET", groups, NULL, 400, "invalid timeout specified in the request URL");
	}
	for (size_t i = 0; i < TD_LEN(good); i++) {
		td_auto_free char *list = td_asprintf(MAPS "?timeout=%s", good[i]);
		expect(h, "GET", list, NULL, NULL, 200, "kind", "ConfigMapList");
	}
}

static void unknown_and_duplicate_fields_are_told_together(void **state)
{
	struct harness *h = *state;
	static const char both[] = "{\"metadata\":{\"name\":\"both\"},\"bogus\":1,\"data\":{\"a\":\"1\",\"a\":\"2\"}}";
	refused(h, "POST", MAPS "?fieldValidation=Strict", both, 400,
		"duplicate field \"data.a\", unknown field \"bogus\"");
	expect(h, "POST", MAPS, JSON, both, 201, "data.a", "2");
	refused(h, "PUT", MAPS "/both?fieldValidation=Strict", both, 400, "unknown field \"bogus\"");
	expect(h, "PATCH", MAPS "/both?fieldValidation=Strict", MERGE,
	       "{\"bogus\":1,\"data\":{\"a\":\"1\",\"a\":\"2\"}}", 422, "details.causes.[0].field", "patch");
	// The body of a deletion is no ConfigMap, so its own fields are not unknown.
	refused(h, "DELETE", MAPS "/both?fieldValidation=Strict", "{\"gracePeriodSeconds\":1,\"gracePeriodSeconds\":2}",
		400, "duplicate field \"gracePeriodSeconds\"");
}

static void what_is_not_served_says_so(void **state)
{
	struct harness *h = *state;
	refused(h, "GET", "/apis/events.k8s.io/v1/namespaces/default/events", NULL, 404,
		"events of group \"\", version v1");
	refused(h, "POST", "/apis/events.k8s.io/v1/namespaces/default/events", "{}", 404,
		"events of group \"\", version v1");
	refused(h, "GET", "/apis/events.k8s.io/v1", NULL, 404, "the embedded API has no events.k8s.io");
	refused(h, "GET", "/apis/apps/v1/namespaces/default/controllerrevisions", NULL, 404,
		"old templates of a StatefulSet are not kept");
	refused(h, "GET", NS "/pods/p/proxy/metrics", NULL, 404, "kubectl port-forward");
	refused(h, "GET", NS "/pods/p/proxy", NULL, 404, "kubectl port-forward");
	refused(h, "GET", "/api/v1/nodes/n0/proxy/stats/summary", NULL, 404, "no kubelet to talk to");
	refused(h, "PATCH", NS "/pods/p/ephemeralcontainers", "{}", 404, "kubectl exec");
	refused(h, "GET", NS "/pods/p/nothing", NULL, 404, "could not find the requested resource");
}

// ---- CustomResourceDefinitions ----
#define CRDS "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
#define GADGETS(version) "/apis/x.io/" version "/namespaces/default/gadgets"

static char *gadgets(const char *spec, const char *rv)
{
#define VERSION                                                                                                        \
	"\"served\":true,\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":"     \
	"\"object\","                                                                                                  \
	"\"default\":{},\"properties\":{%s}}}}},\"subresources\":{\"scale\":{\"specReplicasPath\":\".spec.n\","        \
	"\"statusReplicasPath\":\".status.n\"}},"                                                                      \
	"\"additionalPrinterColumns\":[{\"name\":\"Color\",\"type\":\"string\",\"jsonPath\":\".spec.color\"}]"
	return td_asprintf("{\"apiVersion\":\"apiextensions.k8s.io/"
			   "v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{\"name\":\"gadgets.x.io\"%s},"
			   "\"spec\":{\"group\":\"x.io\",\"scope\":\"Namespaced\",\"names\":{\"plural\":\"gadgets\","
			   "\"kind\":\"Gadget\"},\"versions\":[{\"name\":\"v1\",\"storage\":true," VERSION
			   "},{\"name\":\"v2\",\"storage\":false," VERSION "}]}}",
			   rv, spec, spec);
}

#define N "\"n\":{\"type\":\"integer\"}"
static void custom_resources_change_through_any_version(void **state)
{
	struct harness *h = *state;
	td_auto_free char *crd = gadgets(N, "");

	expect(h, "POST", CRDS, JSON, crd, 201, NULL, NULL);
	expect(h, "POST", GADGETS("v1"), JSON,
	       "{\"apiVersion\":\"x.io/v1\",\"kind\":\"Gadget\",\"metadata\":{\"name\":\"g\"},\"spec\":{\"n\":1}}", 201,
	       NULL, NULL);
	expect(h, "PATCH", GADGETS("v2") "/g", MERGE, "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}", 200, "apiVersion",
	       "x.io/v2");
	expect(h, "PATCH", GADGETS("v1") "/g", "application/json-patch+json",
	       "[{\"op\":\"replace\",\"path\":\"/spec/n\",\"value\":2}]", 200, "apiVersion", "x.io/v1");
	expect(h, "PATCH", GADGETS("v2") "/g?fieldManager=m&force=true", "application/apply-patch+yaml",
	       "{apiVersion: x.io/v2, kind: Gadget, spec: {n: 3}}", 200, "apiVersion", "x.io/v2");
	expect(h, "PATCH", GADGETS("v1") "/g/scale", MERGE, "{\"spec\":{\"replicas\":4}}", 200, "kind", "Scale");
	td_auto_free char *n = field(h, GADGETS("v2") "/g", "spec.n"),
			  *before = field(h, GADGETS("v1") "/g", "metadata.resourceVersion");
	assert_string_equal(n, "4");

	// A patch that changes nothing writes nothing, in any version.
	expect(h, "PATCH", GADGETS("v2") "/g", MERGE, "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}", 200, NULL, NULL);
	td_auto_free char *after = field(h, GADGETS("v1") "/g", "metadata.resourceVersion");
	assert_string_equal(before, after);
}

static void a_later_default_is_there_on_reads(void **state)
{
	struct harness *h = *state;
	td_auto_free char *was = field(h, CRDS "/gadgets.x.io", "metadata.resourceVersion");
	td_auto_free char *rv = td_asprintf(",\"resourceVersion\":%s", was);
	td_auto_free char *crd = gadgets(N ",\"color\":{\"type\":\"string\",\"default\":\"blue\"}", rv);
	td_auto_free char *generation = field(h, GADGETS("v1") "/g", "metadata.generation");

	expect(h, "PUT", CRDS "/gadgets.x.io", JSON, crd, 200, NULL, NULL);
	expect(h, "GET", GADGETS("v1") "/g", NULL, NULL, 200, "spec.color", "blue");
	expect(h, "GET", GADGETS("v2") "/g", NULL, NULL, 200, "spec.color", "blue");
	expect(h, "GET", GADGETS("v2"), NULL, NULL, 200, "items.[0].spec.color", "blue");
	struct watcher w;
	watcher_start(&w, h, GADGETS("v1") "?watch=1");
	assert_int_equal(watcher_wait(&w, 1), 1);
	assert_string_equal(td_jstr_or(td_json_root(w.events[0]), "object.spec.color", ""), "blue");
	watcher_stop(&w);

	// The default does not belong to the next writer, and is no change of the object.
	expect(h, "PATCH", GADGETS("v1") "/g", MERGE, "{\"metadata\":{\"labels\":{\"a\":\"c\"}}}", 200, "spec.color",
	       "blue");
	td_auto_free char *now = field(h, GADGETS("v1") "/g", "metadata.generation"),
			  *managed = field(h, GADGETS("v1") "/g", "metadata.managedFields");
	assert_string_equal(generation, now);
	assert_null(strstr(managed, "f:color"));
}

static void conditions_of_others_stay_with_a_crd(void **state)
{
	struct harness *h = *state;
	static const char mine[] = "{\"status\":{\"conditions\":[{\"type\":\"x.io/"
				   "Reviewed\",\"status\":\"True\",\"reason\":\"Mine\",\"message\":\"m\","
				   "\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"}]}}";
	expect(h, "PATCH", CRDS "/gadgets.x.io/status", MERGE, mine, 200, NULL, NULL);
	expect(h, "PATCH", CRDS "/gadgets.x.io", MERGE, "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}", 200, NULL, NULL);
	td_auto(td_json_unref) struct td_json *j = NULL;
	assert_int_equal(ask(h, "GET", CRDS "/gadgets.x.io", NULL, NULL, &j), 200);
	yyjson_val *all = td_jget(td_json_root(j), "status.conditions");
	assert_int_equal(yyjson_arr_size(all), 3);
	assert_string_equal(td_jstr_or(td_jfind(all, "type", "x.io/Reviewed"), "reason", ""), "Mine");
	assert_string_equal(td_jstr_or(td_jfind(all, "type", "Established"), "status", ""), "True");
}

static void openapi_2_is_refused(void **state)
{
	struct harness *h = *state;
	refused(h, "GET", "/openapi/v2", NULL, 404, "read /openapi/v3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_timeout_is_a_duration),
		cmocka_unit_test(unknown_and_duplicate_fields_are_told_together),
		cmocka_unit_test(what_is_not_served_says_so),
		cmocka_unit_test(custom_resources_change_through_any_version),
		cmocka_unit_test(a_later_default_is_there_on_reads),
		cmocka_unit_test(conditions_of_others_stay_with_a_crd),
		cmocka_unit_test(openapi_2_is_refused),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
