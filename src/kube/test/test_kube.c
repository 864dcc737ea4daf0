// kubeconfig, the verbs on the wire, and how replies map to codes.
// rows: F2.1
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "http/pki.h"
#include "kube/controller.h"
#include "kube/internal.h"
#include "kube/test/fake.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// ---- kubeconfig ----

static char *write_config(const char *text)
{
	char path[] = "/tmp/td-kube-test-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(td_file_write(path, text, strlen(text), 0600, NULL), 0);
	return td_strdup(path);
}

#define CONFIG(cluster, user)                                                                                          \
	"current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\nclusters: [{name: k, cluster: "    \
	"{" cluster "}}]\n"                                                                                            \
	"users: [{name: u, user: {" user "}}]\n"

static int load(const char *text, struct td_kube_config *ret, struct td_error *err)
{
	td_auto_free char *path = write_config(text);
	*ret = (struct td_kube_config){.fds = {-1, -1, -1}};
	int r = td_kube_config_load(path, ret, err);
	unlink(path);
	return r;
}

static void config_inline(void **s)
{
	struct td_kube_config c;
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(load(CONFIG("server: 'https://h:1/', certificate-authority-data: Q0E=",
				     "client-certificate-data: Q0VSVA==, client-key-data: S0VZ"),
			      &c, &err),
			 0);
	assert_string_equal(c.server, "https://h:1");
	const char *const files[] = {c.ca_file, c.cert_file, c.key_file}, *const want[] = {"CA", "CERT", "KEY"};
	for (int i = 0; i < 3; i++) {
		td_auto_buf struct td_buf b = {0};
		assert_true(td_starts(files[i], "/proc/self/fd/"));
		assert_int_equal(td_file_read(files[i], 100, &b, NULL), 0);
		assert_string_equal(td_buf_str(&b), want[i]);
	}
	td_kube_config_done(&c);
}

static void config_files(void **s)
{
	struct td_kube_config c;
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(
		load(CONFIG("server: 'http://h', certificate-authority: pki/ca.crt", "tokenFile: /run/t, token: x"), &c,
		     &err),
		0);
	// Paths are relative to the folder of the kubeconfig.
	assert_string_equal(c.ca_file, "/tmp/pki/ca.crt");
	assert_string_equal(c.token_file, "/run/t");
	assert_null(c.token);
	td_kube_config_done(&c);

	assert_int_equal(load(CONFIG("server: 'http://h'", "token: abc"), &c, &err), 0);
	assert_string_equal(c.token, "abc");
	td_kube_config_done(&c);
}

static void config_refused(void **s)
{
	static const struct {
		const char *text, *says;
		int code;
	} cases[] = {
		{"a: [", "kubeconfig", TD_INVALID},
		{"a: b", "current-context is not set", TD_INVALID},
		{"current-context: c", "\"c\" is not among contexts", TD_INVALID},
		{"current-context: c\ncontexts: [{name: c, context: {cluster: k}}]", "cluster \"k\"", TD_INVALID},
		{CONFIG("x: y", "token: x"), "server of cluster \"k\"", TD_INVALID},
		{CONFIG("server: 'https://h', insecure-skip-tls-verify: true", "token: x"), "insecure-skip-tls-verify",
		 TD_UNSUPPORTED},
		{CONFIG("server: 'https://h'", "exec: {command: aws}"), "plugin", TD_UNSUPPORTED},
		{CONFIG("server: 'https://h'", "client-certificate: /x"), "without its client-key", TD_INVALID},
		{CONFIG("server: 'https://h', certificate-authority-data: '***'", "token: x"),
		 "certificate-authority-data is not base64", TD_INVALID},
	};

	for (size_t i = 0; i < TD_LEN(cases); i++) {
		struct td_kube_config c;
		struct td_error err = TD_ERROR_INIT;
		assert_int_equal(load(cases[i].text, &c, &err), cases[i].code);
		if (!strstr(err.msg, cases[i].says))
			fail_msg("\"%s\" does not say \"%s\"", err.msg, cases[i].says);
		assert_null(c.server);
	}

	struct td_error err = TD_ERROR_INIT;
	struct td_kube *k = NULL;
	assert_int_equal(td_kube_new("/nonexistent/kubeconfig", &k, &err), TD_NOT_FOUND);
	assert_non_null(strstr(err.msg, "/nonexistent/kubeconfig"));
}

