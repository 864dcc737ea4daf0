// One connection of the server, plain or TLS. The socket is non-blocking; on top of it there are
// blocking calls with a deadline and a cancel.
//
// A TLS session is not thread-safe, so every GnuTLS call is made under `lock`, and nothing waits
// under that lock. Two threads may use one connection, one of them reading and one writing
// (WebSockets). Several writers are serialised by their callers.
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "base/mem.h"

#include <gnutls/gnutls.h>
#include <pthread.h>
#include <sys/types.h>

#define TD_NEVER INT64_MAX

struct td_conn {
	int fd;
	gnutls_session_t tls;   // NULL: plain
	pthread_mutex_t lock;   // guards tls
	struct td_cancel *stop; // the server's; it wakes every wait
	struct td_buf in;       // bytes read ahead: in.s[in_off .. in.len)
	size_t in_off;
	char *peer_cn; // from a verified client certificate; NULL: none
	struct td_strv peer_orgs;
	int peer_uid; // -1: unknown
	bool broken;  // nothing more can be written
};
int64_t td_now(void); // monotonic milliseconds

struct td_conn *td_conn_new(int fd, struct td_cancel *stop); // owns fd
struct td_conn *td_conn_free(struct td_conn *c);             // closes the socket at once
TD_DEFINE_AUTO(struct td_conn *, td_conn_free)

// Both calls return at once. They return the number of bytes, 0 at the end of the stream (read
// only), -EAGAIN, or another negative errno.
ssize_t td_conn_try_read(struct td_conn *c, void *p, size_t n); // starts with the bytes read ahead
ssize_t td_conn_try_write(struct td_conn *c, const void *p, size_t n);
short td_conn_read_events(struct td_conn *c); // what to poll for after -EAGAIN from a read

// The calls below return 0, TD_EXPIRED at the deadline (on the scale of td_now()), TD_CANCELLED, or
// TD_NOT_FOUND when the peer is gone.
// Reads at least one byte and appends to c->in. *ret_n is 0 at the end of the stream.
int td_conn_fill(struct td_conn *c, size_t max, int64_t deadline, struct td_cancel *cancel, size_t *ret_n);
// Writes all bytes. The deadline starts again with every byte that goes out.
int td_conn_write(struct td_conn *c, const void *p, size_t n, int64_t idle_ms, struct td_cancel *cancel);
// Sends the end of the stream, then drains for at most `ms` what the peer still sends, so that no
// RST destroys the reply.
void td_conn_finish(struct td_conn *c, int64_t ms);
bool td_conn_peer_gone(struct td_conn *c); // the kernel has seen a FIN or RST

// ---- TLS ----
struct td_tls;
int td_tls_new(const char *cert_file, const char *key_file, const char *client_ca_file, struct td_tls **ret,
	       struct td_error *err);
struct td_tls *td_tls_free(struct td_tls *t);
// Does the handshake and fills peer_cn and peer_orgs. Returns the codes of td_conn_fill.
int td_tls_accept(struct td_tls *t, struct td_conn *c, int64_t deadline);
