#include "http/conn.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	READ_STEP = 16 * 1024,
	// So much is drained at the end: a client that first sends its whole body still sees why it
	// was refused.
	DRAIN_MAX = 16 << 20
};

int64_t td_now(void)
{
	return td_mono_ms(&td_clock_system);
}

struct td_conn *td_conn_new(int fd, struct td_cancel *stop)
{
	struct td_conn *c = td_calloc(1, sizeof(*c));
	c->fd = fd;
	c->stop = td_cancel_ref(stop);
	c->peer_uid = -1;
	pthread_mutex_init(&c->lock, NULL);
	return c;
}

struct td_conn *td_conn_free(struct td_conn *c)
{
	if (!c)
		return NULL;
	if (c->tls)
		gnutls_deinit(c->tls);
	if (c->fd >= 0)
		close(c->fd);
	td_cancel_unref(c->stop);
	td_buf_done(&c->in);
	free(c->peer_cn);
	td_strv_done(&c->peer_orgs);
	pthread_mutex_destroy(&c->lock);
	free(c);
	return NULL;
}

static ssize_t raw_read(struct td_conn *c, void *p, size_t n)
{
	ssize_t k;

	if (!c->tls) {
		do
			k = recv(c->fd, p, n, MSG_DONTWAIT);
		while (k < 0 && errno == EINTR);
		return k < 0 ? (errno == EWOULDBLOCK ? -EAGAIN : -errno) : k;
	}
	pthread_mutex_lock(&c->lock);
	do
		k = gnutls_record_recv(c->tls, p, n);
	while (k == GNUTLS_E_INTERRUPTED ||
	       (k < 0 && k != GNUTLS_E_AGAIN && k != GNUTLS_E_REHANDSHAKE && !gnutls_error_is_fatal((int)k)));
	pthread_mutex_unlock(&c->lock);
	if (k >= 0)
		return k;
	if (k == GNUTLS_E_AGAIN)
		return -EAGAIN;
	// A FIN without close_notify: HTTP's own framing tells whether the message is complete.
	if (k == GNUTLS_E_PREMATURE_TERMINATION)
		return 0;
	return -EPROTO;
}

ssize_t td_conn_try_read(struct td_conn *c, void *p, size_t n)
{
	size_t have = c->in.len - c->in_off;
	if (!have)
		return raw_read(c, p, n);
	if (n > have)
		n = have;
	memcpy(p, c->in.s + c->in_off, n);
	c->in_off += n;
	return (ssize_t)n;
}

ssize_t td_conn_try_write(struct td_conn *c, const void *p, size_t n)
{
	ssize_t k;

	if (c->broken)
		return -EPIPE;

	if (!c->tls) {
		do
			k = send(c->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
		while (k < 0 && errno == EINTR);
		if (k < 0)
			k = errno == EWOULDBLOCK ? -EAGAIN : -errno;
	} else {
		pthread_mutex_lock(&c->lock);
		do
			k = gnutls_record_send(c->tls, p, n);
		while (k == GNUTLS_E_INTERRUPTED);
		pthread_mutex_unlock(&c->lock);
		if (k < 0)
			k = k == GNUTLS_E_AGAIN ? -EAGAIN : -EPIPE;
	}

	if (k < 0 && k != -EAGAIN)
		c->broken = true;
	return k;
}

short td_conn_read_events(struct td_conn *c)
{
	if (!c->tls)
		return POLLIN;
	pthread_mutex_lock(&c->lock);
	short e = gnutls_record_get_direction(c->tls) ? POLLIN | POLLOUT : POLLIN;
	pthread_mutex_unlock(&c->lock);
	return e;
}

// Waits for `events`. Returns 0, TD_EXPIRED or TD_CANCELLED. POLLRDHUP counts as an event only when
// it is asked for.
static int wait_for(struct td_conn *c, short events, int64_t deadline, struct td_cancel *cancel)
{
	for (;;) {
		if (td_cancelled(cancel) || td_cancelled(c->stop))
			return TD_CANCELLED;

		int64_t left = deadline == TD_NEVER ? 60000 : deadline - td_now();
		if (left <= 0)
			return TD_EXPIRED;

		struct pollfd p[3] = {
			{c->fd, events, 0}, {td_cancel_fd(c->stop), POLLIN, 0}, {td_cancel_fd(cancel), POLLIN, 0}};
		if (poll(p, 3, left > 60000 ? 60000 : (int)left) > 0 && p[0].revents)
			return 0;
	}
}

int td_conn_fill(struct td_conn *c, size_t max, int64_t deadline, struct td_cancel *cancel, size_t *ret_n)
{
	// Keep only what is not used yet.
	if (c->in_off) {
		memmove(c->in.s, c->in.s + c->in_off, c->in.len - c->in_off);
		c->in.len -= c->in_off;
		c->in_off = 0;
	}

	size_t step = max < READ_STEP ? max : READ_STEP;
	td_buf_reserve(&c->in, step + 1);

	for (;;) {
		ssize_t k = raw_read(c, c->in.s + c->in.len, step);
		if (k >= 0) {
			c->in.len += (size_t)k;
			c->in.s[c->in.len] = 0;
			*ret_n = (size_t)k;
			return 0;
		}

		if (k != -EAGAIN)
			return TD_NOT_FOUND;
		int rc = wait_for(c, td_conn_read_events(c), deadline, cancel);
		if (rc < 0)
			return rc;
	}
}

int td_conn_write(struct td_conn *c, const void *p, size_t n, int64_t idle_ms, struct td_cancel *cancel)
{
	const char *s = p;
	int64_t deadline = td_now() + idle_ms;

	while (n) {
		ssize_t k = td_conn_try_write(c, s, n);
		if (k >= 0) {
			s += k;
			n -= (size_t)k;
			deadline = td_now() + idle_ms;
			continue;
		}

		if (k != -EAGAIN)
			return TD_NOT_FOUND;
		// A server that stops still lets replies go out. Its last act is to shut the socket
		// down.
		int64_t left = deadline - td_now();
		if (td_cancelled(cancel) || left <= 0) {
			c->broken = true; // a TLS record may be half out
			return left <= 0 ? TD_EXPIRED : TD_CANCELLED;
		}
		struct pollfd f[2] = {{c->fd, POLLOUT, 0}, {td_cancel_fd(cancel), POLLIN, 0}};
		poll(f, 2, left > 60000 ? 60000 : (int)left);
	}
	return 0;
}

void td_conn_finish(struct td_conn *c, int64_t ms)
{
	if (c->broken)
		return;
	if (c->tls) {
		pthread_mutex_lock(&c->lock);
		gnutls_bye(c->tls, GNUTLS_SHUT_WR);
		pthread_mutex_unlock(&c->lock);
	}

	shutdown(c->fd, SHUT_WR);
	c->broken = true;

	int64_t end = td_now() + ms;
	char buf[4096];
	// Read below TLS: what comes now is thrown away anyway.
	for (size_t total = 0; total < DRAIN_MAX;) {
		ssize_t k = recv(c->fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (k > 0)
			total += (size_t)k;
		else if (k == 0 || (errno != EAGAIN && errno != EINTR) || wait_for(c, POLLIN, end, NULL) < 0)
			return;
	}
}

bool td_conn_peer_gone(struct td_conn *c)
{
	struct pollfd p = {c->fd, POLLRDHUP, 0};
	return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
}
