// An ID token: three parts, a signature, and claims that must be meant for us, now (OpenID Connect
// Core 1.0, 3.1.3.7).
#include "oidc/oidc.h"

#include "http/pki.h"

#include <string.h>

static int part(const char *s, size_t n, struct td_json **ret)
{
	td_auto_buf struct td_buf b = {0};
	if (td_base64url_decode(s, n, &b, NULL) || td_json_parse(td_buf_str(&b), b.len, ret, NULL))
		return TD_UNAUTHENTICATED;
	return yyjson_is_obj(td_json_root(*ret)) ? 0 : TD_UNAUTHENTICATED;
}

static int signature(const struct td_oidc_keys *k, const char *token, const char *last, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *head = NULL;
	td_auto_buf struct td_buf sig = {0};
	if (part(token, strcspn(token, "."), &head) || td_base64url_decode(last + 1, strlen(last + 1), &sig, NULL))
		return td_fail(err, TD_UNAUTHENTICATED, "this is no signed token");
	yyjson_val *h = td_json_root(head), *kid = td_jkey(h, "kid");
	const char *alg = td_jstr(h, "alg"), *typ = td_jstr(h, "typ");
	if (!alg || (kid && !yyjson_is_str(kid)))
		return td_fail(err, TD_UNAUTHENTICATED, "the token's head says no algorithm");
	// What it asks to be understood (crit) is not understood here; other types are no ID tokens.
	if (td_jkey(h, "crit") || (td_jkey(h, "typ") && (!typ || strcasecmp(typ, "JWT") != 0)))
		return td_fail(err, TD_UNAUTHENTICATED, "this is no ID token");
	const struct td_oidc_signed s = {.alg = alg,
					 .kid = yyjson_get_str(kid),
					 .data = token,
					 .data_len = (size_t)(last - token),
					 .sig = td_buf_str(&sig),
					 .sig_len = sig.len};
	return td_oidc_keys_verify(k, &s, err);
}

// For us, and when for several, given to us.
static bool for_us(const yyjson_val *c, const char *client)
{
	yyjson_val *aud = td_jkey(c, "aud"), *azp = td_jkey(c, "azp");
	size_t count = yyjson_is_arr(aud) ? yyjson_arr_size(aud) : 1;
	bool in = td_streq(yyjson_get_str(aud), client) || td_jhas(aud, client);
	if (!in || (azp && !td_streq(yyjson_get_str(azp), client)))
		return false;
	return count == 1 || azp;
}

static int claims(const yyjson_val *c, const struct td_oidc_want *w, struct td_error *err)
{
	const char *sub = td_jstr(c, "sub");
	long long exp = td_jint(c, "exp", 0), nbf = td_jint(c, "nbf", 0), iat = td_jint(c, "iat", -1);
	if (!td_streq(td_jstr(c, "iss"), w->issuer))
		return td_fail(err, TD_UNAUTHENTICATED, "the token is of another issuer");
	if (!for_us(c, w->client_id))
		return td_fail(err, TD_UNAUTHENTICATED, "the token is for somebody else");
	if (exp <= w->now_s - TD_OIDC_SKEW_S)
		return td_fail(err, TD_UNAUTHENTICATED, "the token has expired");
	if ((td_jkey(c, "nbf") && !yyjson_is_num(td_jkey(c, "nbf"))) || nbf > w->now_s + TD_OIDC_SKEW_S ||
	    iat > w->now_s + TD_OIDC_SKEW_S || iat < 0)
		return td_fail(err, TD_UNAUTHENTICATED, "the token is not valid yet");
	if (!sub || !*sub)
		return td_fail(err, TD_UNAUTHENTICATED, "the token names nobody");
	if (w->nonce && !td_streq(td_jstr(c, "nonce"), w->nonce))
		return td_fail(err, TD_UNAUTHENTICATED, "the token belongs to another login");
	return 0;
}

int td_oidc_verify(const struct td_oidc_keys *k, const char *token, const struct td_oidc_want *w, struct td_json **ret,
		   struct td_error *err)
{
	const char *first = strchr(token, '.'), *last = first ? strchr(first + 1, '.') : NULL;
	if (strlen(token) > TD_OIDC_TOKEN_MOST || !last || strchr(last + 1, '.'))
		return td_fail(err, TD_UNAUTHENTICATED, "this is no signed token");
	td_auto(td_json_unref) struct td_json *body = NULL;
	int r = signature(k, token, last, err);
	if (r)
		return r;
	if (part(first + 1, (size_t)(last - first - 1), &body))
		return td_fail(err, TD_UNAUTHENTICATED, "the token's claims cannot be read");
	if ((r = claims(td_json_root(body), w, err)))
		return r;
	*ret = td_steal(body);
	return 0;
}

char *td_oidc_claimed_issuer(const char *token)
{
	const char *first = strchr(token, '.'), *last = first ? strchr(first + 1, '.') : NULL;
	td_auto(td_json_unref) struct td_json *body = NULL;
	if (!last || strlen(token) > TD_OIDC_TOKEN_MOST || part(first + 1, (size_t)(last - first - 1), &body))
		return NULL;
	return td_strdup(td_jstr(td_json_root(body), "iss"));
}

const char *td_oidc_name(const yyjson_val *claims, const char *claim, struct td_error *err)
{
	yyjson_val *v = td_jkey(claims, claim);
	const char *name = yyjson_get_str(v);
	if (!name || !*name || strlen(name) != yyjson_get_len(v)) {
		td_fail(err, TD_DENIED,
			"the issuer does not say your name in \"%s\": an administrator chooses another "
			"spec.identity.oidc.usernameClaim",
			claim);
		return NULL;
	}
	// An address that nobody has confirmed is whatever its owner typed.
	if (!strcmp(claim, "email") && !td_jbool(claims, "email_verified", false)) {
		td_fail(err, TD_DENIED, "the issuer has not verified the address \"%.100s\"", name);
		return NULL;
	}
	return name;
}
