// The two ends of what `terminal` reads from a socket: the head of one HTTP request that becomes a
// WebSocket (RFC 6455), and its frames. Both are pure, and nothing in them is believed.
#include "standin/standin.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

// ---- base64, of the handshake's few bytes ----

static void base64(const uint8_t in[20], char out[29])
{
	static const char abc[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t k = 0;
	for (size_t i = 0; i < 20; i += 3) {
		uint32_t v = (uint32_t)in[i] << 16 | (i + 1 < 20 ? (uint32_t)in[i + 1] << 8 : 0) |
			     (i + 2 < 20 ? in[i + 2] : 0);
		for (int s = 18; s >= 0; s -= 6)
			out[k++] = abc[v >> s & 63];
	}
	out[27] = '=';
	out[28] = '\0';
}

// ---- the head ----

// Whether both are the same, in a time that does not tell where they differ.
static bool same(const char *a, size_t n, const char *b)
{
	size_t m = strlen(b);
	unsigned char differs = n != m;
	for (size_t i = 0; i < n; i++)
		differs |= (unsigned char)(a[i] ^ b[m ? i % m : 0]);
	return m && !differs;
}

int td_standin_upgrade_read(const char *head, size_t n, const char *token, char ret_accept[29])
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11", scheme[] = "token ";
	bool known = false, websocket = false;
	char key[64 + sizeof(guid)] = "";
	if (n < 4 || memcmp(head, "GET ", 4) != 0)
		return 400;
	for (const char *p = head, *end = head + n; p < end;) {
		const char *lf = memchr(p, '\n', (size_t)(end - p)), *stop = lf ? lf : end;
		const char *colon = memchr(p, ':', (size_t)(stop - p));
		size_t name = colon ? (size_t)(colon - p) : 0;
		const char *v = colon ? colon + 1 : stop;
		while (v < stop && (*v == ' ' || *v == '\t'))
			v++;
		size_t len = (size_t)(stop - v);
		while (len && (v[len - 1] == '\r' || v[len - 1] == ' '))
			len--;
		if (name == 13 && !strncasecmp(p, "Authorization", 13) && len > 6 && !strncasecmp(v, scheme, 6))
			known = same(v + 6, len - 6, token);
		else if (name == 7 && !strncasecmp(p, "Upgrade", 7))
			websocket = len == 9 && !strncasecmp(v, "websocket", 9);
		else if (name == 17 && !strncasecmp(p, "Sec-WebSocket-Key", 17) && len < 64)
			snprintf(key, sizeof(key), "%.*s%s", (int)len, v, guid);
		p = stop + 1;
	}
	if (!known)
		return 401;
	if (!websocket || !*key)
		return 426;
	uint8_t hash[20];
	td_standin_sha1(key, strlen(key), hash);
	base64(hash, ret_accept);
	return 101;
}

// ---- frames ----

long td_standin_frame_read(uint8_t *p, size_t n, struct standin_frame *ret)
{
	if (n < 2)
		return 0;
	size_t len = p[1] & 0x7f, at = 2;
	if (!(p[1] & 0x80) || p[0] & 0x70 || len == 127)
		return -1; // a browser masks, has no extensions here, and types less than 64 KiB at once
	if (len == 126) {
		if (n < 4)
			return 0;
		len = (size_t)p[2] << 8 | p[3];
		at = 4;
	}
	if (len > STANDIN_FRAME_MAX || (p[0] & 8 && len > 125))
		return -1;
	if (n < at + 4 + len)
		return 0;
	const uint8_t *mask = p + at;
	at += 4;
	for (size_t i = 0; i < len; i++)
		p[at + i] ^= mask[i % 4];
	*ret = (struct standin_frame){.op = p[0] & 15, .data = p + at, .n = len};
	return (long)(at + len);
}

size_t td_standin_frame_head(int op, size_t n, uint8_t ret[4])
{
	ret[0] = (uint8_t)(0x80 | op);
	if (n < 126) {
		ret[1] = (uint8_t)n;
		return 2;
	}
	ret[1] = 126;
	ret[2] = (uint8_t)(n >> 8);
	ret[3] = (uint8_t)n;
	return 4;
}
