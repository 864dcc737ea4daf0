// Many connections to one socket over one pair of pipes: what `tandem-standin lines` and a gateway say to each other
// (lines.c, gateway/session_lines.c). libc only.
//
// A frame is a letter, the number of its connection in three bytes, and a length in four, the most significant byte
// first; then, of LINES_DATA alone, so many bytes. Numbers are the gateway's, and none comes twice. Each end sends at
// most LINES_WINDOW bytes of a connection that the other has not let go (LINES_ACK), so a slow reader holds up nobody
// else's, and neither end has to keep more.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	LINES_HEAD = 8,
	LINES_MOST = 64,          // connections at once
	LINES_WINDOW = 256 << 10, // bytes
	LINES_PIECE = 16 << 10,   // the most that one frame carries
	LINES_NUMBERS = 1 << 24,
	LINES_DIAL_MS = 10000 // how long a server that only just starts is waited for
};
enum lines_letter {
	LINES_OPEN = 'o',    // to the server: a new connection
	LINES_OPENED = 'y',  // from it: there it is
	LINES_REFUSED = 'n', // from it: there is none; the length is errno
	LINES_DATA = 'd',
	LINES_ACK = 'a',  // the length: so many bytes were passed on
	LINES_CLOSE = 'c' // both ways: this end is gone, after what it has sent
};
struct lines_frame {
	char letter;
	uint32_t number, n;
	const uint8_t *data; // LINES_DATA: n bytes
};

static inline void lines_head(uint8_t *ret, char letter, uint32_t number, uint32_t n)
{
	const uint32_t words[2] = {(uint32_t)(uint8_t)letter << 24 | (number & 0xffffff), n};
	for (int i = 0; i < LINES_HEAD; i++)
		ret[i] = (uint8_t)(words[i / 4] >> (24 - 8 * (i % 4)));
}

// One frame of these n bytes: how many it takes; 0: more are needed; -1: this is none.
static inline long lines_read(const uint8_t *p, size_t n, struct lines_frame *ret)
{
	if (n < LINES_HEAD)
		return 0;
	*ret = (struct lines_frame){.letter = (char)p[0],
				    .number = (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3],
				    .n = (uint32_t)p[4] << 24 | (uint32_t)p[5] << 16 | (uint32_t)p[6] << 8 | p[7],
				    .data = p + LINES_HEAD};
	bool known = ret->letter == LINES_OPEN || ret->letter == LINES_OPENED || ret->letter == LINES_REFUSED ||
		     ret->letter == LINES_DATA || ret->letter == LINES_ACK || ret->letter == LINES_CLOSE;
	if (!known || ret->n > (ret->letter == LINES_DATA ? (uint32_t)LINES_PIECE : (uint32_t)LINES_WINDOW))
		return -1;
	size_t all = LINES_HEAD + (ret->letter == LINES_DATA ? ret->n : 0);
	return n < all ? 0 : (long)all;
}
