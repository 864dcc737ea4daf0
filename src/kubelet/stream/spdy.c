#include "kubelet/stream/spdy.h"

#include <string.h>

enum { WINDOW = 32768, BLOCK_MAX = 65536, PAIRS_MAX = 64, VERSION = 3 };

static uint32_t u32(const char *p)
{
	const unsigned char *u = (const unsigned char *)p;
	return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

static void put32(struct td_buf *b, uint32_t v)
{
	const char s[4] = {(char)(v >> 24), (char)(v >> 16), (char)(v >> 8), (char)v};
	td_buf_add(b, s, 4);
}

// ---- frames ----

int td_spdy_frame_read(const char *p, size_t n, struct td_spdy_frame *ret, size_t *ret_used, struct td_error *err)
{
	*ret_used = 0;
	if (n < 8)
		return 0;
	uint32_t first = u32(p), second = u32(p + 4), len = second & 0xffffff;
	struct td_spdy_frame f = {.flags = (uint8_t)(second >> 24)};
	if (len > TD_SPDY_FRAME_MAX)
		return td_fail(err, TD_INVALID, "spdy: a frame of %u bytes", len);
	if (first >> 31 && (first >> 16 & 0x7fff) != VERSION)
		return td_fail(err, TD_INVALID, "spdy: version %u", first >> 16 & 0x7fff);
	if (n < 8 + (size_t)len)
		return 0;
	const char *body = p + 8;
	if (!(first >> 31)) {
		f.type = TD_SPDY_DATA;
		f.stream = first;
		f.data = body;
		f.n = len;
	} else {
		uint32_t type = first & 0xffff, head = type == TD_SPDY_SYN_STREAM ? 10 : 4;
		bool ours = type == TD_SPDY_SYN_STREAM || type == TD_SPDY_RST_STREAM || type == TD_SPDY_PING;
		if (ours && len < head)
			return td_fail(err, TD_INVALID, "spdy: a frame of type %u is cut", type);
		f.type = ours ? (enum td_spdy_type)type : TD_SPDY_OTHER;
		if (ours) {
			f.stream = type == TD_SPDY_PING ? u32(body) : u32(body) & 0x7fffffff;
			f.data = body + head;
			f.n = len - head;
		}
	}
	*ret = f;
	*ret_used = 8 + (size_t)len;
	return 0;
}

// A zlib stream of stored blocks only: it needs no compressor. 78 01: no dictionary is used. An empty block ends it, as a sync flush
// does: Go's reader hands out what came before only then.
void td_spdy_reply(struct td_buf *out, uint32_t stream, bool *begun)
{
	static const char block[] = {0x78, 0x01, 0, 4,          0,         (char)0xfb, (char)0xff, 0, 0, 0, 0 /* no pairs */,
				     0,    0,    0, (char)0xff, (char)0xff};
	size_t skip = *begun ? 2 : 0;
	put32(out, 0x80000000u | VERSION << 16 | TD_SPDY_SYN_REPLY);
	put32(out, (uint32_t)(4 + sizeof(block) - skip));
	put32(out, stream);
	td_buf_add(out, block + skip, sizeof(block) - skip);
	*begun = true;
}

void td_spdy_data(struct td_buf *out, uint32_t stream, uint8_t flags, const void *p, size_t n)
{
	put32(out, stream);
	put32(out, (uint32_t)flags << 24 | (uint32_t)n);
	if (n)
		td_buf_add(out, p, n);
}

void td_spdy_ping(struct td_buf *out, uint32_t id)
{
	put32(out, 0x80000000u | VERSION << 16 | TD_SPDY_PING);
	put32(out, 4);
	put32(out, id);
}

// ---- inflate (RFC 1951), for blocks that end at a byte ----

struct bits {
	const unsigned char *p;
	size_t n, at;
	uint32_t acc;
	int have;
	bool bad;
};

static unsigned take(struct bits *b, int n)
{
	while (b->have < n) {
		if (b->at == b->n) {
			b->bad = true;
			return 0;
		}
		b->acc |= (uint32_t)b->p[b->at++] << b->have;
		b->have += 8;
	}
	unsigned v = b->acc & ((1u << n) - 1);
	b->acc >>= n;
	b->have -= n;
	return v;
}

struct code {
	short count[16], symbol[288];
};

static bool code_make(struct code *c, const unsigned char *len, int n)
{
	short at[16] = {0};
	int left = 1;
	memset(c->count, 0, sizeof(c->count));
	for (int i = 0; i < n; i++)
		c->count[len[i]]++;
	for (int i = 1; i < 16; i++) {
		left = left * 2 - c->count[i];
		if (left < 0) // more codes than there are
			return false;
		at[i] = (short)(i > 1 ? at[i - 1] + c->count[i - 1] : 0);
	}
	for (int i = 0; i < n; i++)
		if (len[i])
			c->symbol[at[len[i]]++] = (short)i;
	return true;
}

static int code_read(struct bits *b, const struct code *c)
{
	int code = 0, first = 0, index = 0;
	for (int len = 1; len < 16 && !b->bad; len++) {
		code |= (int)take(b, 1);
		if (code - c->count[len] < first)
			return c->symbol[index + code - first];
		index += c->count[len];
		first = (first + c->count[len]) << 1;
		code <<= 1;
	}
	b->bad = true;
	return -1;
}

static void copy(struct bits *b, struct td_buf *out, const struct code *lit, const struct code *dist, size_t max)
{
	static const short base[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
				     31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
	static const short extra[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
	while (!b->bad) {
		int s = code_read(b, lit);
		if (s == 256)
			return;
		if (s < 0 || s > 285 || out->len >= max) {
			b->bad = true;
		} else if (s < 256) {
			td_buf_putc(out, (char)s);
		} else {
			size_t len = (size_t)base[s - 257] + take(b, extra[s - 257]);
			int d = code_read(b, dist);
			if (d < 0 || d > 29) {
				b->bad = true;
				return;
			}
			int more = d < 4 ? 0 : d / 2 - 1;
			size_t from = (d < 4 ? (size_t)d + 1 : ((size_t)(2 + (d & 1)) << more) + 1) + take(b, more);
			if (b->bad || from > out->len || out->len + len > max) {
				b->bad = true;
				return;
			}
			while (len--)
				td_buf_putc(out, out->s[out->len - from]);
		}
	}
}

static void dynamic(struct bits *b, struct td_buf *out, size_t max)
{
	static const unsigned char order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
	unsigned char len[320] = {0};
	struct code lit, dist;
	unsigned n_lit = take(b, 5) + 257, n_dist = take(b, 5) + 1, n_code = take(b, 4) + 4;
	for (unsigned i = 0; i < n_code; i++)
		len[order[i]] = (unsigned char)take(b, 3);
	if (b->bad || n_lit > 286 || n_dist > 30 || !code_make(&lit, len, 19)) {
		b->bad = true;
		return;
	}
	memset(len, 0, sizeof(len));
	for (unsigned i = 0; i < n_lit + n_dist;) {
		int s = code_read(b, &lit);
		if (b->bad || s < 0)
			return;
		if (s < 16) {
			len[i++] = (unsigned char)s;
			continue;
		}
		unsigned char again = s == 16 && i ? len[i - 1] : 0;
		unsigned n = s == 16 ? 3 + take(b, 2) : s == 17 ? 3 + take(b, 3) : 11 + take(b, 7);
		if (b->bad || (s == 16 && !i) || i + n > n_lit + n_dist) {
			b->bad = true;
			return;
		}
		while (n--)
			len[i++] = again;
	}
	if (!len[256] || !code_make(&lit, len, (int)n_lit) || !code_make(&dist, len + n_lit, (int)n_dist)) {
		b->bad = true;
		return;
	}
	copy(b, out, &lit, &dist, max);
}

static void fixed(struct bits *b, struct td_buf *out, size_t max)
{
	unsigned char len[288];
	struct code lit, dist;
	for (int i = 0; i < 288; i++)
		len[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
	code_make(&lit, len, 288);
	memset(len, 5, 30);
	code_make(&dist, len, 30);
	copy(b, out, &lit, &dist, max);
}

static void stored(struct bits *b, struct td_buf *out, size_t max)
{
	b->acc = 0, b->have = 0;
	unsigned n = take(b, 16), inverse = take(b, 16);
	if (b->bad || (n ^ inverse) != 0xffff || n > b->n - b->at || out->len + n > max) {
		b->bad = true;
		return;
	}
	td_buf_add(out, (const char *)b->p + b->at, n);
	b->at += n;
}

// ---- header blocks ----

// SPDY draft 3, section 2.6.10.1: names with their length in front, then common values.
static void dictionary(struct td_buf *b)
{
	static const char names[] =
		"options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
		"authorization "
		"cache-control connection content-base content-encoding content-language content-length content-location content-md5 "
		"content-range content-type date etag expect expires from host if-match if-modified-since if-none-match if-range "
		"if-unmodified-since last-modified location max-forwards pragma proxy-authenticate proxy-authorization range referer "
		"retry-after "
		"server te trailer transfer-encoding upgrade user-agent vary via warning www-authenticate method get status 200_OK version "
		"HTTP/1.1 url public set-cookie keep-alive origin";
	static const char values[] =
		"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative "
		"Information204 "
		"No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not "
		"Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, "
		"Sun, "
		"GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
		"publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";
	for (const char *p = names; *p;) {
		size_t n = strcspn(p, " ");
		put32(b, (uint32_t)n);
		for (size_t i = 0; i < n; i++)
			td_buf_putc(b, p[i] == '_' ? ' ' : p[i]); // "200 OK"
		p += n + (p[n] == ' ');
	}
	td_buf_add(b, values, sizeof(values) - 1);
}

static int pairs(const char *p, size_t n, struct td_strv *ret, struct td_error *err)
{
	size_t at = 4;
	uint32_t count = n >= 4 ? u32(p) : PAIRS_MAX + 1;
	if (count > PAIRS_MAX)
		return td_fail(err, TD_INVALID, "spdy: %u headers", count);
	for (uint32_t i = 0; i < 2 * count; i++) {
		uint32_t len = n - at >= 4 ? u32(p + at) : UINT32_MAX;
		if (len > n - at - 4 || len == UINT32_MAX)
			return td_fail(err, TD_INVALID, "spdy: headers are cut");
		td_auto_free char *s = td_strndup(p + at + 4, len);
		td_strv_add(ret, s);
		at += 4 + (size_t)len;
	}
	return 0;
}

int td_spdy_headers_read(struct td_spdy_headers *h, const char *p, size_t n, struct td_strv *ret, struct td_error *err)
{
	struct bits b = {.p = (const unsigned char *)p, .n = n};
	if (!h->begun) {
		if (n < 6 || (b.p[0] & 15) != 8)
			return td_fail(err, TD_INVALID, "spdy: headers are not compressed by zlib");
		b.at = b.p[1] & 0x20 ? 6 : 2;
		dictionary(&h->window);
		h->begun = true;
	}
	size_t start = h->window.len, max = start + BLOCK_MAX;
	while (b.at < b.n && !b.bad) {
		take(&b, 1); // the last block never comes: the stream goes on
		unsigned type = take(&b, 2);
		if (type == 0)
			stored(&b, &h->window, max);
		else if (type == 1)
			fixed(&b, &h->window, max);
		else if (type == 2)
			dynamic(&b, &h->window, max);
		else
			b.bad = true;
	}
	if (b.bad)
		return td_fail(err, TD_INVALID, "spdy: headers cannot be decompressed");
	int r = pairs(h->window.s + start, h->window.len - start, ret, err);
	if (h->window.len > 2 * WINDOW) {
		memmove(h->window.s, h->window.s + h->window.len - WINDOW, WINDOW);
		h->window.len = WINDOW;
	}
	return r;
}

void td_spdy_headers_done(struct td_spdy_headers *h)
{
	td_buf_done(&h->window);
}
