// The certificate authority of one installation. A key file is written before its certificate, so
// that a crash in between leaves no certificate, and the next run issues both anew.
#include "http/pki.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/rand.h"

#include <arpa/inet.h>
#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <string.h>
#include <time.h>

// BACKDATE_S: a certificate is valid from a day ago, so that a clock that is set back by hours
// (such as a hardware clock in local time) locks nobody out.
enum { PEM_MAX = 256 * 1024, CA_DAYS = 3650, BACKDATE_S = 86400 };

static void crt_free(gnutls_x509_crt_t c)
{
	gnutls_x509_crt_deinit(c);
}
static void key_free(gnutls_x509_privkey_t k)
{
	gnutls_x509_privkey_deinit(k);
}
TD_DEFINE_AUTO(gnutls_x509_crt_t, crt_free)
TD_DEFINE_AUTO(gnutls_x509_privkey_t, key_free)

static time_t now_s(void)
{
	return (time_t)(td_real_ms(&td_clock_system) / 1000);
}

static int load_crt(const char *path, gnutls_x509_crt_t *ret, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	int rc = td_file_read(path, PEM_MAX, &b, err);
	if (rc < 0)
		return rc;

	td_auto(crt_free) gnutls_x509_crt_t c = NULL;
	if (gnutls_x509_crt_init(&c) < 0)
		abort();

	gnutls_datum_t d = {(unsigned char *)b.s, (unsigned)b.len};
	rc = gnutls_x509_crt_import(c, &d, GNUTLS_X509_FMT_PEM);
	if (rc < 0)
		return td_fail(err, TD_INVALID, "certificate %s: %s", path, gnutls_strerror(rc));

	*ret = td_steal(c);
	return 0;
}

static int load_key(const char *path, gnutls_x509_privkey_t *ret, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	int rc = td_file_read(path, PEM_MAX, &b, err);
	if (rc < 0)
		return rc;

	td_auto(key_free) gnutls_x509_privkey_t k = NULL;
	if (gnutls_x509_privkey_init(&k) < 0)
		abort();

	gnutls_datum_t d = {(unsigned char *)b.s, (unsigned)b.len};
	rc = gnutls_x509_privkey_import(k, &d, GNUTLS_X509_FMT_PEM);
	explicit_bzero(b.s, b.len);
	if (rc < 0)
		return td_fail(err, TD_INVALID, "key %s: %s", path, gnutls_strerror(rc));

	*ret = td_steal(k);
	return 0;
}

static gnutls_x509_privkey_t new_key(void)
{
	gnutls_x509_privkey_t k;
	if (gnutls_x509_privkey_init(&k) < 0 ||
	    gnutls_x509_privkey_generate(k, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0) < 0)
		abort(); // no memory or no entropy
	return k;
}

char *td_pki_key_new(void)
{
	td_auto(key_free) gnutls_x509_privkey_t k = new_key();
	gnutls_datum_t pem;
	if (gnutls_x509_privkey_export2_pkcs8(k, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN, &pem) < 0)
		abort();
	char *text = td_strndup((const char *)pem.data, pem.size);
	explicit_bzero(pem.data, pem.size);
	gnutls_free(pem.data);
	return text;
}

static int store(const char *key_path, gnutls_x509_privkey_t key, const char *crt_path, gnutls_x509_crt_t crt,
		 struct td_error *err)
{
	gnutls_datum_t k = {0}, c = {0};
	if (gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN, &k) < 0 ||
	    gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &c) < 0)
		abort();

	int rc = td_file_write(key_path, k.data, k.size, 0600, err);
	if (rc == 0)
		rc = td_file_write(crt_path, c.data, c.size, 0644, err);

	explicit_bzero(k.data, k.size);
	gnutls_free(k.data);
	gnutls_free(c.data);
	return rc;
}

// Returns true when the certificate belongs to this key. After a crash between two writes it may
// not.
static bool same_key(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key)
{
	unsigned char a[64], b[64];
	size_t na = sizeof(a), nb = sizeof(b);
	return gnutls_x509_crt_get_key_id(crt, GNUTLS_KEYID_USE_SHA256, a, &na) == 0 &&
	       gnutls_x509_privkey_get_key_id(key, GNUTLS_KEYID_USE_SHA256, b, &nb) == 0 && na == nb &&
	       memcmp(a, b, na) == 0;
}

