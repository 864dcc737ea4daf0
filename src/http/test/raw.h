// Test helper: a blocking client below HTTP, plain or TLS (it does not check certificates). Every
// read waits at most a minute, which only ends a test that hangs.
#pragma once

#include "base/clock.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

enum { RAW_READ_S = 60 };

struct raw {
	int fd;
	bool late; // the last read waited in vain
	gnutls_session_t tls;
	gnutls_certificate_credentials_t cred;
	struct td_buf in;
};

static inline void raw_open(struct raw *r, int port, bool tls)
{
	memset(r, 0, sizeof(*r));
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	r->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval t = {.tv_sec = RAW_READ_S};
	setsockopt(r->fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	setsockopt(r->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));

	if (connect(r->fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		fail_msg("connect: %m");

	if (!tls)
		return;

	gnutls_certificate_allocate_credentials(&r->cred);
	gnutls_init(&r->tls, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL);
	gnutls_set_default_priority(r->tls);
	gnutls_credentials_set(r->tls, GNUTLS_CRD_CERTIFICATE, r->cred);
	gnutls_transport_set_int(r->tls, r->fd);

	int rc;
	do
		rc = gnutls_handshake(r->tls);
	while (rc < 0 && !gnutls_error_is_fatal(rc));
	if (rc < 0)
		fail_msg("handshake: %s", gnutls_strerror(rc));
}

// Ends the connection with a FIN and without close_notify.
static inline void raw_close(struct raw *r)
{
	if (r->tls) {
		gnutls_deinit(r->tls);
		gnutls_certificate_free_credentials(r->cred);
	}
	close(r->fd);
	td_buf_done(&r->in);
}

static inline void raw_send(struct raw *r, const void *p, size_t n)
{
	for (const char *s = p; n;) {
		ssize_t k = r->tls ? gnutls_record_send(r->tls, s, n) : send(r->fd, s, n, MSG_NOSIGNAL);
		if (k <= 0)
			// The server may have cut us off; its reply tells.
			return;
		s += k;
		n -= (size_t)k;
	}
}

static inline void raw_puts(struct raw *r, const char *s)
{
	raw_send(r, s, strlen(s));
}

// Appends to r->in. Returns false at the end of the stream or after a minute (late).
static inline bool raw_more(struct raw *r)
{
	char b[4096];
	ssize_t k;
	int64_t end = td_mono_ms(&td_clock_system) + RAW_READ_S * 1000;
	// TLS says "again" of a message of its own, too, such as a session ticket.
	do {
		k = r->tls ? gnutls_record_recv(r->tls, b, sizeof(b)) : recv(r->fd, b, sizeof(b), 0);
		r->late = r->tls ? k == GNUTLS_E_AGAIN || k == GNUTLS_E_INTERRUPTED : k < 0 && errno == EAGAIN;
	} while (r->late && td_mono_ms(&td_clock_system) < end);
	if (k > 0)
		td_buf_add(&r->in, b, (size_t)k);
	return k > 0;
}

// Reads until `text` has come. Returns false when it never does.
static inline bool raw_until(struct raw *r, const char *text)
{
	while (!strstr(td_buf_str(&r->in), text))
		if (!raw_more(r))
			return false;
	return true;
}

// Reads until the end. r->in then has everything. Returns true when the server has closed.
static inline bool raw_to_end(struct raw *r)
{
	while (raw_more(r))
		;
	char b;
	return r->tls ? !r->late : recv(r->fd, &b, 1, MSG_DONTWAIT) == 0;
}
