// Reads the headers of HTTP/2 (HPACK, RFC 7541), for grpc.h. It writes none: what grpc_conn.c sends is plain literals. Pure.
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdint.h>

#define TD_HPACK_TABLE 4096 // bytes of a connection's table, as RFC 7541 counts them
// One direction of a connection. Zero-initialised it is new.
struct td_hpack {
	struct td_hpack_entry {
		char *name, *value;
	} v[TD_HPACK_TABLE / 32]; // the newest first
	size_t n, size, lowered;  // lowered: what the table was made smaller by; its limit is TD_HPACK_TABLE less this
};
void td_hpack_done(struct td_hpack *h);
// Reads a whole block of headers. field is called for each; text of more than 16 KiB in all is refused. TD_INVALID: it is no
// such block, and the connection cannot go on.
int td_hpack_read(struct td_hpack *h, const void *block, size_t len,
		  void (*field)(void *ctx, const char *name, const char *value), void *ctx, struct td_error *err);