// Sets what every certificate of ours has: serial, times, key identifiers and common name. Returns
// GnuTLS' code.
static int common(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key, const char *cn, int days)
{
	unsigned char serial[16], id[64];
	size_t n = sizeof(id);
	td_random(serial, sizeof(serial));
	serial[0] = (unsigned char)((serial[0] & 0x7f) | 0x40); // positive, no leading zero
	time_t now = now_s();

	int rc = gnutls_x509_crt_set_version(crt, 3);
	if (rc == 0)
		rc = gnutls_x509_crt_set_serial(crt, serial, sizeof(serial));
	if (rc == 0)
		rc = gnutls_x509_crt_set_activation_time(crt, now - BACKDATE_S);
	if (rc == 0)
		rc = gnutls_x509_crt_set_expiration_time(crt, now + (time_t)days * 86400);
	if (rc == 0)
		rc = gnutls_x509_crt_set_key(crt, key);
	if (rc == 0)
		rc = gnutls_x509_crt_get_key_id(crt, 0, id, &n);
	if (rc == 0)
		rc = gnutls_x509_crt_set_subject_key_id(crt, id, n);
	if (rc == 0)
		rc = gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, cn, (unsigned)strlen(cn));
	return rc;
}

int td_pki_ca_ensure(const char *dir, const char *common_name, struct td_error *err)
{
	td_auto_free char *crt_path = td_asprintf("%s/ca.crt", dir), *key_path = td_asprintf("%s/ca.key", dir);
	if (td_path_exists(crt_path) && td_path_exists(key_path)) {
		td_auto(crt_free) gnutls_x509_crt_t crt = NULL;
		td_auto(key_free) gnutls_x509_privkey_t key = NULL;
		int rc = load_crt(crt_path, &crt, err);
		if (rc == 0)
			rc = load_key(key_path, &key, err);
		if (rc == 0 && !same_key(crt, key))
			rc = td_fail(
				err, TD_INVALID,
				"%s is not the certificate of %s; restore the pair, or remove both for a new authority",
				crt_path, key_path);
		return rc;
	}
	// The key is lost. A new authority would silently cut off everybody who trusts this one.
	if (td_path_exists(crt_path))
		return td_fail(err, TD_INVALID,
			       "%s is there but its key %s is not; restore it, or remove both for a new authority",
			       crt_path, key_path);

	int rc = td_mkdir_p(dir, 0700, err);
	if (rc < 0)
		return rc;

	td_auto(key_free) gnutls_x509_privkey_t key = new_key();
	td_auto(crt_free) gnutls_x509_crt_t crt = NULL;
	if (gnutls_x509_crt_init(&crt) < 0)
		abort();

	rc = common(crt, key, common_name, CA_DAYS);
	if (rc == 0)
		rc = gnutls_x509_crt_set_basic_constraints(crt, 1, 0);
	if (rc == 0)
		rc = gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_CRL_SIGN |
								GNUTLS_KEY_DIGITAL_SIGNATURE);
	if (rc == 0)
		rc = gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0);

	if (rc < 0)
		return td_fail(err, TD_INVALID, "certificate authority \"%s\": %s", common_name, gnutls_strerror(rc));
	return store(key_path, key, crt_path, crt, err);
}

// ---- what a certificate says, as one comparable text ----

static void describe_name(struct td_buf *b, gnutls_x509_crt_t crt, const char *oid, char tag)
{
	for (unsigned i = 0;; i++) {
		char v[512];
		size_t n = sizeof(v);
		if (gnutls_x509_crt_get_dn_by_oid(crt, oid, i, 0, v, &n) < 0)
			return;
		td_buf_printf(b, "%c%zu:", tag, n);
		td_buf_add(b, v, n);
	}
}

static void describe(struct td_buf *b, gnutls_x509_crt_t signed_crt)
{
	// GnuTLS lists the alternative names of imported certificates only, not of one that was
	// just made.

	gnutls_datum_t der = {0};
	td_auto(crt_free) gnutls_x509_crt_t crt = NULL;
	if (gnutls_x509_crt_init(&crt) < 0 || gnutls_x509_crt_export2(signed_crt, GNUTLS_X509_FMT_DER, &der) < 0 ||
	    gnutls_x509_crt_import(crt, &der, GNUTLS_X509_FMT_DER) < 0)
		abort();
	gnutls_free(der.data);

	describe_name(b, crt, GNUTLS_OID_X520_COMMON_NAME, 'C');
	describe_name(b, crt, GNUTLS_OID_X520_ORGANIZATION_NAME, 'O');

	for (unsigned i = 0;; i++) {
		char v[512];
		size_t n = sizeof(v);
		int type = gnutls_x509_crt_get_subject_alt_name(crt, i, v, &n, NULL);
		if (type < 0)
			break;
		td_buf_printf(b, "S%d:%zu:", type, n);
		td_buf_add(b, v, n);
	}

	for (unsigned i = 0;; i++) {
		char v[128];
		size_t n = sizeof(v);
		if (gnutls_x509_crt_get_key_purpose_oid(crt, i, v, &n, NULL) < 0)
			break;
		td_buf_printf(b, "P%s", v);
	}
}

