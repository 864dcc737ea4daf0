// All controllers against the embedded API server, both in this process. Nobody runs pods; the test
// says what has become of them.
// rows: F1.2 F1.3
#include "controllers/test/plane.h"

#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define NS "/api/v1/namespaces/default"
#define MAPS NS "/configmaps"
#define PODS NS "/pods"
#define SETS "/apis/apps/v1/namespaces/default/statefulsets"
#define JOBS "/apis/batch/v1/namespaces/default/jobs"
#define CRDS "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
#define GADGETS "/apis/x.io/v1/namespaces/default/gadgets"

// ---- waiting for what the controllers do ----
static int64_t deadline(void)
{
	return td_mono_ms(&td_clock_system) + 120000;
}

// Waits until the condition is true; the test fails after two minutes.
#define EVENTUALLY(what, condition)                                                                                    \
	for (int64_t end_ = deadline(); !(condition); td_cancel_wait(NULL, 5))                                         \
		if (td_mono_ms(&td_clock_system) > end_)                                                               \
	fail_msg("%s: not within two minutes", what)

static bool gone(struct harness *h, const char *path)
{
	return ask(h, "GET", path, NULL, NULL, NULL) == 404;
}

// Does the field have that JSON? want NULL: any value; "": the field is absent.
static bool is(struct harness *h, const char *path, const char *at, const char *want)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (ask(h, "GET", path, NULL, NULL, &j) != 200)
		return false;
	yyjson_val *v = td_jget(td_json_root(j), at);
	td_auto_free char *have = v ? td_json_text(v, NULL) : td_strdup("");
	return want ? !strcmp(have, want) : *have;
}

// Is the condition of that type "True", with those words in its reason or message?
static bool says(struct harness *h, const char *path, const char *type, const char *words)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (ask(h, "GET", path, NULL, NULL, &j) != 200)
		return false;
	yyjson_val *c = td_jfind(td_jget(td_json_root(j), "status.conditions"), "type", type);
	return td_streq(td_jstr(c, "status"), "True") &&
	       (strstr(td_jstr_or(c, "reason", ""), words) || strstr(td_jstr_or(c, "message", ""), words));
}

static size_t count(struct harness *h, const char *path)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	assert_int_equal(ask(h, "GET", path, NULL, NULL, &j), 200);
	return yyjson_arr_size(td_jget(td_json_root(j), "items"));
}

static void patch(struct harness *h, const char *path, const char *body)
{
	expect(h, "PATCH", path, MERGE, body, 200, NULL, NULL);
}

static void make(struct harness *h, const char *path, const char *body)
{
	expect(h, "POST", path, JSON, body, 201, NULL, NULL);
}

// ---- garbage ----
static char *uid_of(struct harness *h, const char *path)
{
	return field(h, path, "metadata.uid"); // in quotes
}

static void owned_by(struct harness *h, const char *name, const char *owner)
{
	td_auto_free char *owner_path = td_asprintf(MAPS "/%s", owner), *path = td_asprintf(MAPS "/%s", name);
	td_auto_free char *uid = uid_of(h, owner_path);
	td_auto_free char *body =
		td_asprintf("{\"metadata\":{\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\","
			    "\"name\":\"%s\",\"uid\":%s,\"blockOwnerDeletion\":true}]}}",
			    owner, uid);
	patch(h, path, body);
}

static void circles_of_owners_go(void **state)
{
	struct harness *h = *state;
	static const char *const names[] = {"a", "b", "c"};
	// The number of objects in the circle, and how many of them are deleted in the foreground.
	static const size_t cases[][2] = {{1, 1}, {2, 1}, {2, 2}, {3, 1}, {3, 3}};

	for (size_t k = 0; k < TD_LEN(cases); k++) {
		size_t n = cases[k][0];
		for (size_t i = 0; i < n; i++) {
			td_auto_free char *body = td_asprintf("{\"metadata\":{\"name\":\"%s\"}}", names[i]);
			make(h, MAPS, body);
		}

		for (size_t i = 0; i < n; i++)
			owned_by(h, names[i], names[(i + 1) % n]);

		for (size_t i = 0; i < cases[k][1]; i++) {
			td_auto_free char *path = td_asprintf(MAPS "/%s?propagationPolicy=Foreground", names[i]);
			// The answer may be 404: it may have been deleted with the others.
			ask(h, "DELETE", path, NULL, NULL, NULL);
		}

		for (size_t i = 0; i < n; i++) {
			td_auto_free char *path = td_asprintf(MAPS "/%s", names[i]);
			EVENTUALLY(path, gone(h, path));
		}
	}
}

static size_t eventfds(void)
{
	size_t n = 0;
	char target[64];
	DIR *d = opendir("/proc/self/fd");
	for (struct dirent *e; (e = readdir(d));) {
		ssize_t len = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);
		n += len > 0 && memmem(target, (size_t)len, "eventfd", 7);
	}
	closedir(d);
	return n;
}

