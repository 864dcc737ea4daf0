// Unit tests of ID tokens: each way in which one is wrong, by fixed keys.
// rows: A15.5 F1.2
#include "http/pki.h"
#include "http/server.h"
#include "oidc/oidc.h"

#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// Keys of this test and of nothing else.
static const char rsa_pem[] = "-----BEGIN RSA PRIVATE KEY-----\n"
			      "MIIEowIBAAKCAQEAzfe64vDQ1rw9GNEWuxwBYhNtX2MVhbRBEqkaP05mJTuntn8H\n"
			      "TUi6EN7Z5rmj3dOztSS/Wm6XVMaUFKWwN50zF/gTYQcn4cwWf0ivPq465wz5vpHr\n"
			      "KX4ndMvX0ZMHI+XXfT7FvWESSCBfBfPWxW2y2g3vHB5bgaduPV1QBuxnZ9y5Fs24\n"
			      "oXgMtM4VQkEPX7HmQgt3+L9Bl3PKSaocnG+b4Td1zN8i+OhENnnESdQ7l1xqreze\n"
			      "Y5qXe6/CYgbNHOrcLN4whrXsTo19Z+uW57VLCs1vnt2AH/Bdc6NxO0L+Jkxix9ap\n"
			      "jDfIZPaPsg/5HQmn3WgD/BNwAK6M49qDQatAtQIDAQABAoIBAE3LAJJQpIBGjsj9\n"
			      "yBkZxcf2UHwTn4BliaJzrk803E25z2mVZvuguW4/zYtgmGzjVd/YJlIQrSW+7xUx\n"
			      "U3Jd9HtcHm2qVzzoaaLfoBkLk4HLG9UHpguA84Qgrb4hSzQazp4mhGc378DAQUOt\n"
			      "SnQ9L60+UA6NxMAerfuNb/l9drz6KgJTUl6B3q9ih2CEM6fVsu5/yDDcx2egSeQL\n"
			      "PfiePaNlRi8nFRkUDJTHD28LJMzEiMENwmmE1JmrixgV7KR85jwYWKcuqPlDvSpT\n"
			      "xCdUONDkJj5vjQhMVUzIBvzvnurb5wnYzXDdVLMehM+/idMbVIvdNWDAjCOGwSNs\n"
			      "+KYZby0CgYEA+QxdF6ntp+yKA8lt0oukPEtMtQLYe/YU9Llrl260VHzYtrsE/h5P\n"
			      "LgiAhkxURc+1X0selT7z7dIAwUdI4wzToYb6imw4ULNBtJChtRngtfr9Q7gyidkV\n"
			      "a+cKd9i18nSVQsY6xB9TcDYuYPpQFmluc04/o0ATiP/Wt3wPHSUwWV8CgYEA07eF\n"
			      "9R+AFJ4Op0HfA/zBrAe9hhHIxuNOFbu2BiMBKIjmS5rvWmoVeb7cZUdzaAKcHiP+\n"
			      "D9BG6eHxjwYRUQPXCb1pZYLXC5+h45sZCpJpIseNfnow2NgwrI4qivDyNuN2jKyW\n"
			      "aW+3vj682SIqvtFhOwqv8M/LmmM9XcPmnmSF2msCgYB6oyv0SylMV55e3wHFfB4T\n"
			      "0sCjIhOYd0U6fVQN7eW+9PuCf/WlbSdwc59Wgp+9ANs/Ya5dr/JOWeslQgUSSW6t\n"
			      "S9pz73aLxrnEQLRgia2t7zpn7nx0hQGXcN4mxgBStDYL+7FUgliEGSoddyWY47IP\n"
			      "9ahAq3zzKYiCMgT/RSDZ4QKBgQC1LQEKohlGC3g4s4r4a40E/V63Y3KwmIYS3R7I\n"
			      "o53zJSwGmSCo+81C8QzD8uAUqt8Uf/KDb9WvgfXoUeXxsVqM8DVIdC44uTOdhfVo\n"
			      "8Z/c7m3sRP6WInOMxuArJEPyqrahbXQN6FeSCzgqjC2OO7l8AApOBlSS2sgB/InX\n"
			      "E+jj3wKBgHXF1Z1mUzVDhL6KmzCEGRGTnKacLFr7BV3qRp12kJ+CtMZsYYMI7D8n\n"
			      "r84yRFsZOjsc9SNu+OvDai4T6uZWZsFs39lSi+2Hp1AYzWekgkdKhUN0D81f5o3E\n"
			      "Wb44BnnINXeJHvPvuj+la0ksyFLbphekRuKcqj9VcfinsD1rVfyX\n"
			      "-----END RSA PRIVATE KEY-----\n";
