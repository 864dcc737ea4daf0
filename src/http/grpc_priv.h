// One connection of HTTP/2 (RFC 9113), for both ends of gRPC.
#pragma once

#include "http/grpc.h"
#include "http/hpack.h"

enum { TD_H2_STREAMS = 16 };
struct td_h2_stream {
	uint32_t id; // 0: none
	char method[128];
	struct td_buf body;  // 5 octets, then the message
	long long window;    // so much may be sent
	bool headers, ended; // what came
	int status;          // grpc-status; -1: none came
	char message[256];   // grpc-message
	struct td_buf said;  // of the stream whose answers go on: its last one
	bool goes_on;
};
struct td_h2 {
	int fd;
	bool server, greeted;
	struct td_hpack hpack;
	struct td_buf in, block; // what came and is no whole frame yet; headers that go on
	uint32_t block_of;       // 0: none go on
	bool block_ends;
	long long window, initial; // of the connection; of each new stream
	struct td_h2_stream v[TD_H2_STREAMS];
};
void td_h2_init(struct td_h2 *h, int fd, bool server);
void td_h2_done(struct td_h2 *h);
// Sends what begins a connection.
int td_h2_greet(struct td_h2 *h, struct td_error *err);
// Reads what is there, without waiting, and takes every whole frame. TD_TRANSIENT: the other end is gone.
int td_h2_take(struct td_h2 *h, struct td_error *err);
struct td_h2_stream *td_h2_find(struct td_h2 *h, uint32_t id);
struct td_h2_stream *td_h2_open(struct td_h2 *h, uint32_t id); // NULL: there are too many
void td_h2_forget(struct td_h2_stream *s);
// Headers that are sent: literals that come into no table.
void td_h2_header(struct td_buf *b, const char *name, const char *value);
int td_h2_headers(struct td_h2 *h, uint32_t id, const struct td_buf *block, bool ends, struct td_error *err);
// One message, within the windows.
int td_h2_message(struct td_h2 *h, struct td_h2_stream *s, const void *p, size_t len, bool ends, struct td_error *err);
