// rows: A18.1 A19.2 A19.3
// What is said of a pod of a service whose other revision holds devices.
#include "bridge/rollout.h"
#include "bridge/test/given.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define KSVC(config) ",\"serving.knative.dev/service\":\"hello\",\"serving.knative.dev/configuration\":\"" config "\""
#define ISVC ",\"serving.kserve.io/inferenceservice\":\"llm\""
#define HELD "\"tandem.dev/devices\":\"{\\\"nvidia.com/gpu\\\":\\\"0\\\"}\""

struct made {
	const char *name, *deployment, *hash, *labels, *annotations;
	bool bound;
};

static struct td_object *pod(const struct made *m)
{
	td_auto_free char *s = td_asprintf(
		"{\"metadata\":{\"name\":\"%s\",\"namespace\":\"ml\",\"uid\":\"%s\",\"resourceVersion\":\"1\","
		"\"labels\":{\"pod-template-hash\":\"%s\"%s},\"annotations\":{%s},\"ownerReferences\":[{\"kind\":"
		"\"ReplicaSet\",\"name\":\"%s-%s\",\"controller\":true}]},\"spec\":{%s},\"status\":{\"phase\":\"%s\"}}",
		m->name, m->name, m->hash, m->labels, m->annotations, m->deployment, m->hash,
		m->bound ? "\"nodeName\":\"n0\"" : "", m->bound ? "Running" : "Pending");
	return td_object_new(given_json(s));
}

static char *said(const struct made *waits, const struct made *others, size_t n)
{
	td_auto_objects struct td_objects l = {0};
	td_auto(td_object_unref) struct td_object *o = pod(waits);
	struct td_buf b = {0};
	for (size_t i = 0; i < n; i++)
		td_objects_add(&l, pod(&others[i]));
	td_rollout_words(o, &l, &b);
	return td_buf_take(&b);
}

static void check(const struct made *waits, const struct made *others, size_t n, const char *want)
{
	td_auto_free char *s = said(waits, others, n);
	assert_string_equal(s ? s : "", want);
}

static void test_deployments(void **state)
{
	const struct made next = {"web-2-a", "web", "2", "", "", false};
	const struct made others[] = {
		{"web-1-a", "web", "1", "", HELD, true},     {"web-1-b", "web", "1", "", HELD, false},
		{"web-2-b", "web", "2", "", HELD, true},     {"web-1-c", "web", "1", "", "", true},
		{"other-1-a", "other", "1", "", HELD, true},
	};
	check(&next, others, TD_LEN(others),
	      " Another revision of Deployment ml/web holds devices meanwhile: pod web-1-a; a rolling update ends them "
	      "only when others are ready: make room, or write strategy: {type: Recreate} or maxUnavailable: 1 in "
	      "Deployment web.");
	check(&next, others + 1, TD_LEN(others) - 1, "");
	struct made many[5];
	for (size_t i = 0; i < TD_LEN(many); i++)
		many[i] = others[0];
	td_auto_free char *s = said(&next, many, TD_LEN(many));
	assert_non_null(strstr(s, "pod web-1-a, web-1-a, web-1-a and 2 more; "));
}

static void test_kserve(void **state)
{
	const struct made next = {"p2", "llm-predictor", "2", ISVC, "", false};
	const struct made transformer = {"t1", "llm-transformer", "1", ISVC, HELD, true},
			  before = {"p1", "llm-predictor", "1", ISVC, HELD, true};
	check(&next, &transformer, 1, "");
	check(&next, &before, 1,
	      " Another revision of InferenceService ml/llm holds devices meanwhile: pod p1; a rolling update ends "
	      "them "
	      "only when others are ready: make room, or write deploymentStrategy: {type: Recreate} beside the model "
	      "in "
	      "the InferenceService.");
}

static void test_knative(void **state)
{
	const struct made next = {
		"h2", "hello-00002-deployment", "2", KSVC("hello"), "\"serving.knative.dev/progress-deadline\":\"24h\"",
		false};
	const struct made before = {"h1", "hello-00001-deployment", "1", KSVC("hello"), HELD, true};
	check(&next, &before, 1,
	      " Another revision of Service ml/hello holds devices meanwhile: pod h1; Knative sends it no request and "
	      "keeps the other revision until it is ready: make room, or let the other one go first (docs/serving.md)."
	      " Knative gives a revision up whose first pod is not ready within its progress deadline (24h; annotation "
	      "serving.knative.dev/progress-deadline), and takes the pod back.");
	const struct made plain = {"h2", "hello-00002-deployment", "2", KSVC("hello"), "", false};
	check(&plain, NULL, 0,
	      " Knative gives a revision up whose first pod is not ready within its progress deadline (10m unless its "
	      "administrator says otherwise; annotation serving.knative.dev/progress-deadline), and takes the pod "
	      "back.");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deployments),
		cmocka_unit_test(test_kserve),
		cmocka_unit_test(test_knative),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
