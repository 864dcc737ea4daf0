// A ring all-reduce of small numbers, each of whose sums is known: the part of one node.
#include "standin/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SLOW_BYTES = 1024 };

int td_standin_connect(const char *address, int port, int64_t deadline)
{
	union {
		struct sockaddr sa;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} a = {0};
	socklen_t len = sizeof(a.v4);
	if (inet_pton(AF_INET, address, &a.v4.sin_addr) == 1) {
		a.v4.sin_family = AF_INET;
		a.v4.sin_port = htons((uint16_t)port);
	} else if (inet_pton(AF_INET6, address, &a.v6.sin6_addr) == 1) {
		a.v6.sin6_family = AF_INET6;
		a.v6.sin6_port = htons((uint16_t)port);
		len = sizeof(a.v6);
	} else {
		errno = EINVAL;
		return -1;
	}
	int fd = socket(a.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), e = errno;
	if (fd >= 0 && (!connect(fd, &a.sa, len) || errno == EINPROGRESS)) {
		struct pollfd p = {fd, POLLOUT, 0};
		int64_t left = deadline - td_standin_now_ms();
		socklen_t n = sizeof(e);
		if (poll(&p, 1, left > 0 ? (int)left : 0) <= 0)
			e = ETIMEDOUT;
		else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &n) < 0)
			e = errno;
		if (!e) {
			int one = 1;
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
			return fd;
		}
	} else {
		e = errno;
	}
	if (fd >= 0)
		close(fd);
	errno = e;
	return -1;
}

struct part {
	uint8_t *p;
	size_t n;
};

// Sends one part and receives another. 0: both are done.
static int move(const struct standin_ring *r, struct part out, struct part in, int64_t deadline)
{
	bool slow = r->fault && !strcmp(r->fault, "slow");
	if (r->fault && !strcmp(r->fault, "down"))
		out.n = 0;
	int64_t again = 0;
	while (out.n || in.n) {
		int64_t now = td_standin_now_ms(), left = deadline - now;
		struct pollfd p[2] = {{out.n && now >= again ? r->to : -1, POLLOUT, 0},
				      {in.n ? r->from : -1, POLLIN, 0}};
		if (left <= 0)
			return ETIMEDOUT;
		if (again > now && again - now < left)
			left = again - now;
		if (poll(p, 2, (int)left) < 0 && errno != EINTR)
			return errno;
		if (p[0].revents) {
			ssize_t k = send(r->to, out.p, slow && out.n > SLOW_BYTES ? SLOW_BYTES : out.n, MSG_NOSIGNAL);
			if (k < 0 && errno != EAGAIN && errno != EINTR)
				return errno;
			out.p += k > 0 ? k : 0;
			out.n -= k > 0 ? (size_t)k : 0;
			again = slow ? now + 100 : 0;
		}
		if (p[1].revents) {
			ssize_t k = recv(r->from, in.p, in.n, 0);
			if (k == 0)
				return ECONNRESET;
			if (k < 0 && errno != EAGAIN && errno != EINTR)
				return errno;
			in.p += k > 0 ? k : 0;
			in.n -= k > 0 ? (size_t)k : 0;
		}
	}
	return 0;
}

bool td_standin_ring(const struct standin_ring *r, int64_t deadline, char *why, size_t n_why)
{
	size_t n = (size_t)r->n, words = (r->kib * 256 + n - 1) / n, bytes = words * 4;
	uint32_t *v = malloc(n * bytes), *got = malloc(bytes);
	bool well = v && got;
	if (!well)
		snprintf(why, n_why, "out of memory");
	for (size_t i = 0; well && i < n * words; i++)
		v[i] = (uint32_t)(r->rank + 1) * (uint32_t)(i + 1);
	// First each node gets the sum of one part from the one before it, then the sums go round.
	for (size_t s = 0; well && s < 2 * (n - 1); s++) {
		bool sum = s < n - 1;
		size_t k = sum ? s : s - (n - 1), me = (size_t)r->rank + 2 * n;
		size_t out = (me + (sum ? 0 : 1) - k) % n, in = (me - (sum ? 1 : 0) - k) % n;
		uint8_t *from = (uint8_t *)(v + out * words);
		if (r->fault && !strcmp(r->fault, "corrupt"))
			from[0] ^= 1;
		int e = move(r, (struct part){from, bytes}, (struct part){(uint8_t *)got, bytes}, deadline);
		if (e) {
			snprintf(why, n_why, "%s", e == ETIMEDOUT ? "the exchange did not end in time" : strerror(e));
			well = false;
			break;
		}
		for (size_t i = 0; i < words; i++)
			v[in * words + i] = got[i] + (sum ? v[in * words + i] : 0);
	}
	uint32_t all = (uint32_t)(n * (n + 1) / 2);
	for (size_t i = 0; well && i < n * words; i++)
		if (v[i] != all * (uint32_t)(i + 1)) {
			snprintf(why, n_why, "the sums are wrong");
			well = false;
		}
	free(v);
	free(got);
	return well;
}
