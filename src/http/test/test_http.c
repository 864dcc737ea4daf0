// Unit tests of client and server against each other: whole replies, streams, errors, cancel.
// rows: F1.2 F2.1
#include "http/test/raw.h"
#include "http/test/serve.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

static char dir[64];
static struct td_http_server_opts tls_opts;
static char *crt, *key, *ca, *admin_crt, *admin_key;
static int n_requests;                   // atomic
static struct td_cancel *entered, *left; // a handler began to wait; its peer is gone

static void handler(struct td_http_x *x, void *ctx)
{
	const char *p = td_http_path(x);
	size_t n;
	const char *body = td_http_body(x, &n);

	__atomic_add_fetch(&n_requests, 1, __ATOMIC_RELAXED);
	if (td_streq(p, "/echo")) {
		td_http_send(x, 200, "application/octet-stream", body, n);
	} else if (td_streq(p, "/who")) {
		td_auto_buf struct td_buf b = {0};
		td_buf_printf(&b, "%s", td_http_peer_cn(x) ? td_http_peer_cn(x) : "-");
		for (size_t i = 0; i < td_http_peer_orgs(x)->n; i++)
			td_buf_printf(&b, " %s", td_http_peer_orgs(x)->v[i]);
		const char *auth = td_http_header(x, "authorization");
		td_buf_printf(&b, " uid=%d %s %s", td_http_peer_uid(x), auth ? auth : "-",
			      td_http_query(x, "q") ? td_http_query(x, "q") : "-");
		td_auto_strv struct td_strv l = {0};
		td_http_query_all(x, "l", &l);
		for (size_t i = 0; i < l.n; i++)
			td_buf_printf(&b, " [%s]", l.v[i]);
		td_http_send(x, 200, "text/plain", b.s, b.len);
	} else if (td_streq(p, "/stream")) {
		struct td_error err = {0};
		if (td_http_stream_begin(x, 200, "text/plain", &err) < 0)
			return;
		for (int i = 0; i < 100; i++)
			if (td_http_stream_write(x, "0123456789", 10, &err) < 0)
				return;
	} else if (td_streq(p, "/sized") || td_streq(p, "/short")) {
		if (td_http_stream_sized(x, "text/plain", 10, NULL) < 0)
			return;
		td_http_stream_write(x, "01234", 5, NULL);
		if (td_streq(p, "/sized")) {
			td_http_stream_write(x, "XXXXXX", 6, NULL); // more than was said: nothing of it
			td_http_stream_write(x, "56789", 5, NULL);
		}
	} else if (td_streq(p, "/hang")) { // waits until the peer is gone
		td_cancel_fire(entered);
		if (td_cancel_wait(td_http_cancel(x), 10000) == TD_CANCELLED && left)
			td_cancel_fire(left);
	} else if (td_streq(p, "/trickle")) {
		td_http_stream_begin(x, 200, "text/plain", NULL);
		td_http_stream_write(x, "a", 1, NULL);
		td_cancel_fire(entered);
		td_cancel_wait(td_http_cancel(x), 10000);
	} else if (td_streq(p, "/busy")) {
		td_http_add_header(x, "Retry-After", "7");
		td_http_send(x, 429, "application/json", "{}", 2);
	} else if (td_streq(p, "/none")) {
		td_http_send(x, 204, NULL, NULL, 0);
	} else if (!td_streq(p, "/silent")) {
		td_http_send(x, 404, "text/plain", "no", 2);
	}
}

static void setup_files(void)
{
	strcpy(dir, "/tmp/td-http-XXXXXX");
	if (!mkdtemp(dir))
		abort();
	const char *sans[] = {"127.0.0.1", NULL}, *orgs[] = {"system:masters", "two", NULL};

	struct td_error err = {0};
	if (td_pki_ca_ensure(dir, "test", &err) < 0 ||
	    td_pki_issue(dir,
			 &(struct td_pki_cert){.file = "srv", .cn = "srv", .sans = sans, .server = true, .days = 10},
			 &err) < 0 ||
	    td_pki_issue(dir, &(struct td_pki_cert){.file = "adm", .cn = "admin", .orgs = orgs, .days = 10}, &err) < 0)
		abort();

	crt = td_asprintf("%s/srv.crt", dir);
	key = td_asprintf("%s/srv.key", dir);
	ca = td_asprintf("%s/ca.crt", dir);
	admin_crt = td_asprintf("%s/adm.crt", dir);
	admin_key = td_asprintf("%s/adm.key", dir);
	tls_opts = (struct td_http_server_opts){
		.handler = handler, .cert_file = crt, .key_file = key, .client_ca_file = ca};
}

