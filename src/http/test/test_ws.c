// Unit tests of WebSockets: the frames of the RFC, an echo over TLS, and both through the relay,
// with a stream and what must not pass it.
// rows: F1.4
#include "http/head.h"
#include "http/test/raw.h"
#include "http/test/serve.h"
#include "http/ws_frame.h"

#include <stdlib.h>
#include <sys/un.h>

static char dir[64];
static char *crt, *key, *sock, *recorded_at;
static int recorder;
static struct td_cancel *gone, *entered; // the handler's peer went; it began
static struct td_cancel *cut;            // ends what the relay does

// ---- frames ----

static int head(const char *bytes, size_t n, struct td_ws_frame *f)
{
	return td_ws_frame_head(bytes, n, f);
}

static void test_frames(void **state)
{
	struct td_ws_frame f = {0};
	char hello[] = "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"; // RFC 6455 §5.7
	for (size_t n = 0; n < 6; n++)
		assert_int_equal(head(hello, n, &f), 0);
	assert_int_equal(head(hello, 11, &f), 6);
	assert_true(f.fin && f.op == TD_WS_TEXT && f.len == 5);
	td_ws_mask(hello + 6, 2, f.mask, 0); // in two parts
	td_ws_mask(hello + 8, 3, f.mask, 2);
	assert_memory_equal(hello + 6, "Hello", 5);

	static const struct {
		const char *b;
		size_t n;
	} bad[] = {
		{"\x81\x05Hello", 7}, // unmasked
		{"\xc1\x80....", 6},  // reserved bit
		{"\x83\x80....", 6},
		{"\x8b\x80....", 6},                      // unknown opcodes
		{"\x09\x80....", 6},                      // ping in parts
		{"\x89\xfe\x00\x7e....", 8},              // long ping
		{"\x82\xfe\x00\x7d....", 8},              // length not in the shortest form
		{"\x82\xff\0\0\0\0\0\0\xff\xff....", 14}, // the same
		{"\x82\xff\x80\0\0\0\0\1\0\0....", 14},   // top bit
	};

	for (size_t i = 0; i < TD_LEN(bad); i++)
		if (head(bad[i].b, bad[i].n, &f) != -1)
			fail_msg("accepted: %zu", i);

	assert_int_equal(head("\x82\xfe\x01\x00....", 8, &f), 8);
	assert_int_equal(f.len, 256);
	assert_int_equal(head("\x82\xff\0\0\0\0\0\1\0\0....", 14, &f), 14);
	assert_int_equal(f.len, 65536);

	uint8_t out[TD_WS_HEAD_MAX];
	assert_int_equal(td_ws_frame_put(out, TD_WS_BINARY, 256), 4);
	assert_memory_equal(out, "\x82\x7e\x01\x00", 4);
	assert_int_equal(td_ws_frame_put(out, TD_WS_BINARY, 65536), 10);
	assert_memory_equal(out, "\x82\x7f\0\0\0\0\0\1\0\0", 10);

	assert_true(td_utf8_valid("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 10));
	static const char *const not_utf8[] = {"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
					       "\xe2\x82", "\x80",         "\xf8\x88\x80\x80\x80"};
	for (size_t i = 0; i < TD_LEN(not_utf8); i++)
		assert_false(td_utf8_valid(not_utf8[i], strlen(not_utf8[i])));
}

// ---- servers ----

static struct td_ws *shared_ws;

static void *send_many(void *arg)
{
	char text[] = "T?";
	text[1] = *(char *)arg;
	for (int i = 0; i < 200; i++)
		if (td_ws_send(shared_ws, false, text, 2, NULL) < 0)
			break;
	return NULL;
}

static void backend(struct td_http_x *x, void *ctx)
{
	static const char *const protocols[] = {"v5.test", "v4.test", NULL};

	struct td_error err = {0};
	if (td_streq(td_http_path(x), "/log")) {
		td_http_stream_begin(x, 200, "text/plain", &err);
		td_http_stream_write(x, "line\n", 5, &err);
		td_cancel_fire(entered);
		if (td_http_query(x, "follow") && td_cancel_wait(td_http_cancel(x), 10000) == TD_CANCELLED)
			td_cancel_fire(gone);
		return;
	}

	if (!td_starts(td_http_path(x), "/ws")) {
		td_auto_buf struct td_buf b = {0};
		size_t n;
		const char *body = td_http_body(x, &n);
		td_buf_printf(&b, "%s %s auth=%s n=%zu sum=%d", td_http_method(x), td_http_target(x),
			      td_http_header(x, "Authorization") ? "yes" : "no", n, n ? body[n - 1] : 0);
		td_http_send(x, 200, "text/plain", b.s, b.len);
		return;
	}

	struct td_ws *ws;
	const char *proto;
	if (td_ws_accept(x, protocols, &ws, &proto, &err) < 0)
		return;
	td_ws_send(ws, false, proto, strlen(proto), &err);

	for (;;) {
		td_auto_buf struct td_buf m = {0};
		bool binary;
		if (td_ws_recv(ws, NULL, &m, &binary, &err) < 0)
			break;
		if (td_streq(td_buf_str(&m), "bye")) {
			td_ws_close(ws, 1000);
			return;
		}
		if (td_streq(td_buf_str(&m), "many")) {
			pthread_t a, b;
			shared_ws = ws;
			pthread_create(&a, NULL, send_many, "a");
			pthread_create(&b, NULL, send_many, "b");
			pthread_join(a, NULL);
			pthread_join(b, NULL);
			continue;
		}
		if (td_ws_send(ws, binary, td_buf_str(&m), m.len, &err) < 0)
			break;
	}

	if (err.code == TD_NOT_FOUND)
		td_cancel_fire(gone);
}

static void front(struct td_http_x *x, void *ctx)
{
	if (td_streq(td_http_path(x), "/recorded")) {
		td_http_relay(x, recorded_at, "/recorded");
		return;
	}
	if (td_streq(td_http_path(x), "/strict")) {
		static const char *const only[] = {"Sec-WebSocket-", "Accept", NULL};
		const struct td_http_far far = {.target = "/there",
						.authorization = "Bearer ours",
						.only = only,
						.host = "far:6443",
						.stop = cut};
		struct sockaddr_un sa = {.sun_family = AF_UNIX};
		strcpy(sa.sun_path, recorded_at);
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);
		assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
		td_http_relay_on(x, fd, &far);
		return;
	}
	if (td_streq(td_http_path(x), "/dead"))
		td_http_relay(x, "/nowhere/at/all", "/");
	else
		td_http_relay(x, sock, td_http_target(x));
}

// ---- a client ----

static void ws_put(struct raw *r, int first_byte, const void *p, size_t n)
{
	td_auto_buf struct td_buf b = {0};
	td_buf_putc(&b, (char)first_byte);
	if (n < 126) {
		td_buf_putc(&b, (char)(0x80 | n));
	} else if (n < 65536) {
		unsigned char e[] = {0x80 | 126, (unsigned char)(n >> 8), (unsigned char)n};
		td_buf_add(&b, e, 3);
	} else {
		unsigned char e[] = {0x80 | 127,
				     0,
				     0,
				     0,
				     0,
				     (unsigned char)(n >> 24),
				     (unsigned char)(n >> 16),
				     (unsigned char)(n >> 8),
				     (unsigned char)n};
		td_buf_add(&b, e, 9);
	}

	const uint8_t mask[4] = {1, 2, 3, 4};
	td_buf_add(&b, mask, 4);
	size_t at = b.len;
	td_buf_add(&b, p, n);
	td_ws_mask(b.s + at, n, mask, 0);
	raw_send(r, b.s, b.len);
}

// Returns the next frame as "<first byte in hex>:payload", or NULL at the end. The caller frees it.
static char *ws_get(struct raw *r, size_t *ret_len)
{
	for (;;) {
		const unsigned char *p = (const unsigned char *)td_buf_str(&r->in);
		size_t have = r->in.len, h = have < 2 ? 2 : p[1] == 126 ? 4 : p[1] == 127 ? 10 : 2, n = 0;
		if (have >= h && h == 2)
			n = p[1];
		for (size_t i = 2; have >= h && i < h; i++)
			n = n << 8 | p[i];
		if (have >= h + n) {
			char *s = td_malloc(n + 4);
			snprintf(s, 4, "%02x:", p[0]);
			memcpy(s + 3, p + h, n);
			s[3 + n] = 0;
			if (ret_len)
				*ret_len = n;
			memmove(r->in.s, r->in.s + h + n, have - h - n);
			r->in.len -= h + n;
			r->in.s[r->in.len] = 0;
			return s;
		}

		if (!raw_more(r))
			return NULL;
	}
}

#define expect(r, text)                                                                                                \
	do {                                                                                                           \
		td_auto_free char *f_ = ws_get(r, NULL);                                                               \
		assert_non_null(f_);                                                                                   \
		assert_string_equal(f_, text);                                                                         \
	} while (0)

#define UPGRADE                                                                                                        \
	"Host: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "                  \
	"13\r\nSec-WebSocket-Key: "                                                                                    \
	"dGhlIHNhbXBsZSBub25jZQ==\r\n"

static void ws_open(struct raw *r, int port, bool tls)
{
	raw_open(r, port, tls);
	raw_puts(r, "GET /ws HTTP/1.1\r\n" UPGRADE
		    "Sec-WebSocket-Protocol: v9.test, v4.test\r\nSec-WebSocket-Protocol: v5.test\r\n\r\n");
	assert_true(raw_until(r, "\r\n\r\n"));
	assert_true(td_starts(r->in.s, "HTTP/1.1 101 "));
	// The example of RFC 6455 §1.3.
	assert_non_null(strstr(r->in.s, "\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
	assert_non_null(strstr(r->in.s, "\r\nSec-WebSocket-Protocol: v5.test\r\n"));
	size_t n = td_head_find(r->in.s, r->in.len);
	memmove(r->in.s, r->in.s + n, r->in.len - n);
	r->in.len -= n;
	r->in.s[r->in.len] = 0;
	expect(r, "81:v5.test");
}

static void echo(int port, bool tls)
{
	struct raw r;
	ws_open(&r, port, tls);

	ws_put(&r, 0x81, "hello", 5);
	expect(&r, "81:hello");
	ws_put(&r, 0x82, "", 0);
	expect(&r, "82:");

	ws_put(&r, 0x01, "in ", 3); // in parts, with a ping in between
	ws_put(&r, 0x89, "p", 1);
	ws_put(&r, 0x00, "three ", 6);
	ws_put(&r, 0x80, "parts", 5);
	expect(&r, "8a:p");
	expect(&r, "81:in three parts");

	td_auto_buf struct td_buf big = {0};
	for (int i = 0; i < 3000000; i++)
		td_buf_putc(&big, (char)('a' + i % 23));
	ws_put(&r, 0x82, big.s, big.len);
	size_t n;
	td_auto_free char *back = ws_get(&r, &n);
	assert_non_null(back);
	assert_int_equal(n, big.len);
	assert_memory_equal(back + 3, big.s, n);

	ws_put(&r, 0x81, "many", 4);
	for (int i = 0; i < 400; i++) {
		td_auto_free char *f = ws_get(&r, NULL);
		assert_non_null(f);
		assert_true(td_streq(f, "81:Ta") || td_streq(f, "81:Tb"));
	}

	ws_put(&r, 0x88, "\x03\xe8", 2); // close handshake
	expect(&r, "88:\x03\xe8");
	assert_null(ws_get(&r, NULL));
	raw_close(&r);

	ws_open(&r, port, tls); // the server closes
	ws_put(&r, 0x81, "bye", 3);
	expect(&r, "88:\x03\xe8");
	ws_put(&r, 0x81, "late", 4);
	ws_put(&r, 0x88, "\x03\xe8", 2);
	assert_null(ws_get(&r, NULL));
	raw_close(&r);
}

static void violations(int port, bool tls)
{
	static const struct {
		const char *send;
		size_t n;
		const char *close;
	} t[] = {
		{"\x81\x02hi", 4, "88:\x03\xea"},                          // unmasked: 1002
		{"\x80\x80\0\0\0\0", 6, "88:\x03\xea"},                    // lone continuation
		{"\x01\x80\0\0\0\0\x81\x80\0\0\0\0", 12, "88:\x03\xea"},   // nested message
		{"\x81\x81\0\0\0\0\xff", 7, "88:\x03\xef"},                // not UTF-8: 1007
		{"\x82\xff\0\0\0\0\0\x40\0\1\0\0\0\0", 14, "88:\x03\xf1"}, // 4 MiB + 1: 1009
		{"\x88\x82\0\0\0\0\x03\xed", 8, "88:\x03\xea"},            // 1005 on the wire
	};

	for (size_t i = 0; i < TD_LEN(t); i++) {
		struct raw r;
		ws_open(&r, port, tls);
		raw_send(&r, t[i].send, t[i].n);
		expect(&r, t[i].close);
		raw_close(&r);
	}
}

static void refusals(int port, bool tls)
{
	static const struct {
		int status;
		const char *req;
	} t[] = {
		{403, "GET /ws HTTP/1.1\r\n" UPGRADE "Sec-WebSocket-Protocol: v9.test\r\n\r\n"},
		{403, "GET /ws HTTP/1.1\r\n" UPGRADE "\r\n"},
		{400, "GET /ws HTTP/1.1\r\nHost: x\r\n\r\n"},
		{400, "POST /ws HTTP/1.1\r\n" UPGRADE "Sec-WebSocket-Protocol: v5.test\r\n\r\n"},
	};

	for (size_t i = 0; i < TD_LEN(t); i++) {
		struct raw r;
		raw_open(&r, port, tls);
		raw_puts(&r, t[i].req);
		assert_true(raw_until(&r, "\r\n\r\n"));
		assert_int_equal(atoi(r.in.s + 9), t[i].status);
		raw_close(&r);
	}
}

// A client that vanishes is noticed at the far end.
static void disconnect(int port, bool tls)
{
	gone = td_cancel_new();
	struct raw r;
	ws_open(&r, port, tls);
	raw_close(&r);
	assert_int_equal(td_cancel_wait(gone, 60000), TD_CANCELLED);
}

struct both {
	struct served back, front;
};

static void both_start(struct both *b)
{
	memset(b, 0, sizeof(*b));
	td_auto_free char *spec = td_asprintf("unix:%s", sock);
	const char *listen[] = {spec, NULL};
	serve_start(&b->back, &(struct td_http_server_opts){.handler = backend, .listen = listen});
	serve_start(&b->front, &(struct td_http_server_opts){.handler = front, .cert_file = crt, .key_file = key});
	gone = entered = NULL;
}

static void both_stop(struct both *b)
{
	serve_stop(&b->front);
	serve_stop(&b->back);
}

static void test_ws(void **state)
{
	for (int tls = 0; tls < 2; tls++) {
		struct served s = {0};
		serve_start(&s, &(struct td_http_server_opts){.handler = backend,
							      .cert_file = tls ? crt : NULL,
							      .key_file = tls ? key : NULL});
		gone = td_cancel_new();
		struct td_cancel *first = gone;
		echo(s.port, tls);
		violations(s.port, tls);
		refusals(s.port, tls);
		disconnect(s.port, tls);
		// This session is open when the server stops.
		struct raw open;
		ws_open(&open, s.port, tls);

		int64_t t = test_now();
		serve_stop(&s);
		assert_true(test_now() - t < 9000); // a write has 30 s, who is idle 120 s
		raw_close(&open);
		td_cancel_unref(first);
		td_cancel_unref(gone);
	}
}

static void test_relay_ws(void **state)
{
	struct both b;
	both_start(&b);
	gone = td_cancel_new();
	struct td_cancel *first = gone;
	echo(b.front.port, true);
	violations(b.front.port, true);
	refusals(b.front.port, true);
	disconnect(b.front.port, true);
	both_stop(&b);
	td_cancel_unref(first);
	td_cancel_unref(gone);
}

static void test_relay_http(void **state)
{
	struct both b;
	both_start(&b);
	entered = td_cancel_new();
	gone = td_cancel_new();

	struct raw r;
	// Neither the header of the authorised user nor what comes after the request passes.
	raw_open(&r, b.front.port, true);
	raw_puts(&r, "GET /x%20y?q=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\n\r\nGET /second "
		     "HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(raw_to_end(&r));
	assert_non_null(strstr(r.in.s, "\r\n\r\nGET /x%20y?q=1 auth=no n=0 sum=0"));
	assert_null(strstr(r.in.s, "second"));
	raw_close(&r);

	// A refused upgrade does not open the way either.
	raw_open(&r, b.front.port, true);
	raw_puts(&r, "GET /y HTTP/1.1\r\n" UPGRADE "\r\nGET /second HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(raw_to_end(&r));
	assert_non_null(strstr(r.in.s, "GET /y auth=no"));
	assert_null(strstr(r.in.s, "second"));
	raw_close(&r);

	td_auto_buf struct td_buf post = {0};
	td_buf_puts(&post, "POST /up HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2000000\r\n\r\n");
	for (int i = 0; i < 2000000; i++)
		td_buf_putc(&post, (char)(i % 100));
	raw_open(&r, b.front.port, true);
	raw_send(&r, post.s, post.len);
	assert_true(raw_to_end(&r));
	assert_non_null(strstr(td_buf_str(&r.in), "POST /up auth=no n=2000000 sum=99"));
	raw_close(&r);

	raw_open(&r, b.front.port, true);
	raw_puts(&r, "GET /log HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(raw_to_end(&r));
	assert_true(td_ends(r.in.s, "5\r\nline\n\r\n0\r\n\r\n"));
	raw_close(&r);

	raw_open(&r, b.front.port, true);
	raw_puts(&r, "GET /log?follow=1 HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(raw_until(&r, "line\n"));
	raw_close(&r);
	// The reader of a log that nobody writes is noticed when it goes.
	assert_int_equal(td_cancel_wait(gone, 60000), TD_CANCELLED);

	raw_open(&r, b.front.port, true);
	raw_puts(&r, "GET /dead HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(raw_until(&r, "\r\n\r\n"));
	assert_true(td_starts(r.in.s, "HTTP/1.1 502 "));
	raw_close(&r);

	both_stop(&b);
	td_cancel_unref(entered);
	td_cancel_unref(gone);
}

static void recorder_open(const char *name)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	recorded_at = td_asprintf("%s/%s", dir, name);
	strcpy(sa.sun_path, recorded_at);
	recorder = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(recorder, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(recorder, 4), 0);
}

// A backend that records everything it receives, answers the first head and stays.
static void *record(void *arg)
{
	struct td_buf *b = arg;
	td_auto_close int c = accept(recorder, NULL, NULL);
	char p[4096];
	ssize_t k;
	bool said = false;
	while ((k = recv(c, p, sizeof(p), 0)) > 0) {
		td_buf_add(b, p, (size_t)k);
		if (!said && strstr(b->s, "\r\n\r\n")) {
			static const char say[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
			(void)!write(c, say, sizeof(say) - 1);
			said = true;
		}
	}
	return NULL;
}

// What comes after the authorised request does not pass the relay.
static void test_relay_smuggle(void **state)
{
	struct both b;
	both_start(&b);

	recorder_open("rec.sock");

	// A plain request, and an upgrade that is not granted.
	static const char *const heads[] = {"Host: x\r\n", UPGRADE};
	for (size_t i = 0; i < TD_LEN(heads); i++) {
		td_auto_buf struct td_buf got = {0};
		pthread_t t;
		pthread_create(&t, NULL, record, &got);
		struct raw r;
		raw_open(&r, b.front.port, true);
		td_auto_free char *req = td_asprintf(
			"GET /recorded HTTP/1.1\r\n%s\r\nGET /second HTTP/1.1\r\nHost: x\r\n\r\n", heads[i]);
		raw_puts(&r, req);
		assert_true(raw_until(&r, "ok"));
		raw_puts(&r, "third");
		raw_close(&r);
		pthread_join(t, NULL); // the recorder saw the end
		assert_non_null(strstr(got.s, "GET /recorded"));
		assert_null(strstr(got.s, "second"));
		assert_null(strstr(got.s, "third"));
	}
	// Where somebody else's identity goes with it, nothing goes with it that this one could be made to mean.
	td_auto_buf struct td_buf got = {0};
	pthread_t t;
	pthread_create(&t, NULL, record, &got);
	struct raw r;
	raw_open(&r, b.front.port, true);
	raw_puts(&r, "GET /strict HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer theirs\r\nImpersonate-User: "
		     "root\r\nCookie: a=b\r\n"
		     "X-Remote-User: root\r\nAccept: */*\r\nSec-WebSocket-Version: 13\r\n"
		     "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n");
	assert_true(raw_until(&r, "ok"));
	raw_close(&r);
	pthread_join(t, NULL);
	assert_string_equal(td_buf_str(&got),
			    "GET /there HTTP/1.1\r\nAuthorization: Bearer ours\r\nAccept: */*\r\n"
			    "Sec-WebSocket-Version: 13\r\nHost: far:6443\r\nConnection: close\r\n\r\n");
	both_stop(&b);
	close(recorder);
	free(recorded_at);
}

// Says more than anybody reads, until the relay has gone.
static void *flood(void *arg)
{
	static const char head[] = "HTTP/1.1 200 OK\r\n\r\n";
	td_auto_close int c = accept(recorder, NULL, NULL);
	td_auto_free char *much = td_calloc(1, 65536);
	(void)!send(c, head, sizeof(head) - 1, MSG_NOSIGNAL);
	while (send(c, much, 65536, MSG_NOSIGNAL) > 0)
		;
	td_cancel_fire(gone);
	return NULL;
}

// A client that reads nothing keeps nobody who ends the exchange from its end: `kubectl logs -f | less`, and its link goes.
static void test_relay_cut(void **state)
{
	struct both b;
	both_start(&b);
	gone = td_cancel_new();
	cut = td_cancel_new();
	recorder_open("rec2.sock");
	pthread_t t;
	pthread_create(&t, NULL, flood, NULL);
	struct raw r;
	raw_open(&r, b.front.port, true);
	raw_puts(&r, "GET /strict HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(raw_until(&r, "\r\n\r\n"));
	td_cancel_fire(cut);
	assert_int_equal(td_cancel_wait(gone, 60000), TD_CANCELLED);
	pthread_join(t, NULL);
	raw_close(&r);
	both_stop(&b);
	close(recorder);
	free(recorded_at);
	td_cancel_unref(gone);
	td_cancel_unref(cut);
	gone = cut = NULL;
}

// Pings and their answers are no sign of a person; what a program sends in pieces counts once it is there.
static void test_seen(void **state)
{
	static const char ping[] = "\x89\x82\1\2\3\4ab", pong[] = "\x8a\x80\1\2\3\4", text[] = "\x81\x83\1\2\3\4abc";
	struct td_ws_seen s = {0};
	assert_false(td_ws_seen_data(&s, ping, sizeof(ping) - 1));
	assert_false(td_ws_seen_data(&s, pong, sizeof(pong) - 1));
	assert_true(td_ws_seen_data(&s, text, sizeof(text) - 1));
	for (size_t i = 0; i < sizeof(ping) - 1; i++)
		assert_false(td_ws_seen_data(&s, ping + i, 1));
	for (size_t i = 0; i < sizeof(text) - 1; i++)
		assert_int_equal(td_ws_seen_data(&s, text + i, 1), i >= 5);
	assert_false(td_ws_seen_data(&s, ping, sizeof(ping) - 1));
	// What is no frame at all is not taken for silence.
	assert_true(td_ws_seen_data(&s, "\xff\xff", 2));
	assert_true(td_ws_seen_data(&s, ping, sizeof(ping) - 1));
}

int main(void)
{
	strcpy(dir, "/tmp/td-ws-XXXXXX");
	const char *sans[] = {"127.0.0.1", NULL};
	if (!mkdtemp(dir) || td_pki_ca_ensure(dir, "test", NULL) < 0 ||
	    td_pki_issue(dir,
			 &(struct td_pki_cert){.file = "srv", .cn = "srv", .sans = sans, .server = true, .days = 10},
			 NULL) < 0)
		return 1;

	crt = td_asprintf("%s/srv.crt", dir);
	key = td_asprintf("%s/srv.key", dir);
	sock = td_asprintf("%s/back.sock", dir);
	const struct CMUnitTest t[] = {cmocka_unit_test(test_frames),     cmocka_unit_test(test_seen),
				       cmocka_unit_test(test_ws),         cmocka_unit_test(test_relay_ws),
				       cmocka_unit_test(test_relay_http), cmocka_unit_test(test_relay_smuggle),
				       cmocka_unit_test(test_relay_cut)};
	int rc = cmocka_run_group_tests(t, NULL, NULL);
	td_rm_rf(dir, NULL);
	free(crt);
	free(key);
	free(sock);
	return rc;
}
