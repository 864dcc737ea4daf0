// One connection of the server, plain or TLS: non-blocking below, blocking calls with a deadline and a cancel on top.
//
// A TLS session is not thread-safe, so every GnuTLS call is made under `lock`, and never waits under it: two threads
// may use one connection, one reading and one writing (WebSockets). Writers among themselves are serialised by their
// callers.
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
	struct td_cancel *stop; // the server's; wakes every wait
	struct td_buf in;       // bytes read ahead: in.s[in_off .. in.len)
	size_t in_off;
	char *peer_cn; // of a verified client certificate
	struct td_strv peer_orgs;
	int peer_uid; // -1: unknown
	bool broken;  // nothing more can be written
};
int64_t td_now(void); // monotonic ms

struct td_conn *td_conn_new(int fd, struct td_cancel *stop); // owns fd
struct td_conn *td_conn_free(struct td_conn *c);             // closes at once
TD_DEFINE_AUTO(struct td_conn *, td_conn_free)

// Without waiting. Bytes; 0 at the end of the stream (read); -EAGAIN; or another negative errno.
ssize_t td_conn_try_read(struct td_conn *c, void *p, size_t n); // reads ahead-bytes first
ssize_t td_conn_try_write(struct td_conn *c, const void *p, size_t n);
short td_conn_read_events(struct td_conn *c); // what to poll for after -EAGAIN from read

// 0, TD_EXPIRED at the deadline (td_now() scale), TD_CANCELLED, TD_NOT_FOUND: the peer is gone.
// Reads at least one byte and appends to c->in; 0 in *ret_n: end of stream.
int td_conn_fill(struct td_conn *c, size_t max, int64_t deadline, struct td_cancel *cancel, size_t *ret_n);
// Writes all; the deadline starts again with every byte that goes out.
int td_conn_write(struct td_conn *c, const void *p, size_t n, int64_t idle_ms, struct td_cancel *cancel);
void td_conn_finish(struct td_conn *c,
		    int64_t ms); // says goodbye, then drains what the peer still sends, so that no RST eats the reply
bool td_conn_peer_gone(struct td_conn *c); // FIN or RST seen by the kernel

// ---- TLS ----
struct td_tls;
int td_tls_new(const char *cert_file, const char *key_file, const char *client_ca_file, struct td_tls **ret,
	       struct td_error *err);
struct td_tls *td_tls_free(struct td_tls *t);
int td_tls_accept(struct td_tls *t, struct td_conn *c,
		  int64_t deadline); // codes as td_conn_fill; fills peer_cn and peer_orgs