static struct td_http_client *client(const struct td_http_client_opts *o)
{
	struct td_http_client *c = NULL;
	struct td_error err = {0};
	if (td_http_client_new(o, &c, &err) < 0)
		fail_msg("%s", err.msg);
	return c;
}

static int get(struct td_http_client *c, const char *path, struct td_http_reply *r)
{
	struct td_error err = {0};
	int rc = td_http_do(c, &(struct td_http_call){.method = "GET", .path = path}, NULL, r, &err);
	if (rc < 0)
		fprintf(stderr, "%s\n", err.msg);
	return rc;
}

static void test_plain(void **state)
{
	struct served s = {0};
	serve_start(&s, &(struct td_http_server_opts){.handler = handler});
	td_auto(td_http_client_free) struct td_http_client *c =
		client(&(struct td_http_client_opts){.base_url = s.url});
	{
		td_auto_reply struct td_http_reply r = {0};
		assert_int_equal(get(c, "/who?q=a%20b+c&l=1&l=%32&l", &r), 0);
		assert_int_equal(r.status, 200);
		assert_string_equal(r.body.s, "- uid=-1 - a b c [1] [2] []");
		assert_string_equal(r.content_type, "text/plain");
	}
	{
		td_auto_reply struct td_http_reply r = {0};
		assert_int_equal(get(c, "/busy", &r), 0);
		assert_int_equal(r.status, 429);
		assert_int_equal(r.retry_after_s, 7);
	}
	{
		td_auto_reply struct td_http_reply r = {0}; // the handler sends nothing
		assert_int_equal(get(c, "/silent", &r), 0);
		assert_int_equal(r.status, 500);
	}

	static const char *const methods[] = {"POST", "PUT", "PATCH", "DELETE", "GET"};
	td_auto_buf struct td_buf big = {0};
	for (int i = 0; i < 1500000; i++)
		td_buf_putc(&big, (char)(i * 7 + i / 256));
	for (size_t i = 0; i < TD_LEN(methods); i++) {
		td_auto_reply struct td_http_reply r = {0};
		struct td_http_call call = {.method = methods[i],
					    .path = "/echo",
					    .body = big.s,
					    .body_len = big.len,
					    .content_type = "a/b"};
		assert_int_equal(td_http_do(c, &call, NULL, &r, NULL), 0);
		assert_int_equal(r.status, 200);
		assert_int_equal(r.body.len, big.len);
		assert_memory_equal(r.body.s, big.s, big.len);
	}
	{
		td_auto_reply struct td_http_reply r = {0};
		assert_int_equal(
			td_http_do(c, &(struct td_http_call){.method = "HEAD", .path = "/who"}, NULL, &r, NULL), 0);
		assert_int_equal(r.status, 200);
		assert_int_equal(r.body.len, 0);
	}
	{
		td_auto_reply struct td_http_reply r = {0};
		assert_int_equal(
			td_http_do(c, &(struct td_http_call){.method = "POST", .path = "/none"}, NULL, &r, NULL), 0);
		assert_int_equal(r.status, 204);
	}
	{
		td_auto_reply struct td_http_reply r = {0};
		struct td_http_call call = {.method = "GET", .path = "/stream", .max_body = 999};
		struct td_error err = {0};
		assert_int_equal(td_http_do(c, &call, NULL, &r, &err), TD_INVALID);
		call.max_body = 1000;
		assert_int_equal(td_http_do(c, &call, NULL, &r, &err), 0);
		assert_int_equal(r.body.len, 1000);
	}
	serve_stop(&s);
}

static int sum(void *ctx, const char *p, size_t n)
{
	*(size_t *)ctx += n;
	return 0;
}

static int enough(void *ctx, const char *p, size_t n)
{
	return TD_EXPIRED;
}

