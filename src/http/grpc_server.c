// One thread serves all connections: there is a kubelet, and nobody else.
#include "base/log.h"
#include "http/grpc_priv.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { CONNS = 8, TICK_MS = 1000, WRITE_S = 5, OK = 0, FAILED = 2, UNIMPLEMENTED = 12 };

static int make_socket(const char *path, int *ret, struct td_error *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(a.sun_path))
		return td_fail(err, TD_INVALID, "%s is too long for a socket", path);
	memcpy(a.sun_path, path, strlen(path) + 1);
	td_auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (unlink(path) && errno != ENOENT)
		return td_fail_errno(err, TD_TRANSIENT, errno, "remove %s", path);
	if (fd < 0 || fchmod(fd, 0600) || bind(fd, (struct sockaddr *)&a, sizeof(a)) || chmod(path, 0600) ||
	    listen(fd, CONNS))
		return td_fail_errno(err, TD_TRANSIENT, errno, "%s", path);
	*ret = td_steal_fd(&fd);
	return 0;
}

static void status_of(struct td_buf *b, int status, const char *message)
{
	char n[8];
	snprintf(n, sizeof(n), "%d", status);
	td_h2_header(b, "grpc-status", n);
	td_auto_buf struct td_buf m = {0};
	for (const char *p = message; *p; p++) // gRPC: percent-encoded
		td_buf_printf(&m, *p < ' ' || *p > '~' || *p == '%' ? "%%%02X" : "%c", (unsigned char)*p);
	if (m.len)
		td_h2_header(b, "grpc-message", td_buf_str(&m));
}

static void begin(struct td_buf *b)
{
	td_h2_header(b, ":status", "200");
	td_h2_header(b, "content-type", "application/grpc");
}

static int refuse(struct td_h2 *h, struct td_h2_stream *s, int status, const char *message, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	begin(&b);
	status_of(&b, status, message);
	int r = td_h2_headers(h, s->id, &b, true, err);
	td_h2_forget(s);
	return r;
}

static int unary(const struct td_grpc_server *o, struct td_h2 *h, struct td_h2_stream *s, struct td_error *err)
{
	const unsigned char *p = (const unsigned char *)td_buf_str(&s->body);
	td_auto_buf struct td_buf answer = {0}, head = {0}, tail = {0};
	struct td_error e = TD_ERROR_INIT;
	if (s->body.len < 5 || *p ||
	    ((size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4]) != s->body.len - 5)
		return refuse(h, s, FAILED, "this is no one message", err);
	int r = o->call(o->ctx, s->method, p + 5, s->body.len - 5, &answer, &e);
	if (r)
		return refuse(h, s, r == TD_UNSUPPORTED ? UNIMPLEMENTED : FAILED, e.msg, err);
	begin(&head);
	status_of(&tail, OK, "");
	r = td_h2_headers(h, s->id, &head, false, err);
	if (!r)
		r = td_h2_message(h, s, td_buf_str(&answer), answer.len, false, err);
	if (!r)
		r = td_h2_headers(h, s->id, &tail, true, err);
	td_h2_forget(s);
	return r;
}

static int news(const struct td_grpc_server *o, struct td_h2 *h, struct td_h2_stream *s, struct td_error *err)
{
	td_auto_buf struct td_buf now = {0}, head = {0};
	bool first = !s->goes_on;
	o->now(o->ctx, &now);
	if (!first && now.len == s->said.len && !memcmp(td_buf_str(&now), td_buf_str(&s->said), now.len))
		return 0;
	begin(&head);
	int r = first ? td_h2_headers(h, s->id, &head, false, err) : 0;
	if (!r)
		r = td_h2_message(h, s, td_buf_str(&now), now.len, false, err);
	s->goes_on = true;
	td_buf_reset(&s->said);
	td_buf_add(&s->said, td_buf_str(&now), now.len);
	return r;
}

static int answer_all(const struct td_grpc_server *o, struct td_h2 *h, struct td_error *err)
{
	int r = 0;
	for (size_t i = 0; !r && i < TD_LEN(h->v); i++) {
		struct td_h2_stream *s = &h->v[i];
		if (!s->id || !s->ended)
			continue;
		r = o->stream && !strcmp(s->method, o->stream) ? news(o, h, s, err) : unary(o, h, s, err);
	}
	return r;
}

static void add(struct td_h2 *v, size_t *n, int fd)
{
	struct td_error e = TD_ERROR_INIT;
	const struct timeval most = {.tv_sec = WRITE_S};
	if (*n == CONNS || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most))) {
		close(fd);
		return;
	}
	td_h2_init(&v[*n], fd, true);
	if (td_h2_greet(&v[*n], &e))
		td_h2_done(&v[*n]);
	else
		++*n;
}

static int rounds(const struct td_grpc_server *o, int fd, struct td_h2 *v, size_t *n, struct td_cancel *c,
		  struct td_error *err)
{
	struct stat mine, now;
	if (stat(o->socket, &mine))
		return td_fail_errno(err, TD_NOT_FOUND, errno, "%s", o->socket);
	for (;;) {
		struct pollfd p[CONNS + 2] = {{fd, POLLIN, 0}, {td_cancel_fd(c), POLLIN, 0}};
		for (size_t i = 0; i < *n; i++)
			p[i + 2] = (struct pollfd){v[i].fd, POLLIN, 0};
		if (poll(p, *n + 2, TICK_MS) < 0 && errno != EINTR)
			return td_fail_errno(err, TD_TRANSIENT, errno, "poll");
		if (td_cancelled(c))
			return td_fail(err, TD_CANCELLED, "stopped");
		if (stat(o->socket, &now) || now.st_ino != mine.st_ino)
			return td_fail(err, TD_NOT_FOUND, "%s was removed", o->socket);
		for (size_t i = *n; i-- > 0;) {
			struct td_error e = TD_ERROR_INIT;
			if (!td_h2_take(&v[i], &e) && !answer_all(o, &v[i], &e))
				continue;
			td_debug("%s: %s", o->socket, e.msg);
			td_h2_done(&v[i]);
			v[i] = v[--*n];
		}
		int got = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (got >= 0)
			add(v, n, got);
	}
}

int td_grpc_serve(const struct td_grpc_server *o, struct td_cancel *c, struct td_error *err)
{
	td_auto_close int fd = -1;
	int r = make_socket(o->socket, &fd, err);
	if (r)
		return r;
	td_auto_free struct td_h2 *v = td_calloc(CONNS, sizeof(*v));
	size_t n = 0;
	if (o->ready)
		o->ready(o->ctx);
	r = rounds(o, fd, v, &n, c, err);
	while (n)
		td_h2_done(&v[--n]);
	if (r != TD_NOT_FOUND)
		unlink(o->socket);
	return r;
}