static const char ec_pem[] = "-----BEGIN EC PRIVATE KEY-----\n"
			     "MHcCAQEEIJbN8SC2kiTy8yC+on3UQasYEHvpSUfYJqpmH7oS+yyNoAoGCCqGSM49\n"
			     "AwEHoUQDQgAEuVYkBTP5MLdgf1KUQpzb84tEIikWK4wt7XYh2/mn5OCEGodEcOEi\n"
			     "vpsesx7FOPpt07bwS3vDpQhhoOWvGEUQ/Q==\n"
			     "-----END EC PRIVATE KEY-----\n";

static gnutls_privkey_t rsa, ec;
static struct td_oidc_keys *keys;

static const struct td_oidc_want want = {
	.issuer = "https://id.example", .client_id = "tandem", .nonce = "n-1", .now_s = 1700000000};

#define HEAD "{\"alg\":\"RS256\",\"kid\":\"r1\",\"typ\":\"JWT\"}"
#define GOOD                                                                                                           \
	"{\"iss\":\"https://id.example\",\"aud\":\"tandem\",\"sub\":\"1234\",\"exp\":1700000060,\"iat\":1699999999,"   \
	"\"nonce\":\"n-1\",\"preferred_username\":\"ann\"}"

static gnutls_privkey_t load(const char *pem)
{
	gnutls_privkey_t k;
	const gnutls_datum_t d = {.data = (unsigned char *)(uintptr_t)pem, .size = (unsigned)strlen(pem)};
	assert_int_equal(gnutls_privkey_init(&k), 0);
	assert_int_equal(gnutls_privkey_import_x509_raw(k, &d, GNUTLS_X509_FMT_PEM, NULL, 0), 0);
	return k;
}

static void number(struct td_buf *b, const char *name, gnutls_datum_t *v)
{
	td_buf_printf(b, "\"%s\":\"", name);
	td_base64url(b, v->data, v->size);
	td_buf_puts(b, "\",");
	gnutls_free(v->data);
}

// The public half as a JWK; more: further fields.
static void jwk(struct td_buf *b, gnutls_privkey_t k, const char *more)
{
	gnutls_datum_t x, y;
	bool is_rsa = k == rsa;
	td_buf_puts(b, "{");
	if (is_rsa) {
		gnutls_privkey_export_rsa_raw2(k, &x, &y, NULL, NULL, NULL, NULL, NULL, NULL, GNUTLS_EXPORT_FLAG_NO_LZ);
		number(b, "n", &x);
		number(b, "e", &y);
	} else {
		gnutls_ecc_curve_t curve;
		gnutls_privkey_export_ecc_raw2(k, &curve, &x, &y, NULL, GNUTLS_EXPORT_FLAG_NO_LZ);
		number(b, "x", &x);
		number(b, "y", &y);
	}
	td_buf_printf(b, "%s%s}", is_rsa ? "\"kty\":\"RSA\"" : "\"kty\":\"EC\",\"crv\":\"P-256\"", more);
}

static void sign(struct td_buf *b, gnutls_privkey_t k)
{
	gnutls_datum_t d = {.data = (unsigned char *)b->s, .size = (unsigned)b->len}, sig;
	assert_int_equal(
		gnutls_privkey_sign_data2(k, k == rsa ? GNUTLS_SIGN_RSA_SHA256 : GNUTLS_SIGN_ECDSA_SHA256, 0, &d, &sig),
		0);
	td_buf_putc(b, '.');
	if (k == rsa) {
		td_base64url(b, sig.data, sig.size);
	} else {
		gnutls_datum_t v[2];
		unsigned char raw[64] = {0};
		assert_int_equal(gnutls_decode_rs_value(&sig, &v[0], &v[1]), 0);
		for (int i = 0; i < 2; i++) {
			size_t skip = v[i].size > 32 ? v[i].size - 32 : 0, n = v[i].size - skip;
			memcpy(raw + 32 * (i + 1) - n, v[i].data + skip, n);
			gnutls_free(v[i].data);
		}
		td_base64url(b, raw, sizeof(raw));
	}
	gnutls_free(sig.data);
}

