// HTTP/1.1 server of our own: plain or TLS (gnutls), TCP or unix socket. A thread per connection, bounded, every read
// and write with a deadline; a connection that becomes a watch moves to one epoll thread (the pump). Why our own:
// docs/design/0001-http-server.md.
//
// Files
//   client.[ch]                   the client
//   server.c server_priv.h serve.c reply.c   the server: listening, one connection's requests, one exchange as its
//   handler sees it conn.[ch] tls.c head.[ch]     one connection, plain or TLS; heads of requests pump.[ch] relay.c
//   connections that became watches; an exchange that goes on to a unix socket ws.c ws_frame.[ch]            WebSockets
//   pki.[ch] token.c              certificates; base64, SHA-256 and signed tokens
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "base/mem.h"

#include <stdint.h>
#include <sys/types.h>

struct td_http_server;
struct td_http_x; // one exchange: valid inside the handler only, used by its thread only

struct td_http_server_opts {
	const char *const *listen;        // "127.0.0.1:6443", "[::1]:80", "unix:/path"; NULL-terminated
	const char *cert_file, *key_file; // server certificate; NULL: plain. Unix sockets are always plain
	const char *client_ca_file;       // verify client certificates against it; presenting one stays optional
	size_t max_body;                  // default 3 MiB; larger: 413
	int max_conns; // default 1024 (watches not counted: 8 times as many); more wait in the backlog
	// Defaults 10 s, 30 s, 30 s, 120 s. write_ms: without progress; set it high where readers may pause (logs, exec
	// sessions).
	int64_t header_ms, body_ms, write_ms, idle_ms;
	mode_t unix_mode; // default 0600
	void (*handler)(struct td_http_x *x, void *ctx);
	// Answers a request that could not be read (400, 408, 413, 414, 431, …) by td_http_send; NULL: `why` as text. x
	// has no path or body to speak of, and the connection ends.
	void (*refused)(struct td_http_x *x, int status, const char *why, void *ctx);
	void *ctx;
};
int td_http_server_new(const struct td_http_server_opts *o, struct td_http_server **ret,
		       struct td_error *err);            // listens
int td_http_server_port(const struct td_http_server *s); // of the first TCP listener (port 0 resolved)
// Serves until cancel; then: no new connections, handlers get td_http_cancel() fired, streams are cut, all joined in ≤
// 2 s.
int td_http_server_run(struct td_http_server *s, struct td_cancel *cancel, struct td_error *err);
struct td_http_server *td_http_server_free(struct td_http_server *s);

// ---- the request ----
const char *td_http_method(const struct td_http_x *x);
const char *td_http_path(const struct td_http_x *x);   // percent-decoded, without the query; no NUL, "." or ".." inside
const char *td_http_target(const struct td_http_x *x); // raw path?query as it came
const char *td_http_header(const struct td_http_x *x, const char *name); // NULL when absent
// The i-th header as it came; false: there is none. Headers that came more than once are one, but for Impersonate-*.
bool td_http_header_at(const struct td_http_x *x, size_t i, const char **ret_name, const char **ret_value);
const char *td_http_query(const struct td_http_x *x, const char *name); // decoded; first one; NULL when absent
void td_http_query_all(const struct td_http_x *x, const char *name, struct td_strv *ret); // every one, in order
const char *td_http_body(const struct td_http_x *x, size_t *ret_len);                     // NUL-terminated
// Verified client certificate: common name (NULL: none) and organizations.
const char *td_http_peer_cn(const struct td_http_x *x);
const struct td_strv *td_http_peer_orgs(const struct td_http_x *x);
int td_http_peer_uid(const struct td_http_x *x);       // SO_PEERCRED on unix sockets; -1 on TCP
struct td_cancel *td_http_cancel(struct td_http_x *x); // fires when the peer is gone or the server stops

// ---- one whole reply ----
void td_http_add_header(struct td_http_x *x, const char *name, const char *value); // before the reply
void td_http_send(struct td_http_x *x, int status, const char *content_type, const void *body, size_t len);

// ---- a streamed reply (chunked) from the handler's thread ----
int td_http_stream_begin(struct td_http_x *x, int status, const char *content_type, struct td_error *err);
int td_http_stream_write(struct td_http_x *x, const void *p, size_t n,
			 struct td_error *err); // blocks; fails when the peer is gone

// ---- a pushed reply (watch): the connection moves to the pump when the handler returns ----
struct td_http_push {
	// Called by the pump when it was woken and all earlier bytes are out: appends what is to be sent (one chunk;
	// nothing: waits for the next wake). 0: goes on; anything else: sends what was appended, then ends the stream.
	// Must not block. More than 8 MiB that the peer has not taken cuts it: append at most 1 MiB, wake yourself, and
	// go on in the next call.
	int (*fill)(void *ctx, struct td_buf *out);
	void (*closed)(
		void *ctx); // last call, from the pump: peer gone, stalled, ended, or server stopping. Frees ctx.
	void *ctx;
	int64_t timeout_ms; // ends the stream after it; 0: never
};
struct td_http_push_handle;
// With too many watches already the peer gets 503 and only closed() is called.
// Queues the reply head; call last in the handler. The handle is valid until closed(); wake may be called before the
// handler has returned.
struct td_http_push_handle *td_http_push(struct td_http_x *x, int status, const char *content_type,
					 const struct td_http_push *p);
void td_http_push_wake(struct td_http_push_handle *h); // any thread; cheap; coalesced

// ---- WebSocket (RFC 6455) ----
struct td_ws;
// Answers the upgrade with the first of `protocols` (NULL-terminated, our order) that the client offers. On failure it
// has sent 400 (no upgrade) or 403 (no protocol) itself.
int td_ws_accept(struct td_http_x *x, const char *const *protocols, struct td_ws **ret, const char **ret_protocol,
		 struct td_error *err);
// One whole message (≤ 4 MiB), appended. 0; TD_NOT_FOUND: the peer closed or is gone; TD_INVALID: it broke the protocol
// (close was sent); TD_CANCELLED (also when the server stops; the next call goes on where this one was). Pings are
// answered inside. The handler's thread only.
int td_ws_recv(struct td_ws *ws, struct td_cancel *cancel, struct td_buf *ret, bool *ret_binary, struct td_error *err);
int td_ws_send(struct td_ws *ws, bool binary, const void *p, size_t n,
	       struct td_error *err); // any thread; serialised inside
// Sends close and waits shortly for the peer's; the receiving thread only. ws is freed when the handler returns.
void td_ws_close(struct td_ws *ws, int code);

// ---- relay ----
// Sends this request (method, target given, headers without Authorization and Connection: keep-alive) to an HTTP server
// on a unix socket and copies bytes both ways until the far end has said everything: streams and upgrades alike. What
// the client sends behind the request passes only after a 101. Answers 502 itself when the socket is not there.
void td_http_relay(struct td_http_x *x, const char *unix_socket, const char *target);
