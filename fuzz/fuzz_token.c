// Fuzzes bearer tokens and base64 as they come in headers and Secrets: nobody signs without the
// key, and what decodes encodes back to the same text.
// rows: F1.2
#include "http/pki.h"

#include <string.h>

static void check(int ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char key[] = "the key of this test, long enough";
	td_auto_free char *s = td_strndup((const char *)data, size < 1 << 16 ? size : 1 << 16);
	td_auto_free char *claims = NULL, *same = NULL;
	td_auto_buf struct td_buf raw = {0}, text = {0};

	td_jwt_verify(key, sizeof(key), s, &claims, NULL);
	if (claims) { // a valid token is what td_jwt_sign() makes of its claims
		td_auto_free char *signed_again = td_jwt_sign(key, sizeof(key), claims);
		check(!strcmp(signed_again, s));
	}

	td_auto_free char *token = td_jwt_sign(key, sizeof(key), s);
	check(td_jwt_verify(key, sizeof(key), token, &same, NULL) == 0 && !strcmp(same, s));

	td_auto_free char *no = NULL;
	check(td_jwt_verify("other", 5, token, &no, NULL) != 0 && !no);

	if (td_base64_decode(s, &raw, NULL) == 0) {
		td_base64(&text, td_buf_str(&raw), raw.len);
		check(!strcmp(td_buf_str(&text), s));
	}
	return 0;
}
