// How somebody logs in: the browser goes to the issuer and comes back with a code (RFC 6749 with PKCE,
// RFC 7636).
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
	free(t->id_token);
	td_json_unref(t->claims);
	*t = (struct td_oidc_tokens){0};
}

// What the issuer says when it gives nothing (RFC 6749, 5.2; some refuse a person only here).
static int refused(const struct td_oidc_reply *a, struct td_error *err)
{
	const char *e = td_jstr_or(td_json_root(a->body), "error", "");
	if (!strcmp(e, "access_denied"))
		return td_fail(err, TD_DENIED, "the login was refused at the issuer");
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