static void test_tls(void **state)
{
	struct served s = {0};
	serve_start(&s, &tls_opts);
	struct td_http_client_opts o = {.base_url = s.url, .ca_file = ca};
	td_auto(td_http_client_free) struct td_http_client *anon = client(&o);
	o.cert_file = admin_crt;
	o.key_file = admin_key;
	td_auto(td_http_client_free) struct td_http_client *admin = client(&o);

	for (int i = 0; i < 3; i++) {
		td_auto_reply struct td_http_reply r = {0}, q = {0};
		assert_int_equal(get(admin, "/who", &r), 0);
		assert_string_equal(r.body.s, "admin system:masters two uid=-1 - -");
		assert_int_equal(get(anon, "/who", &q), 0);
		assert_string_equal(q.body.s, "- uid=-1 - -");
	}

	size_t n = 0;
	td_auto_reply struct td_http_reply r = {0};
	struct td_http_call call = {.method = "GET", .path = "/stream", .on_data = sum, .ctx = &n};
	assert_int_equal(td_http_do(admin, &call, NULL, &r, NULL), 0);
	assert_int_equal(n, 1000);

	call.on_data = enough;
	struct td_error err = {0};
	assert_int_equal(td_http_do(admin, &call, NULL, &r, &err), TD_EXPIRED);

	// The server's certificate does not name this host.
	char url[64];
	snprintf(url, sizeof(url), "https://localhost:%d", s.port);
	td_auto(td_http_client_free) struct td_http_client *wrong =
		client(&(struct td_http_client_opts){.base_url = url, .ca_file = ca});
	call = (struct td_http_call){.method = "POST", .path = "/echo"};
	assert_int_equal(td_http_do(wrong, &call, NULL, &r, &err), TD_TRANSIENT);
	serve_stop(&s);
}

// A certificate of another authority counts as none.
static void test_stranger(void **state)
{
	struct served s = {0};
	serve_start(&s, &tls_opts);
	td_auto_free char *other = td_asprintf("%s/other", dir), *c2 = td_asprintf("%s/x.crt", other),
			  *k2 = td_asprintf("%s/x.key", other);
	assert_int_equal(td_pki_ca_ensure(other, "test", NULL), 0);
	const char *orgs[] = {"system:masters", NULL};
	assert_int_equal(
		td_pki_issue(other, &(struct td_pki_cert){.file = "x", .cn = "admin", .orgs = orgs, .days = 10}, NULL),
		0);

	td_auto(td_http_client_free) struct td_http_client *c = client(
		&(struct td_http_client_opts){.base_url = s.url, .ca_file = ca, .cert_file = c2, .key_file = k2});
	td_auto_reply struct td_http_reply r = {0};
	assert_int_equal(get(c, "/who", &r), 0);
	assert_string_equal(r.body.s, "- uid=-1 - -");
	serve_stop(&s);
}

// A certificate that is renewed counts for new connections; the old one goes on. Half of a pair counts for none.
static void test_renewed(void **state)
{
	struct served s = {0};
	td_auto_free char *other = td_asprintf("%s/renewed", dir), *their_ca = td_asprintf("%s/ca.crt", other),
			  *c2 = td_asprintf("%s/x.crt", other), *k2 = td_asprintf("%s/x.key", other),
			  *c1 = td_asprintf("%s/own.crt", other), *k1 = td_asprintf("%s/own.key", other);
	const char *ips[] = {"127.0.0.1", NULL};
	assert_int_equal(td_pki_ca_ensure(other, "test", NULL), 0);
	assert_int_equal(
		td_pki_issue(other,
			     &(struct td_pki_cert){.file = "x", .cn = "srv", .sans = ips, .server = true, .days = 10},
			     NULL),
		0);
	assert_int_equal(link(crt, c1) | link(key, k1), 0);
	serve_start(&s, &(struct td_http_server_opts){.handler = handler, .cert_file = c1, .key_file = k1});
	td_auto(td_http_client_free) struct td_http_client *before =
		client(&(struct td_http_client_opts){.base_url = s.url, .ca_file = ca});
	td_auto_reply struct td_http_reply r = {0};
	assert_int_equal(get(before, "/who", &r), 0);

	assert_int_equal(rename(c2, c1), 0);
	int64_t until = test_now() + 60000;
	for (bool half = true, done = false; !done;) {
		td_auto(td_http_client_free) struct td_http_client *after =
			client(&(struct td_http_client_opts){.base_url = s.url, .ca_file = half ? ca : their_ca});
		td_auto_reply struct td_http_reply q = {0};
		int rc = get(after, "/who", &q);
		assert_true(test_now() < until);
		if (half) {
			assert_int_equal(rc, 0);
			half = false;
			assert_int_equal(rename(k2, k1), 0);
		} else if (!(done = rc == 0)) {
			poll(NULL, 0, 50);
		}
	}
	td_auto_reply struct td_http_reply still = {0};
	assert_int_equal(get(before, "/who", &still), 0); // the same connection
	serve_stop(&s);
}

