// What a connection carries (libnghttp2 has the protocol).
#include "base/clock.h"
#include "http/grpc_priv.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD = 5, WRITE_MS = 5000 };

static struct td_h2_stream *find(struct td_h2 *h, int32_t id) // id 0: a free one
{
	for (size_t i = 0; i < TD_LEN(h->v); i++)
		if (h->v[i].id == id)
			return &h->v[i];
	return NULL;
}

static struct td_h2_stream *open_stream(struct td_h2 *h, int32_t id)
{
	struct td_h2_stream *s = find(h, 0);
	if (s)
		*s = (struct td_h2_stream){.id = id, .status = -1};
	return s;
}

static void forget(struct td_h2_stream *s)
{
	td_buf_done(&s->body);
	td_buf_done(&s->out);
	td_buf_done(&s->said);
	*s = (struct td_h2_stream){0};
}

static int wrong(struct td_error *err, const char *what)
{
	return td_fail(err, TD_INVALID, "HTTP/2: %s", what);
}

static int refused(struct td_error *err, int code)
{
	return wrong(err, nghttp2_strerror(code));
}

static nghttp2_nv header(const char *name, const char *value)
{
	return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value),
			    NGHTTP2_NV_FLAG_NONE};
}

// ---- what libnghttp2 asks and tells ----