static void crds_that_come_and_go_leave_nothing(void **state)
{
	struct harness *h = *state;
	static const char crd[] =
		"{\"metadata\":{\"name\":\"gadgets.x.io\"},\"spec\":{\"group\":\"x.io\",\"scope\":\"Namespaced\","
		"\"names\":{\"plural\":\"gadgets\",\"kind\":\"Gadget\"},\"versions\":[{\"name\":\"v1\",\"served\":true,"
		"\"storage\":true,\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\"}}}]}}";
	// The controllers run, and the circles have gone. A request that is just being made has an eventfd, too.
	size_t before = eventfds();
	for (int i = 0; i < 50; i++) {
		size_t now = eventfds();
		before = now < before ? now : before;
		poll(NULL, 0, 4);
	}

	for (int i = 0; i < 4; i++) {
		make(h, CRDS, crd);
		EVENTUALLY("its objects are watched", eventfds() > before);
		make(h, GADGETS, "{\"apiVersion\":\"x.io/v1\",\"kind\":\"Gadget\",\"metadata\":{\"name\":\"g\"}}");

		td_auto_free char *uid = uid_of(h, GADGETS "/g");
		td_auto_free char *map =
			td_asprintf("{\"metadata\":{\"name\":\"of-g\",\"ownerReferences\":[{\"apiVersion\":\"x.io/"
				    "v1\",\"kind\":\"Gadget\",\"name\":\"g\",\"uid\":%s}]}}",
				    uid);
		make(h, MAPS, map);

		expect(h, "DELETE", CRDS "/gadgets.x.io", NULL, NULL, 200, NULL, NULL);
		EVENTUALLY("what its object owned goes with it", gone(h, MAPS "/of-g"));
		EVENTUALLY("nothing is left of the watch", eventfds() == before);
	}
}

// ---- namespaces ----
static void a_namespace_goes_after_its_pods(void **state)
{
	struct harness *h = *state;
#define T "/api/v1/namespaces/t"
	make(h, "/api/v1/namespaces", "{\"metadata\":{\"name\":\"t\"}}");
	make(h, T "/configmaps", "{\"metadata\":{\"name\":\"needed\"}}");

	EVENTUALLY("its account", !gone(h, T "/serviceaccounts/default"));
	make(h, T "/pods",
	     "{\"metadata\":{\"name\":\"p\",\"finalizers\":[\"x.io/"
	     "hold\"]},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}");

	expect(h, "DELETE", T, NULL, NULL, 200, NULL, NULL);
	EVENTUALLY("it says what is left", says(h, T, "NamespaceContentRemaining", "pods. has 1 resource instances"));
	EVENTUALLY("and why", says(h, T, "NamespaceFinalizersRemaining", "x.io/hold in 1 resource instances"));
	assert_true(is(h, T "/pods/p", "metadata.deletionTimestamp", NULL));
	assert_true(is(h, T "/configmaps/needed", "metadata.deletionTimestamp", ""));

	patch(h, T "/pods/p", "{\"metadata\":{\"finalizers\":null}}");
	EVENTUALLY("it goes", gone(h, T));
}

// ---- StatefulSets ----
static void ready(struct harness *h, const char *pod, bool value)
{
	td_auto_free char *path = td_asprintf(PODS "/%s/status", pod);
	td_auto_free char *body = td_asprintf("{\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\","
					      "\"status\":\"%s\",\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"}]}}",
					      value ? "True" : "False");
	patch(h, path, body);
}

static void a_sick_set_is_not_scaled_in(void **state)
{
	struct harness *h = *state;
	static const char *const pods[] = {"db-0", "db-1", "db-2"};
	make(h, SETS,
	     "{\"metadata\":{\"name\":\"db\"},\"spec\":{\"replicas\":3,\"serviceName\":\"db\",\"selector\":{"
	     "\"matchLabels\":{\"app\":\"db\"}},\"template\":{\"metadata\":{\"labels\":{\"app\":\"db\"}},\"spec\":{"
	     "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}}");

	for (size_t i = 0; i < TD_LEN(pods); i++) {
		td_auto_free char *path = td_asprintf(PODS "/%s", pods[i]);
		EVENTUALLY(path, !gone(h, path));
		ready(h, pods[i], true);
	}

	EVENTUALLY("three are ready", is(h, SETS "/db", "status.readyReplicas", "3"));

	for (size_t i = 0; i < TD_LEN(pods); i++)
		ready(h, pods[i], false);

	EVENTUALLY("none is", is(h, SETS "/db", "status.readyReplicas", "0"));

	patch(h, SETS "/db", "{\"spec\":{\"replicas\":0}}");
	EVENTUALLY("it has looked", is(h, SETS "/db", "status.observedGeneration", "2"));
	assert_int_equal(count(h, PODS "?labelSelector=app%3Ddb"), 3);

	// Those above the first sick one are deleted when they are well; then it is its turn.
	ready(h, "db-2", true);
	EVENTUALLY("db-2 goes", gone(h, PODS "/db-2"));
	EVENTUALLY("it is counted", is(h, SETS "/db", "status.replicas", "2"));
	assert_false(gone(h, PODS "/db-1"));
	ready(h, "db-1", true);

	EVENTUALLY("all go", gone(h, PODS "/db-1") && gone(h, PODS "/db-0"));
	expect(h, "DELETE", SETS "/db", NULL, NULL, 200, NULL, NULL);
}