static void test_unix(void **state)
{
	struct served s = {0};
	td_auto_free char *path = td_asprintf("%s/s.sock", dir), *spec = td_asprintf("unix:%s", path),
			  *tok = td_asprintf("%s/tok", dir);
	const char *listen[] = {spec, NULL};
	assert_int_equal(td_file_write(tok, "one\n", 4, 0600, NULL), 0);
	struct td_http_server_opts o = {.handler = handler, .listen = listen};

	serve_start(&s, &o);
	struct td_http_server *second = NULL;
	// The first server is alive, so its socket is not taken over.
	assert_int_equal(td_http_server_new(&o, &second, NULL), TD_EXISTS);

	td_auto(td_http_client_free) struct td_http_client *c =
		client(&(struct td_http_client_opts){.base_url = "http://x", .unix_socket = path, .token_file = tok});
	td_auto_free char *want = td_asprintf("- uid=%d Bearer one -", (int)getuid());
	{
		td_auto_reply struct td_http_reply r = {0};
		assert_int_equal(get(c, "/who", &r), 0);
		assert_string_equal(r.body.s, want);
	}

	assert_int_equal(td_file_write(tok, "two\n", 4, 0600, NULL), 0);
	{
		td_auto_reply struct td_http_reply r = {0};
		assert_int_equal(get(c, "/who", &r), 0);
		assert_non_null(strstr(r.body.s, "Bearer two"));
	}

	serve_stop(&s);
	assert_false(td_path_exists(path));
	td_auto_reply struct td_http_reply r = {0};
	struct td_http_call call = {.method = "POST", .path = "/echo"};
	// Nobody is there: surely not sent.
	assert_int_equal(td_http_do(c, &call, NULL, &r, NULL), TD_TRANSIENT);
}

struct firing {
	struct td_cancel *c;
	int64_t at;
};

static void *fire_when_entered(void *arg)
{
	struct firing *f = arg;
	td_cancel_wait(entered, 60000);
	f->at = test_now();
	td_cancel_fire(f->c);
	return NULL;
}

static void test_cancel(void **state)
{
	struct served s = {0};
	serve_start(&s, &tls_opts);
	td_auto(td_http_client_free) struct td_http_client *c =
		client(&(struct td_http_client_opts){.base_url = s.url, .ca_file = ca});
	static const char *const paths[] = {"/hang", "/trickle"};
	struct td_cancel *was[TD_LEN(paths)];
	for (size_t i = 0; i < TD_LEN(paths); i++) {
		entered = was[i] = td_cancel_new();
		struct firing f = {.c = td_cancel_new()};
		pthread_t t;

		pthread_create(&t, NULL, fire_when_entered, &f);
		size_t n = 0;
		td_auto_reply struct td_http_reply r = {0};
		struct td_error err = {0};
		struct td_http_call call = {.method = "GET", .path = paths[i], .on_data = sum, .ctx = &n};

		assert_int_equal(td_http_do(c, &call, f.c, &r, &err), TD_CANCELLED);
		int64_t now = test_now();
		pthread_join(t, NULL);
		if (now - f.at > 10) // the promise; a loaded machine takes longer
			print_message("cancel took %lld ms\n", (long long)(now - f.at));
		assert_true(now - f.at < 9000); // not by the end of the handler, after 10 s
		td_cancel_unref(f.c);
	}
	// It returns early only because both handlers saw their peer go.
	serve_stop(&s);
	for (size_t i = 0; i < TD_LEN(was); i++)
		td_cancel_unref(was[i]);
}

static void *stop_when_entered(void *client)
{
	td_cancel_wait(entered, 60000);
	td_http_client_stop(client);
	return NULL;
}

