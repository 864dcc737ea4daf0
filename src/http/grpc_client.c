#include "base/clock.h"
#include "http/grpc_priv.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

static int dial(const char *path, int64_t within_ms, int *ret, struct td_error *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(a.sun_path))
		return td_fail(err, TD_INVALID, "%s is too long for a socket", path);
	memcpy(a.sun_path, path, strlen(path) + 1);
	td_auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const struct timeval t = {.tv_sec = within_ms / 1000, .tv_usec = within_ms % 1000 * 1000}; // of a full backlog
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)) < 0 ||
	    connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "%s", path);
	*ret = td_steal_fd(&fd);
	return 0;
}

static int answer(const struct td_h2_stream *s, const struct td_grpc_ask *q, struct td_buf *ret, struct td_error *err)
{
	enum { UNIMPLEMENTED = 12, UNAVAILABLE = 14 };
	const void *p;
	size_t n;
	if (s->status < 0)
		return td_fail(err, TD_TRANSIENT, "%s ended %s", q->socket, q->method);
	if (s->status)
		return td_fail(err,
			       s->status == UNIMPLEMENTED ? TD_UNSUPPORTED
			       : s->status == UNAVAILABLE ? TD_TRANSIENT
							  : TD_DENIED,
			       "%s refused %s (%d): %s", q->socket, q->method, s->status, s->message);
	if (!td_h2_message(s, &p, &n))
		return td_fail(err, TD_INVALID, "%s: its answer to %s is no one message", q->socket, q->method);
	td_buf_add(ret, p, n);
	return 0;
}

int td_grpc_call(const struct td_grpc_ask *q, struct td_cancel *c, struct td_buf *ret, struct td_error *err)
{
	td_auto_close int fd = -1;
	int64_t end = td_mono_ms(&td_clock_system) + q->timeout_ms;
	int r = dial(q->socket, q->timeout_ms, &fd, err);
	if (r)
		return r;
	struct td_h2 *h = td_h2_new(td_steal_fd(&fd), false);
	struct td_h2_stream *s = NULL;
	r = td_h2_ask(h, q, &s, err);
	if (!r)
		r = td_h2_send(h, err);
	while (!r && !s->ended) {
		struct pollfd p[] = {{h->fd, td_h2_events(h), 0}, {td_cancel_fd(c), POLLIN, 0}};
		int64_t left = end - td_mono_ms(&td_clock_system);
		if (td_cancelled(c))
			r = td_fail(err, TD_CANCELLED, "stopped");
		else if (left <= 0)
			r = td_fail(err, TD_TRANSIENT, "%s does not answer", q->socket);
		else if (poll(p, 2, (int)left) < 0 && errno != EINTR)
			r = td_fail_errno(err, TD_TRANSIENT, errno, "poll");
		else if (!(r = td_h2_take(h, err)) && !s->ended)
			r = td_h2_send(h, err);
	}
	if (!r)
		r = answer(s, q, ret, err);
	td_h2_free(h);
	return r;
}
