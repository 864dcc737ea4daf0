// OpenID Connect: who somebody is, as an issuer says that a SlurmCluster names
// (spec.identity.oidc). The gateway lets people in by it, and the embedded API takes the same tokens.
//
// A token counts when its signature is by a key of the issuer's own document (RS256 or ES256, nothing
// else), and it is from this issuer, for this client, and of this time. Whether its person exists here
// is the caller's question.
//
// Files
//   keys.c      an issuer's public keys (JWKS, RFC 7517)
//   token.c     an ID token against keys and claims: pure
//   issuer.c issuer_priv.h   one issuer: its document, its keys as they change
//   flow.c      how somebody logs in: by a browser (code with PKCE), by a device (RFC 8628), again
#pragma once

#include "base/cancel.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "json/json.h"

enum {
	TD_OIDC_TOKEN_MOST = 16 << 10, // of one token, a code, or what an issuer calls a device
	TD_OIDC_REPLY_MOST = 256 << 10,
	TD_OIDC_KEYS_MOST = 64,
	TD_OIDC_SKEW_S = 30, // between its clock and ours
};

// ---- keys.c ----
// Immutable.
struct td_oidc_keys;
// Keys that are not for signatures, or of an algorithm that is not taken, are left out. TD_INVALID: it
// is no set of keys, or too large.
int td_oidc_keys_parse(const char *text, size_t n, struct td_oidc_keys **ret, struct td_error *err);
struct td_oidc_keys *td_oidc_keys_free(struct td_oidc_keys *k);
TD_DEFINE_AUTO(struct td_oidc_keys *, td_oidc_keys_free)
size_t td_oidc_keys_count(const struct td_oidc_keys *k);
// Whether the key with this id (NULL: the only one of its algorithm) made the signature. TD_NOT_FOUND:
// there is no such key, so newer keys may have it. TD_UNAUTHENTICATED: it did not.
struct td_oidc_signed {
	const char *alg, *kid;
	const void *data, *sig;
	size_t data_len, sig_len;
};
int td_oidc_keys_verify(const struct td_oidc_keys *k, const struct td_oidc_signed *s, struct td_error *err);

// ---- token.c ----
struct td_oidc_want {
	const char *issuer, *client_id;
	const char *nonce; // NULL: any
	int64_t now_s;
};
// The claims of a token that counts. TD_UNAUTHENTICATED says why it does not; TD_NOT_FOUND: its key is
// not among these.
int td_oidc_verify(const struct td_oidc_keys *k, const char *token, const struct td_oidc_want *w, struct td_json **ret,
		   struct td_error *err);

// What a token says of its issuer, which nobody has verified yet: to choose whom to ask. The caller
// frees it; NULL: it says nothing.
char *td_oidc_claimed_issuer(const char *token);
// Who the claims say that somebody is. NULL with err filled: nobody.
const char *td_oidc_name(const yyjson_val *claims, const char *claim, struct td_error *err);

// ---- issuer.c ----
// Everything from spec.identity.oidc; texts are copied.
struct td_oidc_opts {
	const char *issuer, *client_id;
	const char *client_secret; // NULL: a public client
	const char *ca;            // PEM; NULL: the system's
	const struct td_clock *clock;
};
// Thread-safe. Its document and keys are read when they are first needed, anew every ten minutes, and
// when a token names a key that is not there (at most once a second, for which it waits). While the issuer does not
// answer, the last keys count for an hour.
struct td_oidc;
int td_oidc_new(const struct td_oidc_opts *o, struct td_oidc **ret, struct td_error *err);
struct td_oidc *td_oidc_ref(struct td_oidc *i);
struct td_oidc *td_oidc_unref(struct td_oidc *i);
TD_DEFINE_AUTO(struct td_oidc *, td_oidc_unref)
// Whether it was made of these.
bool td_oidc_same(const struct td_oidc *i, const struct td_oidc_opts *o);
// Whether its document has the word in that list, or has no such list.
bool td_oidc_offers(struct td_oidc *i, const char *list, const char *word, struct td_cancel *c);
// The claims of an ID token. TD_UNAUTHENTICATED: it does not count. TD_TRANSIENT: the issuer does not
// answer, and the keys that were read last do not have the token's.
int td_oidc_check(struct td_oidc *i, const char *token, const char *nonce, struct td_cancel *c, struct td_json **ret,
		  struct td_error *err);

// ---- flow.c ----
// A secret that nobody guesses: 43 letters of base64url. Frees by the caller.
char *td_oidc_secret(void);
// Where the browser goes. scope: words with a blank between them. The caller frees the address.
struct td_oidc_asks {
	const char *redirect, *scope, *state, *nonce, *verifier;
};
int td_oidc_authorize_url(struct td_oidc *i, const struct td_oidc_asks *a, struct td_cancel *c, char **ret,
			  struct td_error *err);
// What a token endpoint gave: id_token was verified, claims are its claims. refresh may be NULL.
struct td_oidc_tokens {
	char *id_token, *refresh;
	struct td_json *claims;
};
void td_oidc_tokens_done(struct td_oidc_tokens *t);
#define td_auto_oidc_tokens __attribute__((cleanup(td_oidc_tokens_done)))
// By the code that the browser brought back. TD_UNAUTHENTICATED: the issuer does not take it.
// TD_DENIED: it does not let him in.
int td_oidc_by_code(struct td_oidc *i, const char *code, const struct td_oidc_asks *a, struct td_cancel *c,
		    struct td_oidc_tokens *ret, struct td_error *err);
// Begins a login by a device. *ret: device_code, user_code, verification_uri,
// verification_uri_complete (may be absent), interval, expires_in, as the issuer said. TD_UNSUPPORTED:
// the issuer has no such thing.
int td_oidc_device(struct td_oidc *i, const char *scope, struct td_cancel *c, struct td_json **ret,
		   struct td_error *err);
// Asks once whether the person has confirmed it. TD_TRANSIENT with this detail: not yet;
// err->retry_after_ms says by how much longer the issuer wants to be left alone between questions.
enum { TD_OIDC_WAITS = 1 };
int td_oidc_by_device(struct td_oidc *i, const char *device_code, struct td_cancel *c, struct td_oidc_tokens *ret,
		      struct td_error *err);
// A new ID token by what an earlier login gave.
int td_oidc_by_refresh(struct td_oidc *i, const char *refresh, struct td_cancel *c, struct td_oidc_tokens *ret,
		       struct td_error *err);