// A request that nobody will answer ends, and the client makes no other one.
static void test_client_stop(void **state)
{
	struct served s = {0};
	serve_start(&s, &tls_opts);
	td_auto(td_http_client_free) struct td_http_client *c =
		client(&(struct td_http_client_opts){.base_url = s.url, .ca_file = ca});
	td_auto(td_cancel_unref) struct td_cancel *in = entered = td_cancel_new();
	pthread_t t;
	pthread_create(&t, NULL, stop_when_entered, c);

	td_auto_reply struct td_http_reply r = {0};
	struct td_error err = {0};
	const struct td_http_call hangs = {.method = "GET", .path = "/hang"}, other = {.method = "GET", .path = "/"};
	assert_int_equal(td_http_do(c, &hangs, NULL, &r, &err), TD_UNCERTAIN);
	assert_non_null(strstr(err.msg, "another server is there by now"));
	pthread_join(t, NULL);
	assert_int_equal(td_http_do(c, &other, NULL, &r, &err), TD_TRANSIENT);
	serve_stop(&s);
	assert_true(td_cancelled(in));
}

static void test_timeouts(void **state)
{
	struct served s = {0};
	serve_start(&s, &(struct td_http_server_opts){.handler = handler});
	entered = td_cancel_new();
	td_auto(td_http_client_free) struct td_http_client *c =
		client(&(struct td_http_client_opts){.base_url = s.url});

	td_auto_reply struct td_http_reply r = {0};
	assert_int_equal(get(c, "/who", &r), 0); // its connection is there: what ends in time is the call
	struct td_http_call call = {.method = "POST", .path = "/hang", .timeout_ms = 200};
	assert_int_equal(td_http_do(c, &call, NULL, &r, NULL), TD_UNCERTAIN);

	size_t n = 0;
	call = (struct td_http_call){
		.method = "GET", .path = "/trickle", .on_data = sum, .ctx = &n, .timeout_ms = 60000, .idle_ms = 500};
	int64_t t = test_now();
	assert_int_equal(td_http_do(c, &call, NULL, &r, NULL), TD_UNCERTAIN);
	assert_true(test_now() - t < 50000); // not by the other one
	assert_int_equal(n, 1);

	serve_stop(&s);
	td_cancel_unref(entered);
}

// ---- what a dying connection means ----

// A server that answers the first request of each connection if `answer` is set, and closes at the
// next. It counts the requests.
struct rude {
	int fd, port, seen;
	bool answer;
	pthread_t t;
};

static void *rude_thread(void *arg)
{
	struct rude *r = arg;
	for (;;) {
		td_auto_close int c = accept(r->fd, NULL, NULL);
		if (c < 0)
			return NULL;
		char b[4096];
		bool ok = true;
		while (ok && recv(c, b, sizeof(b), 0) > 0) {
			int n = __atomic_add_fetch(&r->seen, 1, __ATOMIC_RELAXED);
			ok = r->answer && n == 1;
			static const char say[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
			if (ok)
				(void)!write(c, say, sizeof(say) - 1);
		}
	}
}

static void rude_start(struct rude *r, bool answer)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	*r = (struct rude){.fd = socket(AF_INET, SOCK_STREAM, 0), .answer = answer};
	assert_int_equal(bind(r->fd, (struct sockaddr *)&a, n), 0);
	assert_int_equal(listen(r->fd, 8), 0);
	getsockname(r->fd, (struct sockaddr *)&a, &n);
	r->port = ntohs(a.sin_port);
	pthread_create(&r->t, NULL, rude_thread, r);
}

static void rude_stop(struct rude *r)
{
	shutdown(r->fd, SHUT_RDWR);
	pthread_join(r->t, NULL);
	close(r->fd);
}