static char *token(gnutls_privkey_t k, const char *head, const char *claims)
{
	struct td_buf b = {0};
	td_base64url(&b, head, strlen(head));
	td_buf_putc(&b, '.');
	td_base64url(&b, claims, strlen(claims));
	sign(&b, k);
	return td_buf_take(&b);
}

static int setup(void **state)
{
	rsa = load(rsa_pem);
	ec = load(ec_pem);
	td_auto_buf struct td_buf b = {0};
	td_buf_puts(&b, "{\"keys\":[");
	jwk(&b, rsa, ",\"kid\":\"r1\",\"use\":\"sig\",\"alg\":\"RS256\"");
	td_buf_puts(&b, ",");
	jwk(&b, ec, ",\"kid\":\"e1\",\"use\":\"sig\"");
	td_buf_puts(&b, ",");
	jwk(&b, rsa, ",\"kid\":\"enc\",\"use\":\"enc\"");
	td_buf_puts(&b, ",");
	jwk(&b, rsa, ",\"kid\":\"ps\",\"alg\":\"PS256\"");
	td_buf_puts(
		&b,
		",{\"kty\":\"oct\",\"kid\":\"h1\",\"k\":\"c2VjcmV0\"},{\"kty\":\"RSA\",\"kid\":\"weak\",\"n\":\"AQAB\","
		"\"e\":\"AQAB\"},7]}");
	struct td_error err = {0};
	if (td_oidc_keys_parse(b.s, b.len, &keys, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(td_oidc_keys_count(keys), 2); // the others are no keys for signatures that are taken
	return 0;
}

static int teardown(void **state)
{
	td_oidc_keys_free(keys);
	gnutls_privkey_deinit(rsa);
	gnutls_privkey_deinit(ec);
	return 0;
}

static int check(const char *t, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *c = NULL;
	int r = td_oidc_verify(keys, t, &want, &c, err);
	assert_true((c != NULL) == (r == 0));
	return r;
}

static void test_good(void **state)
{
	struct td_error err = {0};
	td_auto_free char *a = token(rsa, HEAD, GOOD), *b = token(ec, "{\"alg\":\"ES256\",\"kid\":\"e1\"}", GOOD),
			  *no_kid = token(ec, "{\"alg\":\"ES256\"}", GOOD);
	if (check(a, &err) || check(b, &err) || check(no_kid, &err))
		fail_msg("%s", err.msg);
	td_auto(td_json_unref) struct td_json *c = NULL;
	assert_int_equal(td_oidc_verify(keys, a, &want, &c, &err), 0);
	assert_string_equal(td_jstr(td_json_root(c), "preferred_username"), "ann");
	for (int i = 0; i < 40; i++) { // numbers that begin with zeros, or with a high bit
		td_auto_free char *t = token(ec, "{\"alg\":\"ES256\",\"kid\":\"e1\"}", GOOD);
		assert_int_equal(check(t, &err), 0);
	}
}

// RFC 7515, A.2 and A.3.
static void test_signatures_of_the_rfc(void **state)
{
	static const char jwks[] = "{\"keys\":[{\"kty\":\"RSA\",\"e\":\"AQAB\",\"n\":"
				   "\"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxH"
				   "mfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_"
				   "YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-b"
				   "Sf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-"
				   "UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7a"
				   "GhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ\"},{"
				   "\"kty\":\"EC\",\"crv\":\"P-256\","
				   "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\",\"y\":\"x_FEzRu9m36HLN_"
				   "tue659LNpXW6pCyStikYjKIWI5a0\"}]}";
	static const char *const tokens[] = {
		"eyJhbGciOiJSUzI1NiJ9."
		"eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb29"
		"0Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_"
		"O8W2Fp5ju"
		"jGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_"
		"nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB"
		"_eSN9383LcOLn6_dO--xi12jzDwusC-"
		"eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXL"
		"IhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
		"eyJhbGciOiJFUzI1NiJ9."
		"eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb29"
		"0Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"};
	td_auto(td_oidc_keys_free) struct td_oidc_keys *k = NULL;
	struct td_error err = {0};
	assert_int_equal(td_oidc_keys_parse(jwks, strlen(jwks), &k, &err), 0);
	for (size_t i = 0; i < TD_LEN(tokens); i++) {
		td_auto_buf struct td_buf sig = {0};
		const char *last = strrchr(tokens[i], '.');
		assert_int_equal(td_base64url_decode(last + 1, strlen(last + 1), &sig, &err), 0);
		struct td_oidc_signed s = {.alg = i ? "ES256" : "RS256",
					   .data = tokens[i],
					   .data_len = (size_t)(last - tokens[i]),
					   .sig = sig.s,
					   .sig_len = sig.len};
		if (td_oidc_keys_verify(k, &s, &err))
			fail_msg("%zu: %s", i, err.msg);
		sig.s[7] ^= 1;
		assert_int_equal(td_oidc_keys_verify(k, &s, &err), TD_UNAUTHENTICATED);
		// What is well-formed and verifies is still no token for us.
		td_auto(td_json_unref) struct td_json *c = NULL;
		assert_int_equal(td_oidc_verify(k, tokens[i], &want, &c, &err), TD_UNAUTHENTICATED);
	}
}

static void test_wrong_heads(void **state)
{
	static const struct {
		const char *head;
		int code;
		const char *says;
	} wrong[] = {
		{"{\"alg\":\"none\",\"kid\":\"r1\"}", TD_UNAUTHENTICATED, "only RS256 and ES256"},
		{"{\"alg\":\"HS256\",\"kid\":\"r1\"}", TD_UNAUTHENTICATED, "only RS256 and ES256"},
		{"{\"alg\":\"RS512\",\"kid\":\"r1\"}", TD_UNAUTHENTICATED, "only RS256 and ES256"},
		{"{\"alg\":\"ES256\",\"kid\":\"r1\"}", TD_NOT_FOUND, "no key"},
		{"{\"alg\":\"RS256\",\"kid\":\"other\"}", TD_NOT_FOUND, "no key"},
		{"{\"alg\":\"RS256\",\"kid\":\"enc\"}", TD_NOT_FOUND, "no key"},
		{"{\"alg\":\"RS256\",\"kid\":\"ps\"}", TD_NOT_FOUND, "no key"},
		{"{\"alg\":\"RS256\",\"kid\":7}", TD_UNAUTHENTICATED, "head"},
		{"{\"kid\":\"r1\"}", TD_UNAUTHENTICATED, "head"},
		{"{\"alg\":\"RS256\",\"kid\":\"r1\",\"crit\":[\"exp\"],\"exp\":1}", TD_UNAUTHENTICATED, "no ID token"},
		{"{\"alg\":\"RS256\",\"kid\":\"r1\",\"typ\":\"at+jwt\"}", TD_UNAUTHENTICATED, "no ID token"},
		{"[]", TD_UNAUTHENTICATED, "no signed token"},
		{"{", TD_UNAUTHENTICATED, "no signed token"},
	};
	for (size_t i = 0; i < TD_LEN(wrong); i++) {
		td_auto_free char *t = token(rsa, wrong[i].head, GOOD);
		struct td_error err = {0};
		assert_int_equal(check(t, &err), wrong[i].code);
		if (!strstr(err.msg, wrong[i].says))
			fail_msg("%s: %s", wrong[i].head, err.msg);
	}
}

static void test_wrong_claims(void **state)
{
	static const struct {
		const char *field, *value, *says; // value NULL: the field is not there
	} wrong[] = {
		{"iss", "\"https://id.example/\"", "another issuer"},
		{"iss", NULL, "another issuer"},
		{"aud", "\"other\"", "somebody else"},
		{"aud", "[\"other\"]", "somebody else"},
		{"aud", "[\"tandem\",\"other\"]", "somebody else"}, // given to whom?
		{"aud", "[]", "somebody else"},
		{"aud", NULL, "somebody else"},
		{"azp", "\"other\"", "somebody else"},
		{"exp", "1699999970", "expired"},
		{"exp", "\"1800000000\"", "expired"},
		{"exp", NULL, "expired"},
		{"nbf", "1700000031", "not valid yet"},
		{"nbf", "\"1\"", "not valid yet"},
		{"iat", "1700000031", "not valid yet"},
		{"iat", NULL, "not valid yet"},
		{"sub", "\"\"", "nobody"},
		{"sub", NULL, "nobody"},
		{"nonce", "\"n-2\"", "another login"},
		{"nonce", NULL, "another login"},
	};
	static const struct {
		const char *field, *value;
	} right[] = {{"aud", "[\"tandem\"]"},
		     {"azp", "\"tandem\""},
		     {"exp", "1699999971"},
		     {"nbf", "1700000030"},
		     {"iat", "1700000030"}};
	for (size_t i = 0; i < TD_LEN(wrong) + TD_LEN(right); i++) {
		bool good = i >= TD_LEN(wrong);
		const char *field = good ? right[i - TD_LEN(wrong)].field : wrong[i].field,
			   *value = good ? right[i - TD_LEN(wrong)].value : wrong[i].value;
		td_auto(td_json_unref) struct td_json *j = NULL;
		assert_int_equal(td_json_parse(GOOD, strlen(GOOD), &j, NULL), 0);
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(j));
		td_jm_del(yyjson_mut_doc_get_root(d), field);
		if (value) {
			td_auto(td_json_unref) struct td_json *v = NULL;
			assert_int_equal(td_json_parse(value, strlen(value), &v, NULL), 0);
			td_jm_copyval(d, yyjson_mut_doc_get_root(d), field, td_json_root(v));
		}
		td_auto_free char *claims = td_json_mut_text(yyjson_mut_doc_get_root(d), NULL),
				  *t = token(rsa, HEAD, claims);
		struct td_error err = {0};
		int r = check(t, &err);
		if (r != (good ? 0 : TD_UNAUTHENTICATED) || (!good && !strstr(err.msg, wrong[i].says)))
			fail_msg("%s %s: %s", field, value ? value : "(none)", err.msg);
	}
	td_auto_free char *list = token(rsa, HEAD, "[]");
	assert_int_equal(check(list, NULL), TD_UNAUTHENTICATED);
	td_auto_free char *several =
		token(rsa, HEAD,
		      "{\"iss\":\"https://"
		      "id.example\",\"aud\":[\"x\",\"tandem\"],\"azp\":\"tandem\",\"sub\":\"1\",\"exp\":1700000060,"
		      "\"iat\":1,\"nonce\":\"n-1\"}");
	assert_int_equal(check(several, NULL), 0);
}

// A token that was changed, signed by another key, or by the public key as if it were a secret.
static void test_forged(void **state)
{
	struct td_error err = {0};
	td_auto_free char *t = token(rsa, HEAD, GOOD), *other = token(ec, HEAD, GOOD);
	assert_int_equal(check(other, &err), TD_UNAUTHENTICATED);
	for (char *p = t; *p; p++) { // each letter
		char was = *p;
		*p = was == 'A' ? 'B' : 'A';
		assert_int_not_equal(check(t, NULL), 0);
		*p = was;
	}
	assert_int_equal(check(t, &err), 0);
	td_auto_free char *cut = td_strndup(t, strlen(t) - 1),
			  *unsigned_ = td_strndup(t, (size_t)(strrchr(t, '.') - t + 1)), *four = td_asprintf("%s.x", t),
			  *big = td_calloc(1, TD_OIDC_TOKEN_MOST + 2);
	memset(big, 'A', TD_OIDC_TOKEN_MOST + 1);
	const char *const no[] = {cut, unsigned_, four, big, "", ".", "..", "a.b.c", "tdk_abc_def"};
	for (size_t i = 0; i < TD_LEN(no); i++)
		assert_int_equal(check(no[i], NULL), TD_UNAUTHENTICATED);
	td_auto_buf struct td_buf pub = {0};
	jwk(&pub, rsa, "");
	td_auto_free char *hs = td_jwt_sign(pub.s, pub.len, GOOD);
	assert_int_equal(check(hs, &err), TD_UNAUTHENTICATED);
}

static void test_names(void **state)
{
	static const struct {
		const char *claims, *claim, *name;
	} cases[] = {
		{"{\"preferred_username\":\"ann\"}", "preferred_username", "ann"},
		{"{\"preferred_username\":\"ann\\u0000x\"}", "preferred_username", NULL}, // would read as ann
		{"{\"preferred_username\":\"\"}", "preferred_username", NULL},
		{"{\"preferred_username\":[\"ann\"]}", "preferred_username", NULL},
		{"{\"sub\":\"ann\"}", "preferred_username", NULL},
		{"{\"https://x/y.z\":\"ann\"}", "https://x/y.z", "ann"}, // a name, not a path
		{"{\"email\":\"ann\",\"email_verified\":true}", "email", "ann"},
		{"{\"email\":\"ann\",\"email_verified\":\"true\"}", "email", NULL},
		{"{\"email\":\"ann\"}", "email", NULL},
	};
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		td_auto(td_json_unref) struct td_json *j = NULL;
		struct td_error err = {0};
		assert_int_equal(td_json_parse(cases[i].claims, strlen(cases[i].claims), &j, NULL), 0);
		const char *name = td_oidc_name(td_json_root(j), cases[i].claim, &err);
		if (!td_streq(name, cases[i].name) || (!name && err.code != TD_DENIED))
			fail_msg("%s", cases[i].claims);
	}
	td_auto_free char *t = token(rsa, HEAD, GOOD), *iss = td_oidc_claimed_issuer(t),
			  *none = td_oidc_claimed_issuer("a.b.c");
	assert_string_equal(iss, "https://id.example");
	assert_null(none);
}

