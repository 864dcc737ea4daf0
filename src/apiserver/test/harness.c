#include "apiserver/test/harness.h"

#include "base/file.h"
#include "http/pki.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const char key[] = "0123456789abcdef0123456789abcdef";

static char *token(const char *sub, const char *group)
{
	td_auto_free char *claims = td_asprintf("{\"sub\":\"%s\",\"groups\":[\"%s\"],\"exp\":%lld}", sub, group,
						(long long)time(NULL) + 3600);
	return td_jwt_sign(key, sizeof(key) - 1, claims);
}

static void *serve(void *arg)
{
	struct harness *h = arg;
	td_http_server_run(h->http, h->cancel, NULL);
	return NULL;
}

static void start(struct harness *h, size_t ring)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_free char *db = td_asprintf("%s/state.db", h->dir), *sock = td_asprintf("%s/agent.sock", h->dir);

	h->srv = (struct td_srv){.clock = &td_clock_system,
				 .sa_key = (void *)(uintptr_t)key,
				 .sa_key_len = sizeof(key) - 1,
				 .ready = true};
	h->srv.agent_socket = td_strdup(sock);
	if (td_store_open(db, ring, 0, &h->srv.store, &err) < 0 || td_srv_bootstrap(&h->srv, &err) < 0)
		fail_msg("store: %s", err.msg);
	h->srv.reg = td_registry_new(h->srv.store);
	h->srv.rbac = td_rbac_cache_new(h->srv.store);
	const char *listen[] = {"127.0.0.1:0", NULL};
	const struct td_http_server_opts o = {
		.listen = listen, .handler = td_srv_handle, .refused = td_srv_refused, .ctx = &h->srv};
	if (td_http_server_new(&o, &h->http, &err) < 0)
		fail_msg("server: %s", err.msg);
	h->cancel = td_cancel_new();
	pthread_create(&h->thread, NULL, serve, h);
	td_auto_free char *url = td_asprintf("http://127.0.0.1:%d", td_http_server_port(h->http));
	const struct td_http_client_opts co = {.base_url = url, .timeout_ms = 60000};
	if (td_http_client_new(&co, &h->client, &err) < 0)
		fail_msg("client: %s", err.msg);
}

static void stop(struct harness *h)
{
	td_cancel_fire(h->cancel);
	pthread_join(h->thread, NULL);
	td_http_client_free(h->client);
	td_http_server_free(h->http);
	td_registry_free(h->srv.reg);
	td_rbac_cache_free(h->srv.rbac);
	td_store_close(h->srv.store);
	td_cancel_unref(h->cancel);
	free(h->srv.agent_socket);
}

void harness_start(struct harness *h, size_t ring)
{
	*h = (struct harness){0};
	snprintf(h->dir, sizeof(h->dir), "/tmp/td-api-XXXXXX");
	assert_non_null(mkdtemp(h->dir));
	h->admin = token("admin", "system:masters");
	h->bridge = token("system:tandem:bridge", "tandem:roles");
	h->nobody = token("eve", "people");
	h->as = h->admin;
	start(h, ring);
}

void harness_stop(struct harness *h)
{
	stop(h);
	free(h->admin);
	free(h->bridge);
	free(h->nobody);
	td_rm_rf(h->dir, NULL);
}

void harness_restart(struct harness *h, size_t ring)
{
	stop(h);
	start(h, ring);
}

int ask(struct harness *h, const char *method, const char *path, const char *ctype, const char *body,
	struct td_json **ret)
{
	td_auto_free char *auth = td_asprintf("Authorization: Bearer %s", h->as ? h->as : "");
	const char *headers[] = {h->as ? auth : NULL, NULL};
	const struct td_http_call call = {
		.method = method,
		.path = path,
		.body = body,
		.body_len = body ? strlen(body) : 0,
		.content_type = ctype,
		.headers = headers,
	};
	td_auto_reply struct td_http_reply reply = {0};
	struct td_error err = TD_ERROR_INIT;