static void test_never_twice(void **state)
{
	for (int post = 0; post < 2; post++) {
		struct rude r;

		rude_start(&r, true);
		char url[64];
		snprintf(url, sizeof(url), "http://127.0.0.1:%d", r.port);
		td_auto(td_http_client_free) struct td_http_client *c =
			client(&(struct td_http_client_opts){.base_url = url});
		struct td_http_call call = {.method = post ? "POST" : "GET",
					    .path = "/",
					    .body = post ? "x" : NULL,
					    .body_len = (size_t)post};

		td_auto_reply struct td_http_reply a = {0}, b = {0};
		struct td_error err = {0};
		assert_int_equal(td_http_do(c, &call, NULL, &a, &err), 0);
		// The reused connection dies without a byte of the reply. A write is sent once. A
		// read may be tried again (and dies again).

		assert_int_equal(td_http_do(c, &call, NULL, &b, &err), TD_UNCERTAIN);
		assert_null(b.body.s);

		td_http_client_free(td_steal(c));
		rude_stop(&r);
		if (post)
			assert_int_equal(r.seen, 2);
		else
			assert_true(r.seen > 2);
	}
	// The same on a fresh connection.
	struct rude r;
	rude_start(&r, false);
	char url[64];
	snprintf(url, sizeof(url), "http://127.0.0.1:%d", r.port);
	td_auto(td_http_client_free) struct td_http_client *c = client(&(struct td_http_client_opts){.base_url = url});

	td_auto_reply struct td_http_reply a = {0};
	assert_int_equal(td_http_do(c, &(struct td_http_call){.method = "POST", .path = "/"}, NULL, &a, NULL),
			 TD_UNCERTAIN);

	td_http_client_free(td_steal(c));
	rude_stop(&r);
	assert_int_equal(r.seen, 1);
}

// ---- the server, below what the client would send ----

// Sends a request and returns the status of the first answer, or 0 when the connection closes
// without one.
static int raw_status(int port, const char *req, size_t n)
{
	struct raw r;
	raw_open(&r, port, false);
	raw_send(&r, req, n);
	int status = raw_until(&r, "\r\n\r\n") ? atoi(td_buf_str(&r.in) + 9) : 0;
	raw_close(&r);
	return status;
}

