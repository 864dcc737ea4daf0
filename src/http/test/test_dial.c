// Unit tests of a WebSocket's client end: it comes in, plain and by TLS, is refused, and is cut.
// rows: F1.4 D3.3
#include "http/dial.h"
#include "http/test/serve.h"
#include "http/ws_frame.h"

#include "base/file.h"
#include "http/pki.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char dir[64];
static char *crt, *key, *ca;

static void far_end(struct td_http_x *x, void *ctx)
{
	static const char *const protocols[] = {"test", NULL};
	struct td_error err = {0};
	struct td_ws *ws;
	if (td_streq(td_http_path(x), "/refused")) {
		td_http_send(x, 404, "text/plain", "not here", 8);
		return;
	}
	if (!td_streq(td_http_header(x, "Authorization"), "Bearer secret") ||
	    !td_streq(td_http_header(x, "X-Own"), "yes")) {
		td_http_send(x, 401, "text/plain", "who?", 4);
		return;
	}
	if (td_ws_accept(x, protocols, &ws, NULL, &err) < 0)
		return;
	for (;;) {
		td_auto_buf struct td_buf m = {0};
		bool binary;
		if (td_ws_recv(ws, NULL, &m, &binary, &err) < 0)
			return;
		if (td_streq(td_buf_str(&m), "text"))
			td_ws_send(ws, false, "a text", 6, &err);
		else if (td_streq(td_buf_str(&m), "bye")) {
			td_ws_close(ws, 1000);
			return;
		} else
			td_ws_send(ws, binary, td_buf_str(&m), m.len, &err);
	}
}

static void *fire(void *c)
{
	td_cancel_fire(c);
	return NULL;
}

static void receive(struct td_ws_far *w, struct td_buf *m, bool *binary)
{
	struct td_error err = {0};
	td_buf_reset(m);
	if (td_ws_far_recv(w, NULL, m, binary, &err))
		fail_msg("%s", err.msg);
}

static void test_dial(void **state)
{
	static const char *const own[] = {"X-Own: yes", NULL};
	for (int tls = 0; tls < 2; tls++) {
		struct served s = {0};
		struct td_error err = {0};
		serve_start(&s, &(struct td_http_server_opts){.handler = far_end,
							      .cert_file = tls ? crt : NULL,
							      .key_file = tls ? key : NULL});
		const struct td_http_client_opts o = {
			.base_url = s.url, .ca_file = tls ? ca : NULL, .bearer = "secret"};
		td_auto(td_http_client_free) struct td_http_client *c = NULL;
		assert_int_equal(td_http_client_new(&o, &c, &err), 0);
		td_auto(td_ws_far_free) struct td_ws_far *w = NULL;
		td_auto_reply struct td_http_reply no = {0}, other = {0};
		td_auto_buf struct td_buf m = {0}, big = {0};
		bool binary;

		// Refusals are replies.
		assert_int_equal(td_ws_dial(c, &(struct td_ws_dial){"/refused", "test", own}, NULL, &w, &no, &err), 0);
		assert_true(!w && no.status == 404 && td_streq(td_buf_str(&no.body), "not here"));
		assert_int_equal(td_ws_dial(c, &(struct td_ws_dial){"/", "other", own}, NULL, &w, &other, &err), 0);
		assert_true(!w && other.status == 403);

		assert_int_equal(td_ws_dial(c, &(struct td_ws_dial){"/", "test", own}, NULL, &w, &no, &err), 0);
		for (size_t i = 0; i < 3000000; i++)
			td_buf_putc(&big, (char)(i * 7 >> 3));
		static const size_t sizes[] = {0, 1, 125, 126, 65535, 65536, 3000000};
		for (size_t i = 0; i < TD_LEN(sizes); i++) {
			assert_int_equal(td_ws_far_send(w, td_buf_str(&big), sizes[i], NULL, &err), 0);
			receive(w, &m, &binary);
			assert_true(binary && m.len == sizes[i] && !memcmp(td_buf_str(&m), td_buf_str(&big), m.len));
		}
		td_ws_far_send(w, "text", 4, NULL, &err);
		receive(w, &m, &binary);
		assert_true(!binary && td_streq(td_buf_str(&m), "a text"));

		td_auto(td_cancel_unref) struct td_cancel *stop = td_cancel_new();
		pthread_t t;
		pthread_create(&t, NULL, fire, stop);
		assert_int_equal(td_ws_far_recv(w, stop, &m, &binary, &err), TD_CANCELLED);
		pthread_join(t, NULL);
		// It goes on after that, also when nothing came in time, until it is closed.
		td_ws_far_within(w, 1);
		assert_int_equal(td_ws_far_recv(w, NULL, &m, &binary, &err), TD_TRANSIENT);
		td_ws_far_within(w, -1);
		td_ws_far_send(w, "bye", 3, NULL, &err);
		assert_int_equal(td_ws_far_recv(w, NULL, &m, &binary, &err), TD_NOT_FOUND);
		assert_int_equal(td_ws_far_recv(w, NULL, &m, &binary, &err), TD_NOT_FOUND);
		assert_int_equal(td_ws_far_send(w, "x", 1, NULL, &err), TD_NOT_FOUND);
		w = td_ws_far_free(w);

		// The server stops under it, and is gone.
		assert_int_equal(td_ws_dial(c, &(struct td_ws_dial){"/", "test", own}, NULL, &w, &no, &err), 0);
		serve_stop(&s);
		assert_int_equal(td_ws_far_recv(w, NULL, &m, &binary, &err), TD_NOT_FOUND);
		w = td_ws_far_free(w);
		assert_int_equal(td_ws_dial(c, &(struct td_ws_dial){"/", "test", own}, NULL, &w, &no, &err),
				 TD_TRANSIENT);
	}
}

