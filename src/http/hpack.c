#include "http/hpack.h"

#include <string.h>

enum { TEXT_MAX = 16 << 10, OVERHEAD = 32 };

// In the order of their codes: the octets with a code of 5 bits, then those of 6, and so on (RFC 7541 Appendix B: the code is
// canonical, so lengths and order say all of it).
static const unsigned char lengths[31] = {[5] = 10,  [6] = 26,  [7] = 32, [8] = 6,   [10] = 5,  [11] = 3,  [12] = 2,
					  [13] = 6,  [14] = 2,  [15] = 3, [19] = 3,  [20] = 8,  [21] = 13, [22] = 26,
					  [23] = 29, [24] = 12, [25] = 4, [26] = 15, [27] = 19, [28] = 29, [30] = 3};
static const unsigned char octets[256] = {
	48,  49,  50,  97,  99,  101, 105, 111, 115, 116, 32,  37,  45,  46,  47,  51,  52,  53,  54,  55,  56,  57,
	61,  65,  95,  98,  100, 102, 103, 104, 108, 109, 110, 112, 114, 117, 58,  66,  67,  68,  69,  70,  71,  72,
	73,  74,  75,  76,  77,  78,  79,  80,  81,  82,  83,  84,  85,  86,  87,  89,  106, 107, 113, 118, 119, 120,
	121, 122, 38,  42,  44,  59,  88,  90,  33,  34,  40,  41,  63,  39,  43,  124, 35,  62,  0,   36,  64,  91,
	93,  126, 94,  125, 60,  96,  123, 92,  195, 208, 128, 130, 131, 162, 184, 194, 224, 226, 153, 161, 167, 172,
	176, 177, 179, 209, 216, 217, 227, 229, 230, 129, 132, 133, 134, 136, 146, 154, 156, 160, 163, 164, 169, 170,
	173, 178, 181, 185, 186, 187, 189, 190, 196, 198, 228, 232, 233, 1,   135, 137, 138, 139, 140, 141, 143, 147,
	149, 150, 151, 152, 155, 157, 158, 165, 166, 168, 174, 175, 180, 182, 183, 188, 191, 197, 231, 239, 9,   142,
	144, 145, 148, 159, 171, 206, 215, 225, 236, 237, 199, 207, 234, 235, 192, 193, 200, 201, 202, 205, 210, 213,
	218, 219, 238, 240, 242, 243, 255, 203, 204, 211, 212, 214, 221, 222, 223, 241, 244, 245, 246, 247, 248, 250,
	251, 252, 253, 254, 2,   3,   4,   5,   6,   7,   8,   11,  12,  14,  15,  16,  17,  18,  19,  20,  21,  23,
	24,  25,  26,  27,  28,  29,  30,  31,  127, 220, 249, 10,  13,  22,
};
// RFC 7541 Appendix A.
static const struct td_hpack_fixed {
	const char *name, *value;
} fixed[] = {
	{":authority", ""},
	{":method", "GET"},
	{":method", "POST"},
	{":path", "/"},
	{":path", "/index.html"},
	{":scheme", "http"},
	{":scheme", "https"},
	{":status", "200"},
	{":status", "204"},
	{":status", "206"},
	{":status", "304"},
	{":status", "400"},
	{":status", "404"},
	{":status", "500"},
	{"accept-charset", ""},
	{"accept-encoding", "gzip, deflate"},
	{"accept-language", ""},
	{"accept-ranges", ""},
	{"accept", ""},
	{"access-control-allow-origin", ""},
	{"age", ""},
	{"allow", ""},
	{"authorization", ""},
	{"cache-control", ""},
	{"content-disposition", ""},
	{"content-encoding", ""},
	{"content-language", ""},
	{"content-length", ""},
	{"content-location", ""},
	{"content-range", ""},
	{"content-type", ""},
	{"cookie", ""},
	{"date", ""},
	{"etag", ""},
	{"expect", ""},
	{"expires", ""},
	{"from", ""},
	{"host", ""},
	{"if-match", ""},
	{"if-modified-since", ""},
	{"if-none-match", ""},
	{"if-range", ""},
	{"if-unmodified-since", ""},
	{"last-modified", ""},
	{"link", ""},
	{"location", ""},
	{"max-forwards", ""},
	{"proxy-authenticate", ""},
	{"proxy-authorization", ""},
	{"range", ""},
	{"referer", ""},
	{"refresh", ""},
	{"retry-after", ""},
	{"server", ""},
	{"set-cookie", ""},
	{"strict-transport-security", ""},
	{"transfer-encoding", ""},
	{"user-agent", ""},
	{"vary", ""},
	{"via", ""},
	{"www-authenticate", ""},
};

struct rest { // what is left of a block
	const unsigned char *p, *end;
	size_t text; // so much was read
};

void td_hpack_done(struct td_hpack *h)
{
	for (size_t i = 0; i < h->n; i++) {
		free(h->v[i].name);
		free(h->v[i].value);
	}
	*h = (struct td_hpack){0};
}

static int bad(struct td_error *err, const char *what)
{
	return td_fail(err, TD_INVALID, "HTTP/2: headers that cannot be read: %s", what);
}

