#include "kubelet/stream/spdy.h"

#include <string.h>
#include <zlib.h>

enum { BLOCK_MAX = 65536, PAIRS_MAX = 64, VERSION = 3 };

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

// Writes the empty headers as a zlib stream of stored blocks only, which needs no compressor. Its
// first bytes, 78 01, say that no dictionary is used. An empty block ends it, as a sync flush does,
// because Go's reader hands out what came before only then.
void td_spdy_reply(struct td_buf *out, uint32_t stream, bool *begun)
{
	static const char block[] = {
		0x78, 0x01, 0, 4,          0,         (char)0xfb, (char)0xff, 0, 0, 0, 0 /* no pairs */,
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

// ---- header blocks ----

// The dictionary of SPDY draft 3, section 2.6.10.1: names with their length in front, then common
// values.
static void dictionary(struct td_buf *b)
{
	static const char names[] = "options head post put delete trace accept accept-charset accept-encoding "
				    "accept-language accept-ranges age allow "
				    "authorization "
				    "cache-control connection content-base content-encoding content-language "
				    "content-length content-location content-md5 "
				    "content-range content-type date etag expect expires from host if-match "
				    "if-modified-since if-none-match if-range "
				    "if-unmodified-since last-modified location max-forwards pragma proxy-authenticate "
				    "proxy-authorization range referer "
				    "retry-after "
				    "server te trailer transfer-encoding upgrade user-agent vary via warning "
				    "www-authenticate method get status 200_OK version "
				    "HTTP/1.1 url public set-cookie keep-alive origin";
	static const char values[] =
		"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 "
		"Non-Authoritative "
		"Information204 "
		"No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 Internal "
		"Server Error501 Not "
		"Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, "
		"Wed, Thu, Fri, Sat, "
		"Sun, "
		"GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/"
		"plain,text/javascript,"
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

// Decompresses one block, which the compressor ended with a sync flush. At most `max` bytes come
// out.
static int inflate_block(z_stream *z, const char *p, size_t n, struct td_buf *ret, size_t max, struct td_error *err)
{
	z->next_in = (unsigned char *)(uintptr_t)p; // zlib only reads it
	z->avail_in = (unsigned)n;
	for (;;) {
		unsigned char out[4096];
		z->next_out = out;
		z->avail_out = sizeof(out);
		int rc = inflate(z, Z_SYNC_FLUSH);
		if (rc == Z_NEED_DICT) {
			td_auto_buf struct td_buf d = {0};
			dictionary(&d);
			if (inflateSetDictionary(z, (const unsigned char *)d.s, (unsigned)d.len) == Z_OK)
				continue;
		}

		size_t got = sizeof(out) - z->avail_out;
		// The stream has no end, so Z_STREAM_END is an error too.
		if ((rc != Z_OK && rc != Z_BUF_ERROR) || ret->len + got > max)
			return td_fail(err, TD_INVALID, "spdy: headers cannot be decompressed");

		td_buf_add(ret, (const char *)out, got);
		if (z->avail_out) // all that was there came out
			return 0;
	}
}

int td_spdy_headers_read(struct td_spdy_headers *h, const char *p, size_t n, struct td_strv *ret, struct td_error *err)
{
	td_auto_buf struct td_buf block = {0};
	if (n > TD_SPDY_FRAME_MAX)
		return td_fail(err, TD_INVALID, "spdy: headers of %zu bytes", n);
	if (!h->z) {
		h->z = td_calloc(1, sizeof(*h->z));
		if (inflateInit(h->z) != Z_OK)
			return td_fail(err, TD_INTERNAL, "no zlib");
	}
	int r = inflate_block(h->z, p, n, &block, BLOCK_MAX, err);
	return r ? r : pairs(td_buf_str(&block), block.len, ret, err);
}

void td_spdy_headers_done(struct td_spdy_headers *h)
{
	if (h->z)
		inflateEnd(h->z);
	free(td_steal(h->z));
}
