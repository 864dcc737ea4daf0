// rows: A19.5
// Which service a pod is of, and how much its devices computed.
#include "base/names.h"
#include "kube/service.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct td_object *pod(const char *labels, const char *annotations, const char *owner)
{
	struct td_json *j = NULL;
	struct td_error err = TD_ERROR_INIT;
	td_auto_free char *text = td_asprintf("{\"metadata\":{\"namespace\":\"ml\",\"name\":\"x\",\"uid\":\"u\","
					      "\"resourceVersion\":\"1\",\"labels\":{%s},"
					      "\"annotations\":{%s},\"ownerReferences\":[%s]}}",
					      labels, annotations, owner);
	if (td_json_parse(text, strlen(text), &j, &err))
		fail_msg("%s: %s", text, err.msg);
	return td_object_new(j);
}

#define OWNER(kind, name, controller) "{\"kind\":\"" kind "\",\"name\":\"" name "\",\"controller\":" controller "}"

static void test_of_which_service(void **state)
{
	static const struct {
		const char *labels, *annotations, *owner, *kind, *name;
	} v[] = {
		{"\"pod-template-hash\":\"7d\"", "", OWNER("ReplicaSet", "web-7d", "true"), "Deployment", "web"},
		{"", "", OWNER("ReplicaSet", "web-7d", "true"), "ReplicaSet", "web-7d"},
		{"\"pod-template-hash\":\"7d\"", "", OWNER("ReplicaSet", "7d", "true"), "ReplicaSet", "7d"},
		{"", "", OWNER("StatefulSet", "db", "true"), "StatefulSet", "db"},
		{"", "", OWNER("StatefulSet", "db", "false"), NULL, NULL},
		{"", "", OWNER("Job", "train", "true"), NULL, NULL}, // its name would be one of many
		{"", "", "", NULL, NULL},
		{"\"serving.kserve.io/inferenceservice\":\"llm\",\"pod-template-hash\":\"7d\"", "",
		 OWNER("ReplicaSet", "llm-predictor-7d", "true"), "InferenceService", "llm"},
		{"\"leaderworkerset.sigs.k8s.io/name\":\"big\"", "", OWNER("StatefulSet", "big-0", "true"),
		 "LeaderWorkerSet", "big"},
		{"\"" TD_LABEL_SESSION "\":\"s1\"", "\"" TD_ANN_SESSION_KIND "\":\"endpoint\"", "", "Endpoint", "s1"},
		{"\"" TD_LABEL_SESSION "\":\"s1\"", "\"" TD_ANN_SESSION_KIND "\":\"jupyter\"", "", NULL, NULL},
	};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		td_auto(td_object_unref) struct td_object *o = pod(v[i].labels, v[i].annotations, v[i].owner);
		struct td_service s = {0};
		bool is = td_service_of(o, &s);
		if (is != (v[i].kind != NULL) || (is && (strcmp(s.kind, v[i].kind) || strcmp(s.name, v[i].name))))
			fail_msg("row %zu: %s %s", i, is ? s.kind : "none", is ? s.name : "");
	}
}

static bool reads(const char *status, const char *message, struct td_kube_use *ret)
{
	struct td_json *j = NULL;
	td_auto_free char *text = td_asprintf("{\"status\":{\"conditions\":[{\"type\":\"" TD_COND_USED
					      "\",\"status\":\"%s\",\"message\":\"%s\"}]}}",
					      status, message);
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	bool is = td_kube_use_read(td_json_root(j), ret);
	td_json_unref(j);
	return is;
}

static void test_use(void **state)
{
	struct td_kube_use u = {7, 7};
	td_auto_free char *text = td_kube_use_text(&(const struct td_kube_use){120.4, 40});
	assert_true(reads("True", text, &u) && u.busy == 120.4 && u.idle == 40);
	assert_false(reads("False", text, &u));
	assert_false(reads("True", "busy 1, idle 2", &u));
	assert_false(reads("True", "in seconds of a device: busy -1, idle 2", &u));
	assert_false(reads("True", "in seconds of a device: busy nan, idle 2", &u));
	assert_true(u.busy == 120.4);
	assert_true(reads("True", "in seconds of a device: busy 120, idle 40", &u) &&
		    u.busy == 120); // of an older agent
}

static bool paces(const char *status, const char *message, struct td_kube_pace *ret)
{
	struct td_json *j = NULL;
	td_auto_free char *text = td_asprintf("{\"status\":{\"conditions\":[{\"type\":\"" TD_COND_PACE
					      "\",\"status\":\"%s\",\"message\":\"%s\"}]}}",
					      status, message);
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	bool is = td_kube_pace_read(td_json_root(j), ret);
	td_json_unref(j);
	return is;
}

static void test_pace(void **state)
{
	struct td_kube_pace p = {7, 7};
	td_auto_free char *text = td_kube_pace_text(&(const struct td_kube_pace){482001, 120});
	assert_true(paces("True", text, &p) && p.us == 482001 && p.step == 120);
	assert_false(paces("Unknown", text, &p));
	assert_false(paces("True", "it changes all the time", &p));
	assert_false(paces("True", "in seconds: nan a step, up to step 1", &p));
	assert_false(paces("True", "in seconds: 1e300 a step, up to step 1", &p));
	assert_false(paces("True", "in seconds: 1 a step, up to step -1", &p));
	assert_int_equal(p.us, 482001);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_of_which_service), cmocka_unit_test(test_use),
					   cmocka_unit_test(test_pace)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
