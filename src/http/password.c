#include "http/password.h"

#include "base/mem.h"
#include "base/rand.h"
#include "http/pki.h"

#include <gnutls/crypto.h>
#include <string.h>

enum { ITERATIONS = 100000, MOST_ITERATIONS = 10000000, SALT = 16, HASH = 32 };

static bool derive(const char *password, const struct td_buf *salt, long long iterations, unsigned char ret[HASH])
{
	const gnutls_datum_t key = {(unsigned char *)(uintptr_t)password, (unsigned)strlen(password)},
			     s = {(unsigned char *)salt->s, (unsigned)salt->len};
	return gnutls_pbkdf2(GNUTLS_MAC_SHA256, &key, &s, (unsigned)iterations, ret, HASH) == 0;
}

char *td_password_hash(const char *password)
{
	unsigned char raw[SALT], hash[HASH];
	td_auto_buf struct td_buf salt = {0};
	struct td_buf out = {0};
	td_random(raw, sizeof(raw));
	td_buf_add(&salt, raw, sizeof(raw));
	if (!derive(password, &salt, ITERATIONS, hash))
		abort();
	td_buf_printf(&out, "pbkdf2-sha256$%d$", ITERATIONS);
	td_base64(&out, raw, sizeof(raw));
	td_buf_putc(&out, '$');
	td_base64(&out, hash, sizeof(hash));
	return td_buf_take(&out);
}

bool td_password_fits(const char *password, const char *kept)
{
	td_auto_strv struct td_strv part = {0};
	td_auto_buf struct td_buf salt = {0}, want = {0};
	unsigned char hash[HASH];
	long long n;
	td_strv_split(&part, kept ? kept : "", '$');
	if (part.n != 4 || strcmp(part.v[0], "pbkdf2-sha256") != 0 || !td_parse_i64(part.v[1], &n) || n < 1 ||
	    n > MOST_ITERATIONS || td_base64_decode(part.v[2], &salt, NULL) ||
	    td_base64_decode(part.v[3], &want, NULL) || want.len != HASH)
		return false;
	return derive(password, &salt, n, hash) && gnutls_memcmp(hash, want.s, HASH) == 0;
}

bool td_password_same(const char *a, const char *b)
{
	size_t n = strlen(a);
	return n == strlen(b) && gnutls_memcmp(a, b, n) == 0;
}
