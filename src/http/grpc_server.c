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

enum { CONNS = 8, TICK_MS = 1000, FAILED = 2, UNIMPLEMENTED = 12 };

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

static int unary(const struct td_grpc_server *o, struct td_h2 *h, struct td_h2_stream *s, struct td_error *err)
{
	td_auto_buf struct td_buf answer = {0};
	struct td_error e = TD_ERROR_INIT;
	const void *p;
	size_t n;
	if (!td_h2_message(s, &p, &n))
		return td_h2_refuse(h, s, FAILED, "this is no one message", err);
	int r = o->call(o->ctx, s->method, p, n, &answer, &e);
	td_buf_done(&s->body);
	return r ? td_h2_refuse(h, s, r == TD_UNSUPPORTED ? UNIMPLEMENTED : FAILED, e.msg, err)
		 : td_h2_answer(h, s, &answer, false, err);
}

static int news(const struct td_grpc_server *o, struct td_h2 *h, struct td_h2_stream *s, struct td_error *err)
{
	td_auto_buf struct td_buf now = {0};
	if (s->out.len) // the other end has not taken the last one
		return 0;
	o->now(o->ctx, &now);
	if (s->begun && now.len == s->said.len && !memcmp(td_buf_str(&now), td_buf_str(&s->said), now.len))
		return 0;
	td_buf_reset(&s->said);
	td_buf_add(&s->said, td_buf_str(&now), now.len);
	return td_h2_answer(h, s, &now, true, err);
}

static int answer_all(const struct td_grpc_server *o, struct td_h2 *h, struct td_error *err)
{
	int r = 0;
	for (size_t i = 0; !r && i < TD_LEN(h->v); i++) {
		struct td_h2_stream *s = &h->v[i];
		if (!s->id || !s->ended)
			continue;
		if (o->stream && !strcmp(s->method, o->stream))
			r = news(o, h, s, err);
		else if (!s->begun)
			r = unary(o, h, s, err);
	}
	return r;
}

static int serve_one(const struct td_grpc_server *o, struct td_h2 *h, struct td_error *err)
{
	int r = td_h2_take(h, err);
	if (!r)
		r = answer_all(o, h, err);
	return r ? r : td_h2_send(h, err);
}

static int rounds(const struct td_grpc_server *o, int fd, struct td_h2 **v, size_t *n, struct td_cancel *c,
		  struct td_error *err)
{
	struct stat mine, now;
	if (stat(o->socket, &mine))
		return td_fail_errno(err, TD_NOT_FOUND, errno, "%s", o->socket);
	for (;;) {
		struct pollfd p[CONNS + 2] = {{fd, POLLIN, 0}, {td_cancel_fd(c), POLLIN, 0}};
		for (size_t i = 0; i < *n; i++)
			p[i + 2] = (struct pollfd){v[i]->fd, td_h2_events(v[i]), 0};
		if (poll(p, *n + 2, TICK_MS) < 0 && errno != EINTR)
			return td_fail_errno(err, TD_TRANSIENT, errno, "poll");
		if (td_cancelled(c))
			return td_fail(err, TD_CANCELLED, "stopped");
		if (stat(o->socket, &now) || now.st_ino != mine.st_ino)
			return td_fail(err, TD_NOT_FOUND, "%s was removed", o->socket);
		for (size_t i = *n; i-- > 0;) {
			struct td_error e = TD_ERROR_INIT;
			if (!serve_one(o, v[i], &e))
				continue;
			td_debug("%s: %s", o->socket, e.msg);
			td_h2_free(v[i]);
			v[i] = v[--*n];
		}
		int got = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (got >= 0 && *n < CONNS)
			v[(*n)++] = td_h2_new(got, true);
		else if (got >= 0)
			close(got);
	}
}

int td_grpc_serve(const struct td_grpc_server *o, struct td_cancel *c, struct td_error *err)
{
	td_auto_close int fd = -1;
	int r = make_socket(o->socket, &fd, err);
	if (r)
		return r;
	struct td_h2 *v[CONNS];
	size_t n = 0;
	if (o->ready)
		o->ready(o->ctx);
	r = rounds(o, fd, v, &n, c, err);
	while (n)
		td_h2_free(v[--n]);
	if (r != TD_NOT_FOUND)
		unlink(o->socket);
	return r;
}