static void test_keys_that_are_none(void **state)
{
	static const char *const no[] = {"", "{}", "[]", "{\"keys\":{}}", "{\"keys\":7}", "\"keys\""};
	for (size_t i = 0; i < TD_LEN(no); i++) {
		struct td_oidc_keys *k = NULL;
		assert_int_equal(td_oidc_keys_parse(no[i], strlen(no[i]), &k, NULL), TD_INVALID);
		assert_null(k);
	}
	td_auto_buf struct td_buf b = {0};
	td_buf_puts(&b, "{\"keys\":[{}");
	for (int i = 0; i < TD_OIDC_KEYS_MOST; i++)
		td_buf_puts(&b, ",{}");
	td_buf_puts(&b, "]}");
	struct td_oidc_keys *k = NULL;
	assert_int_equal(td_oidc_keys_parse(b.s, b.len, &k, NULL), TD_INVALID);
	// Two keys of one name say nothing.
	td_buf_reset(&b);
	td_buf_puts(&b, "{\"keys\":[");
	jwk(&b, rsa, ",\"kid\":\"r1\"");
	td_buf_puts(&b, ",");
	jwk(&b, rsa, ",\"kid\":\"r1\"");
	td_buf_puts(&b, "]}");
	assert_int_equal(td_oidc_keys_parse(b.s, b.len, &k, NULL), 0);
	td_auto_free char *t = token(rsa, HEAD, GOOD);
	td_auto(td_json_unref) struct td_json *c = NULL;
	assert_int_equal(td_oidc_verify(k, t, &want, &c, NULL), TD_NOT_FOUND);
	td_oidc_keys_free(k);
}

