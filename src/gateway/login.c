// Logging in by the issuer, in a browser: to the issuer, and back with a code.
//
// What the way back needs (state, nonce, the code's verifier) is in a cookie that we sign, so any
// gateway may answer. The cookie comes from the browser that began, which is what binds the login to it.
#include "gateway/keys.h"
#include "gateway/oidc.h"

#include "api/status.h"
#include "base/embedded.h"
#include "base/log.h"
#include "http/password.h"

#include <string.h>

#define BACK "/api/v1/login/oidc/callback"
#define KEEPS "tandem-login" // the cookie, and what its contents are

enum { LOGIN_S = 600, CODE_MOST = 4096 };

extern const struct td_embedded td_gateway_files[];

static const char *host_of(const char *url)
{
	const char *at = strstr(url, "://");
	return at ? at + 3 : url;
}

static int ways(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(q->g->clusters, q->g->o.ns, q->g->o.cluster);
	yyjson_val *oidc = sc ? td_jget(sc->root, "spec.identity.oidc") : NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_bool(d, o, "password", true);
	const char *name = td_jstr(oidc, "name"), *host = host_of(td_jstr_or(oidc, "issuer", ""));
	if (name)
		td_jm_str(d, o, "oidc", name);
	else if (oidc)
		td_jm_strf(d, o, "oidc", "%.*s", (int)strcspn(host, "/"), host);
	td_gateway_send(q, 200, d);
	return 0;
}

static void keep(struct td_gateway_ask *q, const char *value, const char *url)
{
	td_auto_free char *h = td_asprintf(KEEPS "=%s; Path=/api/v1/login/oidc; HttpOnly; SameSite=Lax; Max-Age=%d%s",
					   value, *value ? LOGIN_S : 0, td_starts(url, "https://") ? "; Secure" : "");
	td_http_add_header(q->x, "Set-Cookie", h);
}

static int go(struct td_gateway_ask *q, const char *url)
{
	td_http_add_header(q->x, "Location", url);
	td_http_send(q->x, 302, NULL, "", 0);
	return 0;
}

// What went wrong, for somebody who looks at a browser.
static int show(struct td_gateway_ask *q, const struct td_error *e)
{
	const struct td_embedded *f = td_embedded(td_gateway_files, "refused.html");
	const char *at = strstr(f->text, "{words}");
	td_auto_buf struct td_buf b = {0};
	td_buf_add(&b, f->text, (size_t)(at - f->text));
	td_auto_free char *clean = td_text_clean(e->msg);
	for (const char *p = clean; *p; p++)
		if (strchr("<>&\"'", *p) || (unsigned char)*p < ' ')
			td_buf_printf(&b, "&#%d;", (unsigned char)*p < ' ' ? ' ' : *p);
		else
			td_buf_putc(&b, *p);
	td_buf_puts(&b, at + strlen("{words}"));
	td_info("login by the issuer refused: %s", clean);
	td_http_send(q->x, td_gateway_status(e->code), "text/html; charset=utf-8", b.s, b.len);
	return 0;
}

static int begin(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto_gateway_oidc struct td_gateway_oidc o = {0};
	int r = td_gateway_oidc(q->g, &o, err);
	if (r)
		return r;
	// The browser may know us by another name, at which it would not keep the cookie for the way back.
	const char *url = td_jstr_or(o.spec, "gatewayURL", ""), *host = td_http_header(q->x, "Host");
	if (!td_streq(host, host_of(url)) && !td_http_query(q->x, "here")) {
		td_auto_free char *there = td_asprintf("%s/api/v1/login/oidc?here=1", url);
		return go(q, there);
	}

	td_auto_free char *state = td_oidc_secret(), *nonce = td_oidc_secret(), *verifier = td_oidc_secret(),
			  *redirect = td_asprintf("%s" BACK, url), *sealed = NULL, *there = NULL;
	const struct td_oidc_asks a = {
		.redirect = redirect, .scope = o.scope, .state = state, .nonce = nonce, .verifier = verifier};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "state", state);
	td_jm_str(d, root, "nonce", nonce);
	td_jm_str(d, root, "verifier", verifier);
	td_jm_str(d, root, "issuer", td_jstr(o.spec, "issuer"));
	if ((r = td_oidc_authorize_url(o.issuer, &a, td_gateway_cancel(q), &there, err)) ||
	    (r = td_gateway_seal(q->g, KEEPS, LOGIN_S, d, &sealed, err)))
		return r;
	keep(q, sealed, url);
	return go(q, there);
}

