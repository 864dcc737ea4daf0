// One connection of HTTP/2 (libnghttp2), for both ends of gRPC: its calls, and our bounds on them.
#pragma once

#include "http/grpc.h"

#include <nghttp2/nghttp2.h>

enum { TD_H2_STREAMS = 16 };
struct td_h2_stream {
	int32_t id; // 0: none
	char method[128];
	struct td_buf body;  // what came: 5 octets, then the message
	bool ended;          // nothing more comes
	int status;          // grpc-status; -1: none came
	char message[256];   // grpc-message
	struct td_buf out;   // what goes out, as far as the other end lets us
	size_t sent;         // of out
	bool begun, goes_on; // it is answered; more may follow
	struct td_buf said;  // of the stream whose answers go on: its last one
};
struct td_h2 {
	int fd;
	bool server;
	nghttp2_session *session;
	int64_t waits;     // since when the other end takes nothing of what it should; 0: nothing waits
	const char *broke; // which bound of ours; NULL: none
	struct td_h2_stream v[TD_H2_STREAMS];
};
// The connection owns fd. It is sent nothing yet.
struct td_h2 *td_h2_new(int fd, bool server);
void td_h2_free(struct td_h2 *h);
// Reads what is there, without waiting. TD_TRANSIENT: the other end is gone; TD_INVALID: it broke a rule.
int td_h2_take(struct td_h2 *h, struct td_error *err);
// Sends what can be sent without waiting. TD_TRANSIENT: the other end is gone, or took nothing for 5 s.
int td_h2_send(struct td_h2 *h, struct td_error *err);
// What poll() shall wait for.
short td_h2_events(struct td_h2 *h);
// ---- what td_h2_send sends next ----
// A client's call. ret: its stream, until h is freed.
int td_h2_ask(struct td_h2 *h, const struct td_grpc_ask *q, struct td_h2_stream **ret, struct td_error *err);
// One message; goes_on: more may follow, else the call ends with it.
int td_h2_answer(struct td_h2 *h, struct td_h2_stream *s, const struct td_buf *message, bool goes_on,
		 struct td_error *err);
int td_h2_refuse(struct td_h2 *h, struct td_h2_stream *s, int status, const char *message, struct td_error *err);
// ---- what came ----
// False: it is no one message.
bool td_h2_message(const struct td_h2_stream *s, const void **ret, size_t *ret_len);
