// An HTTP/1.1 server: plain or TLS (GnuTLS), on TCP or a unix socket. There is one thread per
// connection, bounded in number, and every read and write has a deadline. A connection that becomes
// a watch moves to one epoll thread (the pump). docs/design/0001-http-server.md says why the server
// is our own.
//
// Files
//   client.[ch]                client
//   server.c server_priv.h     server: listening, accepting, the orderly end
//   serve.c                    one connection's requests, one after the other
//   reply.c                    one exchange as its handler sees it
//   conn.[ch] tls.c            one connection, plain or TLS
//   tunnel.c                   a connection of a client, as a descriptor for relay.c
//   head.[ch]                  heads of requests
//   pump.[ch]                  connections that became watches
//   relay.c                    an exchange that goes on to a unix socket
//   ws.c ws_frame.[ch] ws_seen.c  WebSockets
//   dial.[ch] ws_answer.c      their client's end
//   client_priv.h              what it has of the client
//   password.[ch]             passwords of people
//   pki.[ch]                   certificates
//   csr.[ch]                   requests for them
//   token.c                    base64, SHA-256 and signed tokens
//   grpc.h grpc_priv.h         gRPC over unix sockets, as kubelets speak it with what is beside them
//   grpc_client.c grpc_server.c grpc_conn.c  its two ends, and one connection of them
//   proto.c                    the fields of its messages
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "base/mem.h"

#include <stdint.h>
#include <sys/types.h>

struct td_http_server;
// One exchange. It is valid inside its handler only, and only the handler's thread uses it.
struct td_http_x;

struct td_http_server_opts {
	const char *const *listen; // "127.0.0.1:6443", "[::1]:80", "unix:/path"; NULL-terminated
	// Server certificate (PEM). NULL: plain. Unix sockets are always plain.
	const char *cert_file, *key_file;
	// Client certificates are verified against it. Presenting one stays optional.
	const char *client_ca_file;
	size_t max_body; // default 3 MiB; a larger body gets 413
	// Default 1024; more connections wait in the backlog. Watches do not count; there may be 8
	// times as many.
	int max_conns;
	// Defaults: 10 s, 30 s, 30 s, 120 s. write_ms is the time without progress; set it high
	// where readers may pause (logs, exec sessions).
	int64_t header_ms, body_ms, write_ms, idle_ms;
	mode_t unix_mode; // default 0600
	void (*handler)(struct td_http_x *x, void *ctx);
	// Answers, by td_http_send, a request that could not be read (400, 408, 413, 414, 431, …).
	// NULL: the text `why` is sent. `x` has no usable path or body, and the connection ends
	// afterwards.
	void (*refused)(struct td_http_x *x, int status, const char *why, void *ctx);
	void *ctx;
};
// Starts to listen; td_http_server_run() serves.
int td_http_server_new(const struct td_http_server_opts *o, struct td_http_server **ret, struct td_error *err);
// The port of the first TCP listener, with port 0 resolved.
int td_http_server_port(const struct td_http_server *s);
// Serves until `cancel` fires. Then it accepts no new connections, fires td_http_cancel() of all
// handlers, cuts the streams, and joins all threads, within 2 s unless a handler ignores its
// cancel.
int td_http_server_run(struct td_http_server *s, struct td_cancel *cancel, struct td_error *err);
struct td_http_server *td_http_server_free(struct td_http_server *s);

// ---- the request ----
const char *td_http_method(const struct td_http_x *x);
// The path: percent-decoded, without the query, and without NUL, "." and ".." segments inside.
const char *td_http_path(const struct td_http_x *x);
// The raw path?query as it came.
const char *td_http_target(const struct td_http_x *x);
const char *td_http_header(const struct td_http_x *x, const char *name); // NULL when absent
// The i-th header as it came; false: there is none. Headers that came more than once are merged
// into one, except Impersonate-*.
bool td_http_header_at(const struct td_http_x *x, size_t i, const char **ret_name, const char **ret_value);
// The first value of a query parameter, decoded; NULL when absent.
const char *td_http_query(const struct td_http_x *x, const char *name);
// Appends all values of a query parameter, decoded, in their order.
void td_http_query_all(const struct td_http_x *x, const char *name, struct td_strv *ret);
// The whole body, NUL-terminated.
const char *td_http_body(const struct td_http_x *x, size_t *ret_len);
// From the verified client certificate: the common name (NULL: none) and the organizations.
const char *td_http_peer_cn(const struct td_http_x *x);
const struct td_strv *td_http_peer_orgs(const struct td_http_x *x);
int td_http_peer_uid(const struct td_http_x *x); // SO_PEERCRED on unix sockets; -1 on TCP
// A cancel that fires when the peer is gone or the server stops.
struct td_cancel *td_http_cancel(struct td_http_x *x);

// ---- one whole reply ----
// Adds a header to the reply. Call it before the reply is sent.
void td_http_add_header(struct td_http_x *x, const char *name, const char *value);
// Sends the whole reply, once per exchange: the first reply stands. A NULL content type is left
// out.
void td_http_send(struct td_http_x *x, int status, const char *content_type, const void *body, size_t len);