static void test_issuers_that_are_not_asked(void **state)
{
	static const char *const no[] = {"",
					 "http://id.example",
					 "ftp://id.example",
					 "https://",
					 "http://127.0.0.1.evil.example",
					 "http://localhost@evil.example",
					 "https://me@id.example",
					 "https://id.example/?x",
					 "https://id.example#x",
					 "https://id example"};
	for (size_t i = 0; i < TD_LEN(no); i++) {
		struct td_oidc *o = NULL;
		const struct td_oidc_opts opts = {.issuer = no[i], .client_id = "x", .clock = &td_clock_system};
		if (td_oidc_new(&opts, &o, NULL) != TD_INVALID)
			fail_msg("%s", no[i]);
	}
	static const char *const yes[] = {"https://id.example/realms/lab", "http://127.0.0.1:5556",
					  "http://localhost:5556/dex", "http://[::1]:5556"};
	for (size_t i = 0; i < TD_LEN(yes); i++) {
		td_auto(td_oidc_unref) struct td_oidc *o = NULL;
		const struct td_oidc_opts opts = {
			.issuer = yes[i], .client_id = "x", .ca = "x", .clock = &td_clock_system};
		assert_int_equal(td_oidc_new(&opts, &o, NULL), 0);
		assert_true(td_oidc_same(o, &opts));
	}
}