// RFC 7541 5.1: a number whose first `bits` bits are the low ones of the first octet.
static int number(struct rest *r, int bits, size_t *ret, struct td_error *err)
{
	if (r->p >= r->end)
		return bad(err, "they end early");
	size_t most = ((size_t)1 << bits) - 1, n = *r->p++ & most;
	for (int shift = 0; n >= most; shift += 7) {
		if (r->p >= r->end || shift > 21)
			return bad(err, "a number");
		unsigned char c = *r->p++;
		n += (size_t)(c & 127) << shift;
		if (!(c & 128))
			break;
	}
	*ret = n;
	return 0;
}

// RFC 7541 5.2 and appendix B.
static int huffman(const unsigned char *p, size_t len, struct td_buf *ret, struct td_error *err)
{
	uint32_t code = 0, first = 0;
	size_t at = 0; // of octets[]: the first code of this length
	int n = 0;
	bool ones = true;
	for (size_t i = 0; i < len * 8; i++) {
		uint32_t bit = p[i / 8] >> (7 - i % 8) & 1;
		ones &= bit;
		code = code << 1 | bit;
		first <<= 1;
		if (++n >= (int)TD_LEN(lengths))
			return bad(err, "a code");
		if (code - first < lengths[n]) {
			td_buf_putc(ret, (char)octets[at + (code - first)]);
			code = first = 0;
			at = 0;
			n = 0;
			ones = true;
			continue;
		}
		first += lengths[n];
		at += lengths[n];
	}
	return n < 8 && ones ? 0 : bad(err, "the end of a text"); // else it ends in the middle of a code
}

static int text(struct rest *r, char **ret, struct td_error *err)
{
	size_t n = 0;
	td_auto_buf struct td_buf b = {0};
	bool coded = r->p < r->end && *r->p & 128;
	int x = number(r, 7, &n, err);
	if (!x && (n > (size_t)(r->end - r->p) || n > TEXT_MAX))
		x = bad(err, "a text's length");
	if (!x && coded)
		x = huffman(r->p, n, &b, err);
	else if (!x)
		td_buf_add(&b, r->p, n);
	if (!x && ((r->text += b.len) > TEXT_MAX || memchr(td_buf_str(&b), 0, b.len)))
		x = bad(err, "a text");
	if (x)
		return x;
	r->p += n;
	*ret = td_buf_take(&b);
	return 0;
}

static void shrink(struct td_hpack *h, size_t limit)
{
	while (h->n && h->size > limit) {
		struct td_hpack_entry *e = &h->v[--h->n];
		h->size -= strlen(e->name) + strlen(e->value) + OVERHEAD;
		free(e->name);
		free(e->value);
	}
}

// Takes over both texts.
static void insert(struct td_hpack *h, char *name, char *value)
{
	size_t size = strlen(name) + strlen(value) + OVERHEAD, limit = TD_HPACK_TABLE - h->lowered;
	shrink(h, size < limit ? limit - size : 0);
	if (size > limit) {
		free(name);
		free(value);
		return;
	}
	memmove(h->v + 1, h->v, h->n * sizeof(h->v[0]));
	h->v[0] = (struct td_hpack_entry){name, value};
	h->n++;
	h->size += size;
}

static int entry(const struct td_hpack *h, size_t i, const char **name, const char **value, struct td_error *err)
{
	if (!i || i > TD_LEN(fixed) + h->n)
		return bad(err, "an index");
	bool its = i <= TD_LEN(fixed);
	*name = its ? fixed[i - 1].name : h->v[i - TD_LEN(fixed) - 1].name;
	*value = its ? fixed[i - 1].value : h->v[i - TD_LEN(fixed) - 1].value;
	return 0;
}

// RFC 7541 6.2. keep: it comes into the table.
static int literal(struct td_hpack *h, struct rest *r, bool keep, char **ret_name, char **ret_value,
		   struct td_error *err)
{
	size_t i = 0;
	const char *known = NULL, *ignored;
	td_auto_free char *name = NULL, *value = NULL;
	int x = number(r, keep ? 6 : 4, &i, err);
	if (!x && i) {
		x = entry(h, i, &known, &ignored, err);
		if (!x)
			name = td_strdup(known);
	} else if (!x) {
		x = text(r, &name, err);
	}
	if (!x)
		x = text(r, &value, err);
	if (x)
		return x;
	if (keep)
		insert(h, td_strdup(name), td_strdup(value));
	*ret_name = td_steal(name);
	*ret_value = td_steal(value);
	return 0;
}

int td_hpack_read(struct td_hpack *h, const void *block, size_t len,
		  void (*field)(void *ctx, const char *name, const char *value), void *ctx, struct td_error *err)
{
	struct rest r = {.p = block, .end = (const unsigned char *)block + len};
	while (r.p < r.end) {
		td_auto_free char *name = NULL, *value = NULL;
		const char *n = NULL, *v = NULL;
		size_t i = 0;
		int x;
		if (*r.p & 128) {
			x = number(&r, 7, &i, err);
			if (!x)
				x = entry(h, i, &n, &v, err);
			if (!x && (r.text += strlen(n) + strlen(v)) > TEXT_MAX)
				x = bad(err, "they are too long");
			if (!x)
				field(ctx, n, v);
		} else if ((*r.p & 224) == 32) { // RFC 7541 6.3
			x = number(&r, 5, &i, err);
			if (!x && i > TD_HPACK_TABLE)
				x = bad(err, "the size of the table");
			if (!x) {
				h->lowered = TD_HPACK_TABLE - i;
				shrink(h, i);
			}
		} else {
			x = literal(h, &r, *r.p & 64, &name, &value, err);
			if (!x)
				field(ctx, name, value);
		}
		if (x)
			return x;
	}
	return 0;
}