// A server that sends pings and reads nothing. When nothing more goes out, the client has stopped reading: it stands
// in an answer that nobody takes.
struct flood {
	int listener;
	struct td_cancel *stop;
};
static void *pings(void *arg)
{
	struct flood *f = arg;
	char in[4096], ping[127] = {(char)0x89, 125};
	size_t n = 0;
	ssize_t k;
	uint8_t sum[20];
	td_auto_buf struct td_buf accept = {0}, answer = {0};
	td_auto_close int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
	const struct timeval second = {1, 0};
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof(second));
	while (n < sizeof(in) - 1 && (k = read(fd, in + n, sizeof(in) - 1 - n)) > 0 && (n += (size_t)k)) {
		in[n] = '\0';
		if (strstr(in, "\r\n\r\n"))
			break;
	}
	const char *sent = strstr(in, "Sec-WebSocket-Key: ");
	td_auto_free char *salted = td_asprintf("%.24s258EAFA5-E914-47DA-95CA-C5AB0DC85B11",
						sent ? sent + strlen("Sec-WebSocket-Key: ") : "");
	gnutls_hash_fast(GNUTLS_DIG_SHA1, salted, strlen(salted), sum);
	td_base64(&accept, sum, sizeof(sum));
	td_buf_printf(&answer, "HTTP/1.1 101 Yes\r\nSec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: test\r\n\r\n",
		      td_buf_str(&accept));
	if (td_write_all(fd, td_buf_str(&answer), answer.len, NULL) == 0)
		while (send(fd, ping, sizeof(ping), MSG_NOSIGNAL) == sizeof(ping))
			;
	td_cancel_fire(f->stop);
	poll(&(struct pollfd){fd, POLLRDHUP, 0}, 1, -1); // until it has gone
	return NULL;
}

static void test_cancelled_in_an_answer(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	td_auto(td_cancel_unref) struct td_cancel *stop = td_cancel_new();
	td_auto_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct flood f = {fd, stop};
	struct td_error err = {0};
	pthread_t t;
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)) + listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	assert_int_equal(pthread_create(&t, NULL, pings, &f), 0);

	td_auto_free char *url = td_asprintf("http://127.0.0.1:%d", ntohs(at.sin_port));
	td_auto(td_http_client_free) struct td_http_client *c = NULL;
	assert_int_equal(td_http_client_new(&(struct td_http_client_opts){.base_url = url}, &c, &err), 0);
	td_auto(td_ws_far_free) struct td_ws_far *w = NULL;
	td_auto_reply struct td_http_reply no = {0};
	td_auto_buf struct td_buf m = {0};
	bool binary;
	assert_int_equal(td_ws_dial(c, &(struct td_ws_dial){"/", "test", NULL}, NULL, &w, &no, &err), 0);
	assert_int_equal(td_ws_far_recv(w, stop, &m, &binary, &err), TD_CANCELLED);
	w = td_ws_far_free(w);
	pthread_join(t, NULL);
}