static void config_list(void **s)
{
	td_auto_free char *a = write_config("contexts: [{name: c, context: {cluster: k}}]\ncurrent-context: c");
	td_auto_free char *b =
		write_config("current-context: other\nclusters: [{name: k, cluster: {server: 'http://second'}}]");
	td_auto_free char *both = td_asprintf("/nonexistent:%s:%s", a, b);
	setenv("KUBECONFIG", both, 1);
	struct td_kube_config c = {.fds = {-1, -1, -1}};

	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_kube_config_load(NULL, &c, &err), 0);
	assert_string_equal(c.server, "http://second");
	td_kube_config_done(&c);

	unsetenv("KUBECONFIG");
	unlink(a);
	unlink(b);
}

// ---- verbs ----

struct wire {
	char method[16], target[400], type[80], token[80];
	char *body;
	int status;
	const char *reply;
	int n;
};

static void handle(struct td_http_x *x, void *ctx)
{
	struct wire *w = ctx;
	size_t n;
	const char *b = td_http_body(x, &n);

	snprintf(w->method, sizeof(w->method), "%s", td_http_method(x));
	snprintf(w->target, sizeof(w->target), "%s", td_http_target(x));
	snprintf(w->type, sizeof(w->type), "%s",
		 td_http_header(x, "Content-Type") ? td_http_header(x, "Content-Type") : "");
	snprintf(w->token, sizeof(w->token), "%s",
		 td_http_header(x, "Authorization") ? td_http_header(x, "Authorization") : "");

	free(w->body);
	w->body = td_strndup(b ? b : "", n);
	if (w->status == 429)
		td_http_add_header(x, "Retry-After", "3");
	w->n++;
	td_http_send(x, w->status, "application/json", w->reply, strlen(w->reply));
}

static void verbs(void **s)
{
	struct wire w = {
		.status = 200,
		.reply = "{\"metadata\":{\"name\":\"p\",\"namespace\":\"a\",\"uid\":\"u\",\"resourceVersion\":\"7\"}}"};
	struct fake *f = fake_start(handle, &w);
	struct td_kube *k = fake_client(f);
	struct td_error err = TD_ERROR_INIT;
	struct td_object *o = NULL;
	assert_int_equal(td_kube_get(k, &td_pods, "a", "p", NULL, &o, &err), 0);
	assert_string_equal(w.target, "/api/v1/namespaces/a/pods/p");
	assert_string_equal(o->name, "p");
	assert_string_equal(o->ns, "a");
	assert_string_equal(o->uid, "u");
	assert_string_equal(o->rv, "7");
	td_object_unref(o);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *v = yyjson_mut_doc_get_root(d);
	td_jm_str(d, v, "spec.x", "y");
	assert_int_equal(
		td_kube_patch(k, TD_AT(&td_deployments, "a", "p", "status"), TD_PATCH_MERGE, v, NULL, NULL, &err), 0);
	assert_string_equal(w.method, "PATCH");
	assert_string_equal(w.target, "/apis/apps/v1/namespaces/a/deployments/p/status?fieldManager=tandem");
	assert_string_equal(w.type, "application/merge-patch+json");
	assert_string_equal(w.body, "{\"spec\":{\"x\":\"y\"}}");
	assert_int_equal(td_kube_patch(k, TD_AT(&td_nodes, NULL, "n"), TD_PATCH_APPLY, v, NULL, NULL, &err), 0);
	assert_string_equal(w.target, "/api/v1/nodes/n?fieldManager=tandem&force=true");
	assert_string_equal(w.type, "application/apply-patch+yaml");

	assert_int_equal(
		td_kube_bind(k,
			     &(struct td_kube_binding){
				     .ns = "a", .pod = "p", .node = "n1", .uid = "u", .rv = "7", .annotations = v},
			     NULL, &err),
		0);
	assert_string_equal(w.target, "/api/v1/namespaces/a/pods/p/binding?fieldManager=tandem");
	assert_non_null(
		strstr(w.body, "\"uid\":\"u\",\"resourceVersion\":\"7\",\"annotations\":{\"spec\":{\"x\":\"y\"}}"));
	assert_non_null(strstr(w.body, "\"target\":{\"kind\":\"Node\",\"name\":\"n1\"}"));

	const struct td_kube_delete_opts opts = {.uid = "u", .grace_s = 0, .propagation = "Foreground"};
	assert_int_equal(td_kube_delete(k, &td_pods, "a", "p", &opts, NULL, &err), 0);
	assert_string_equal(w.method, "DELETE");
	assert_non_null(strstr(
		w.body,
		"\"preconditions\":{\"uid\":\"u\"},\"gracePeriodSeconds\":0,\"propagationPolicy\":\"Foreground\""));

	uint64_t n, bytes;
	td_kube_stats(k, &n, &bytes);
	assert_int_equal(n, 5);
	assert_true(bytes > 0);
	td_kube_free(k);
	fake_stop(f);
	free(w.body);
}

