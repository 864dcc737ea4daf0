// Requests for certificates, by GnuTLS.
#include "http/csr.h"

#include "http/pki.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 64 * 1024, NAME_MAX_BYTES = 1024 };
#define BLOCK "CERTIFICATE REQUEST" // of PEM

static void crq_free(gnutls_x509_crq_t c)
{
	gnutls_x509_crq_deinit(c);
}
static void privkey_free(gnutls_x509_privkey_t k)
{
	gnutls_x509_privkey_deinit(k);
}
static void cert_free(gnutls_x509_crt_t c)
{
	gnutls_x509_crt_deinit(c);
}
TD_DEFINE_AUTO(gnutls_x509_crq_t, crq_free)
TD_DEFINE_AUTO(gnutls_x509_privkey_t, privkey_free)
TD_DEFINE_AUTO(gnutls_x509_crt_t, cert_free)

static void hex(const unsigned char *id, char ret[TD_KEY_ID_LEN])
{
	for (size_t i = 0; i < TD_KEY_ID_LEN / 2; i++)
		snprintf(ret + 2 * i, 3, "%02x", id[i]);
}

static gnutls_datum_t datum(const char *s, size_t n)
{
	return (gnutls_datum_t){(unsigned char *)(uintptr_t)s, (unsigned)n};
}

static int read_key(const char *pem, size_t n, gnutls_x509_privkey_t *ret, struct td_error *err)
{
	gnutls_datum_t d = datum(pem, n);
	td_auto(privkey_free) gnutls_x509_privkey_t k = NULL;
	if (n > TEXT_MAX)
		return td_fail(err, TD_INVALID, "the key is larger than %d KiB", TEXT_MAX / 1024);
	if (gnutls_x509_privkey_init(&k) < 0)
		abort(); // no memory
	int rc = gnutls_x509_privkey_import2(k, &d, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN);
	if (rc < 0)
		return td_fail(err, TD_INVALID, "it is no private key in PEM: %s", gnutls_strerror(rc));
	*ret = td_steal(k);
	return 0;
}

int td_csr_key_id(const char *pem, size_t n, char ret[TD_KEY_ID_LEN], struct td_error *err)
{
	unsigned char id[64];
	size_t len = sizeof(id);
	td_auto(privkey_free) gnutls_x509_privkey_t k = NULL;
	int r = read_key(pem, n, &k, err);
	if (r)
		return r;
	if (gnutls_x509_privkey_get_key_id(k, GNUTLS_KEYID_USE_SHA256, id, &len) < 0)
		return td_fail(err, TD_INVALID, "it is a key of a kind that has no id");
	hex(id, ret);
	return 0;
}

int td_csr_ca_id(const char *pem, size_t n, char ret[TD_KEY_ID_LEN], struct td_error *err)
{
	unsigned char id[64];
	size_t len = sizeof(id);
	gnutls_datum_t d = datum(pem, n);
	td_auto(cert_free) gnutls_x509_crt_t c = NULL;
	if (gnutls_x509_crt_init(&c) < 0)
		abort(); // no memory
	if (gnutls_x509_crt_import(c, &d, GNUTLS_X509_FMT_PEM) < 0 ||
	    gnutls_x509_crt_get_key_id(c, GNUTLS_KEYID_USE_SHA256, id, &len) < 0)
		return td_fail(err, TD_INVALID, "it is no certificate in PEM");
	hex(id, ret);
	return 0;
}

int td_csr_ca_of(const char *pem, size_t n, const char *id, struct td_buf *ret, struct td_error *err)
{
	gnutls_datum_t d = datum(pem, n), out = {0};
	gnutls_x509_crt_t *v = NULL;
	unsigned all = 0;
	int r = TD_NOT_FOUND;
	if (gnutls_x509_crt_list_import2(&v, &all, &d, GNUTLS_X509_FMT_PEM, 0) < 0)
		return td_fail(err, TD_INVALID, "it is no certificate in PEM");
	for (unsigned i = 0; i < all; i++) {
		unsigned char raw[64];
		size_t len = sizeof(raw);
		char is[TD_KEY_ID_LEN];
		if (r && gnutls_x509_crt_get_key_id(v[i], GNUTLS_KEYID_USE_SHA256, raw, &len) >= 0) {
			hex(raw, is);
			if (!strcmp(is, id) && gnutls_x509_crt_export2(v[i], GNUTLS_X509_FMT_PEM, &out) >= 0) {
				td_buf_add(ret, (const char *)out.data, out.size);
				r = 0;
			}
		}
		gnutls_x509_crt_deinit(v[i]);
	}
	gnutls_free(out.data);
	gnutls_free(v);
	return r ? td_fail(err, r, "no certificate has that key") : 0;
}

