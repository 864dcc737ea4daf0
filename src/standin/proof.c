// SHA-1 (RFC 3174), and the proof by which Tandem's own programs on Slurm's nodes know each other: HMAC-SHA1 (RFC
// 2104) with Slurm's key, which only root reads.
#include "standin/standin.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint32_t rotate(uint32_t x, int n)
{
	return x << n | x >> (32 - n);
}

static void block(uint32_t h[5], const uint8_t *p)
{
	uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
	for (int i = 0; i < 80; i++)
		w[i] = i < 16 ? (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 |
					p[4 * i + 3]
			      : rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	for (int i = 0; i < 80; i++) {
		uint32_t f = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
			     : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
			     : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
				      : (b ^ c ^ d) + 0xca62c1d6;
		uint32_t t = rotate(a, 5) + f + e + w[i];
		e = d;
		d = c;
		c = rotate(b, 30);
		b = a;
		a = t;
	}
	h[0] += a;
	h[1] += b;
	h[2] += c;
	h[3] += d;
	h[4] += e;
}

void td_standin_sha1(const void *data, size_t n, uint8_t out[20])
{
	uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
	const uint8_t *p = data;
	size_t rest = n % 64, all = rest + 9 > 64 ? 128 : 64;
	for (size_t at = 0; at + 64 <= n; at += 64)
		block(h, p + at);
	uint8_t b[128] = {0};
	memcpy(b, p + n - rest, rest);
	b[rest] = 0x80;
	for (int i = 0; i < 8; i++)
		b[all - 1 - (size_t)i] = (uint8_t)((uint64_t)n * 8 >> (8 * i));
	for (size_t at = 0; at < all; at += 64)
		block(h, b + at);
	for (int i = 0; i < 20; i++)
		out[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}

void td_standin_proof(const struct standin_key *key, const char *text, char ret[41])
{
	uint8_t k[64] = {0}, in[64 + STANDIN_PROOF_TEXT], out[64 + 20], sum[20];
	if (key->n > sizeof(k))
		td_standin_sha1(key->s, key->n, k);
	else
		memcpy(k, key->s, key->n);
	size_t n = strnlen(text, STANDIN_PROOF_TEXT);
	for (int i = 0; i < 64; i++) {
		in[i] = k[i] ^ 0x36;
		out[i] = k[i] ^ 0x5c;
	}
	memcpy(in + 64, text, n);
	td_standin_sha1(in, 64 + n, out + 64);
	td_standin_sha1(out, sizeof(out), sum);
	for (int i = 0; i < 20; i++)
		snprintf(ret + (ptrdiff_t)2 * i, 3, "%02x", sum[i]);
}

bool td_standin_key_read(const char *path, struct standin_key *ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, ret->s, sizeof(ret->s));
	if (fd >= 0)
		close(fd);
	ret->n = n > 0 ? (size_t)n : 0;
	return n > 0;
}

bool td_standin_random(char ret[33])
{
	uint8_t b[16];
	int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	bool all = fd >= 0 && read(fd, b, sizeof(b)) == (ssize_t)sizeof(b);
	if (fd >= 0)
		close(fd);
	for (size_t i = 0; all && i < sizeof(b); i++)
		snprintf(ret + 2 * i, 3, "%02x", b[i]);
	return all;
}
