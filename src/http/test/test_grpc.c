// rows: A10.3 D4.1
// gRPC: both ends against each other, our bounds, and what others say.
#include "http/grpc_priv.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

struct place {
	char dir[64], socket[96];
	struct td_cancel *cancel;
	pthread_t thread;
	struct td_grpc_server server;
	struct td_error err;
	int result;
	pthread_mutex_t lock;
	pthread_cond_t ready_now;
	bool ready;
	int news; // atomic
};

static int call(void *ctx, const char *method, const void *message, size_t len, struct td_buf *ret,
		struct td_error *err)
{
	if (!strcmp(method, "/t/Echo"))
		td_buf_add(ret, message, len);
	else if (!strcmp(method, "/t/Refuse"))
		return td_fail(err, TD_CONFLICT, "50%% of it\nis another's");
	else
		return td_fail(err, TD_UNSUPPORTED, "there is no %s", method);
	return 0;
}

static void ready(void *ctx)
{
	struct place *p = ctx;
	pthread_mutex_lock(&p->lock);
	p->ready = true;
	pthread_cond_signal(&p->ready_now);
	pthread_mutex_unlock(&p->lock);
}

static void *serve(void *ctx)
{
	struct place *p = ctx;
	p->result = td_grpc_serve(&p->server, p->cancel, &p->err);
	return NULL;
}

static int ask(const struct place *p, const char *method, const char *message, size_t len, struct td_buf *ret,
	       struct td_error *err)
{
	return td_grpc_call(&(struct td_grpc_ask){p->socket, method, message, len, 60000}, NULL, ret, err);
}

static void now(void *ctx, struct td_buf *ret)
{
	struct place *p = ctx;
	td_buf_printf(ret, "news %d", __atomic_load_n(&p->news, __ATOMIC_ACQUIRE));
}

static void open_place(struct place *p)
{
	*p = (struct place){.dir = "/tmp/grpc-XXXXXX", .cancel = td_cancel_new()};
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->ready_now, NULL);
	assert_non_null(mkdtemp(p->dir));
	snprintf(p->socket, sizeof(p->socket), "%s/s", p->dir);
	p->server = (struct td_grpc_server){
		.socket = p->socket, .call = call, .stream = "/t/Watch", .now = now, .ctx = p, .ready = ready};
}

