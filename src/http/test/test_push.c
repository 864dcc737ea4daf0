// Unit tests of pushed replies (watches): many at once, peers that go, stall or stay, and streams
// that end by time, by the filler and by the server.
// rows: F1.2
#include "http/test/raw.h"
#include "http/test/serve.h"

#include <stdlib.h>
#include <utlist.h>

enum { WATCHERS = 200 };

struct watcher {
	struct td_http_push_handle *h;
	struct td_buf pending;
	bool last, endless;
	struct watcher *prev, *next;
};
static struct hub {
	pthread_mutex_t lock; // guards everything
	pthread_cond_t changed;
	struct watcher *list;
	int n, closed, filled;
} hub = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int fill(void *ctx, struct td_buf *out)
{
	struct watcher *w = ctx;
	pthread_mutex_lock(&hub.lock);
	hub.filled++;
	td_buf_add(out, td_buf_str(&w->pending), w->pending.len);
	td_buf_reset(&w->pending);

	bool last = w->last;
	if (w->endless) {
		static const char mib[1 << 20];
		td_buf_add(out, mib, sizeof(mib));
		td_http_push_wake(w->h);
	}

	pthread_mutex_unlock(&hub.lock);
	return last ? TD_EXPIRED : 0;
}

static void closed(void *ctx)
{
	struct watcher *w = ctx;
	pthread_mutex_lock(&hub.lock);
	DL_DELETE(hub.list, w);
	hub.n--;
	hub.closed++;
	pthread_cond_broadcast(&hub.changed);
	pthread_mutex_unlock(&hub.lock);
	td_buf_done(&w->pending);
	free(w);
}

static void handler(struct td_http_x *x, void *ctx)
{
	static const char kib[1024] = "h";

	struct watcher *w = td_calloc(1, sizeof(*w));
	const char *ms = td_http_query(x, "ms"), *first = td_http_query(x, "first");
	w->endless = td_http_query(x, "endless");
	w->last = td_http_query(x, "last");

	td_buf_puts(&w->pending, first ? first : "");
	if (td_http_query(x, "huge"))
		for (int i = 0; i < 20 * 1024; i++)
			td_buf_add(&w->pending, kib, sizeof(kib));

	struct td_http_push p = {.fill = fill, .closed = closed, .ctx = w, .timeout_ms = ms ? atoi(ms) : 0};
	pthread_mutex_lock(&hub.lock);
	w->h = td_http_push(x, 200, "application/json", &p);
	DL_APPEND(hub.list, w);
	hub.n++;
	if (w->pending.len || w->endless || w->last)
		td_http_push_wake(w->h); // before the handler has returned
	pthread_cond_broadcast(&hub.changed);
	pthread_mutex_unlock(&hub.lock);
}

static void publish(const char *text)
{
	pthread_mutex_lock(&hub.lock);
	for (struct watcher *w = hub.list; w; w = w->next) {
		td_buf_puts(&w->pending, text);
		td_http_push_wake(w->h);
	}
	pthread_mutex_unlock(&hub.lock);
}

// Waits until the number is n; false: not within a minute.
static bool wait_for(const int *number, int n)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += 60;

	pthread_mutex_lock(&hub.lock);
	int rc = 0;
	while (*number != n && rc == 0)
		rc = pthread_cond_timedwait(&hub.changed, &hub.lock, &t);

	bool ok = *number == n;
	pthread_mutex_unlock(&hub.lock);
	return ok;
}

static bool wait_n(int n)
{
	return wait_for(&hub.n, n);
}

static char dir[64];
static char *crt, *key;

static void many(bool tls)
{
	struct served s = {0};
	serve_start(&s, &(struct td_http_server_opts){
				.handler = handler, .cert_file = tls ? crt : NULL, .key_file = tls ? key : NULL});

	static struct raw r[WATCHERS];
	for (int i = 0; i < WATCHERS; i++) {
		raw_open(&r[i], s.port, tls);
		raw_puts(&r[i], "GET /watch HTTP/1.1\r\nHost: x\r\n\r\n");
	}

	assert_true(wait_n(WATCHERS));
	hub.filled = 0;
	publish("one\n");
	for (int i = 0; i < WATCHERS; i++)
		if (!raw_until(&r[i], "4\r\none\n\r\n"))
			fail_msg("watcher %d got: %s", i, td_buf_str(&r[i].in));

	// What is published together is sent together, and nothing is lost.
	for (int k = 0; k < 20; k++)
		publish("x");
	publish("two\n");

	for (int i = 0; i < WATCHERS; i++) {
		assert_true(raw_until(&r[i], "two\n"));
		int xs = 0;
		for (const char *c = strstr(r[i].in.s, "one\n"); *c; c++)
			xs += *c == 'x';
		assert_int_equal(xs, 20);
	}

	for (int i = 0; i < WATCHERS; i += 2)
		raw_close(&r[i]);
	// The FIN is noticed although the server does not send anything.
	assert_true(wait_n(WATCHERS / 2));

	publish("three\n");
	for (int i = 1; i < WATCHERS; i += 2)
		assert_true(raw_until(&r[i], "three\n"));

	serve_stop(&s);
	assert_int_equal(hub.n, 0);
	for (int i = 1; i < WATCHERS; i += 2) {
		assert_true(raw_to_end(&r[i]));
		raw_close(&r[i]);
	}
}

