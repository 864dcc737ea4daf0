// gRPC over unix sockets, as far as a kubelet speaks it with what is beside it on its node: calls with one question and one
// answer, both ends, and on the server's end one call whose answers go on (HTTP/2, RFC 9113, without TLS; messages are not
// compressed). And the fields of its messages (Protocol Buffers), which are read in place.
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "base/mem.h"

#include <stdint.h>

enum { TD_GRPC_MESSAGE = 4 << 20 }; // the largest message

// Calls a method ("/v1.PodResourcesLister/List") at a socket, once, within timeout_ms. ret: the answer, as it came. Errors:
// TD_TRANSIENT (nobody answers), TD_UNSUPPORTED (there is no such method), TD_DENIED (it refused, err says how), TD_INVALID,
// TD_CANCELLED.
struct td_grpc_ask {
	const char *socket, *method;
	const void *message;
	size_t len;
	int64_t timeout_ms;
};
int td_grpc_call(const struct td_grpc_ask *ask, struct td_cancel *c, struct td_buf *ret, struct td_error *err);

struct td_grpc_server {
	const char *socket; // made anew; mode 0600
	// Answers a call. Its error is the caller's; TD_UNSUPPORTED: there is no such method.
	int (*call)(void *ctx, const char *method, const void *message, size_t len, struct td_buf *ret,
		    struct td_error *err);
	const char *stream; // the method whose answers go on; NULL: none
	// What it answers now. It is asked when the call comes and each second; what differs from the last answer is sent.
	void (*now)(void *ctx, struct td_buf *ret);
	void *ctx;
	void (*ready)(void *ctx); // it listens; NULL: nobody wants to know
};
// Serves until cancel (TD_CANCELLED), or until its socket's file is not there any more (TD_NOT_FOUND): a kubelet that starts
// removes those of others. One call at a time of each connection, and at most 8 connections.
int td_grpc_serve(const struct td_grpc_server *s, struct td_cancel *c, struct td_error *err);

// ---- fields of messages ----
struct td_proto { // what is left of a message
	const unsigned char *p, *end;
};
struct td_proto_field {
	unsigned number;
	uint64_t value;         // of a number
	const unsigned char *p; // NULL: it is a number
	size_t len;
};
static inline struct td_proto td_proto(const void *p, size_t len)
{
	return (struct td_proto){p, (const unsigned char *)p + len};
}
// The next field. False: there is none, or what follows is no message.
bool td_proto_next(struct td_proto *m, struct td_proto_field *ret);
bool td_proto_is(const struct td_proto_field *f, const char *text);
// Copies a text, cut to n - 1.
void td_proto_copy(const struct td_proto_field *f, char *ret, size_t n);
void td_proto_bytes(struct td_buf *b, unsigned number, const void *p, size_t len);
void td_proto_text(struct td_buf *b, unsigned number, const char *text);
void td_proto_number(struct td_buf *b, unsigned number, uint64_t value);
