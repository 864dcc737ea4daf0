// Fuzzes WebSocket frame heads, and a server's answer to a client: an accepted head is in bounds, and
// never needs fewer bytes than it has.
// rows: F1.4
#include "http/ws_frame.h"

#include <stdlib.h>
#include <string.h>

static void check(int ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct td_ws_frame plain;
	struct td_ws_answer answer = {0};
	char *text = malloc(size + 1);
	memcpy(text, data, size);
	long head = td_ws_answer_read(text, size, "abc", "test", &answer);
	check(head >= -1 && head <= (long)size && (head <= 0 || answer.length >= -1));
	if (head > 0)
		check(td_ws_answer_read(text, (size_t)head - 1, "abc", "test", &answer) == 0);
	int n_plain = td_ws_frame_head_plain(data, size, &plain);
	check(n_plain >= -1 && n_plain <= TD_WS_HEAD_MAX - 4);
	free(text);

	for (size_t at = 0; at < size;) {
		struct td_ws_frame f = {0};
		int n = td_ws_frame_head(data + at, size - at, &f);

		check(n >= -1 && n <= TD_WS_HEAD_MAX);
		if (n <= 0)
			break;
		check((size_t)n <= size - at && !(f.len >> 63) && (f.op < 8 || (f.fin && f.len <= 125)));
		if (n < TD_WS_HEAD_MAX) // a shorter input waits or is refused
			check(td_ws_frame_head(data + at, (size_t)n - 1, &f) <= 0);

		uint8_t out[TD_WS_HEAD_MAX];
		// There is only one way to write a length.
		check(td_ws_frame_put(out, f.op, f.len) + 4 == (size_t)n);
		at += (size_t)n;

		size_t k = size - at < f.len ? size - at : (size_t)f.len;
		char *copy = malloc(k + 1);
		memcpy(copy, data + at, k);
		td_ws_mask(copy, k, f.mask, 0);

		td_utf8_valid(copy, k);
		td_ws_mask(copy, k / 2, f.mask, 0); // in two parts: as it was before
		td_ws_mask(copy + k / 2, k - k / 2, f.mask, k / 2);
		check(memcmp(copy, data + at, k) == 0);
		free(copy);
		at += k;
	}
	return 0;
}
