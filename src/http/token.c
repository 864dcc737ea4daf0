// Base64, SHA-256 and HS256 tokens on GnuTLS' primitives.
#include "http/pki.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <string.h>

static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void encode(struct td_buf *b, const unsigned char *p, size_t n, const char *abc, bool pad)
{
	td_buf_reserve(b, (n + 2) / 3 * 4 + 1);
	for (size_t i = 0; i < n; i += 3) {
		unsigned v =
			(unsigned)p[i] << 16 | (i + 1 < n ? (unsigned)p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0);
		char q[4] = {abc[v >> 18], abc[v >> 12 & 63], abc[v >> 6 & 63], abc[v & 63]};
		size_t k = n - i >= 3 ? 4 : n - i + 1;
		td_buf_add(b, q, k);
		for (; pad && k < 4; k++)
			td_buf_putc(b, '=');
	}
}

// Decodes strictly: no blanks, no other alphabet, padding as asked for, unused bits zero. False
// leaves *b as it was.
static bool decode(const char *s, size_t n, const char *abc, bool pad, struct td_buf *b)
{
	size_t start = b->len, eq = 0;
	while (pad && n && eq < 2 && s[n - 1] == '=') {
		n--;
		eq++;
	}

	if (n % 4 == 1 || (pad && (n + eq) % 4 != 0))
		return false;

	unsigned v = 0;
	for (size_t i = 0; i < n; i++) {
		const char *at = s[i] ? strchr(abc, s[i]) : NULL;
		if (!at) {
			b->len = start;
			return false;
		}
		v = v << 6 | (unsigned)(at - abc);
		if (i % 4)
			td_buf_putc(b, (char)(v >> (6 - i % 4 * 2)));
	}

	if ((n % 4 == 2 && v & 15) || (n % 4 == 3 && v & 3)) {
		b->len = start;
		return false;
	}

	td_buf_add(b, "", 0); // NUL-terminates *b also when it is empty
	return true;
}

void td_base64(struct td_buf *b, const void *p, size_t n)
{
	encode(b, p, n, plain, true);
}

int td_base64_decode(const char *s, struct td_buf *ret, struct td_error *err)
{
	return decode(s, strlen(s), plain, true, ret) ? 0 : td_fail(err, TD_INVALID, "bad base64");
}

void td_base64url(struct td_buf *b, const void *p, size_t n)
{
	encode(b, p, n, url, false);
}

int td_base64url_decode(const char *s, size_t n, struct td_buf *ret, struct td_error *err)
{
	return decode(s, n, url, false, ret) ? 0 : td_fail(err, TD_INVALID, "bad base64url");
}

void td_sha256_base64url(struct td_buf *b, const void *p, size_t n)
{
	unsigned char d[32];
	if (gnutls_hash_fast(GNUTLS_DIG_SHA256, p, n, d) < 0)
		abort();
	encode(b, d, sizeof(d), url, false);
}

void td_sha256_hex(const void *p, size_t n, char ret[65])
{
	unsigned char d[32];
	if (gnutls_hash_fast(GNUTLS_DIG_SHA256, p, n, d) < 0)
		abort();
	for (size_t i = 0; i < sizeof(d); i++) {
		ret[2 * i] = "0123456789abcdef"[d[i] >> 4];
		ret[2 * i + 1] = "0123456789abcdef"[d[i] & 15];
	}
	ret[64] = 0;
}

static void mac(const void *key, size_t key_len, const void *p, size_t n, unsigned char ret[32])
{
	if (gnutls_hmac_fast(GNUTLS_MAC_SHA256, key, key_len, p, n, ret) < 0)
		abort();
}

char *td_jwt_sign(const void *key, size_t key_len, const char *claims)
{
	struct td_buf b = {0};
	static const char head[] = "{\"alg\":\"HS256\",\"typ\":\"JWT\"}";
	encode(&b, (const unsigned char *)head, sizeof(head) - 1, url, false);
	td_buf_putc(&b, '.');
	encode(&b, (const unsigned char *)claims, strlen(claims), url, false);
	unsigned char d[32];
	mac(key, key_len, b.s, b.len, d);
	td_buf_putc(&b, '.');
	encode(&b, d, sizeof(d), url, false);
	return td_buf_take(&b);
}

// Returns true when the decoded header names HS256. A text search is enough: the signature, which
// we check as HS256, covers the header.
static bool is_hs256(const struct td_buf *head)
{
	const char *at = strstr(td_buf_str(head), "\"alg\"");
	if (!at)
		return false;
	at += 5;
	at += strspn(at, " \t\r\n");
	if (*at++ != ':')
		return false;
	at += strspn(at, " \t\r\n");
	return strncmp(at, "\"HS256\"", 7) == 0;
}

int td_jwt_verify(const void *key, size_t key_len, const char *token, char **ret_claims, struct td_error *err)
{
	size_t n = strlen(token);
	const char *d1 = strchr(token, '.'), *d2 = d1 ? strchr(d1 + 1, '.') : NULL;
	td_auto_buf struct td_buf head = {0}, claims = {0}, sig = {0};

	if (n > 16 * 1024 || !d2 || strchr(d2 + 1, '.') || !decode(token, (size_t)(d1 - token), url, false, &head) ||
	    !decode(d1 + 1, (size_t)(d2 - d1 - 1), url, false, &claims) ||
	    !decode(d2 + 1, strlen(d2 + 1), url, false, &sig) || sig.len != 32 || !is_hs256(&head) ||
	    strlen(td_buf_str(&claims)) != claims.len)
		return td_fail(err, TD_UNAUTHENTICATED, "token: not a signed HS256 token");

	unsigned char want[32];
	mac(key, key_len, token, (size_t)(d2 - token), want);
	if (gnutls_memcmp(want, sig.s, sizeof(want)) != 0)
		return td_fail(err, TD_UNAUTHENTICATED, "token: wrong signature");

	*ret_claims = td_buf_take(&claims);
	return 0;
}
