// A small certificate authority (EC P-256) and tokens. Files are PEM; keys have mode 0600.
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdint.h>

// Creates ca.crt and ca.key in dir unless both exist. TD_INVALID: the existing ones do not belong
// together, or the certificate exists without its key.
int td_pki_ca_ensure(const char *dir, const char *common_name, struct td_error *err);
struct td_pki_cert {
	const char *file; // base name: dir/<file>.crt and dir/<file>.key
	const char *cn;
	const char *const *orgs; // NULL-terminated, may be NULL
	const char *const *sans; // DNS names and IP addresses; NULL-terminated, may be NULL
	bool server;             // for servers and clients; else for clients only
	int days;
};
// Issues the certificate unless there is one that still has a third of its life left and matches
// cn, orgs, sans and the use.
int td_pki_issue(const char *dir, const struct td_pki_cert *c, struct td_error *err);

// Returns a new private key (EC P-256, PKCS #8) as PEM. The caller wipes and frees it.
char *td_pki_key_new(void);

// Signs an HS256 JSON Web Token. The claims are a JSON object as text. The caller frees the token.
char *td_jwt_sign(const void *key, size_t key_len, const char *claims_json);
// Checks only the signature of an HS256 token. *ret_claims is the JSON text. TD_UNAUTHENTICATED
// when it is not valid.
int td_jwt_verify(const void *key, size_t key_len, const char *token, char **ret_claims, struct td_error *err);

void td_sha256_hex(const void *p, size_t n, char ret[65]);
// Appends the base64 text (RFC 4648, padded) of p[0..n).
void td_base64(struct td_buf *b, const void *p, size_t n);
// Appends the decoded bytes. Strict: TD_INVALID for anything that td_base64() does not write.
int td_base64_decode(const char *s, struct td_buf *ret, struct td_error *err);
// The same for URLs and tokens (RFC 4648, section 5), without padding.
void td_base64url(struct td_buf *b, const void *p, size_t n);
int td_base64url_decode(const char *s, size_t n, struct td_buf *ret, struct td_error *err);
// Appends the base64url text of the SHA-256 of p[0..n).
void td_sha256_base64url(struct td_buf *b, const void *p, size_t n);
