// WebSocket frames (RFC 6455 §5): pure functions over bytes from outside (fuzz/fuzz_ws.c). The code
// is our own and not wslay's, because one thread reads a connection and others write it. wslay's
// context mixes both directions and wants to own the I/O. What is left of wslay without it (one
// frame header) is less than the code around it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum td_ws_op { TD_WS_CONT = 0, TD_WS_TEXT = 1, TD_WS_BINARY = 2, TD_WS_CLOSE = 8, TD_WS_PING = 9, TD_WS_PONG = 10 };
#define TD_WS_HEAD_MAX 14
#define TD_WS_MESSAGE_MAX (4u << 20)

struct td_ws_frame {
	bool fin;
	int op; // enum td_ws_op
	uint8_t mask[4];
	uint64_t len;
};
// Parses the head of a client's frame at p[0..n). Returns its length, 0 when more bytes are needed,
// and -1 when it breaks the protocol (unmasked, reserved bits, unknown opcode, a control frame that
// is long or in parts, a length not in its shortest form).
int td_ws_frame_head(const void *p, size_t n, struct td_ws_frame *ret);
// The same of a server's frame, which must not be masked.
int td_ws_frame_head_plain(const void *p, size_t n, struct td_ws_frame *ret);
// Masks or unmasks p[0..n), which starts at `offset` in the payload.
void td_ws_mask(char *p, size_t n, const uint8_t mask[4], uint64_t offset);
// Writes the head of an unmasked, unfragmented frame. Returns its length.
size_t td_ws_frame_put(uint8_t out[TD_WS_HEAD_MAX], int op, uint64_t len);
bool td_utf8_valid(const char *p, size_t n);
// Returns true for a code that may be in a close frame (RFC 6455 §7.4).
bool td_ws_close_code_valid(int code);

// Reads the head of a server's answer to an upgrade at p[0..n), which is refused or taken: ret->status is its
// HTTP status. With 101 it must agree to `protocol` and prove by `accept` (Sec-WebSocket-Accept) that it has
// read the key. ret->length: its Content-Length, -1: none. Returns its length, 0 when more bytes are needed,
// and -1 when it is no such answer.
struct td_ws_answer {
	int status;
	long long length;
};
long td_ws_answer_read(const char *p, size_t n, const char *accept, const char *protocol, struct td_ws_answer *ret);

// Looks at what a client sends, in pieces as they come, without changing it.
struct td_ws_seen {
	uint8_t head[TD_WS_HEAD_MAX]; // of a frame that has only begun
	size_t n;
	uint64_t left; // of the frame's payload
	bool data, broken;
};
// Whether there is anything but pings, pongs and closes in it: what nobody but the program at the other
// end has asked for.
bool td_ws_seen_data(struct td_ws_seen *s, const void *p, size_t n);