// A call with the identity of a kubeconfig to another server than the one it names.
static void call_as(void **s)
{
	struct wire w = {.status = 403, .reply = "no"};
	struct fake *f = fake_start(handle, &w);
	td_auto_free char *path = write_config(CONFIG("server: 'http://127.0.0.1:1'", "token: hush"));
	const char *url = fake_url(f);
	const struct td_http_call call = {.method = "GET", .path = "/pods"};

	struct td_error err = TD_ERROR_INIT;
	td_auto_reply struct td_http_reply rep = {0};
	// Nothing listens at the server of the kubeconfig.
	assert_int_not_equal(td_kube_call_as(path, NULL, NULL, 2000, &call, NULL, &rep, &err), 0);
	assert_int_equal(td_kube_call_as(path, url, NULL, 2000, &call, NULL, &rep, &err), 0);
	assert_int_equal(rep.status, 403);
	assert_string_equal(w.target, "/pods");
	assert_string_equal(w.token, "Bearer hush");

	unlink(path);
	fake_stop(f);
	free(w.body);
}

static void codes(void **s)
{
	static const struct {
		int status;
		const char *reason;
		int read, write;
	} cases[] = {{400, "BadRequest", TD_INVALID, TD_INVALID},
		     {401, "Unauthorized", TD_UNAUTHENTICATED, TD_UNAUTHENTICATED},
		     {403, "Forbidden", TD_DENIED, TD_DENIED},
		     {404, "NotFound", TD_NOT_FOUND, TD_NOT_FOUND},
		     {405, "MethodNotAllowed", TD_UNSUPPORTED, TD_UNSUPPORTED},
		     {409, "AlreadyExists", TD_EXISTS, TD_EXISTS},
		     {409, "Conflict", TD_CONFLICT, TD_CONFLICT},
		     {410, "Expired", TD_EXPIRED, TD_EXPIRED},
		     {415, "UnsupportedMediaType", TD_UNSUPPORTED, TD_UNSUPPORTED},
		     {422, "Invalid", TD_INVALID, TD_INVALID},
		     {429, "TooManyRequests", TD_THROTTLED, TD_THROTTLED},
		     {500, "InternalError", TD_TRANSIENT, TD_UNCERTAIN},
		     {503, "ServiceUnavailable", TD_TRANSIENT, TD_UNCERTAIN},
		     {504, "Timeout", TD_TRANSIENT, TD_UNCERTAIN}};
	struct wire w = {0};
	struct fake *f = fake_start(handle, &w);
	struct td_kube *k = fake_client(f);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();

	for (size_t i = 0; i < TD_LEN(cases); i++) {
		char text[200];
		snprintf(text, sizeof(text),
			 "{\"kind\":\"Status\",\"reason\":\"%s\",\"message\":\"the "
			 "words\",\"details\":{\"retryAfterSeconds\":1}}",
			 cases[i].reason);
		w.status = cases[i].status;
		w.reply = text;
		struct td_error err = TD_ERROR_INIT;
		struct td_object *o = NULL;
		assert_int_equal(td_kube_get(k, &td_pods, "a", "p", NULL, &o, &err), cases[i].read);
		assert_null(o);
		assert_string_equal(err.msg, "the words");
		assert_int_equal(err.http, cases[i].status);
		assert_int_equal(err.retry_after_ms, cases[i].status == 429 ? 3000 : 1000);
		assert_int_equal(td_kube_create(k, &td_pods, "a", yyjson_mut_doc_get_root(d), NULL, NULL, &err),
				 cases[i].write);
	}

	w.status = 404;
	w.reply = "404 page not found\n";
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_kube_get(k, &td_pods, "a", "p", NULL, NULL, &err), TD_NOT_FOUND);
	assert_non_null(strstr(err.msg, "404 page not found"));

	fake_stop(f);
	assert_int_equal(td_kube_get(k, &td_pods, "a", "p", NULL, NULL, &err), TD_TRANSIENT);
	// The request was surely not sent.
	assert_int_equal(td_kube_create(k, &td_pods, "a", yyjson_mut_doc_get_root(d), NULL, NULL, &err), TD_TRANSIENT);
	td_kube_free(k);
	free(w.body);
}