static void test_refused(void **state)
{
	struct served s = {0};
	serve_start(&s, &(struct td_http_server_opts){.handler = handler, .max_body = 10});

	static const struct {
		int status;
		const char *req;
	} t[] = {
		{200, "GET /who HTTP/1.1\r\nHost: x\r\n\r\n"},
		{200, "\r\nGET http://x/who?a HTTP/1.1\r\nHost: x\r\n\r\n"},
		{200, "GET /who HTTP/1.0\r\n\r\n"},
		{400, "GET /who HTTP/1.1\r\n\r\n"},
		{400, "GET /who HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"},
		{400, "GET /who HTTP/1.1\nHost: x\r\n\r\n"},
		{400, "GET  /who HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET /a/../who HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET /a/%2e%2E/who HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET /a%2f..%2fwho HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET /./who HTTP/1.1\r\nHost: x\r\n\r\n"},
		{404, "GET /..a HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET /a%00 HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET /a%0 HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET /a?x=%zz HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "GET /who HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n"},
		{400, "GET /who HTTP/1.1\r\nHost : x\r\n\r\n"},
		{400,
		 "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{400, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc"},
		{400, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\nabc"},
		{400, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3, 3\r\n\r\nabc"},
		{501, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"},
		{400, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n"},
		{400, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n"},
		{400, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n"},
		{200, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nT: "
		      "x\r\n\r\n"},
		{413, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
		      "chunked\r\n\r\n6\r\nabcdef\r\n5\r\nabcde\r\n0\r\n\r\n"},
		{413, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\nabcdefghijk"},
		{417, "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: magic\r\nContent-Length: 1\r\n\r\na"},
		{505, "GET / HTTP/2.0\r\nHost: x\r\n\r\n"},
		{400, "GET / FTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "G(T / HTTP/1.1\r\nHost: x\r\n\r\n"},
	};

	for (size_t i = 0; i < TD_LEN(t); i++) {
		int got = raw_status(s.port, t[i].req, strlen(t[i].req));
		if (got != t[i].status)
			fail_msg("%d, not %d: %s", got, t[i].status, t[i].req);
	}

	static const char nul[] = "GET /a HTTP/1.1\r\nHost: x\r\nA: \0b\r\n\r\n";
	assert_int_equal(raw_status(s.port, nul, sizeof(nul) - 1), 400);

	// The answer is not lost although the body still comes.
	td_auto_buf struct td_buf late = {0};
	td_buf_puts(&late, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 600000\r\n\r\n");
	for (int i = 0; i < 600000; i++)
		td_buf_putc(&late, 'a');
	for (int i = 0; i < 20; i++)
		assert_int_equal(raw_status(s.port, late.s, late.len), 413);

	td_auto_buf struct td_buf long_head = {0};
	td_buf_puts(&long_head, "GET / HTTP/1.1\r\nHost: x\r\nA: ");
	for (int i = 0; i < 70000; i++)
		td_buf_putc(&long_head, 'a');
	assert_int_equal(raw_status(s.port, long_head.s, long_head.len), 431);

	td_buf_reset(&long_head);
	td_buf_puts(&long_head, "GET / HTTP/1.1\r\nHost: x\r\n");
	for (int i = 0; i < 200; i++)
		td_buf_printf(&long_head, "A%d: a\r\n", i);
	td_buf_puts(&long_head, "\r\n");
	assert_int_equal(raw_status(s.port, long_head.s, long_head.len), 431);

	serve_stop(&s);
}

static void test_keep_alive(void **state)
{
	struct served s = {0};
	serve_start(&s, &(struct td_http_server_opts){.handler = handler});

	struct raw r;
	raw_open(&r, s.port, false); // pipelined; the last one closes
	raw_puts(&r, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nfirstPOST /echo HTTP/1.1\r\nHost: "
		     "x\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nsecond\r\n0\r\n\r\n"
		     "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"
		     "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nthird");
	assert_true(raw_to_end(&r));
	const char *a = strstr(r.in.s, "first"), *b = strstr(r.in.s, "second"), *c = strstr(r.in.s, "\r\n0\r\n\r\n"),
		   *d = strstr(r.in.s, "third");
	assert_true(a && b && c && d && a < b && b < c && c < d);
	raw_close(&r);

	// A stream whose length is said leaves the connection as it is; one that ends before it cuts it.
	raw_open(&r, s.port, false);
	raw_puts(&r, "HEAD /sized HTTP/1.1\r\nHost: x\r\n\r\nGET /sized HTTP/1.1\r\nHost: x\r\n\r\n"
		     "GET /short HTTP/1.1\r\nHost: x\r\n\r\nGET /none HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(raw_to_end(&r));
	assert_non_null(strstr(r.in.s, "Content-Length: 10\r\n\r\nHTTP/1.1 200"));
	assert_non_null(strstr(r.in.s, "Content-Length: 10\r\n\r\n0123456789HTTP/1.1 200"));
	assert_null(strstr(r.in.s, "chunked"));
	assert_null(strstr(r.in.s, "204 No Content"));
	assert_int_equal(strcmp(r.in.s + r.in.len - 9, "\r\n\r\n01234"), 0);
	raw_close(&r);

	raw_open(&r, s.port, false);
	raw_puts(&r, "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
	assert_true(raw_until(&r, "HTTP/1.1 100 Continue\r\n\r\n"));
	raw_puts(&r, "hello");
	assert_true(raw_until(&r, "\r\n\r\nhello"));
	raw_puts(&r, "HEAD /who HTTP/1.1\r\nHost: x\r\n\r\nGET /none HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(raw_until(&r, "204 No Content"));
	// The length is that of "- uid=-1 - -", and no body follows the HEAD.
	assert_non_null(strstr(r.in.s, "Content-Length: 12\r\n\r\nHTTP/1.1 204"));
	raw_close(&r);

	serve_stop(&s);
}

static void test_slow(void **state)
{
	struct served s = {0};
	serve_start(&s, &(struct td_http_server_opts){
				.handler = handler, .header_ms = 100, .body_ms = 100, .idle_ms = 100});

	struct raw r;
	raw_open(&r, s.port, false);
	raw_puts(&r, "GET / HT");
	assert_true(raw_to_end(&r));
	assert_non_null(strstr(r.in.s, " 408 "));
	raw_close(&r);

	raw_open(&r, s.port, false);
	raw_puts(&r, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab");
	assert_true(raw_to_end(&r));
	assert_non_null(strstr(r.in.s, " 408 "));
	raw_close(&r);

	raw_open(&r, s.port, false); // idle between requests: closed silently
	raw_puts(&r, "GET /none HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(raw_to_end(&r));
	assert_null(strstr(r.in.s, " 408 "));
	raw_close(&r);

	serve_stop(&s);
}

static void *many(void *arg)
{
	for (int i = 0; i < 50; i++) {
		td_auto_reply struct td_http_reply r = {0};
		// A server may close an idle connection just as a request goes out on it: what is safe is sent again.
		struct td_http_call call = {.method = "GET", .path = "/echo", .body = "hello", .body_len = 5};
		if (td_http_do(arg, &call, NULL, &r, NULL) < 0 || r.status != 200 || r.body.len != 5)
			return arg;
	}
	return NULL;
}

// There are more connections than the server takes at once.
static void test_threads(void **state)
{
	struct served s = {0};
	struct td_http_server_opts o = tls_opts;
	o.max_conns = 4;
	o.idle_ms = 200;
	serve_start(&s, &o);
	td_auto(td_http_client_free) struct td_http_client *c =
		client(&(struct td_http_client_opts){.base_url = s.url, .ca_file = ca});

	pthread_t t[8];
	for (int i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, many, c);

	for (int i = 0; i < 8; i++) {
		void *bad;
		pthread_join(t[i], &bad);
		assert_null(bad);
	}
	serve_stop(&s);
}

// The client's FIN reaches the handler, over TLS too.
static void test_peer_gone(void **state)
{
	for (int tls = 0; tls < 2; tls++) {
		struct served s = {0};
		struct td_http_server_opts o = tls_opts, plain = {.handler = handler};
		entered = td_cancel_new();
		left = td_cancel_new();
		serve_start(&s, tls ? &o : &plain);

		struct raw r;
		raw_open(&r, s.port, tls);
		raw_puts(&r, "GET /hang HTTP/1.1\r\nHost: x\r\n\r\n");
		assert_int_equal(td_cancel_wait(entered, 60000), TD_CANCELLED);
		assert_int_equal(td_cancel_wait(left, 20), 0); // not before
		raw_close(&r);
		assert_int_equal(td_cancel_wait(left, 60000), TD_CANCELLED);
		serve_stop(&s);
		td_cancel_unref(entered);
		left = td_cancel_unref(left);
	}
}

// The server stops with idle, half-open and streaming connections.
static void test_stop(void **state)
{
	struct served s = {0};
	serve_start(&s, &tls_opts);
	entered = td_cancel_new();

	struct raw idle, half, stream;
	raw_open(&idle, s.port, true);
	raw_open(&half, s.port, false); // no handshake
	raw_open(&stream, s.port, true);
	raw_puts(&stream, "GET /trickle HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(raw_until(&stream, "\r\n1\r\na"));

	int64_t t = test_now();
	serve_stop(&s);
	assert_true(test_now() - t < 9000); // a handshake has 10 s, a head too

	raw_close(&idle);
	raw_close(&half);
	raw_close(&stream);
	td_cancel_unref(entered);
}

// What a relay waits for may be on a node that vanishes: the kernel finds that out.
static void test_far_alive(void **state)
{
	struct served s = {0};
	struct td_http_server_opts plain = {.handler = handler};
	serve_start(&s, &plain);
	int on = 0, idle = 0, fd = td_http_far_dial("127.0.0.1", s.port, 5);
	socklen_t n = sizeof(on), m = sizeof(idle);
	assert_true(fd >= 0);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &n), 0);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, &m), 0);
	assert_true(on && idle <= 60);
	close(fd);
	serve_stop(&s);
}

int main(void)
{
	setup_files();
	const struct CMUnitTest t[] = {
		cmocka_unit_test(test_plain),     cmocka_unit_test(test_tls),
		cmocka_unit_test(test_stranger),  cmocka_unit_test(test_unix),
		cmocka_unit_test(test_cancel),    cmocka_unit_test(test_client_stop),
		cmocka_unit_test(test_timeouts),  cmocka_unit_test(test_never_twice),
		cmocka_unit_test(test_refused),   cmocka_unit_test(test_keep_alive),
		cmocka_unit_test(test_slow),      cmocka_unit_test(test_threads),
		cmocka_unit_test(test_peer_gone), cmocka_unit_test(test_stop),
		cmocka_unit_test(test_far_alive), cmocka_unit_test(test_renewed),
	};
	int rc = cmocka_run_group_tests(t, NULL, NULL);
	td_rm_rf(dir, NULL);
	free(crt);
	free(key);
	free(ca);
	free(admin_crt);
	free(admin_key);
	return rc;
}
