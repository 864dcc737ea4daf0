// rows: A10.3 D4.1
// gRPC: both ends against each other, RFC 7541's own examples, and what breaks.
#include "http/grpc.h"
#include "http/hpack.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void field(void *ctx, const char *name, const char *value)
{
	td_buf_printf(ctx, "%s=%s;", name, value);
}

static int read_hex(struct td_hpack *h, const char *hex, struct td_buf *ret)
{
	unsigned char block[256];
	size_t n = 0;
	for (; hex[2 * n]; n++)
		assert_int_equal(sscanf(hex + 2 * n, "%2hhx", &block[n]), 1);
	td_buf_reset(ret);
	return td_hpack_read(h, block, n, field, ret, NULL);
}

static void headers_of_the_rfc(void **state)
{
	struct td_hpack h = {0};
	td_auto_buf struct td_buf b = {0};
	// C.4: three requests on one connection, with Huffman codes.
	assert_int_equal(read_hex(&h, "828684418cf1e3c2e5f23a6ba0ab90f4ff", &b), 0);
	assert_string_equal(td_buf_str(&b), ":method=GET;:scheme=http;:path=/;:authority=www.example.com;");
	assert_int_equal(read_hex(&h, "828684be5886a8eb10649cbf", &b), 0);
	assert_string_equal(td_buf_str(&b),
			    ":method=GET;:scheme=http;:path=/;:authority=www.example.com;cache-control=no-cache;");
	assert_int_equal(read_hex(&h, "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf", &b), 0);
	assert_string_equal(td_buf_str(&b), ":method=GET;:scheme=https;:path=/index.html;:authority=www.example.com;"
					    "custom-key=custom-value;");
	assert_int_equal(h.size, 164);
	// The table is made empty, and what stood there is not known any more.
	assert_int_equal(read_hex(&h, "20", &b), 0);
	assert_int_equal(h.n, 0);
	assert_int_equal(read_hex(&h, "be", &b), TD_INVALID);
	static const char *const bad[] = {"80", "ff", "418c", "00", "0001", "418100", "3fe2ffffff7f", "0181ff"};
	for (size_t i = 0; i < TD_LEN(bad); i++)
		if (read_hex(&h, bad[i], &b) != TD_INVALID)
			fail_msg("%s", bad[i]);
	td_hpack_done(&h);
}

// ---- both ends ----

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

static void calls(void **state)
{
	struct place p = {.dir = "/tmp/grpc-XXXXXX", .cancel = td_cancel_new()};
	struct td_error e = TD_ERROR_INIT;
	pthread_mutex_init(&p.lock, NULL);
	pthread_cond_init(&p.ready_now, NULL);
	assert_non_null(mkdtemp(p.dir));
	snprintf(p.socket, sizeof(p.socket), "%s/s", p.dir);
	p.server = (struct td_grpc_server){.socket = p.socket, .call = call, .ctx = &p, .ready = ready};
	td_auto_buf struct td_buf got = {0};
	assert_int_equal(ask(&p, "/t/Echo", "x", 1, &got, &e), TD_TRANSIENT); // nobody is there
	pthread_create(&p.thread, NULL, serve, &p);
	pthread_mutex_lock(&p.lock);
	while (!p.ready)
		pthread_cond_wait(&p.ready_now, &p.lock);
	pthread_mutex_unlock(&p.lock);
	struct stat st;
	assert_int_equal(stat(p.socket, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);

	assert_int_equal(ask(&p, "/t/Echo", "a\0b", 3, &got, &e), 0);
	assert_int_equal(got.len, 3);
	assert_memory_equal(got.s, "a\0b", 3);
	td_auto_free char *large = td_calloc(1, 60000); // several frames
	memset(large, 'x', 59999);
	td_buf_reset(&got);
	assert_int_equal(ask(&p, "/t/Echo", large, 60000, &got, &e), 0);
	assert_int_equal(got.len, 60000);
	assert_memory_equal(got.s, large, 60000);
	assert_int_equal(ask(&p, "/t/Refuse", "", 0, &got, &e), TD_DENIED);
	assert_non_null(strstr(e.msg, "50%25 of it%0Ais another's"));
	assert_int_equal(ask(&p, "/t/None", "", 0, &got, &e), TD_UNSUPPORTED);

	unlink(p.socket); // a kubelet starts anew
	pthread_join(p.thread, NULL);
	assert_int_equal(p.result, TD_NOT_FOUND);
	rmdir(p.dir);
	td_cancel_unref(p.cancel);
	pthread_mutex_destroy(&p.lock);
	pthread_cond_destroy(&p.ready_now);
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
	const struct CMUnitTest tests[] = {cmocka_unit_test(headers_of_the_rfc), cmocka_unit_test(calls),
					   cmocka_unit_test(messages)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