// Whether the browser comes back from the login that it began.
static int same(struct td_gateway_ask *q, const struct td_gateway_oidc *o, struct td_json **ret, struct td_error *err)
{
	td_auto_free char *kept = td_gateway_cookie_of(q->x, KEEPS);
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!kept || !*kept)
		return td_fail(err, TD_UNAUTHENTICATED,
			       "this login was not begun in this browser, or took longer than ten minutes");
	int r = td_gateway_unseal(q->g, KEEPS, kept, &j, err);
	if (r)
		return r;
	yyjson_val *k = td_json_root(j);
	const char *state = td_http_query(q->x, "state"), *iss = td_http_query(q->x, "iss"),
		   *issuer = td_jstr_or(o->spec, "issuer", "");
	if (!state || !td_password_same(state, td_jstr_or(k, "state", "")) || !td_streq(td_jstr(k, "issuer"), issuer) ||
	    (iss && strcmp(iss, issuer) != 0))
		return td_fail(err, TD_UNAUTHENTICATED, "this is the answer to another login: begin again");
	*ret = td_steal(j);
	return 0;
}

static int come_back(struct td_gateway_ask *q, const struct td_gateway_oidc *o, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *kept = NULL;
	int r = same(q, o, &kept, err);
	if (r)
		return r;
	const char *code = td_http_query(q->x, "code"), *error = td_http_query(q->x, "error"),
		   *more = td_http_query(q->x, "error_description");
	if (error || !code || strlen(code) > CODE_MOST)
		return td_fail(err, TD_DENIED, "the issuer let nobody in: %.60s %.200s", error ? error : "no code",
			       more ? more : "");
	td_auto_free char *redirect = td_asprintf("%s" BACK, td_jstr_or(o->spec, "gatewayURL", ""));
	td_auto_oidc_tokens struct td_oidc_tokens t = {0};
	td_auto_user struct td_gateway_user u = {0};
	const struct td_oidc_asks a = {.redirect = redirect,
				       .nonce = td_jstr_or(td_json_root(kept), "nonce", ""),
				       .verifier = td_jstr_or(td_json_root(kept), "verifier", "")};
	r = td_oidc_by_code(o->issuer, code, &a, td_gateway_cancel(q), &t, err);
	if (!r)
		r = td_gateway_oidc_person(q->g, o, td_json_root(t.claims), &u, err);
	if (!r)
		r = td_gateway_come_in(q, u.name, err);
	if (!r)
		td_info("login of %s by the issuer", u.name);
	return r;
}

// A failure is shown as a page, because nobody but a browser comes here.
static int start(struct td_gateway_ask *q, struct td_error *err)
{
	int r = td_gateway_limit(q->g->limits, &td_gateway_oidc_logins, "", err);
	if (!r)
		r = begin(q, err);
	return r ? show(q, err) : 0;
}

static int back(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto_gateway_oidc struct td_gateway_oidc o = {0};
	int r = td_gateway_limit(q->g->limits, &td_gateway_oidc_logins, "", err);
	if (!r)
		r = td_gateway_oidc(q->g, &o, err);
	if (!r) {
		r = come_back(q, &o, err);
		keep(q, "", td_jstr_or(o.spec, "gatewayURL", "")); // it counts once
	}
	return r ? show(q, err) : go(q, "/");
}

const struct td_gateway_op td_gateway_login_ops[] = {
	{"loginWays", ways},
	{"loginOidc", start},
	{"loginOidcBack", back},
	{NULL, NULL},
};