	if (td_http_do(h->client, &call, NULL, &reply, &err) < 0)
		fail_msg("%s %s: %s", method, path, err.msg);
	if (ret) {
		*ret = NULL;
		td_json_parse(td_buf_str(&reply.body), reply.body.len, ret, NULL);
	}

	return reply.status;
}

void expect(struct harness *h, const char *method, const char *path, const char *ctype, const char *body, int status,
	    const char *at, const char *want)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	int got = ask(h, method, path, ctype, body, &j);
	td_auto_free char *text = j ? td_json_text(td_json_root(j), NULL) : td_strdup("(no JSON)");
	if (got != status)
		fail_msg("%s %s: %d instead of %d: %s", method, path, got, status, text);
	const char *have = at ? td_jstr(td_json_root(j), at) : NULL;
	if (want && (!have || strcmp(have, want) != 0))
		fail_msg("%s %s: %s is \"%s\" instead of \"%s\" in %s", method, path, at, have ? have : "(absent)",
			 want, text);
}

char *field(struct harness *h, const char *path, const char *at)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	assert_int_equal(ask(h, "GET", path, NULL, NULL, &j), 200);
	yyjson_val *v = td_jget(td_json_root(j), at);
	return v ? td_json_text(v, NULL) : td_strdup("");
}

// ---- watches ----
static int on_data(void *ctx, const char *p, size_t n)
{
	struct watcher *w = ctx;
	pthread_mutex_lock(&w->lock);
	for (size_t i = 0; i < n; i++) {
		if (p[i] != '\n') {
			td_buf_putc(&w->partial, p[i]);
			continue;
		}
		struct td_json *j = NULL;
		if (w->partial.len && td_json_parse(td_buf_str(&w->partial), w->partial.len, &j, NULL) == 0 &&
		    w->n < TD_LEN(w->events))
			w->events[w->n++] = j;
		td_buf_reset(&w->partial);
	}

	pthread_cond_broadcast(&w->cond);
	pthread_mutex_unlock(&w->lock);
	return 0;
}

static void *watching(void *arg)
{
	struct watcher *w = arg;
	td_auto_free char *auth = td_asprintf("Authorization: Bearer %s", w->h->admin);
	const char *headers[] = {auth, NULL};
	const struct td_http_call call = {
		.method = "GET", .path = w->path, .headers = headers, .on_data = on_data, .ctx = w};
	td_auto_reply struct td_http_reply reply = {0};
	td_http_do(w->h->client, &call, w->cancel, &reply, NULL);
	pthread_mutex_lock(&w->lock);
	w->ended = true;
	pthread_cond_broadcast(&w->cond);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

void watcher_start(struct watcher *w, struct harness *h, const char *path)
{
	*w = (struct watcher){.h = h, .path = td_strdup(path), .cancel = td_cancel_new()};
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->cond, NULL);
	pthread_create(&w->thread, NULL, watching, w);
}

static size_t wait_for(struct watcher *w, size_t n, bool end)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += 60;
	pthread_mutex_lock(&w->lock);
	while (!w->ended && (end || w->n < n) && pthread_cond_timedwait(&w->cond, &w->lock, &t) == 0)
		;
	size_t got = end ? w->ended : w->n;
	pthread_mutex_unlock(&w->lock);
	return got;
}

size_t watcher_wait(struct watcher *w, size_t n)
{
	return wait_for(w, n, false);
}

bool watcher_wait_end(struct watcher *w)
{
	return wait_for(w, 0, true);
}

const char *watcher_type(struct watcher *w, size_t i)
{
	return td_jstr_or(td_json_root(w->events[i]), "type", "");
}

const char *watcher_name(struct watcher *w, size_t i)
{
	return td_jstr_or(td_json_root(w->events[i]), "object.metadata.name", "");
}

void watcher_stop(struct watcher *w)
{
	td_cancel_fire(w->cancel);
	pthread_join(w->thread, NULL);
	for (size_t i = 0; i < w->n; i++)
		td_json_unref(w->events[i]);
	td_buf_done(&w->partial);
	td_cancel_unref(w->cancel);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->cond);
	free(w->path);
}
