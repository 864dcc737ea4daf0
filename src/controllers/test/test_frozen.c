// The embedded plane is frozen: it serves what docs/embedded-plane.txt says, no more and no less.
// rows: F1.5
#include "base/file.h"
#include "controllers/ctl.h"
#include "controllers/test/plane.h"
#include "metrics/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *words_of(yyjson_val *list, const char *key)
{
	td_auto_strv struct td_strv words = {0};
	td_auto_buf struct td_buf b = {0};
	size_t i, n;
	yyjson_val *v;

	yyjson_arr_foreach (list, i, n, v)
		td_strv_add(&words, key ? td_jstr_or(v, key, "") : yyjson_get_str(v));

	if (words.n)
		qsort(words.v, words.n, sizeof(*words.v), by_text);
	for (i = 0; i < words.n; i++)
		td_buf_printf(&b, " %s", words.v[i]);
	return td_buf_take(&b);
}

// Adds "resource apps/v1 deployments: create delete …" for every resource and subresource of a
// group version.
static void add_resources(struct harness *h, const char *version, struct td_strv *ret)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_free char *path = td_asprintf("/%s/%s", strchr(version, '/') ? "apis" : "api", version);
	assert_int_equal(ask(h, "GET", path, NULL, NULL, &j), 200);
	size_t i, n;
	yyjson_val *r;
	yyjson_arr_foreach (td_jget(td_json_root(j), "resources"), i, n, r) {
		td_auto_free char *verbs = words_of(td_jget(r, "verbs"), NULL);
		td_auto_free char *row = td_asprintf("resource %s %s:%s", version, td_jstr_or(r, "name", ""), verbs);
		td_strv_add(ret, row);
	}
}

// Adds "query list: allowWatchBookmarks …", as the API describes itself. It is the same for every
// kind.
static void add_queries(struct harness *h, struct td_strv *ret)
{
	static const char *const paths[] = {"/api/v1/namespaces/{namespace}/configmaps",
					    "/api/v1/namespaces/{namespace}/configmaps/{name}"};

	td_auto(td_json_unref) struct td_json *j = NULL;
	assert_int_equal(ask(h, "GET", "/openapi/v3/api/v1", NULL, NULL, &j), 200);

	for (size_t p = 0; p < TD_LEN(paths); p++) {
		size_t i, n;
		yyjson_val *method, *o;
		yyjson_obj_foreach (td_jkey(td_jget(td_json_root(j), "paths"), paths[p]), i, n, method, o) {
			td_auto_free char *names = words_of(td_jget(o, "parameters"), "name");
			td_auto_free char *row =
				td_asprintf("query %s:%s", td_jstr_or(o, "x-kubernetes-action", ""), names);
			td_strv_add(ret, row);
		}
	}
}

// Adds the controllers. Each controller measures its queue as soon as it runs.
static void add_controllers(struct td_strv *ret)
{
	static const char head[] = "tandem_queue_depth{controller=\"";
	td_auto_buf struct td_buf b = {0};
	td_metrics_text(td_metrics_process(), &b);
	for (const char *p = td_buf_str(&b); (p = strstr(p, head)); p++) {
		td_auto_free char *name = td_strndup(p + strlen(head), strcspn(p + strlen(head), "\""));
		td_auto_free char *row = td_asprintf("controller %s", name);
		td_strv_add(ret, row);
	}
}

static void read_list(struct td_strv *ret)
{
	td_auto_buf struct td_buf b = {0};
	struct td_error err = TD_ERROR_INIT;
	td_auto_free char *path = td_asprintf("%s/docs/embedded-plane.txt", getenv("TD_SOURCE_ROOT"));
	if (td_file_read(path, 1 << 20, &b, &err))
		fail_msg("%s", err.msg);
	char *save = NULL, *text = (char *)(uintptr_t)td_buf_str(&b);
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (*line != '#')
			td_strv_add(ret, line);
}

static void the_plane_does_not_grow(void **state)
{
	struct harness *h = *state;
	td_auto_strv struct td_strv served = {0}, listed = {0};
	td_auto(td_json_unref) struct td_json *groups = NULL;
	read_list(&listed);

	for (int64_t end = td_mono_ms(&td_clock_system) + 120000; served.n < td_ctl_count(); td_cancel_wait(NULL, 5)) {
		if (td_mono_ms(&td_clock_system) > end)
			fail_msg("%zu of %zu controllers run after two minutes", served.n, td_ctl_count());
		td_strv_done(&served);
		add_controllers(&served);
	}

	add_resources(h, "v1", &served);
	assert_int_equal(ask(h, "GET", "/apis", NULL, NULL, &groups), 200);

	size_t i, n, k, m;
	yyjson_val *g, *v;
	yyjson_arr_foreach (td_jget(td_json_root(groups), "groups"), i, n, g)
		yyjson_arr_foreach (td_jget(g, "versions"), k, m, v)
			add_resources(h, td_jstr_or(v, "groupVersion", ""), &served);

	add_queries(h, &served);

	size_t bad = 0;
	for (i = 0; i < served.n; i++)
		if (!td_strv_has(&listed, served.v[i])) {
			print_error("served, and not in docs/embedded-plane.txt: %s\n", served.v[i]);
			bad++;
		}
	if (bad)
		fail_msg("the embedded plane is frozen (docs/embedded-plane.md); if a row of the mission needs this, "
			 "add it to the list with that row");

	for (i = 0; i < listed.n; i++)
		if (!td_strv_has(&served, listed.v[i])) {
			print_error("in docs/embedded-plane.txt, and not served: %s\n", listed.v[i]);
			bad++;
		}
	if (bad)
		fail_msg("the embedded plane serves less than docs/embedded-plane.txt says: take it out of the list");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_plane_does_not_grow)};
	return cmocka_run_group_tests(tests, plane_setup, plane_teardown);
}
