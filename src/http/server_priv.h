// Declarations that the files of the server share.
#pragma once

#include "http/conn.h"
#include "http/head.h"
#include "http/pump.h"
#include "http/server.h"

// For this long a stopping server lets handlers answer before it cuts their connections.
#define TD_GRACE_MS 1000

struct td_worker; // the thread of one connection

struct td_http_server {
	struct td_http_server_opts o; // numbers and the handler; the strings are not kept
	struct td_strv unix_paths;    // removed at the end
	struct listener {
		int fd;
		bool is_unix;
	} *listeners;
	int n_listeners, port;
	struct td_tls *tls;
	struct td_cancel *stop;
	struct td_pump *pump;
	int wake_fd;          // an eventfd: a worker has ended
	pthread_mutex_t lock; // guards everything below, and td_worker.conn and .cancel
	struct td_worker *workers, *ended;
	int n_workers;
};

struct td_worker {
	struct td_http_server *s;
	pthread_t thread;
	struct td_conn *conn;     // NULL once the pump has it
	struct td_cancel *cancel; // of the running handler, when it asked for one
	// Since when the worker waits for the peer's request; 0: a request is being served. Atomic.
	int64_t waits_since;
	// The connection was cut to make room, so it ends without a TLS goodbye. Atomic.
	bool sent_away;
	struct td_worker *prev, *next;
};

enum td_x_state {
	TD_X_FRESH,  // nothing sent
	TD_X_SENT,   // one whole reply is out
	TD_X_STREAM, // chunks are being sent
	TD_X_PUSH,   // the pump takes over
	TD_X_TAKEN,  // upgraded or relayed: this connection has left HTTP
};

struct td_http_x {
	struct td_http_server *s;
	struct td_worker *w;
	struct td_conn *c;
	struct td_head head;
	struct td_buf body;
	struct td_buf extra;    // header lines of the reply
	struct td_strv decoded; // values that td_http_query() handed out
	enum td_x_state state;
	bool keep_alive, head_only, chunked, sized;
	uint64_t left; // of a stream of known length
	struct td_http_push_handle *push;
	struct td_ws *ws;
};
void td_http_x_done(struct td_http_x *x);

// Serves one connection from its first byte to its end. Returns false when the pump has taken it
// over.
bool td_serve(struct td_worker *w);

// Appends "HTTP/1.1 200 OK" and the common headers, without the empty line.
void td_http_reply_head(struct td_http_x *x, struct td_buf *b, int status, const char *content_type);
struct td_ws *td_ws_free(struct td_ws *ws);