int td_csr_make(const char *key_pem, size_t n, const char *cn, const char *org, char **ret, struct td_error *err)
{
	td_auto(privkey_free) gnutls_x509_privkey_t k = NULL;
	td_auto(crq_free) gnutls_x509_crq_t c = NULL;
	int r = read_key(key_pem, n, &k, err);
	if (r)
		return r;
	if (gnutls_x509_crq_init(&c) < 0)
		abort(); // no memory
	gnutls_privkey_t signer = NULL;
	gnutls_datum_t der = {0}, pem = {0};
	int rc = gnutls_x509_crq_set_version(c, 1);
	if (rc == 0)
		rc = gnutls_x509_crq_set_dn_by_oid(c, GNUTLS_OID_X520_ORGANIZATION_NAME, 0, org, (unsigned)strlen(org));
	if (rc == 0)
		rc = gnutls_x509_crq_set_dn_by_oid(c, GNUTLS_OID_X520_COMMON_NAME, 0, cn, (unsigned)strlen(cn));
	if (rc == 0)
		rc = gnutls_x509_crq_set_key(c, k);
	if (rc == 0)
		rc = gnutls_privkey_init(&signer);
	if (rc == 0)
		rc = gnutls_privkey_import_x509(signer, k, 0);
	if (rc == 0)
		rc = gnutls_x509_crq_privkey_sign(c, signer, GNUTLS_DIG_SHA256, 0);
	if (rc == 0)
		rc = gnutls_x509_crq_export2(c, GNUTLS_X509_FMT_DER, &der);
	// GnuTLS itself writes "NEW CERTIFICATE REQUEST", which Kubernetes does not take.
	if (rc == 0)
		rc = gnutls_pem_base64_encode2(BLOCK, &der, &pem);
	gnutls_free(der.data);
	gnutls_privkey_deinit(signer);
	if (rc < 0)
		return td_fail(err, TD_INVALID, "making a request for %s: %s", cn, gnutls_strerror(rc));
	*ret = td_strndup((const char *)pem.data, pem.size);
	gnutls_free(pem.data);
	return 0;
}

// The one value of an attribute of the subject. "": none. NULL: several, or one that is no text.
static char *only(gnutls_x509_crq_t c, const char *oid)
{
	char buf[NAME_MAX_BYTES];
	size_t n = sizeof(buf);
	int rc = gnutls_x509_crq_get_dn_by_oid(c, oid, 0, 0, buf, &n);
	if (rc == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
		return td_strdup("");
	if (rc < 0 || memchr(buf, 0, n))
		return NULL;
	char *s = td_strndup(buf, n);
	n = sizeof(buf);
	if (gnutls_x509_crq_get_dn_by_oid(c, oid, 1, 0, buf, &n) != GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE) {
		free(s);
		return NULL;
	}
	return s;
}

// The one block of a text that has nothing else: whoever signs what was approved must not find another request in it.
// GnuTLS alone would take a block NEW CERTIFICATE REQUEST before one that Kubernetes reads.
static bool only_block(const char *pem, size_t n, struct td_buf *ret)
{
	static const char begin[] = "-----BEGIN " BLOCK "-----\n", end[] = "\n-----END " BLOCK "-----";
	const size_t head = sizeof(begin) - 1, tail = sizeof(end) - 1;
	td_auto_buf struct td_buf body = {0};
	if (n && pem[n - 1] == '\n')
		n--;
	if (n < head + tail || memcmp(pem, begin, head) != 0 || memcmp(pem + n - tail, end, tail) != 0)
		return false;
	for (const char *s = pem + head; s < pem + n - tail; s++)
		if (*s != '\n')
			td_buf_putc(&body, *s);
	return body.len && strlen(td_buf_str(&body)) == body.len && !td_base64_decode(td_buf_str(&body), ret, NULL);
}

int td_csr_read(const char *pem, size_t n, struct td_csr *ret, struct td_error *err)
{
	unsigned char id[64];
	size_t len = sizeof(id);
	td_auto_buf struct td_buf der = {0};
	td_auto(crq_free) gnutls_x509_crq_t c = NULL;
	if (n > TEXT_MAX)
		return td_fail(err, TD_INVALID, "the request is larger than %d KiB", TEXT_MAX / 1024);
	if (!only_block(pem, n, &der))
		return td_fail(err, TD_INVALID, "it is not one request for a certificate in PEM and nothing else");
	if (gnutls_x509_crq_init(&c) < 0)
		abort(); // no memory
	const gnutls_datum_t d = datum(der.s, der.len);
	int rc = gnutls_x509_crq_import(c, &d, GNUTLS_X509_FMT_DER);
	if (rc < 0)
		return td_fail(err, TD_INVALID, "it is no request for a certificate: %s", gnutls_strerror(rc));
	if ((rc = gnutls_x509_crq_verify(c, 0)) < 0)
		return td_fail(err, TD_INVALID, "its own key has not signed it: %s", gnutls_strerror(rc));
	if (gnutls_x509_crq_get_key_id(c, GNUTLS_KEYID_USE_SHA256, id, &len) < 0)
		return td_fail(err, TD_INVALID, "its key is of a kind that has no id");

	*ret = (struct td_csr){.cn = only(c, GNUTLS_OID_X520_COMMON_NAME),
			       .org = only(c, GNUTLS_OID_X520_ORGANIZATION_NAME)};
	hex(id, ret->key_id);
	char name[NAME_MAX_BYTES];
	size_t m = sizeof(name);
	rc = gnutls_x509_crq_get_subject_alt_name(c, 0, name, &m, NULL, NULL);
	ret->names = rc != GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE;
	return 0;
}

void td_csr_done(struct td_csr *c)
{
	free(c->cn);
	free(c->org);
	*c = (struct td_csr){0};
}
