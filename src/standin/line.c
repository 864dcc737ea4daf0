// Lines of text over a socket, with deadlines.
#include "standin/standin.h"
#include "standin/wire.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

_Static_assert(sizeof(((struct line_reader *)0)->buf) == TD_WIRE_LINE, "one line fits");

int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int wait_for(int fd, short events, int64_t deadline_ms)
{
	for (;;) {
		int64_t left = deadline_ms - now_ms();
		struct pollfd f = {fd, events, 0};
		int n = poll(&f, 1, left < 0 ? 0 : (int)left);
		if (n >= 0 || errno != EINTR)
			return n;
	}
}

int line_read(struct line_reader *r, int64_t deadline_ms, char **ret_line)
{
	static char line[TD_WIRE_LINE];
	for (;;) {
		char *nl = memchr(r->buf, '\n', r->len);
		if (nl) {
			size_t n = (size_t)(nl - r->buf);
			memcpy(line, r->buf, n);
			line[n] = '\0';
			memmove(r->buf, nl + 1, r->len - n - 1);
			r->len -= n + 1;
			*ret_line = line;
			return 1;
		}

		if (r->len == sizeof(r->buf)) {
			errno = EMSGSIZE;
			return -1;
		}

		int w = wait_for(r->fd, POLLIN, deadline_ms);
		if (w <= 0)
			return w;

		ssize_t n = recv(r->fd, r->buf + r->len, sizeof(r->buf) - r->len, MSG_DONTWAIT);
		if (n == 0) {
			errno = 0;
			return -1;
		}
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -1;
		if (n > 0)
			r->len += (size_t)n;
	}
}

int line_write(int fd, const char *s, int64_t deadline_ms)
{
	size_t left = strlen(s);
	while (left) {
		ssize_t n = send(fd, s, left, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EAGAIN) {
			int w = wait_for(fd, POLLOUT, deadline_ms);
			if (w == 0)
				errno = ETIMEDOUT;
			if (w <= 0)
				return -1;
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		s += n;
		left -= (size_t)n;
	}
	return 0;
}
