// What the files of the server share.
#pragma once

#include "http/conn.h"
#include "http/head.h"
#include "http/pump.h"
#include "http/server.h"

#define TD_WS_MESSAGE_MAX (4u << 20)
#define TD_GRACE_MS 1000 // a stopping server lets handlers answer for so long before it cuts their connections

struct td_worker; // one connection's thread

struct td_http_server {
	struct td_http_server_opts o; // numbers and the handler; strings are not kept
	struct td_strv unix_paths;    // unlinked at the end
	struct listener {
		int fd;
		bool is_unix;
	} *listeners;
	int n_listeners, port;
	struct td_tls *tls;
	struct td_cancel *stop;
	struct td_pump *pump;
	int wake_fd;          // a worker ended
	pthread_mutex_t lock; // guards everything below, and td_worker.conn and .cancel
	struct td_worker *workers, *ended;
	int n_workers;
};

struct td_worker {
	struct td_http_server *s;
	pthread_t thread;
	struct td_conn *conn;     // NULL once the pump has it
	struct td_cancel *cancel; // of the handler that runs, when it asked for one
	int64_t waits_since;      // for the peer to say what it wants; 0: a request is being served. Atomic
	bool sent_away;           // to make room: no word of farewell. Atomic
	struct td_worker *prev, *next;
};

enum td_x_state {
	TD_X_FRESH,  // nothing sent
	TD_X_SENT,   // one whole reply is out
	TD_X_STREAM, // chunks are being sent
	TD_X_PUSH,   // the pump takes over
	TD_X_TAKEN,  // upgraded or relayed: HTTP is over on this connection
};

struct td_http_x {
	struct td_http_server *s;
	struct td_worker *w;
	struct td_conn *c;
	struct td_head head;
	struct td_buf body;
	struct td_buf extra;    // header lines of the reply
	struct td_strv decoded; // what td_http_query() handed out
	enum td_x_state state;
	bool keep_alive, head_only, chunked;
	struct td_http_push_handle *push;
	struct td_ws *ws;
};
void td_http_x_done(struct td_http_x *x);

// One connection from its first byte to its end; false when the pump has taken it over.
bool td_serve(struct td_worker *w);

// "HTTP/1.1 200 OK" and the common headers; without the empty line.
void td_reply_head(struct td_http_x *x, struct td_buf *b, int status, const char *content_type);
struct td_ws *td_ws_free(struct td_ws *ws);
