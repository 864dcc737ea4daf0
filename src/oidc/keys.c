// Public keys of an issuer. RSA of 2048 to 8192 bits, and P-256: what ID tokens are signed with.
#include "oidc/oidc.h"

#include "http/pki.h"

#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <string.h>

enum { RSA_LEAST = 256, RSA_MOST = 1024, EC_LEN = 32, KID_MOST = 512 };

struct oidc_key {
	char *kid; // NULL: it has none
	bool rsa;
	gnutls_pubkey_t key;
};

struct td_oidc_keys {
	struct oidc_key v[TD_OIDC_KEYS_MOST];
	size_t n;
};

struct td_oidc_keys *td_oidc_keys_free(struct td_oidc_keys *k)
{
	for (size_t i = 0; k && i < k->n; i++) {
		free(k->v[i].kid);
		gnutls_pubkey_deinit(k->v[i].key);
	}
	free(k);
	return NULL;
}

size_t td_oidc_keys_count(const struct td_oidc_keys *k)
{
	return k ? k->n : 0;
}

// A number of a key, without zeros in front.
static bool number(const yyjson_val *o, const char *field, struct td_buf *ret)
{
	const char *s = td_jstr(o, field);
	if (!s || strlen(s) > 2 * RSA_MOST || td_base64url_decode(s, strlen(s), ret, NULL))
		return false;
	size_t zeros = 0;
	while (zeros < ret->len && !ret->s[zeros])
		zeros++;
	memmove(ret->s, ret->s + zeros, ret->len - zeros);
	ret->len -= zeros;
	return ret->len > 0;
}

static gnutls_datum_t datum(const struct td_buf *b)
{
	return (gnutls_datum_t){.data = (unsigned char *)b->s, .size = (unsigned)b->len};
}

static bool rsa(const yyjson_val *o, gnutls_pubkey_t key)
{
	td_auto_buf struct td_buf n = {0}, e = {0};
	if (!number(o, "n", &n) || !number(o, "e", &e) || n.len < RSA_LEAST || n.len > RSA_MOST || e.len > 4 ||
	    !(n.s[n.len - 1] & 1) || !(e.s[e.len - 1] & 1) || (e.len == 1 && e.s[0] == 1))
		return false;
	gnutls_datum_t m = datum(&n), x = datum(&e);
	return gnutls_pubkey_import_rsa_raw(key, &m, &x) >= 0;
}

static bool ec(const yyjson_val *o, gnutls_pubkey_t key)
{
	td_auto_buf struct td_buf x = {0}, y = {0};
	if (!td_streq(td_jstr(o, "crv"), "P-256") || !number(o, "x", &x) || !number(o, "y", &y) || x.len > EC_LEN ||
	    y.len > EC_LEN)
		return false;
	gnutls_datum_t a = datum(&x), b = datum(&y);
	return gnutls_pubkey_import_ecc_raw(key, GNUTLS_ECC_CURVE_SECP256R1, &a, &b) >= 0;
}

// Whether the key is meant for what we do with it.
static bool ours(const yyjson_val *o, bool is_rsa)
{
	const char *use = td_jstr(o, "use"), *alg = td_jstr(o, "alg");
	yyjson_val *ops = td_jkey(o, "key_ops");
	bool verifies = !ops || td_jhas(ops, "verify");
	return verifies && (!use || !strcmp(use, "sig")) && (!alg || !strcmp(alg, is_rsa ? "RS256" : "ES256"));
}

static void add(struct td_oidc_keys *k, const yyjson_val *o)
{
	const char *kty = td_jstr_or(o, "kty", ""), *kid = td_jstr(o, "kid");
	bool is_rsa = !strcmp(kty, "RSA");
	if ((!is_rsa && strcmp(kty, "EC") != 0) || !ours(o, is_rsa) || (kid && strlen(kid) > KID_MOST))
		return;
	struct oidc_key *x = &k->v[k->n];
	if (gnutls_pubkey_init(&x->key) < 0)
		return;
	if (!(is_rsa ? rsa(o, x->key) : ec(o, x->key))) {
		gnutls_pubkey_deinit(x->key);
		return;
	}
	x->rsa = is_rsa;
	x->kid = td_strdup(kid);
	k->n++;
}

int td_oidc_keys_parse(const char *text, size_t n, struct td_oidc_keys **ret, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = n <= TD_OIDC_REPLY_MOST ? td_json_parse(text, n, &j, err) : td_fail(err, TD_INVALID, "too large");
	if (r) {
		td_wrap(err, "keys");
		return TD_INVALID;
	}
	yyjson_val *list = td_jkey(td_json_root(j), "keys"), *o;
	if (!yyjson_is_arr(list) || yyjson_arr_size(list) > TD_OIDC_KEYS_MOST)
		return td_fail(err, TD_INVALID, "keys: a list \"keys\" of at most %d is needed", TD_OIDC_KEYS_MOST);
	td_auto(td_oidc_keys_free) struct td_oidc_keys *k = td_calloc(1, sizeof(*k));
	size_t i, m;
	yyjson_arr_foreach (list, i, m, o)
		add(k, o);
	*ret = td_steal(k);
	return 0;
}

// r and s, 32 bytes each, as GnuTLS wants them.
static bool es256(gnutls_pubkey_t key, const gnutls_datum_t *data, const struct td_oidc_signed *s)
{
	if (s->sig_len != 2 * EC_LEN)
		return false;
	unsigned char raw[2 * EC_LEN];
	memcpy(raw, s->sig, sizeof(raw));
	gnutls_datum_t r = {.data = raw, .size = EC_LEN}, t = {.data = raw + EC_LEN, .size = EC_LEN}, der;
	if (gnutls_encode_rs_value(&der, &r, &t) < 0)
		return false;
	bool ok = gnutls_pubkey_verify_data2(key, GNUTLS_SIGN_ECDSA_SHA256, 0, data, &der) >= 0;
	gnutls_free(der.data);
	return ok;
}

static bool made(const struct oidc_key *k, const struct td_oidc_signed *s)
{
	td_auto_buf struct td_buf data = {0}, sig = {0};
	td_buf_add(&data, s->data, s->data_len);
	td_buf_add(&sig, s->sig, s->sig_len);
	gnutls_datum_t d = datum(&data), g = datum(&sig);
	return k->rsa ? gnutls_pubkey_verify_data2(k->key, GNUTLS_SIGN_RSA_SHA256, 0, &d, &g) >= 0
		      : es256(k->key, &d, s);
}

int td_oidc_keys_verify(const struct td_oidc_keys *k, const struct td_oidc_signed *s, struct td_error *err)
{
	bool is_rsa = !strcmp(s->alg, "RS256");
	if (!is_rsa && strcmp(s->alg, "ES256") != 0)
		return td_fail(err, TD_UNAUTHENTICATED, "the token is signed by %.20s: only RS256 and ES256 are taken",
			       s->alg);
	const struct oidc_key *is = NULL;
	size_t fits = 0;
	for (size_t i = 0; k && i < k->n; i++)
		if (k->v[i].rsa == is_rsa && (!s->kid || td_streq(s->kid, k->v[i].kid))) {
			is = &k->v[i];
			fits++;
		}
	if (fits != 1)
		return td_fail(err, TD_NOT_FOUND, "the issuer has no key \"%.40s\" for %s",
			       s->kid ? s->kid : "(the token names none)", s->alg);
	return made(is, s) ? 0 : td_fail(err, TD_UNAUTHENTICATED, "the token's signature is wrong");
}
