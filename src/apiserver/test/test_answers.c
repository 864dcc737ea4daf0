// What the server answers is right, or it says in plain words that it does not serve it. Each test is a request of a real client
// that was once answered wrongly.
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

// The request is refused with that status, and the message has those words in it.
static void refused(struct harness *h, const char *method, const char *path, const char *body, int status, const char *words)
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
		td_auto_free char *list = td_asprintf(MAPS "?timeout=%s", bad[i]), *groups = td_asprintf("/apis?timeout=%s", bad[i]);
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
	refused(h, "POST", MAPS "?fieldValidation=Strict", both, 400, "duplicate field \"data.a\", unknown field \"bogus\"");
	expect(h, "POST", MAPS, JSON, both, 201, "data.a", "2");
	refused(h, "PUT", MAPS "/both?fieldValidation=Strict", both, 400, "unknown field \"bogus\"");
	expect(h, "PATCH", MAPS "/both?fieldValidation=Strict", MERGE, "{\"bogus\":1,\"data\":{\"a\":\"1\",\"a\":\"2\"}}", 422,
	       "details.causes.[0].field", "patch");
	// The body of a deletion is no ConfigMap: its own fields are not unknown.
	refused(h, "DELETE", MAPS "/both?fieldValidation=Strict", "{\"gracePeriodSeconds\":1,\"gracePeriodSeconds\":2}", 400,
		"duplicate field \"gracePeriodSeconds\"");
}

static void what_is_not_served_says_so(void **state)
{
	struct harness *h = *state;
	refused(h, "GET", "/apis/events.k8s.io/v1/namespaces/default/events", NULL, 404, "events of group \"\", version v1");
	refused(h, "POST", "/apis/events.k8s.io/v1/namespaces/default/events", "{}", 404, "events of group \"\", version v1");
	refused(h, "GET", "/apis/events.k8s.io/v1", NULL, 404, "the embedded API has no events.k8s.io");
	refused(h, "GET", NS "/pods/p/proxy/metrics", NULL, 404, "kubectl port-forward");
	refused(h, "GET", NS "/pods/p/proxy", NULL, 404, "kubectl port-forward");
	refused(h, "GET", "/api/v1/nodes/n0/proxy/stats/summary", NULL, 404, "no kubelet to talk to");
	refused(h, "PATCH", NS "/pods/p/ephemeralcontainers", "{}", 404, "kubectl exec");
	refused(h, "GET", NS "/pods/p/nothing", NULL, 404, "could not find the requested resource");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_timeout_is_a_duration),
		cmocka_unit_test(unknown_and_duplicate_fields_are_told_together),
		cmocka_unit_test(what_is_not_served_says_so),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