// ---- Jobs ----
#define JOB(name, more)                                                                                                \
	"{\"metadata\":{\"name\":\"" name "\"},\"spec\":{" more                                                        \
	"\"template\":{\"metadata\":{\"labels\":{\"app\":\"" name                                                      \
	"\"}},\"spec\":{\"restartPolicy\":\"Never\",\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}}"
#define BY_LABEL(name) "\"manualSelector\":true,\"selector\":{\"matchLabels\":{\"app\":\"" name "\"}},"

// The name of the i-th pod with that label; the caller frees. NULL: there is none.
static char *pod_of(struct harness *h, const char *app, size_t i)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_free char *path = td_asprintf(PODS "?labelSelector=app%%3D%s", app);
	assert_int_equal(ask(h, "GET", path, NULL, NULL, &j), 200);
	return td_strdup(td_jstr(yyjson_arr_get(td_jget(td_json_root(j), "items"), i), "metadata.name"));
}

static void a_job_adopts_and_releases(void **state)
{
	struct harness *h = *state;

	make(h, JOBS, JOB("rel", BY_LABEL("rel")));

	EVENTUALLY("its pod", count(h, PODS "?labelSelector=app%3Drel") == 1);
	td_auto_free char *name = pod_of(h, "rel", 0), *path = td_asprintf(PODS "/%s", name);

	patch(h, path, "{\"metadata\":{\"labels\":{\"app\":\"other\"}}}");
	EVENTUALLY("it is let go", is(h, path, "metadata.ownerReferences", ""));
	EVENTUALLY("another takes its place", count(h, PODS "?labelSelector=app%3Drel") == 1);

	make(h, PODS,
	     "{\"metadata\":{\"name\":\"orphan\",\"labels\":{\"app\":\"ad\"}},\"spec\":{\"containers\":[{\"name\":"
	     "\"c\",\"image\":\"i\"}]}}");
	patch(h, PODS "/orphan/status", "{\"status\":{\"phase\":\"Succeeded\"}}");
	make(h, JOBS, JOB("ad", "\"suspend\":true," BY_LABEL("ad")));
	EVENTUALLY("it is taken", is(h, PODS "/orphan", "metadata.ownerReferences.[0].name", "\"ad\""));
	EVENTUALLY("and counts", says(h, JOBS "/ad", "Complete", "CompletionsReached"));
	assert_true(says(h, JOBS "/ad", "SuccessCriteriaMet", "CompletionsReached"));
	assert_int_equal(count(h, PODS "?labelSelector=app%3Dad"), 1);
}

static void a_job_says_first_that_it_will_fail(void **state)
{
	struct harness *h = *state;
	make(h, JOBS, JOB("bad", "\"parallelism\":2,\"completions\":2,\"backoffLimit\":0,"));

	EVENTUALLY("its pods", count(h, PODS "?labelSelector=app%3Dbad") == 2);
	td_auto_free char *one = pod_of(h, "bad", 0), *two = pod_of(h, "bad", 1);
	td_auto_free char *held = td_asprintf(PODS "/%s", one), *failed = td_asprintf(PODS "/%s/status", two);

	patch(h, held, "{\"metadata\":{\"finalizers\":[\"x.io/hold\"]}}");
	patch(h, failed, "{\"status\":{\"phase\":\"Failed\"}}");

	EVENTUALLY("it will fail", says(h, JOBS "/bad", "FailureTarget", "BackoffLimitExceeded"));
	EVENTUALLY("the other pod is ended", is(h, held, "metadata.deletionTimestamp", NULL));
	EVENTUALLY("and is waited for", is(h, JOBS "/bad", "status.terminating", "1"));
	assert_false(says(h, JOBS "/bad", "Failed", ""));

	patch(h, held, "{\"metadata\":{\"finalizers\":null}}");
	EVENTUALLY("it has failed", says(h, JOBS "/bad", "Failed", "BackoffLimitExceeded"));
	assert_true(is(h, JOBS "/bad", "status.active", "0") || is(h, JOBS "/bad", "status.active", ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(circles_of_owners_go),
		cmocka_unit_test(crds_that_come_and_go_leave_nothing),
		cmocka_unit_test(a_namespace_goes_after_its_pods),
		cmocka_unit_test(a_sick_set_is_not_scaled_in),
		cmocka_unit_test(a_job_adopts_and_releases),
		cmocka_unit_test(a_job_says_first_that_it_will_fail),
	};
	return cmocka_run_group_tests(tests, plane_setup, plane_teardown);
}
