// The client's end of a WebSocket: a laptop at a gateway, a gateway at an API server. It is reached as
// the client's requests are, with its certificate or token, and through no proxy.
#pragma once

#include "http/client.h"

struct td_ws_dial {
	const char *path;           // escaped; starts with '/'
	const char *protocol;       // the subprotocol on which both ends must agree
	const char *const *headers; // "Name: value", NULL-terminated; may be NULL
};
struct td_ws_far;
// Returns 0 also when the other end refuses: then *ret stays as it was, and *ret_refused has the status
// and the body, which the caller lets go of (td_http_reply_done). Errors: TD_TRANSIENT (it is not
// reached, or says nothing), TD_INVALID (what answers speaks no WebSocket), TD_CANCELLED.
int td_ws_dial(struct td_http_client *c, const struct td_ws_dial *d, struct td_cancel *cancel, struct td_ws_far **ret,
	       struct td_http_reply *ret_refused, struct td_error *err);
// NULL is fine. Nobody may use it any more.
struct td_ws_far *td_ws_far_free(struct td_ws_far *w);
TD_DEFINE_AUTO(struct td_ws_far *, td_ws_far_free)

// Sends one message. Any thread may call it. TD_NOT_FOUND: the other end is gone.
int td_ws_far_send(struct td_ws_far *w, const void *p, size_t n, struct td_cancel *cancel, struct td_error *err);
// Receives one message (≤ 4 MiB) and appends it to *ret. One thread only. While nothing comes, it sends a
// ping now and then, so that what lies between keeps the connection. Errors: TD_NOT_FOUND (closed, or
// gone), TD_INVALID (the other end broke the protocol), TD_CANCELLED.
int td_ws_far_recv(struct td_ws_far *w, struct td_cancel *cancel, struct td_buf *ret, bool *ret_binary,
		   struct td_error *err);
// Of the receiving thread: td_ws_far_recv() fails with TD_TRANSIENT when no message has come within so many
// milliseconds from now; < 0: it waits without an end, as it does at first.
void td_ws_far_within(struct td_ws_far *w, int ms);
// Says that nothing more comes from here.
void td_ws_far_close(struct td_ws_far *w);
