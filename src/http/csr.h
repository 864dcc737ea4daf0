// Requests for certificates (PKCS #10), and the keys that they are about. A key's id is the SHA-256 of its public
// half (SubjectPublicKeyInfo) as 64 hex digits: who signs a request with the key proves that he has it.
#pragma once

#include "base/err.h"
#include "base/mem.h"

#define TD_KEY_ID_LEN 65

// The id of a private key (PEM). TD_INVALID: it is none.
int td_csr_key_id(const char *pem, size_t n, char ret[TD_KEY_ID_LEN], struct td_error *err);
// The id of the key of the first certificate of a PEM text.
int td_csr_ca_id(const char *pem, size_t n, char ret[TD_KEY_ID_LEN], struct td_error *err);
// Appends the certificate of a PEM text whose key has that id, alone, as PEM: whoever sent the text may have put others
// beside it. TD_NOT_FOUND: there is none; TD_INVALID: no certificates.
int td_csr_ca_of(const char *pem, size_t n, const char *id, struct td_buf *ret, struct td_error *err);
// A request for `cn` in the group `org`, signed by that key, as PEM. The caller frees it.
int td_csr_make(const char *key_pem, size_t n, const char *cn, const char *org, char **ret, struct td_error *err);

// What a request says, after its signature was checked.
struct td_csr {
	char key_id[TD_KEY_ID_LEN];
	char *cn;   // "": none; NULL: several, or one with a NUL inside
	char *org;  // the same
	bool names; // it asks for other names (DNS, addresses) too
};
// TD_INVALID: it is no request, its key has not signed it, or the text has anything else in it.
int td_csr_read(const char *pem, size_t n, struct td_csr *ret, struct td_error *err);
void td_csr_done(struct td_csr *c);
#define td_auto_csr __attribute__((cleanup(td_csr_done)))
