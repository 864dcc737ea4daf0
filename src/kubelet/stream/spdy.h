// The part of SPDY/3.1 that `kubectl port-forward` speaks inside a WebSocket: frames, and header
// blocks compressed by zlib with the dictionary of the SPDY draft. Pure: bytes in, frames out.
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
	uint32_t stream; // of a PING: its id
	uint8_t flags;
	// Points into the input. Of DATA: its bytes; of SYN_STREAM: the compressed headers.
	const char *data;
	size_t n;
};
// Reads the first whole frame of p, which has *ret_used bytes (0: more bytes are needed).
// TD_INVALID: not SPDY/3, or a frame larger than 1 MiB.
int td_spdy_frame_read(const char *p, size_t n, struct td_spdy_frame *ret, size_t *ret_used, struct td_error *err);

// The header blocks of one direction share one compression history.
struct td_spdy_headers {
	struct z_stream_s *z; // NULL before the first block
};
// Decompresses the header block of a SYN_STREAM and appends name, value, name, value … to ret.
// TD_INVALID: it is broken, or larger than 64 KiB.
int td_spdy_headers_read(struct td_spdy_headers *h, const char *p, size_t n, struct td_strv *ret, struct td_error *err);
void td_spdy_headers_done(struct td_spdy_headers *h);

// The next three functions append a frame to send. td_spdy_reply appends a SYN_REPLY without
// headers; *begun says whether compressed headers were sent before, and is false at first.
void td_spdy_reply(struct td_buf *out, uint32_t stream, bool *begun);
void td_spdy_data(struct td_buf *out, uint32_t stream, uint8_t flags, const void *p, size_t n);
void td_spdy_ping(struct td_buf *out, uint32_t id);
