// How somebody logs in: the browser goes to the issuer and comes back with a code (RFC 6749 with PKCE,
// RFC 7636); a terminal shows a code that is confirmed in any browser (RFC 8628); an earlier login is
// renewed.
#include "oidc/issuer_priv.h"

#include "base/rand.h"
#include "http/pki.h"

#include <string.h>

char *td_oidc_secret(void)
{
	unsigned char raw[32];
	struct td_buf b = {0};
	td_random(raw, sizeof(raw));
	td_base64url(&b, raw, sizeof(raw));
	explicit_bzero(raw, sizeof(raw));
	return td_buf_take(&b);
}

int td_oidc_authorize_url(struct td_oidc *i, const struct td_oidc_asks *a, struct td_cancel *c, char **ret,
			  struct td_error *err)
{
	td_auto_free char *url = NULL;
	td_auto_buf struct td_buf q = {0}, challenge = {0};
	int r = td_oidc_endpoint(i, "authorization_endpoint", c, &url, err);
	if (r)
		return r;
	td_sha256_base64url(&challenge, a->verifier, strlen(a->verifier));
	td_oidc_param(&q, "response_type", "code");
	td_oidc_param(&q, "client_id", td_oidc_client_id(i));
	td_oidc_param(&q, "redirect_uri", a->redirect);
	td_oidc_param(&q, "scope", a->scope);
	td_oidc_param(&q, "state", a->state);
	td_oidc_param(&q, "nonce", a->nonce);
	td_oidc_param(&q, "code_challenge", td_buf_str(&challenge));
	td_oidc_param(&q, "code_challenge_method", "S256");
	*ret = td_asprintf("%s%c%s", url, strchr(url, '?') ? '&' : '?', td_buf_str(&q));
	return 0;
}

void td_oidc_tokens_done(struct td_oidc_tokens *t)
{
	if (t->refresh)
		explicit_bzero(t->refresh, strlen(t->refresh));
	free(t->id_token);
	free(t->refresh);
	td_json_unref(t->claims);
	*t = (struct td_oidc_tokens){0};
}

// What the issuer says when it gives nothing (RFC 6749, 5.2; RFC 8628, 3.5).
static int refused(const struct td_oidc_reply *a, struct td_error *err)
{
	static const struct {
		const char *error;
		int code, wait_ms;
		const char *words;
	} known[] = {
		{"authorization_pending", TD_TRANSIENT, 0, "not confirmed yet"},
		{"slow_down", TD_TRANSIENT, 5000, "not confirmed yet"},
		{"access_denied", TD_DENIED, 0, "the login was refused at the issuer"},
		{"expired_token", TD_EXPIRED, 0, "nobody confirmed the login in time: begin again"},
	};
	const char *e = td_jstr_or(td_json_root(a->body), "error", "");
	for (size_t k = 0; k < TD_LEN(known); k++)
		if (!strcmp(known[k].error, e)) {
			td_fail_detail(err, known[k].code, known[k].code == TD_TRANSIENT ? TD_OIDC_WAITS : 0, "%s",
				       known[k].words);
			if (err)
				err->retry_after_ms = known[k].wait_ms;
			return known[k].code;
		}
	return td_fail(err, TD_UNAUTHENTICATED, "the issuer does not take this login: %.60s %.200s",
		       *e ? e : "without a reason", td_jstr_or(td_json_root(a->body), "error_description", ""));
}

static int tokens(struct td_oidc *i, struct td_buf *form, const char *nonce, struct td_cancel *c,
		  struct td_oidc_tokens *ret, struct td_error *err)
{
	struct td_oidc_reply a = {0};
	td_auto_oidc_tokens struct td_oidc_tokens t = {0};
	int r = td_oidc_post(i, "token_endpoint", form, c, &a, err);
	explicit_bzero(form->s, form->len);
	if (!r && a.status != 200)
		r = refused(&a, err);
	if (!r) {
		t.id_token = td_strdup(td_jstr(td_json_root(a.body), "id_token"));
		t.refresh = td_strdup(td_jstr(td_json_root(a.body), "refresh_token"));
		r = t.id_token ? td_oidc_check(i, t.id_token, nonce, c, &t.claims, err)
			       : td_fail(err, TD_UNSUPPORTED, "the issuer gives no ID token here");
	}
	td_json_unref(a.body);
	if (r)
		return r;
	*ret = t;
	t = (struct td_oidc_tokens){0};
	return 0;
}

int td_oidc_by_code(struct td_oidc *i, const char *code, const struct td_oidc_asks *a, struct td_cancel *c,
		    struct td_oidc_tokens *ret, struct td_error *err)
{
	td_auto_buf struct td_buf form = {0};
	td_oidc_param(&form, "grant_type", "authorization_code");
	td_oidc_param(&form, "code", code);
	td_oidc_param(&form, "redirect_uri", a->redirect);
	td_oidc_param(&form, "code_verifier", a->verifier);
	return tokens(i, &form, a->nonce, c, ret, err);
}

int td_oidc_device(struct td_oidc *i, const char *scope, struct td_cancel *c, struct td_json **ret,
		   struct td_error *err)
{
	td_auto_buf struct td_buf form = {0};
	struct td_oidc_reply a = {0};
	td_oidc_param(&form, "scope", scope);
	int r = td_oidc_post(i, "device_authorization_endpoint", &form, c, &a, err);
	if (!r && a.status != 200)
		r = refused(&a, err);
	if (!r) {
		yyjson_val *o = td_json_root(a.body);
		const char *code = td_jstr(o, "device_code");
		if (!code || strlen(code) > TD_OIDC_TOKEN_MOST || !td_jstr(o, "user_code") ||
		    !td_jstr(o, "verification_uri"))
			r = td_fail(err, TD_UNSUPPORTED, "the issuer's answer for a device cannot be used");
	}
	if (r)
		td_json_unref(a.body);
	else
		*ret = a.body;
	return r;
}

int td_oidc_by_device(struct td_oidc *i, const char *device_code, struct td_cancel *c, struct td_oidc_tokens *ret,
		      struct td_error *err)
{
	td_auto_buf struct td_buf form = {0};
	td_oidc_param(&form, "grant_type", "urn:ietf:params:oauth:grant-type:device_code");
	td_oidc_param(&form, "device_code", device_code);
	return tokens(i, &form, NULL, c, ret, err);
}

int td_oidc_by_refresh(struct td_oidc *i, const char *refresh, struct td_cancel *c, struct td_oidc_tokens *ret,
		       struct td_error *err)
{
	td_auto_buf struct td_buf form = {0};
	td_oidc_param(&form, "grant_type", "refresh_token");
	td_oidc_param(&form, "refresh_token", refresh);
	return tokens(i, &form, NULL, c, ret, err);
}