// An issuer on the loopback, which may be down.
static struct {
	struct td_http_server *server;
	struct td_cancel *cancel;
	pthread_t thread;
	char *url;
	bool down;        // atomic
	const char *says; // atomic: what its token endpoint and that for devices answer
	bool device;      // whether it has one for devices
} fake;

static void answer(struct td_http_x *x, void *ctx)
{
	td_auto_buf struct td_buf b = {0};
	if (!strcmp(td_http_path(x), "/keys")) {
		td_buf_puts(&b, "{\"keys\":[");
		jwk(&b, rsa, ",\"kid\":\"r1\"");
		td_buf_puts(&b, "]}");
	} else if (!strcmp(td_http_path(x), "/token") || !strcmp(td_http_path(x), "/device")) {
		const char *says = __atomic_load_n(&fake.says, __ATOMIC_ACQUIRE);
		td_http_send(x, strstr(says, "error") ? 400 : 200, "application/json", says, strlen(says));
		return;
	} else {
		td_buf_printf(&b, "{\"issuer\":\"%s\",\"jwks_uri\":\"%s/keys\",\"token_endpoint\":\"%s/token\"%s%s%s}",
			      fake.url, fake.url, fake.url, fake.device ? ",\"device_authorization_endpoint\":\"" : "",
			      fake.device ? fake.url : "", fake.device ? "/device\"" : "");
	}
	td_http_send(x, __atomic_load_n(&fake.down, __ATOMIC_ACQUIRE) ? 503 : 200, "application/json", b.s, b.len);
}

