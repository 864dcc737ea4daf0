// The part of SPDY/3.1 that `kubectl port-forward` speaks inside a WebSocket: frames, and header blocks compressed by
// zlib with the dictionary of the SPDY draft. Pure: bytes in, frames out.
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdint.h>

enum td_spdy_type {
	TD_SPDY_DATA = 0,
	TD_SPDY_SYN_STREAM = 1,
	TD_SPDY_SYN_REPLY = 2,
	TD_SPDY_RST_STREAM = 3,
	TD_SPDY_PING = 6,
	TD_SPDY_OTHER = 99
};
enum { TD_SPDY_FIN = 1, TD_SPDY_FRAME_MAX = 1 << 20 };

struct td_spdy_frame {
	enum td_spdy_type type;
	uint32_t stream; // PING: its id
	uint8_t flags;
	const char *data; // DATA; SYN_STREAM: the compressed headers
	size_t n;
};
// The first whole frame of p. *ret_used bytes of it (0: more are needed). TD_INVALID: not SPDY/3, or a frame larger
// than 1 MiB.
int td_spdy_frame_read(const char *p, size_t n, struct td_spdy_frame *ret, size_t *ret_used, struct td_error *err);

// Header blocks of one direction share one history.
struct td_spdy_headers {
	struct z_stream_s *z; // NULL before the first block
};
// Decompresses a block of a SYN_STREAM; appends name, value, name, value … to ret. TD_INVALID: broken, or larger than
// 64 KiB.
int td_spdy_headers_read(struct td_spdy_headers *h, const char *p, size_t n, struct td_strv *ret, struct td_error *err);
void td_spdy_headers_done(struct td_spdy_headers *h);

// Frames to send. *begun: of the compressed headers that we send; false before the first reply.
void td_spdy_reply(struct td_buf *out, uint32_t stream, bool *begun); // SYN_REPLY without headers
void td_spdy_data(struct td_buf *out, uint32_t stream, uint8_t flags, const void *p, size_t n);
void td_spdy_ping(struct td_buf *out, uint32_t id);
