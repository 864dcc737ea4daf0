// Watches of a real server in this process: order, selectors, resumption, expiry, restarts, many at
// once.
// rows: F1.2
#include "apiserver/test/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define CMS "/api/v1/namespaces/default/configmaps"

static int setup(void **state)
{
	static struct harness h;
	harness_start(&h, 64);
	*state = &h;
	return 0;
}

static int teardown(void **state)
{
	harness_stop(*state);
	return 0;
}

static void put(struct harness *h, const char *name, const char *labels)
{
	td_auto_free char *b = td_asprintf("{\"metadata\":{\"name\":\"%s\",\"labels\":{%s}}}", name, labels);
	assert_int_equal(ask(h, "POST", CMS, JSON, b, NULL), 201);
}

static void relabel(struct harness *h, const char *name, const char *patch)
{
	td_auto_free char *p = td_asprintf(CMS "/%s", name),
			  *b = td_asprintf("{\"metadata\":{\"labels\":{%s}}}", patch);
	assert_int_equal(ask(h, "PATCH", p, MERGE, b, NULL), 200);
}

static void del(struct harness *h, const char *name)
{
	td_auto_free char *p = td_asprintf(CMS "/%s", name);
	assert_int_equal(ask(h, "DELETE", p, NULL, NULL, NULL), 200);
}

static void check(struct watcher *w, size_t i, const char *type, const char *name)
{
	if (strcmp(watcher_type(w, i), type) || strcmp(watcher_name(w, i), name))
		fail_msg("event %zu is %s %s instead of %s %s", i, watcher_type(w, i), watcher_name(w, i), type, name);
}

static char *list_rv(struct harness *h)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	assert_int_equal(ask(h, "GET", CMS, NULL, NULL, &j), 200);
	return td_strdup(td_jstr(td_json_root(j), "metadata.resourceVersion"));
}

static void selections(void **state)
{
	struct harness *h = *state;
	put(h, "in", "\"a\":\"1\"");
	put(h, "out", "");
	struct watcher w;
	watcher_start(&w, h,
		      CMS "?watch=1&labelSelector=a&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&"
			  "allowWatchBookmarks=true");
	assert_int_equal(watcher_wait(&w, 2), 2);
	check(&w, 0, "ADDED", "in");
	check(&w, 1, "BOOKMARK", "");
	yyjson_val *marks = td_jget(td_json_root(w.events[1]), "object.metadata.annotations");
	assert_string_equal(td_jkey_str(marks, "k8s.io/initial-events-end"), "true");
	relabel(h, "out", "\"a\":\"2\""); // enters the selection
	relabel(h, "out", "\"a\":\"3\"");
	relabel(h, "out", "\"a\":null");  // leaves it
	relabel(h, "out", "\"b\":\"1\""); // not seen
	del(h, "out");                    // not seen
	del(h, "in");
	assert_int_equal(watcher_wait(&w, 6), 6);
	check(&w, 2, "ADDED", "out");
	check(&w, 3, "MODIFIED", "out");
	check(&w, 4, "DELETED", "out");
	check(&w, 5, "DELETED", "in");
	watcher_stop(&w);
}

// As a real API server's, it has the parts of its kind, which some clients read.
static void bookmarks_have_the_parts_of_their_kind(void **state)
{
	static const struct {
		const char *path;
		bool spec, status;
	} kinds[] = {{"/api/v1/namespaces/default/pods", true, true}, {CMS, false, false}};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		td_auto_free char *path = td_asprintf("%s?watch=1&labelSelector=none&sendInitialEvents=true&"
						      "resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
						      kinds[i].path);
		struct watcher w;
		watcher_start(&w, *state, path);
		assert_int_equal(watcher_wait(&w, 1), 1);
		check(&w, 0, "BOOKMARK", "");
		yyjson_val *o = td_jget(td_json_root(w.events[0]), "object");
		assert_int_equal(yyjson_is_obj(td_jkey(o, "spec")), kinds[i].spec);
		assert_int_equal(yyjson_is_obj(td_jkey(o, "status")), kinds[i].status);
		watcher_stop(&w);
	}
}

static void resumes_after_restart(void **state)
{
	struct harness *h = *state;
	put(h, "old", "");
	td_auto_free char *rv = list_rv(h);
	put(h, "new", "");
	del(h, "old");
	harness_restart(h, 64);
	td_auto_free char *path = td_asprintf(CMS "?watch=1&resourceVersion=%s", rv);
	struct watcher w;
	watcher_start(&w, h, path);
	assert_int_equal(watcher_wait(&w, 2), 2);
	check(&w, 0, "ADDED", "new");
	check(&w, 1, "DELETED", "old");
	put(h, "newer", "");
	assert_int_equal(watcher_wait(&w, 3), 3);
	check(&w, 2, "ADDED", "newer");
	watcher_stop(&w);
	del(h, "new");
	del(h, "newer");
}

static void too_old(void **state)
{
	struct harness *h = *state;
	td_auto_free char *rv = list_rv(h);

	put(h, "busy", "");
	for (int i = 0; i < 80; i++) { // the ring holds 64
		td_auto_free char *l = td_asprintf("\"n\":\"%d\"", i);
		relabel(h, "busy", l);
	}
	td_auto_free char *path = td_asprintf(CMS "?watch=1&resourceVersion=%s", rv);
	struct watcher w;
	watcher_start(&w, h, path);
	assert_true(watcher_wait_end(&w));
	assert_int_equal(w.n, 1);
	assert_string_equal(watcher_type(&w, 0), "ERROR");
	assert_int_equal(td_jint(td_json_root(w.events[0]), "object.code", 0), 410);
	assert_string_equal(td_jstr(td_json_root(w.events[0]), "object.reason"), "Expired");
	watcher_stop(&w);
	del(h, "busy");
}

static void times_out(void **state)
{
	struct harness *h = *state;
	struct watcher w;
	watcher_start(&w, h, CMS "?watch=1&timeoutSeconds=1");
	assert_true(watcher_wait_end(&w));
	watcher_stop(&w);
}

#define WATCHERS 40
#define WRITES 50

static void fan_out(void **state)
{
	struct harness *h = *state;
	static struct watcher w[WATCHERS];
	td_auto_free char *rv = list_rv(h);
	td_auto_free char *path = td_asprintf(CMS "?watch=1&resourceVersion=%s", rv);

	for (int i = 0; i < WATCHERS; i++)
		watcher_start(&w[i], h, path);
	for (int i = 0; i < WRITES; i++) {
		td_auto_free char *name = td_asprintf("f%d", i);
		put(h, name, "");
	}
	for (int i = 0; i < WATCHERS; i++) {
		assert_int_equal(watcher_wait(&w[i], WRITES), WRITES);
		long long last = 0;
		for (int k = 0; k < WRITES; k++) { // each watcher sees all writes, in order
			td_auto_free char *name = td_asprintf("f%d", k);
			check(&w[i], (size_t)k, "ADDED", name);
			long long v = 0;
			assert_true(td_parse_i64(
				td_jstr(td_json_root(w[i].events[k]), "object.metadata.resourceVersion"), &v));
			assert_true(v > last);
			last = v;
		}
	}

	for (int i = 0; i < WATCHERS; i++)
		watcher_stop(&w[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(selections),
		cmocka_unit_test(bookmarks_have_the_parts_of_their_kind),
		cmocka_unit_test(resumes_after_restart),
		cmocka_unit_test(too_old),
		cmocka_unit_test(times_out),
		cmocka_unit_test(fan_out),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