static void *serve(void *p)
{
	td_http_server_run(fake.server, fake.cancel, NULL);
	return NULL;
}

static void fake_start(void)
{
	const char *const listen[] = {"127.0.0.1:0", NULL};
	const struct td_http_server_opts so = {.listen = listen, .handler = answer};
	fake.cancel = td_cancel_new();
	assert_int_equal(td_http_server_new(&so, &fake.server, NULL), 0);
	fake.url = td_asprintf("http://127.0.0.1:%d", td_http_server_port(fake.server));
	assert_int_equal(pthread_create(&fake.thread, NULL, serve, NULL), 0);
}

static void fake_stop(void)
{
	td_cancel_fire(fake.cancel);
	pthread_join(fake.thread, NULL);
	td_http_server_free(fake.server);
	td_cancel_unref(fake.cancel);
	free(fake.url);
	memset(&fake, 0, sizeof(fake));
}

static void test_an_issuer_that_is_down_says_nothing_of_a_token(void **state)
{
	fake_start();
	struct td_clock_manual clock;
	td_clock_manual_init(&clock, want.now_s * 1000);
	td_auto(td_oidc_unref) struct td_oidc *o = NULL;
	const struct td_oidc_opts opts = {.issuer = fake.url, .client_id = "tandem", .clock = &clock.clock};
	assert_int_equal(td_oidc_new(&opts, &o, NULL), 0);
	td_auto_free char *claims = td_asprintf("{\"iss\":\"%s\",\"aud\":\"tandem\",\"sub\":\"1234\","
						"\"exp\":1700000060,\"iat\":1699999999,\"nonce\":\"n-1\"}",
						fake.url),
			  *good = token(rsa, HEAD, claims),
			  *newer = token(rsa, "{\"alg\":\"RS256\",\"kid\":\"r2\"}", claims);
	td_auto(td_json_unref) struct td_json *c = NULL;
	struct td_error err = TD_ERROR_INIT;
	if (td_oidc_check(o, good, "n-1", NULL, &c, &err))
		fail_msg("%s", err.msg);
	td_clock_manual_add(&clock, 2000); // it may be asked again at once
	struct td_json *none = NULL;
	assert_int_equal(td_oidc_check(o, newer, "n-1", NULL, &none, &err), TD_UNAUTHENTICATED);
	__atomic_store_n(&fake.down, true, __ATOMIC_RELEASE);
	td_clock_manual_add(&clock, 2000);
	assert_int_equal(td_oidc_check(o, newer, "n-1", NULL, &none, &err), TD_TRANSIENT);
	assert_int_equal(td_oidc_check(o, newer, "n-1", NULL, &none, NULL), TD_TRANSIENT);
	assert_null(none);
	// What its last keys have signed counts.
	td_json_unref(td_steal(c));
	assert_int_equal(td_oidc_check(o, good, "n-1", NULL, &c, &err), 0);
	fake_stop();
}