static void test_answer(void **state)
{
	static const char good[] = "HTTP/1.1 101 Switching Protocols\r\nsec-websocket-accept:  abc \r\n"
				   "Sec-WebSocket-Protocol: test\r\n\r\nrest";
	struct td_ws_answer a = {0};
	size_t head = sizeof(good) - 1 - 4;
	for (size_t n = 0; n < head; n++)
		assert_int_equal(td_ws_answer_read(good, n, "abc", "test", &a), 0);
	assert_int_equal(td_ws_answer_read(good, sizeof(good) - 1, "abc", "test", &a), head);
	assert_true(a.status == 101 && a.length == -1);
	assert_int_equal(td_ws_answer_read(good, sizeof(good) - 1, "abd", "test", &a), -1);
	assert_int_equal(td_ws_answer_read(good, sizeof(good) - 1, "abc", "tes", &a), -1);
	static const char no[] = "HTTP/1.1 404 Not Found\r\nContent-Length: 12\r\n\r\n";
	assert_int_equal(td_ws_answer_read(no, sizeof(no) - 1, "abc", "test", &a), sizeof(no) - 1);
	assert_true(a.status == 404 && a.length == 12);
	static const char *const bad[] = {"SSH-2.0-x\r\n",
					  "HTTP/1.1 4x4 no\r\n\r\n",
					  "HTTP/1.1 000 no\r\n\r\n",
					  "HTTP/1.1 \r\n\r\n",
					  "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
					  "HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999\r\n\r\n"};
	for (size_t i = 0; i < TD_LEN(bad); i++)
		if (td_ws_answer_read(bad[i], strlen(bad[i]), "abc", "test", &a) != -1)
			fail_msg("accepted: %s", bad[i]);

	struct td_ws_frame f = {0};
	assert_int_equal(td_ws_frame_head_plain("\x82\x05Hello", 7, &f), 2);
	assert_int_equal(td_ws_frame_head_plain("\x82\x85....Hello", 11, &f), -1); // a server masks nothing
	assert_int_equal(td_ws_frame_head_plain("\x82\x7e\x01", 3, &f), 0);
}

static void echo(struct td_http_x *x, void *ctx)
{
	size_t n;
	const char *body = td_http_body(x, &n);
	td_http_send(x, 200, "text/plain", body, n);
}

// What goes in at a descriptor comes out at a server behind TLS, and its answer with its end comes back.
static void test_tunnel(void **state)
{
	for (int tls = 0; tls < 2; tls++) {
		struct served s = {0};
		struct td_error err = {0};
		serve_start(&s, &(struct td_http_server_opts){.handler = echo,
							      .max_body = 4 << 20,
							      .cert_file = tls ? crt : NULL,
							      .key_file = tls ? key : NULL});
		const struct td_http_client_opts o = {.base_url = s.url, .ca_file = tls ? ca : NULL},
						 none = {.base_url = "http://127.0.0.1:1"};
		td_auto(td_http_client_free) struct td_http_client *c = NULL, *nobody = NULL;
		td_auto(td_http_tunnel_free) struct td_http_tunnel *t = NULL, *other = NULL;
		td_auto_buf struct td_buf ask = {0}, got = {0};
		char some[65536];
		int fd = -1, unused = -1;
		assert_int_equal(td_http_client_new(&o, &c, &err), 0);
		assert_int_equal(td_http_client_new(&none, &nobody, &err), 0);
		assert_int_equal(td_http_tunnel_new(nobody, NULL, &other, &unused, &err), TD_TRANSIENT);
		assert_true(!other && unused < 0);
		assert_int_equal(td_http_tunnel_new(c, NULL, &t, &fd, &err), 0);
		fcntl(fd, F_SETFL, 0);
		td_buf_printf(&ask,
			      "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3000000\r\n\r\n");
		size_t head = ask.len;
		for (size_t i = 0; i < 3000000; i++)
			td_buf_putc(&ask, (char)(i * 7 >> 3));
		assert_int_equal(td_write_all(fd, td_buf_str(&ask), ask.len, &err), 0);
		for (ssize_t n; (n = read(fd, some, sizeof(some))) > 0;)
			td_buf_add(&got, some, (size_t)n);
		assert_true(got.len > 3000000 && !strncmp(td_buf_str(&got), "HTTP/1.1 200", 12));
		assert_memory_equal(td_buf_str(&got) + got.len - 3000000, td_buf_str(&ask) + head, 3000000);
		close(fd);
		t = td_http_tunnel_free(t);
		// One that nobody uses any more ends at once.
		assert_int_equal(td_http_tunnel_new(c, NULL, &t, &fd, &err), 0);
		t = td_http_tunnel_free(t);
		assert_int_equal(read(fd, some, 1), 0);
		close(fd);
		serve_stop(&s);
	}
}

int main(void)
{
	strcpy(dir, "/tmp/td-dial-XXXXXX");
	const char *sans[] = {"127.0.0.1", NULL};
	if (!mkdtemp(dir) || td_pki_ca_ensure(dir, "test", NULL) < 0 ||
	    td_pki_issue(dir,
			 &(struct td_pki_cert){.file = "srv", .cn = "srv", .sans = sans, .server = true, .days = 10},
			 NULL) < 0)
		return 1;
	crt = td_asprintf("%s/srv.crt", dir);
	key = td_asprintf("%s/srv.key", dir);
	ca = td_asprintf("%s/ca.crt", dir);
	const struct CMUnitTest t[] = {cmocka_unit_test(test_dial), cmocka_unit_test(test_cancelled_in_an_answer),
				       cmocka_unit_test(test_answer), cmocka_unit_test(test_tunnel)};
	int rc = cmocka_run_group_tests(t, NULL, NULL);
	td_rm_rf(dir, NULL);
	free(crt);
	free(key);
	free(ca);
	return rc;
}