// ---- a streamed reply (chunked) from the handler's thread ----
// Sends the head. Fails when a reply was already sent or the peer is gone.
int td_http_stream_begin(struct td_http_x *x, int status, const char *content_type, struct td_error *err);
// The same with status 200 and a length that is known, for readers that take chunks badly (firmware). A stream that ends
// before it has so many bytes cuts the connection, and more than that cannot be written.
int td_http_stream_sized(struct td_http_x *x, const char *content_type, uint64_t length, struct td_error *err);
// Blocks. Fails when the peer is gone.
int td_http_stream_write(struct td_http_x *x, const void *p, size_t n, struct td_error *err);
// What was to come does not: the connection ends without the end of the stream, so that the reader does not take
// what he has for all there is.
void td_http_stream_cut(struct td_http_x *x);

// ---- a pushed reply (watch): the connection moves to the pump when the handler returns ----
struct td_http_push {
	// The pump calls it when the push was woken and all earlier bytes are out. It appends what
	// is to be sent next, as one chunk; when it appends nothing, the pump waits for the next
	// wake. Returns 0 to go on; after anything else the pump sends what was appended and ends
	// the stream. It must not block. More than 8 MiB that the peer has not taken cut the
	// connection: append at most 1 MiB, wake yourself, and go on in the next call.
	int (*fill)(void *ctx, struct td_buf *out);
	// The last call, from the pump: the peer is gone or stalled, the stream ended, or the
	// server stops. Frees ctx.
	void (*closed)(void *ctx);
	void *ctx;
	int64_t timeout_ms; // ends the stream after this time; 0: never
};
struct td_http_push_handle;
// Queues the head of the reply; call it last in the handler. When there are too many watches
// already, the peer gets 503 and only closed() is called. The handle is valid until closed(). It
// may be woken before the handler has returned.
struct td_http_push_handle *td_http_push(struct td_http_x *x, int status, const char *content_type,
					 const struct td_http_push *p);
// Any thread may call it. It is cheap; several wakes become one.
void td_http_push_wake(struct td_http_push_handle *h);

// ---- WebSocket (RFC 6455) ----
struct td_ws;
// Answers the upgrade with the first of `protocols` (NULL-terminated, in our order of preference)
// that the client offers. On failure it has already sent 400 (not a usable upgrade) or 403 (no
// known protocol).
int td_ws_accept(struct td_http_x *x, const char *const *protocols, struct td_ws **ret, const char **ret_protocol,
		 struct td_error *err);
// Receives one whole message (≤ 4 MiB) and appends it to *ret. Errors: TD_NOT_FOUND (the peer
// closed or is gone), TD_INVALID (the peer broke the protocol; a close was sent), TD_CANCELLED
// (also when the server stops; the next call continues where this one was). Pings are answered
// inside. Only the handler's thread may call it.
int td_ws_recv(struct td_ws *ws, struct td_cancel *cancel, struct td_buf *ret, bool *ret_binary, struct td_error *err);
// Any thread may send; the calls are serialised inside.
int td_ws_send(struct td_ws *ws, bool binary, const void *p, size_t n, struct td_error *err);
// Sends a close frame and waits up to 1 s for the peer's. Only the receiving thread may call it.
// `ws` is freed when the handler returns.
void td_ws_close(struct td_ws *ws, int code);

// ---- relay ----
// Sends this request to an HTTP server on a unix socket, with its method, the given target, and its
// headers without Authorization and Connection: keep-alive. Copies bytes both ways until the far
// end has said everything; this serves streams and upgrades alike. What the client sends after the
// request passes only after a 101. Answers 502 itself when the socket does not answer.
void td_http_relay(struct td_http_x *x, const char *unix_socket, const char *target);
// The same, to a server at an IPv4 address.
struct td_http_far {
	const char *ip;
	int port;
	const char *target;
	const char *hide;          // the name of a cookie that is not passed on
	const char *authorization; // the value of Authorization there; NULL: none
	// The only headers that go on, by the beginnings of their names, NULL-terminated; NULL: all but those above.
	// With it no upgrade goes on but to a WebSocket and SPDY/3.1.
	const char *const *only;
	const char *host; // the value of Host there; NULL: as it came
	// When it fires, the exchange ends at once, also where the client does not read what there is for it. May be NULL.
	struct td_cancel *stop;
	// Each time that the client has sent something in a WebSocket that is not a ping, a pong or a
	// close. May be NULL.
	void (*heard)(void *ctx);
	void *ctx;
};
void td_http_relay_to(struct td_http_x *x, const struct td_http_far *far);
// The two halves of it, for whoever has several servers to choose from: before the second half nothing was sent.
// -1: nobody takes a connection there within so many seconds. The second takes the connection; -1: it answers 502.
int td_http_far_dial(const char *ip, int port, int within_s);
void td_http_relay_on(struct td_http_x *x, int fd, const struct td_http_far *far);
