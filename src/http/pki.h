// A small certificate authority (EC P-256) and tokens. Files are PEM, keys mode 0600.
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdint.h>

// Creates ca.crt and ca.key in dir unless both are there.
int td_pki_ca_ensure(const char *dir, const char *common_name, struct td_error *err);
struct td_pki_cert {
	const char *file; // base name: dir/<file>.crt and .key
	const char *cn;
	const char *const *orgs; // NULL-terminated, may be NULL
	const char *const *sans; // DNS names and IP addresses; NULL-terminated, may be NULL
	bool server;             // server and client use; else client only
	int days;
};
// Issues the certificate unless it is there, still valid for a third of its life, and matches cn, orgs and sans.
int td_pki_issue(const char *dir, const struct td_pki_cert *c, struct td_error *err);

// HS256 JSON Web Tokens. claims: a JSON object as text. Caller frees.
char *td_jwt_sign(const void *key, size_t key_len, const char *claims_json);
// Checks the signature only; *ret_claims: the JSON text. TD_UNAUTHENTICATED otherwise.
int td_jwt_verify(const void *key, size_t key_len, const char *token, char **ret_claims, struct td_error *err);

void td_sha256_hex(const void *p, size_t n, char ret[65]);
void td_base64(struct td_buf *b, const void *p, size_t n);
int td_base64_decode(const char *s, struct td_buf *ret, struct td_error *err); // TD_INVALID
