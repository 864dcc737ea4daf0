// Fuzzes ID tokens and sets of keys, as an issuer or somebody who plays one sends them: nothing that
// is not signed by a key of the set counts.
// rows: A15.5 F1.2
#include "oidc/oidc.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	// The first line is a token, the rest a set of keys.
	const uint8_t *line = memchr(data, '\n', size);
	size_t n = line ? (size_t)(line - data) : size;
	td_auto_free char *token = td_strndup((const char *)data, n);
	td_auto(td_oidc_keys_free) struct td_oidc_keys *keys = NULL;
	td_auto(td_json_unref) struct td_json *claims = NULL;
	if (line && td_oidc_keys_parse((const char *)line + 1, size - n - 1, &keys, NULL) == 0 &&
	    td_oidc_keys_count(keys) > TD_OIDC_KEYS_MOST)
		abort();
	const struct td_oidc_want want = {.issuer = "joe", .client_id = "tandem", .now_s = 1300819300};
	struct td_error err = TD_ERROR_INIT;
	int r = td_oidc_verify(keys, token, &want, &claims, &err);
	if ((r == 0) != (claims != NULL) || (r && !err.msg[0]) || (!r && !td_oidc_keys_count(keys)))
		abort();
	// A token that counts says whose it is.
	td_auto_free char *iss = td_oidc_claimed_issuer(token);
	if (!r && !td_streq(iss, want.issuer))
		abort();
	return 0;
}