static ssize_t put(nghttp2_session *session, const uint8_t *p, size_t n, int flags, void *ctx)
{
	struct td_h2 *h = ctx;
	ssize_t k = send(h->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (k < 0)
		return errno == EAGAIN || errno == EINTR ? NGHTTP2_ERR_WOULDBLOCK : NGHTTP2_ERR_CALLBACK_FAILURE;
	h->waits = 0;
	return k;
}

static int begins(nghttp2_session *session, const nghttp2_frame *f, void *ctx)
{
	struct td_h2 *h = ctx;
	if (!h->server || f->hd.type != NGHTTP2_HEADERS || f->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	return open_stream(h, f->hd.stream_id) ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int field(nghttp2_session *session, const nghttp2_frame *f, const uint8_t *name, size_t name_len,
		 const uint8_t *value, size_t value_len, uint8_t flags, void *ctx)
{
	struct td_h2_stream *s = find(ctx, f->hd.stream_id);
	const char *n = (const char *)name, *v = (const char *)value; // both end with a NUL
	long long status;
	if (!s || f->hd.type != NGHTTP2_HEADERS)
		return 0;
	if (!strcmp(n, ":path"))
		snprintf(s->method, sizeof(s->method), "%s", v);
	else if (!strcmp(n, "grpc-status") && td_parse_i64(v, &status))
		s->status = (int)(status & 255);
	else if (!strcmp(n, "grpc-message"))
		snprintf(s->message, sizeof(s->message), "%s", v);
	return 0;
}

static int data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *p, size_t len, void *ctx)
{
	struct td_h2 *h = ctx;
	struct td_h2_stream *s = find(h, id);
	if (!s)
		return 0;
	if (s->body.len + len > TD_GRPC_MESSAGE + HEAD) {
		h->broke = "a message that is too large";
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	td_buf_add(&s->body, p, len);
	return 0;
}

static int came(nghttp2_session *session, const nghttp2_frame *f, void *ctx)
{
	struct td_h2_stream *s = f->hd.stream_id ? find(ctx, f->hd.stream_id) : NULL;
	if (s && (f->hd.type == NGHTTP2_DATA || f->hd.type == NGHTTP2_HEADERS) && f->hd.flags & NGHTTP2_FLAG_END_STREAM)
		s->ended = true;
	return 0;
}

static int closed(nghttp2_session *session, int32_t id, uint32_t code, void *ctx)
{
	struct td_h2 *h = ctx;
	struct td_h2_stream *s = find(h, id);
	if (s && h->server)
		forget(s);
	else if (s)
		s->ended = true;
	return 0;
}

static ssize_t more(nghttp2_session *session, int32_t id, uint8_t *to, size_t most, uint32_t *flags,
		    nghttp2_data_source *source, void *ctx)
{
	struct td_h2 *h = ctx;
	struct td_h2_stream *s = find(h, id);
	if (!s)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	size_t left = s->out.len - s->sent, n = left < most ? left : most;
	if (!n && s->goes_on)
		return NGHTTP2_ERR_DEFERRED;
	memcpy(to, td_buf_str(&s->out) + s->sent, n);
	s->sent += n;
	if (n < left)
		return (ssize_t)n;
	td_buf_reset(&s->out);
	s->sent = 0;
	if (s->goes_on)
		return (ssize_t)n;
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (h->server) {
		const nghttp2_nv ok = header("grpc-status", "0");
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		if (nghttp2_submit_trailer(session, id, &ok, 1))
			return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	return (ssize_t)n;
}

// ---- a connection ----

struct td_h2 *td_h2_new(int fd, bool server)
{
	struct td_h2 *h = td_calloc(1, sizeof(*h));
	nghttp2_session_callbacks *calls = NULL;
	nghttp2_option *options = NULL;
	const nghttp2_settings_entry set = {server ? NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS
						   : NGHTTP2_SETTINGS_ENABLE_PUSH,
					    server ? TD_H2_STREAMS : 0};
	h->fd = fd;
	h->server = server;
	if (nghttp2_session_callbacks_new(&calls) || nghttp2_option_new(&options))
		abort(); // memory is out
	nghttp2_session_callbacks_set_send_callback(calls, put);
	nghttp2_session_callbacks_set_on_begin_headers_callback(calls, begins);
	nghttp2_session_callbacks_set_on_header_callback(calls, field);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(calls, came);
	nghttp2_session_callbacks_set_on_stream_close_callback(calls, closed);
	// Kubelets before 1.26 say their socket's path as :authority, which HTTP does not allow.
	nghttp2_option_set_no_http_messaging(options, 1);
	if ((server ? nghttp2_session_server_new2 : nghttp2_session_client_new2)(&h->session, calls, h, options) ||
	    nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, &set, 1))
		abort(); // memory is out
	nghttp2_session_callbacks_del(calls);
	nghttp2_option_del(options);
	return h;
}

void td_h2_free(struct td_h2 *h)
{
	if (!h)
		return;
	nghttp2_session_del(h->session);
	for (size_t i = 0; i < TD_LEN(h->v); i++)
		forget(&h->v[i]);
	close(h->fd);
	free(h);
}

int td_h2_take(struct td_h2 *h, struct td_error *err)
{
	unsigned char part[16384];
	ssize_t n = recv(h->fd, part, sizeof(part), MSG_DONTWAIT), k;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return n ? td_fail_errno(err, TD_TRANSIENT, errno, "gRPC: reading")
			 : td_fail(err, TD_TRANSIENT, "gRPC: the other end closed the connection");
	k = nghttp2_session_mem_recv(h->session, part, (size_t)n);
	if (k < 0)
		return h->broke ? wrong(err, h->broke) : refused(err, (int)k);
	return 0;
}

int td_h2_send(struct td_h2 *h, struct td_error *err)
{
	int r = nghttp2_session_send(h->session);
	if (r == NGHTTP2_ERR_CALLBACK_FAILURE)
		return td_fail_errno(err, TD_TRANSIENT, errno, "gRPC: writing");
	if (r)
		return refused(err, r);
	bool wants = nghttp2_session_want_write(h->session), waits = wants;
	if (!wants && !nghttp2_session_want_read(h->session)) // it said farewell, or we did
		return td_fail(err, TD_TRANSIENT, "gRPC: the connection is at its end");
	for (size_t i = 0; i < TD_LEN(h->v); i++)
		waits |= h->v[i].out.len > 0;
	int64_t now = td_mono_ms(&td_clock_system);
	if (!waits || !h->waits)
		h->waits = waits ? now : 0;
	return now - h->waits > WRITE_MS && waits ? td_fail(err, TD_TRANSIENT, "gRPC: the other end takes nothing") : 0;
}

short td_h2_events(struct td_h2 *h)
{
	return nghttp2_session_want_write(h->session) ? POLLIN | POLLOUT : POLLIN;
}

// ---- messages ----

static void add_message(struct td_h2_stream *s, const void *p, size_t n)
{
	const unsigned char head[HEAD] = {0, (unsigned char)(n >> 24), (unsigned char)(n >> 16),
					  (unsigned char)(n >> 8), (unsigned char)n};
	td_buf_add(&s->out, head, sizeof(head));
	td_buf_add(&s->out, p, n);
}

bool td_h2_message(const struct td_h2_stream *s, const void **ret, size_t *ret_len)
{
	const unsigned char *p = (const unsigned char *)td_buf_str(&s->body);
	if (s->body.len < HEAD || *p ||
	    ((size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4]) != s->body.len - HEAD)
		return false;
	*ret = p + HEAD;
	*ret_len = s->body.len - HEAD;
	return true;
}

int td_h2_ask(struct td_h2 *h, const struct td_grpc_ask *q, struct td_h2_stream **ret, struct td_error *err)
{
	const nghttp2_nv v[] = {
		header(":method", "POST"),
		header(":scheme", "http"),
		header(":path", q->method),
		header(":authority", "localhost"),
		header("content-type", "application/grpc"),
		header("te", "trailers"),
	};
	const nghttp2_data_provider from = {.read_callback = more};
	int32_t id = nghttp2_submit_request(h->session, NULL, v, TD_LEN(v), &from, NULL);
	if (id < 0)
		return refused(err, id);
	*ret = open_stream(h, id);
	add_message(*ret, q->message, q->len);
	return 0;
}

int td_h2_answer(struct td_h2 *h, struct td_h2_stream *s, const struct td_buf *message, bool goes_on,
		 struct td_error *err)
{
	const nghttp2_nv v[] = {header(":status", "200"), header("content-type", "application/grpc")};
	const nghttp2_data_provider from = {.read_callback = more};
	add_message(s, td_buf_str(message), message->len);
	int r = 0;
	if (s->begun)
		nghttp2_session_resume_data(h->session, s->id); // refused where it would go on by itself
	else
		r = nghttp2_submit_response(h->session, s->id, v, TD_LEN(v), &from);
	s->begun = true;
	s->goes_on = goes_on;
	return r ? refused(err, r) : 0;
}

int td_h2_refuse(struct td_h2 *h, struct td_h2_stream *s, int status, const char *message, struct td_error *err)
{
	td_auto_buf struct td_buf m = {0};
	char n[8];
	snprintf(n, sizeof(n), "%d", status);
	for (const char *p = message; *p; p++) // gRPC: percent-encoded
		td_buf_printf(&m, *p < ' ' || *p > '~' || *p == '%' ? "%%%02X" : "%c", (unsigned char)*p);
	const nghttp2_nv v[] = {header(":status", "200"), header("content-type", "application/grpc"),
				header("grpc-status", n), header("grpc-message", td_buf_str(&m))};
	int r = nghttp2_submit_response(h->session, s->id, v, TD_LEN(v), NULL);
	s->begun = true;
	return r ? refused(err, r) : 0;
}
