#include "slurm/keys.h"

#include "base/rand.h"

#include <stdint.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void td_base64_encode(struct td_buf *b, const void *p, size_t n)
{
	const unsigned char *s = p;
	td_buf_reserve(b, (n + 2) / 3 * 4 + 1);
	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)s[i] << 16 | (i + 1 < n ? (uint32_t)s[i + 1] << 8 : 0) | (i + 2 < n ? s[i + 2] : 0u);
		td_buf_putc(b, alphabet[v >> 18 & 63]);
		td_buf_putc(b, alphabet[v >> 12 & 63]);
		td_buf_putc(b, i + 1 < n ? alphabet[v >> 6 & 63] : '=');
		td_buf_putc(b, i + 2 < n ? alphabet[v & 63] : '=');
	}
}

int td_base64_decode(const char *s, struct td_buf *ret, struct td_error *err)
{
	size_t n = strlen(s), pad = 0;
	if (n % 4)
		return td_fail(err, TD_INVALID, "base64: %zu characters is not a multiple of 4", n);
	while (pad < 2 && pad < n && s[n - 1 - pad] == '=')
		pad++;
	td_auto_buf struct td_buf out = {0};
	td_buf_reserve(&out, n / 4 * 3 + 1);
	for (size_t i = 0; i < n; i += 4) {
		uint32_t v = 0;
		size_t keep = i + 4 == n ? 4 - pad : 4;
		for (size_t k = 0; k < 4; k++) {
			const char *at = k < keep ? (s[i + k] ? strchr(alphabet, s[i + k]) : NULL) : alphabet;
			if (!at)
				return td_fail(err, TD_INVALID, "base64: character %zu is not of the alphabet", i + k + 1);
			v = v << 6 | (uint32_t)(at - alphabet);
		}
		const unsigned char bytes[3] = {v >> 16 & 255, v >> 8 & 255, v & 255};
		td_buf_add(&out, bytes, keep - 1);
	}
	td_buf_add(ret, td_buf_str(&out), out.len);
	return 0;
}

char *td_slurm_key_new(size_t n)
{
	unsigned char *raw = td_malloc(n);
	td_random(raw, n);
	struct td_buf b = {0};
	td_base64_encode(&b, raw, n);
	explicit_bzero(raw, n);
	free(raw);
	return td_buf_take(&b);
}