// ---- events ----

struct log {
	char v[8][2000];
	int n;
};

static void on_event(struct td_http_x *x, void *ctx)
{
	struct log *l = ctx;
	size_t n;
	const char *b = td_http_body(x, &n);
	int i = __atomic_load_n(&l->n, __ATOMIC_RELAXED);
	if (i < 8)
		snprintf(l->v[i], sizeof(l->v[0]), "%s %s %.*s", td_http_method(x), td_http_target(x), (int)n,
			 b ? b : "");
	td_http_send(x, 200, "application/json", "{}", 2);
	__atomic_store_n(&l->n, i + 1, __ATOMIC_RELEASE);
}

static void events(void **s)
{
	struct log l = {0};
	struct fake *f = fake_start(on_event, &l);
	struct td_kube *k = fake_client(f);
	static const char text[] = "{\"metadata\":{\"name\":\"p\",\"namespace\":\"a\",\"uid\":\"u\"}}";
	struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	td_auto(td_object_unref) struct td_object *o = td_object_new(j);

	struct td_recorder *r = td_recorder_new(k, "tandem-test");
	td_kube_record(r, TD_ABOUT(o, &td_pods), "Warning", "Refused", "no %s", "room");
	assert_true(fake_reached(&l.n, 1));
	td_kube_record(r, TD_ABOUT(o, &td_pods), "Warning", "Refused", "no %s", "room");
	assert_true(fake_reached(&l.n, 2));
	td_kube_record(r, TD_ABOUT(o, &td_pods), "Warning", "Refused", "no %s", "luck");
	assert_true(fake_reached(&l.n, 3));

	td_recorder_free(r);
	assert_true(td_starts(l.v[0], "POST /api/v1/namespaces/a/events"));
	assert_non_null(strstr(l.v[0], "\"reason\":\"Refused\",\"message\":\"no room\""));
	assert_true(td_starts(l.v[1], "PATCH /api/v1/namespaces/a/events/p."));
	assert_non_null(strstr(l.v[1], "\"count\":2"));
	assert_true(td_starts(l.v[2], "POST "));

	td_kube_free(k);
	fake_stop(f);
}

// Verbs and resources as metrics and fault points name them.
static void names(void **state)
{
	static const char *const cases[][4] = {
		{"GET", "/api/v1/namespaces", "list", "namespaces"},
		{"GET", "/api/v1/namespaces/a", "get", "namespaces"},
		{"PUT", "/api/v1/namespaces/a/finalize", "update", "namespaces/finalize"},
		{"PATCH", "/api/v1/namespaces/a/status", "patch", "namespaces/status"},
		{"GET", "/api/v1/namespaces/a/pods?watch=1", "watch", "pods"},
		{"POST", "/api/v1/namespaces/a/pods/p/binding", "create", "pods/binding"},
		{"PATCH", "/apis/coordination.k8s.io/v1/namespaces/a/leases/l", "patch", "leases"},
		{"DELETE", "/api/v1/nodes/n0", "delete", "nodes"},
		{"GET", "/readyz", "get", "other"},
	};

	for (size_t i = 0; i < TD_LEN(cases); i++) {
		const struct td_http_call call = {.method = cases[i][0], .path = cases[i][1]};
		char resource[64];
		assert_string_equal(td_kube_verb(&call, resource, sizeof(resource)), cases[i][2]);
		assert_string_equal(resource, cases[i][3]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(config_inline), cmocka_unit_test(config_files), cmocka_unit_test(config_refused),
		cmocka_unit_test(config_list),   cmocka_unit_test(verbs),        cmocka_unit_test(call_as),
		cmocka_unit_test(codes),         cmocka_unit_test(events),       cmocka_unit_test(names)};
	return cmocka_run_group_tests_name("kube", tests, NULL, NULL);
}