static int fill(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key, const struct td_pki_cert *c)
{
	int rc = common(crt, key, c->cn, c->days);

	for (const char *const *o = c->orgs; rc == 0 && o && *o; o++)
		rc = gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_ORGANIZATION_NAME, 0, *o, (unsigned)strlen(*o));
	for (const char *const *s = c->sans; rc == 0 && s && *s; s++) {
		unsigned char ip[16];
		unsigned n = inet_pton(AF_INET, *s, ip) == 1 ? 4 : inet_pton(AF_INET6, *s, ip) == 1 ? 16 : 0;
		rc = n ? gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, ip, n, GNUTLS_FSAN_APPEND)
		       : gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_DNSNAME, *s, (unsigned)strlen(*s),
							      GNUTLS_FSAN_APPEND);
	}

	if (rc == 0)
		rc = gnutls_x509_crt_set_basic_constraints(crt, 0, -1);
	if (rc == 0)
		rc = gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_DIGITAL_SIGNATURE);
	if (rc == 0)
		rc = gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_CLIENT, 0);
	if (rc == 0 && c->server)
		rc = gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_SERVER, 0);
	return rc;
}

// Returns true when the existing certificate and key are as good as what we would issue.
static bool still_good(const char *crt_path, const char *key_path, gnutls_x509_crt_t ca, gnutls_x509_crt_t wanted)
{
	td_auto(crt_free) gnutls_x509_crt_t crt = NULL;
	td_auto(key_free) gnutls_x509_privkey_t key = NULL;
	if (load_crt(crt_path, &crt, NULL) < 0 || load_key(key_path, &key, NULL) < 0 || !same_key(crt, key))
		return false;

	unsigned status = 0;
	if (gnutls_x509_crt_verify(crt, &ca, 1, 0, &status) < 0 || status)
		return false;

	time_t from = gnutls_x509_crt_get_activation_time(crt), to = gnutls_x509_crt_get_expiration_time(crt);
	if (to - now_s() < (to - from) / 3)
		return false;

	td_auto_buf struct td_buf a = {0}, b = {0};
	describe(&a, crt);
	describe(&b, wanted);
	return a.len == b.len && memcmp(td_buf_str(&a), td_buf_str(&b), a.len) == 0;
}

int td_pki_issue(const char *dir, const struct td_pki_cert *c, struct td_error *err)
{
	if (!c->file || !*c->file || strchr(c->file, '/') || td_streq(c->file, "ca") || !c->cn || !*c->cn ||
	    c->days <= 0)
		return td_fail(err, TD_INVALID,
			       "certificate \"%s\": a base name other than ca, a common name and days > 0 are needed",
			       c->file ? c->file : "");

	td_auto_free char *ca_crt_path = td_asprintf("%s/ca.crt", dir), *ca_key_path = td_asprintf("%s/ca.key", dir);
	td_auto(crt_free) gnutls_x509_crt_t ca = NULL, crt = NULL;
	td_auto(key_free) gnutls_x509_privkey_t ca_key = NULL;

	int rc = load_crt(ca_crt_path, &ca, err);
	if (rc == 0)
		rc = load_key(ca_key_path, &ca_key, err);
	if (rc < 0)
		return rc;

	td_auto(key_free) gnutls_x509_privkey_t key = new_key();
	if (gnutls_x509_crt_init(&crt) < 0)
		abort();
	rc = fill(crt, key, c);
	if (rc < 0)
		return td_fail(err, TD_INVALID, "certificate %s for \"%s\": %s", c->file, c->cn, gnutls_strerror(rc));

	td_auto_free char *crt_path = td_asprintf("%s/%s.crt", dir, c->file),
			  *key_path = td_asprintf("%s/%s.key", dir, c->file);

	unsigned char id[64];
	size_t n = sizeof(id);
	rc = gnutls_x509_crt_get_subject_key_id(ca, id, &n, NULL);
	if (rc == 0)
		rc = gnutls_x509_crt_set_authority_key_id(crt, id, n);
	if (rc == 0)
		rc = gnutls_x509_crt_sign2(crt, ca, ca_key, GNUTLS_DIG_SHA256, 0);

	if (rc < 0)
		return td_fail(err, TD_INVALID, "certificate %s for \"%s\": %s", c->file, c->cn, gnutls_strerror(rc));

	return still_good(crt_path, key_path, ca, crt) ? 0 : store(key_path, key, crt_path, crt, err);
}
