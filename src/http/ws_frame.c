#include "http/ws_frame.h"

static int frame_head(const void *p, size_t n, bool masked, struct td_ws_frame *ret)
{
	const uint8_t *b = p;
	if (n < 2)
		return 0;

	int op = b[0] & 15, short_len = b[1] & 127;
	bool fin = b[0] & 128, control = op >= 8;
	if (b[0] & 0x70 || !(b[1] & 128) == masked || (op > TD_WS_BINARY && op < TD_WS_CLOSE) || op > TD_WS_PONG)
		return -1;
	if (control && (!fin || short_len > 125))
		return -1;

	int ext = short_len == 126 ? 2 : short_len == 127 ? 8 : 0, head = 2 + ext + (masked ? 4 : 0);
	if (n < (size_t)head)
		return 0;

	uint64_t len = ext ? 0 : (uint64_t)short_len;
	for (int i = 0; i < ext; i++)
		len = len << 8 | b[2 + i];
	if ((ext == 2 && len < 126) || (ext == 8 && (len < 65536 || len >> 63)))
		return -1;

	*ret = (struct td_ws_frame){.fin = fin, .op = op, .len = len};
	for (int i = 0; masked && i < 4; i++)
		ret->mask[i] = b[2 + ext + i];
	return head;
}

int td_ws_frame_head(const void *p, size_t n, struct td_ws_frame *ret)
{
	return frame_head(p, n, true, ret);
}

int td_ws_frame_head_plain(const void *p, size_t n, struct td_ws_frame *ret)
{
	return frame_head(p, n, false, ret);
}

void td_ws_mask(char *p, size_t n, const uint8_t mask[4], uint64_t offset)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (char)(p[i] ^ mask[(offset + i) & 3]);
}

size_t td_ws_frame_put(uint8_t out[TD_WS_HEAD_MAX], int op, uint64_t len)
{
	out[0] = (uint8_t)(128 | op);
	if (len < 126) {
		out[1] = (uint8_t)len;
		return 2;
	}
	int ext = len < 65536 ? 2 : 8;
	out[1] = ext == 2 ? 126 : 127;
	for (int i = 0; i < ext; i++)
		out[2 + i] = (uint8_t)(len >> (8 * (ext - 1 - i)));
	return (size_t)ext + 2;
}

bool td_utf8_valid(const char *s, size_t n)
{
	const uint8_t *p = (const uint8_t *)s;
	for (size_t i = 0; i < n;) {
		uint8_t c = p[i++];
		if (c < 0x80)
			continue;

		int more = c >= 0xc2 && c <= 0xdf ? 1 : c >= 0xe0 && c <= 0xef ? 2 : c >= 0xf0 && c <= 0xf4 ? 3 : 0;
		if (!more || n - i < (size_t)more)
			return false;
		uint8_t lo = c == 0xe0   ? 0xa0
			     : c == 0xf0 ? 0x90
					 : 0x80,
			hi = c == 0xed   ? 0x9f
			     : c == 0xf4 ? 0x8f
					 : 0xbf;

		for (; more; more--, lo = 0x80, hi = 0xbf)
			if (p[i] < lo || p[i++] > hi)
				return false;
	}
	return true;
}

bool td_ws_close_code_valid(int code)
{
	return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}