static void test_many(void **state)
{
	many(false);
}
static void test_many_tls(void **state)
{
	many(true);
}

static void test_ends(void **state)
{
	struct served s = {0};
	serve_start(&s, &(struct td_http_server_opts){.handler = handler});

	struct raw r;
	raw_open(&r, s.port, false); // ends by time
	raw_puts(&r, "GET /?ms=50&first=a HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(raw_to_end(&r));
	assert_non_null(strstr(r.in.s, "\r\n\r\n1\r\na\r\n0\r\n\r\n"));
	raw_close(&r);

	raw_open(&r, s.port, false); // ends by the filler
	raw_puts(&r, "GET /?last=1&first=bye HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(raw_to_end(&r));
	assert_non_null(strstr(r.in.s, "\r\n\r\n3\r\nbye\r\n0\r\n\r\n"));
	raw_close(&r);

	raw_open(&r, s.port, false); // HEAD
	raw_puts(&r, "HEAD /?first=bye HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(raw_to_end(&r));
	assert_true(td_ends(r.in.s, "\r\n\r\n"));
	raw_close(&r);

	raw_open(&r, s.port, false); // HTTP/1.0: no chunks
	raw_puts(&r, "GET /?last=1&first=bye HTTP/1.0\r\n\r\n");
	assert_true(raw_to_end(&r));
	assert_true(td_ends(r.in.s, "\r\n\r\nbye"));
	raw_close(&r);

	raw_open(&r, s.port, false); // the request and FIN at once
	raw_puts(&r, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	shutdown(r.fd, SHUT_WR);
	assert_true(raw_to_end(&r));
	raw_close(&r);

	// A client that sends although it should not.
	raw_open(&r, s.port, false);
	raw_puts(&r, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(raw_until(&r, "\r\n\r\n"));
	td_auto_buf struct td_buf junk = {0};
	for (int i = 0; i < 100000; i++)
		td_buf_putc(&junk, 'j');
	raw_send(&r, junk.s, junk.len);
	while (raw_more(&r))
		;
	raw_close(&r);

	assert_true(wait_n(0));
	serve_stop(&s);
}

static void test_stalled(void **state)
{
	struct served s = {0};
	serve_start(&s, &(struct td_http_server_opts){
				.handler = handler, .write_ms = 200, .cert_file = crt, .key_file = key});

	struct raw lazy, huge, fine;
	raw_open(&fine, s.port, true);
	raw_puts(&fine, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(wait_n(1));

	int before = hub.closed; // of those before; fine stays
	raw_open(&lazy, s.port, true);
	raw_puts(&lazy, "GET /?endless=1 HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(wait_for(&hub.closed, before + 1)); // lazy was cut
	assert_true(wait_n(1));

	publish("still here\n");
	assert_true(raw_until(&fine, "still here\n"));

	raw_open(&huge, s.port, true);
	raw_puts(&huge, "GET /?huge=1 HTTP/1.1\r\nHost: x\r\n\r\n");
	// The client reads, but 20 MiB at once is more than may stay unsent.
	while (raw_more(&huge))
		;
	assert_true(huge.in.len < 20 << 20);
	assert_false(huge.late); // the server cut it

	raw_close(&lazy);
	raw_close(&huge);
	raw_close(&fine);
	assert_true(wait_n(0));
	serve_stop(&s);
}

int main(void)
{
	strcpy(dir, "/tmp/td-push-XXXXXX");
	const char *sans[] = {"127.0.0.1", NULL};
	if (!mkdtemp(dir) || td_pki_ca_ensure(dir, "test", NULL) < 0 ||
	    td_pki_issue(dir,
			 &(struct td_pki_cert){.file = "srv", .cn = "srv", .sans = sans, .server = true, .days = 10},
			 NULL) < 0)
		return 1;

	crt = td_asprintf("%s/srv.crt", dir);
	key = td_asprintf("%s/srv.key", dir);
	const struct CMUnitTest t[] = {cmocka_unit_test(test_many), cmocka_unit_test(test_many_tls),
				       cmocka_unit_test(test_ends), cmocka_unit_test(test_stalled)};
	int rc = cmocka_run_group_tests(t, NULL, NULL);
	td_rm_rf(dir, NULL);
	free(crt);
	free(key);
	return rc;
}