// What it says while a person confirms a code, or does not.
static void test_a_code_is_waited_for(void **state)
{
	static const struct {
		const char *says;
		int code, detail, wait_ms;
	} cases[] = {
		{"{\"error\":\"authorization_pending\"}", TD_TRANSIENT, TD_OIDC_WAITS, 0},
		{"{\"error\":\"slow_down\"}", TD_TRANSIENT, TD_OIDC_WAITS, 5000},
		{"{\"error\":\"access_denied\"}", TD_DENIED, 0, 0},
		{"{\"error\":\"expired_token\"}", TD_EXPIRED, 0, 0},
		{"{\"error\":\"invalid_grant\"}", TD_UNAUTHENTICATED, 0, 0},
		{"{\"error\":7}", TD_UNAUTHENTICATED, 0, 0},
		{"{}", TD_UNSUPPORTED, 0, 0},
		{"no JSON", TD_TRANSIENT, 0, 0}, // another server's answer: not one that waits
	};
	fake.device = true;
	fake_start();
	td_auto(td_oidc_unref) struct td_oidc *o = NULL;
	const struct td_oidc_opts opts = {.issuer = fake.url, .client_id = "tandem", .clock = &td_clock_system};
	assert_int_equal(td_oidc_new(&opts, &o, NULL), 0);
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		struct td_error err = TD_ERROR_INIT;
		td_auto_oidc_tokens struct td_oidc_tokens t = {0};
		__atomic_store_n(&fake.says, cases[i].says, __ATOMIC_RELEASE);
		int r = td_oidc_by_device(o, "code", NULL, &t, &err);
		if (r != cases[i].code || err.detail != cases[i].detail || err.retry_after_ms != cases[i].wait_ms)
			fail_msg("%s: %s, %d, %d ms", cases[i].says, td_code_name(r), err.detail, err.retry_after_ms);
	}

	static const struct {
		const char *says;
		int code;
	} begun[] = {
		{"{\"device_code\":\"d\",\"user_code\":\"u\",\"verification_uri\":\"https://id.example/d\"}", 0},
		{"{\"device_code\":\"d\",\"user_code\":\"u\"}", TD_UNSUPPORTED},
		{"{\"error\":\"unauthorized_client\"}", TD_UNAUTHENTICATED},
	};
	for (size_t i = 0; i < TD_LEN(begun); i++) {
		td_auto(td_json_unref) struct td_json *j = NULL;
		__atomic_store_n(&fake.says, begun[i].says, __ATOMIC_RELEASE);
		assert_int_equal(td_oidc_device(o, "openid", NULL, &j, NULL), begun[i].code);
	}
	fake_stop();

	// One that has no such thing.
	fake_start();
	td_auto(td_oidc_unref) struct td_oidc *old = NULL;
	const struct td_oidc_opts none = {.issuer = fake.url, .client_id = "tandem", .clock = &td_clock_system};
	assert_int_equal(td_oidc_new(&none, &old, NULL), 0);
	struct td_json *j = NULL;
	assert_int_equal(td_oidc_device(old, "openid", NULL, &j, NULL), TD_UNSUPPORTED);
	assert_null(j);
	fake_stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_signatures_of_the_rfc),
		cmocka_unit_test(test_wrong_heads),
		cmocka_unit_test(test_wrong_claims),
		cmocka_unit_test(test_forged),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_keys_that_are_none),
		cmocka_unit_test(test_issuers_that_are_not_asked),
		cmocka_unit_test(test_an_issuer_that_is_down_says_nothing_of_a_token),
		cmocka_unit_test(test_a_code_is_waited_for),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