static void start(struct place *p)
{
	pthread_create(&p->thread, NULL, serve, p);
	pthread_mutex_lock(&p->lock);
	while (!p->ready)
		pthread_cond_wait(&p->ready_now, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

static void close_place(struct place *p)
{
	pthread_join(p->thread, NULL);
	rmdir(p->dir);
	td_cancel_unref(p->cancel);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->ready_now);
}

static int dial(const struct place *p)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", p->socket);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

// One round of a client's connection: sends, waits, reads.
static void turn(struct td_h2 *h)
{
	struct td_error e = TD_ERROR_INIT;
	struct pollfd p = {.fd = h->fd, .events = td_h2_events(h)};
	assert_int_equal(td_h2_send(h, &e), 0);
	assert_true(poll(&p, 1, 60000) > 0);
	if (td_h2_take(h, &e))
		fail_msg("%s", e.msg);
}

static void calls(void **state)
{
	struct place p;
	struct td_error e = TD_ERROR_INIT;
	td_auto_buf struct td_buf got = {0};
	open_place(&p);
	assert_int_equal(ask(&p, "/t/Echo", "x", 1, &got, &e), TD_TRANSIENT); // nobody is there
	start(&p);
	struct stat st;
	assert_int_equal(stat(p.socket, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);

	assert_int_equal(ask(&p, "/t/Echo", "a\0b", 3, &got, &e), 0);
	assert_int_equal(got.len, 3);
	assert_memory_equal(got.s, "a\0b", 3);
	td_auto_free char *large = td_calloc(1, TD_GRPC_MESSAGE + 1); // many frames, and more than a window
	memset(large, 'x', TD_GRPC_MESSAGE);
	td_buf_reset(&got);
	assert_int_equal(ask(&p, "/t/Echo", large, TD_GRPC_MESSAGE, &got, &e), 0);
	assert_int_equal(got.len, TD_GRPC_MESSAGE);
	assert_memory_equal(got.s, large, TD_GRPC_MESSAGE);
	assert_int_equal(ask(&p, "/t/Echo", large, TD_GRPC_MESSAGE + 1, &got, &e), TD_TRANSIENT); // it hangs up
	assert_int_equal(ask(&p, "/t/Refuse", "", 0, &got, &e), TD_DENIED);
	assert_non_null(strstr(e.msg, "50%25 of it%0Ais another's"));
	assert_int_equal(ask(&p, "/t/None", "", 0, &got, &e), TD_UNSUPPORTED);

	unlink(p.socket); // a kubelet starts anew
	close_place(&p);
	assert_int_equal(p.result, TD_NOT_FOUND);
}

static void answers_that_go_on(void **state)
{
	struct place p;
	struct td_h2_stream *s;
	open_place(&p);
	start(&p);
	struct td_h2 *h = td_h2_new(dial(&p), false);
	assert_int_equal(td_h2_ask(h, &(struct td_grpc_ask){p.socket, "/t/Watch", "", 0, 0}, &s, NULL), 0);
	while (s->body.len < 11)
		turn(h);
	assert_memory_equal(s->body.s, "\0\0\0\0\6news 0", 11);
	__atomic_store_n(&p.news, 1, __ATOMIC_RELEASE);
	while (s->body.len < 22)
		turn(h);
	assert_memory_equal(s->body.s + 11, "\0\0\0\0\6news 1", 11);
	assert_false(s->ended);
	// Beside it on its connection: a call as a kubelet before 1.26 names its host, and without a message.
	const char *v[][2] = {{":method", "POST"},
			      {":scheme", "http"},
			      {":path", "/t/Echo"},
			      {":authority", "/var/lib/kubelet/device-plugins/x.sock"}};
	nghttp2_nv nv[4];
	for (size_t i = 0; i < 4; i++)
		nv[i] = (nghttp2_nv){(uint8_t *)(uintptr_t)v[i][0], (uint8_t *)(uintptr_t)v[i][1], strlen(v[i][0]),
				     strlen(v[i][1]), NGHTTP2_NV_FLAG_NONE};
	s = &h->v[1];
	*s = (struct td_h2_stream){.id = nghttp2_submit_request(h->session, NULL, nv, 4, NULL, NULL), .status = -1};
	while (!s->ended)
		turn(h);
	assert_int_equal(s->status, 2);
	assert_string_equal(s->message, "this is no one message");
	td_h2_free(h);
	td_cancel_fire(p.cancel);
	close_place(&p);
	assert_int_equal(p.result, TD_CANCELLED);
}

static void others_are_hung_up_on(void **state)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
	struct place p;
	struct td_error e = TD_ERROR_INIT;
	td_auto_buf struct td_buf got = {0};
	char b[256];
	open_place(&p);
	start(&p);
	int fd = dial(&p);
	assert_int_equal(send(fd, text, sizeof(text) - 1, MSG_NOSIGNAL), sizeof(text) - 1);
	while (recv(fd, b, sizeof(b), 0) > 0)
		;
	close(fd);
	assert_int_equal(ask(&p, "/t/Echo", "x", 1, &got, &e), 0); // and it goes on with the rest
	td_cancel_fire(p.cancel);
	close_place(&p);
}

// It listens, takes nobody in, and its queue is full.
static void who_takes_nobody_in_is_waited_for_so_long(void **state)
{
	struct place p;
	struct td_error e = TD_ERROR_INIT;
	td_auto_buf struct td_buf got = {0};
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int waits[8], n = 0, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	open_place(&p);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", p.socket);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 1), 0);
	for (bool full = false; !full; n++) {
		assert_true(n < 8);
		waits[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		full = connect(waits[n], (struct sockaddr *)&a, sizeof(a)) != 0;
	}
	const struct td_grpc_ask q = {p.socket, "/t/Echo", "x", 1, 50};
	assert_int_equal(td_grpc_call(&q, NULL, &got, &e), TD_TRANSIENT);
	while (n)
		close(waits[--n]);
	close(fd);
	unlink(p.socket);
	rmdir(p.dir);
	td_cancel_unref(p.cancel);
}

static void messages(void **state)
{
	td_auto_buf struct td_buf b = {0};
	td_proto_text(&b, 1, "gpu-1");
	td_proto_number(&b, 2, 300);
	struct td_proto m = td_proto(b.s, b.len);
	struct td_proto_field f;
	char text[4];
	assert_true(td_proto_next(&m, &f) && f.number == 1 && td_proto_is(&f, "gpu-1") && !td_proto_is(&f, "gpu-11"));
	td_proto_copy(&f, text, sizeof(text));
	assert_string_equal(text, "gpu");
	assert_true(td_proto_next(&m, &f) && f.number == 2 && !f.p && f.value == 300);
	assert_false(td_proto_next(&m, &f));
	for (size_t cut = 1; cut < 7; cut++) { // a text that does not end
		m = td_proto(b.s, cut);
		assert_false(td_proto_next(&m, &f));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls), cmocka_unit_test(answers_that_go_on), cmocka_unit_test(others_are_hung_up_on),
		cmocka_unit_test(who_takes_nobody_in_is_waited_for_so_long), cmocka_unit_test(messages)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
