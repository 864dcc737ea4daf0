// Unit tests of certificates, tokens and encodings.
// rows: F1.2 B1.2
#include "base/clock.h"
#include "base/file.h"
#include "http/csr.h"
#include "http/pki.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static char dir[64];

static char *slurp(const char *name)
{
	td_auto_free char *path = td_asprintf("%s/%s", dir, name);
	td_auto_buf struct td_buf b = {0};
	struct td_error err = {0};
	if (td_file_read(path, 1 << 20, &b, &err) < 0)
		fail_msg("%s", err.msg);
	return td_buf_take(&b);
}

static void issue(const struct td_pki_cert *c)
{
	struct td_error err = {0};
	if (td_pki_issue(dir, c, &err) < 0)
		fail_msg("%s", err.msg);
}

// Issues c and returns true when the certificate on disk has changed.
static bool changes(const struct td_pki_cert *c)
{
	td_auto_free char *before = slurp("api.crt");
	issue(c);
	td_auto_free char *after = slurp("api.crt");
	return strcmp(before, after) != 0;
}

static void test_issue(void **state)
{
	struct td_error err = {0};
	assert_int_equal(td_pki_ca_ensure(dir, "test CA", &err), 0);
	td_auto_free char *ca = slurp("ca.crt");
	assert_int_equal(td_pki_ca_ensure(dir, "test CA", &err), 0);
	td_auto_free char *ca2 = slurp("ca.crt");
	assert_string_equal(ca, ca2);

	const char *sans[] = {"127.0.0.1", "::1", "localhost", NULL}, *fewer[] = {"127.0.0.1", NULL};
	const char *orgs[] = {"system:masters", "b", NULL}, *other[] = {"b", "system:masters", NULL};
	struct td_pki_cert c = {.file = "api", .cn = "api", .sans = sans, .server = true, .days = 30};
	issue(&c);
	assert_false(changes(&c)); // idempotent

	c.sans = fewer;
	assert_true(changes(&c));
	c.orgs = orgs;
	assert_true(changes(&c));
	assert_false(changes(&c));
	c.orgs = other;
	assert_true(changes(&c));
	c.server = false;
	assert_true(changes(&c));
	c.cn = "another";
	assert_true(changes(&c));

	td_auto_free char *key_path = td_asprintf("%s/api.key", dir);
	struct stat st;
	assert_int_equal(stat(key_path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);

	// The key is not the certificate's, as after a crash between the two writes: both are
	// issued anew.
	td_auto_free char *wrong = slurp("ca.key");
	assert_int_equal(td_file_write(key_path, wrong, strlen(wrong), 0600, &err), 0);
	assert_true(changes(&c));

	// Another authority: certificates of the old one are not valid any more.
	td_auto_free char *crt_path = td_asprintf("%s/ca.crt", dir), *ca_key = td_asprintf("%s/ca.key", dir);
	remove(crt_path);
	remove(ca_key);
	assert_int_equal(td_pki_ca_ensure(dir, "test CA", &err), 0);
	assert_true(changes(&c));

	remove(ca_key); // a lost key is an error
	assert_int_equal(td_pki_ca_ensure(dir, "test CA", &err), TD_INVALID);
}

static void test_jwt(void **state)
{
	td_auto_free char *t = td_jwt_sign("secret", 6, "{\"sub\":\"a\"}");
	// The expected text was checked with an independent implementation (python3 hmac, base64).
	assert_string_equal(
		t, "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhIn0.qBdA9L_PTGPhu7ipY7Xs4Eol-m79U_HNIifGEFJXeJQ");
	td_auto_free char *claims = NULL;

	struct td_error err = {0};
	assert_int_equal(td_jwt_verify("secret", 6, t, &claims, &err), 0);
	assert_string_equal(claims, "{\"sub\":\"a\"}");

	char *untouched = NULL;
	assert_int_equal(td_jwt_verify("secreT", 6, t, &untouched, &err), TD_UNAUTHENTICATED);
	td_auto_free char *cut = td_strndup(t, strlen(t) - 1);
	assert_int_equal(td_jwt_verify("secret", 6, cut, &untouched, &err), TD_UNAUTHENTICATED);
	assert_int_equal(td_jwt_verify("secret", 6, "", &untouched, &err), TD_UNAUTHENTICATED);
	assert_int_equal(td_jwt_verify("secret", 6, "a.b", &untouched, &err), TD_UNAUTHENTICATED);
	// "alg":"none", with an empty signature.
	assert_int_equal(td_jwt_verify("secret", 6, "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.", &untouched, &err),
			 TD_UNAUTHENTICATED);
	assert_null(untouched);
}

static void test_encodings(void **state)
{
	// The examples of RFC 4648.
	static const char *const v[][2] = {
		{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}};
	for (size_t i = 0; i < TD_LEN(v); i++) {
		td_auto_buf struct td_buf e = {0}, d = {0};
		td_base64(&e, v[i][0], strlen(v[i][0]));
		assert_string_equal(td_buf_str(&e), v[i][1]);
		assert_int_equal(td_base64_decode(v[i][1], &d, NULL), 0);
		assert_string_equal(td_buf_str(&d), v[i][0]);
	}

	static const char *const bad[] = {"Z", "Zg", "Zg=", "Zg===", "Zh==", "Z===", "Zm9\n", "=", "Zm-v", "Zg==Zg=="};
	for (size_t i = 0; i < TD_LEN(bad); i++) {
		td_auto_buf struct td_buf d = {0};
		if (td_base64_decode(bad[i], &d, NULL) != TD_INVALID)
			fail_msg("accepted: %s", bad[i]);
		assert_int_equal(d.len, 0);
	}

	char hex[65];
	td_sha256_hex("abc", 3, hex); // FIPS 180-2
	assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// What is believed of a text is the certificate that was named, and none that lies beside it.
static void test_the_named_ca_alone(void **state)
{
	struct td_error err = TD_ERROR_INIT;
	char id[TD_KEY_ID_LEN], other[TD_KEY_ID_LEN], first[TD_KEY_ID_LEN];
	td_auto_free char *one = td_asprintf("%s/first", dir), *second = td_asprintf("%s/second", dir);
	assert_int_equal(td_mkdir_p(one, 0700, &err) | td_mkdir_p(second, 0700, &err), 0);
	assert_int_equal(td_pki_ca_ensure(one, "test CA", &err), 0);
	assert_int_equal(td_pki_ca_ensure(second, "another CA", &err), 0);
	td_auto_free char *ca = slurp("first/ca.crt"), *key = slurp("first/ca.key");
	td_auto_free char *theirs = slurp("second/ca.crt"), *both = td_asprintf("%s%s", ca, theirs),
			  *turned = td_asprintf("%s%s", theirs, ca);
	assert_int_equal(td_csr_key_id(key, strlen(key), id, &err), 0);
	assert_int_equal(td_csr_ca_id(both, strlen(both), first, &err), 0);
	assert_string_equal(first, id);
	assert_int_equal(td_csr_ca_id(theirs, strlen(theirs), other, &err), 0);
	const char *const texts[] = {ca, both, turned};
	for (size_t i = 0; i < TD_LEN(texts); i++) {
		td_auto_buf struct td_buf b = {0}, none = {0};
		assert_int_equal(td_csr_ca_of(texts[i], strlen(texts[i]), id, &b, &err), 0);
		assert_string_equal(td_buf_str(&b), ca);
		assert_int_equal(td_csr_ca_of(texts[i], strlen(texts[i]), "x", &none, &err), TD_NOT_FOUND);
		assert_int_equal(none.len, 0);
	}
	td_auto_buf struct td_buf b = {0};
	assert_int_equal(td_csr_ca_of(both, strlen(both), other, &b, &err), 0);
	assert_string_equal(td_buf_str(&b), theirs);
	assert_int_equal(td_csr_ca_of("x", 1, id, &b, &err), TD_INVALID);
}

static void test_requests(void **state)
{
	char id[TD_KEY_ID_LEN], other[TD_KEY_ID_LEN];
	td_auto_free char *key = td_pki_key_new(), *second = td_pki_key_new(), *pem = NULL;
	assert_int_equal(td_csr_key_id(key, strlen(key), id, NULL), 0);
	assert_int_equal(td_csr_key_id(second, strlen(second), other, NULL), 0);
	assert_string_not_equal(id, other);
	assert_int_equal(td_csr_make(key, strlen(key), "system:node:n9", "system:nodes", &pem, NULL), 0);
	assert_non_null(strstr(pem, "-----BEGIN CERTIFICATE REQUEST-----")); // Kubernetes takes no other
	td_auto_csr struct td_csr c = {0};
	assert_int_equal(td_csr_read(pem, strlen(pem), &c, NULL), 0);
	assert_string_equal(c.key_id, id);
	assert_string_equal(c.cn, "system:node:n9");
	assert_string_equal(c.org, "system:nodes");
	assert_false(c.names);

	// One byte of what was signed is another: nobody has signed that.
	struct td_error err = TD_ERROR_INIT;
	td_auto_buf struct td_buf raw = {0}, b64 = {0};
	const char *begin = strchr(pem, '\n') + 1, *end = strstr(pem, "-----END");
	td_auto_free char *body = td_strndup(begin, (size_t)(end - begin));
	char *to = body;
	for (const char *s = body; *s; s++)
		if (*s != '\n')
			*to++ = *s;
	*to = 0;
	assert_int_equal(td_base64_decode(body, &raw, NULL), 0);
	char *n9 = memmem(raw.s, raw.len, "n9", 2);
	assert_non_null(n9);
	n9[1] = '1';
	td_base64(&b64, raw.s, raw.len);
	td_auto_free char *forged = td_asprintf(
		"-----BEGIN CERTIFICATE REQUEST-----\n%s\n-----END CERTIFICATE REQUEST-----\n", td_buf_str(&b64));
	td_auto_csr struct td_csr f = {0};
	assert_int_equal(td_csr_read(forged, strlen(forged), &f, &err), TD_INVALID);
	assert_non_null(strstr(err.msg, "has not signed"));
	assert_int_equal(td_csr_read("", 0, &f, &err), TD_INVALID);

	// Two requests in one text, or something around it: others might read another one.
	td_auto_free char *mine = NULL, *as_new = td_asprintf("-----BEGIN NEW CERTIFICATE REQUEST-----\n%.*s-----END "
							      "NEW CERTIFICATE REQUEST-----\n",
							      (int)(end - begin), begin);
	assert_int_equal(td_csr_make(second, strlen(second), "system:node:n0", "system:nodes", &mine, NULL), 0);
	assert_int_equal(td_csr_read(mine, strlen(mine) - 1, &f, NULL), 0); // without the last newline
	td_csr_done(&f);
	const char *const odd[][2] = {{mine, as_new}, {as_new, mine}, {mine, mine}, {"x", mine},
				      {"\n", mine},   {mine, "x"},    {mine, "\n"}, {as_new, ""}};
	for (size_t i = 0; i < TD_LEN(odd); i++) {
		td_auto_free char *text = td_asprintf("%s%s", odd[i][0], odd[i][1]);
		assert_int_equal(td_csr_read(text, strlen(text), &f, &err), TD_INVALID);
	}
	assert_int_equal(td_csr_key_id("x", 1, id, &err), TD_INVALID);
	assert_int_equal(td_csr_ca_id(pem, strlen(pem), id, &err), TD_INVALID);
}

int main(void)
{
	strcpy(dir, "/tmp/td-pki-XXXXXX");
	if (!mkdtemp(dir))
		return 1;
	const struct CMUnitTest t[] = {cmocka_unit_test(test_issue), cmocka_unit_test(test_jwt),
				       cmocka_unit_test(test_encodings), cmocka_unit_test(test_the_named_ca_alone),
				       cmocka_unit_test(test_requests)};
	int rc = cmocka_run_group_tests(t, NULL, NULL);
	td_rm_rf(dir, NULL);
	return rc;
}
