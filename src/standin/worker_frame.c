// What goes over a connection to a worker of a session (worker.h). It reads what strangers could have sent.
#include "standin/worker.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { ALIVE_S = 20 };

void *td_standin_more(void *p, size_t n)
{
	void *more = realloc(p, n);
	if (!more)
		abort();
	return more;
}

void td_standin_worker_tune(int fd)
{
	int on = 1, alive = ALIVE_S;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &alive, sizeof(alive));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &alive, sizeof(alive));
}

static bool send_all(int fd, const uint8_t *p, size_t n)
{
	while (n) {
		ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
		if (k < 0 && errno == EAGAIN) {
			struct pollfd f = {fd, POLLOUT, 0};
			poll(&f, 1, -1);
			continue;
		}
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return false;
		p += k;
		n -= (size_t)k;
	}
	return true;
}

void td_standin_worker_head(uint8_t *ret, char letter, size_t n)
{
	ret[0] = (uint8_t)letter;
	for (int i = 1; i < STANDIN_WORKER_HEAD; i++)
		ret[i] = (uint8_t)(n >> 8 * (STANDIN_WORKER_HEAD - 1 - i));
}

bool td_standin_worker_send(int fd, char letter, const void *data, size_t n)
{
	uint8_t head[STANDIN_WORKER_HEAD];
	td_standin_worker_head(head, letter, n);
	return send_all(fd, head, sizeof(head)) && send_all(fd, data, n);
}

long td_standin_worker_frame(const uint8_t *p, size_t n, struct standin_worker_frame *ret)
{
	if (!n)
		return 0;
	if (!p[0] || !strchr("ricsoex", p[0]))
		return -1;
	if (n < STANDIN_WORKER_HEAD)
		return 0;
	size_t len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
	if (len > (p[0] == 'r' ? STANDIN_WORKER_REQUEST : STANDIN_WORKER_FRAME) ||
	    (len != 1 && (p[0] == 's' || p[0] == 'x')))
		return -1;
	if (n - STANDIN_WORKER_HEAD < len)
		return 0;
	*ret = (struct standin_worker_frame){(char)p[0], p + STANDIN_WORKER_HEAD, len};
	return (long)(STANDIN_WORKER_HEAD + len);
}

bool td_standin_worker_request(const uint8_t *p, size_t n, struct standin_worker_request *ret)
{
	size_t texts = 0, at = 0, k = 0;
	*ret = (struct standin_worker_request){0};
	if (!n || p[n - 1])
		return false;
	for (size_t i = 0; i < n; i++)
		texts += !p[i];
	// Two lists, each with an end of its own.
	char **v = calloc(texts + 2, sizeof(*v));
	if (!v)
		abort();
	ret->dir = (const char *)p;
	ret->env = v;
	at = strlen((const char *)p) + 1;
	for (; at < n && p[at]; at += strlen((const char *)p + at) + 1) {
		const char *text = (const char *)p + at, *equals = strchr(text + 1, '=');
		if ((*text != '=' && *text != '?') || !equals || equals == text + 1) {
			td_standin_worker_request_done(ret);
			return false;
		}
		v[k++] = (char *)text;
	}
	k++;
	at++; // the empty one
	ret->argv = v + k;
	for (; at < n; at += strlen((const char *)p + at) + 1)
		v[k++] = (char *)p + at;
	if (*ret->argv && **ret->argv)
		return true;
	td_standin_worker_request_done(ret);
	return false;
}

void td_standin_worker_request_done(struct standin_worker_request *r)
{
	free(r->env);
	*r = (struct standin_worker_request){0};
}
