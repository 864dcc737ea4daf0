// TLS 1.2 and 1.3 for the server. A client certificate is asked for but stays optional. One that
// does not verify counts as none (the API then answers 401), as in the Kubernetes API server.
#include "http/conn.h"

#include <gnutls/x509.h>
#include <poll.h>
#include <string.h>

struct td_tls {
	gnutls_certificate_credentials_t cred;
	gnutls_priority_t prio;
	bool ask;
};

struct td_tls *td_tls_free(struct td_tls *t)
{
	if (!t)
		return NULL;
	if (t->prio)
		gnutls_priority_deinit(t->prio);
	if (t->cred)
		gnutls_certificate_free_credentials(t->cred);
	free(t);
	return NULL;
}
TD_DEFINE_AUTO(struct td_tls *, td_tls_free)

int td_tls_new(const char *cert_file, const char *key_file, const char *client_ca_file, struct td_tls **ret,
	       struct td_error *err)
{
	td_auto(td_tls_free) struct td_tls *t = td_calloc(1, sizeof(*t));
	if (gnutls_certificate_allocate_credentials(&t->cred) < 0)
		abort();

	int rc = gnutls_priority_init(&t->prio, "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2", NULL);
	if (rc < 0)
		return td_fail(err, TD_INTERNAL, "TLS priorities: %s", gnutls_strerror(rc));
	rc = gnutls_certificate_set_x509_key_file(t->cred, cert_file, key_file, GNUTLS_X509_FMT_PEM);
	if (rc < 0)
		return td_fail(err, TD_INVALID, "server certificate %s with key %s: %s", cert_file, key_file,
			       gnutls_strerror(rc));

	if (client_ca_file) {
		rc = gnutls_certificate_set_x509_trust_file(t->cred, client_ca_file, GNUTLS_X509_FMT_PEM);
		if (rc <= 0)
			return td_fail(err, TD_INVALID, "client CA %s: %s", client_ca_file,
				       rc ? gnutls_strerror(rc) : "no certificate in it");
		t->ask = true;
	}

	*ret = td_steal(t);
	return 0;
}

static void read_peer(struct td_conn *c)
{
	unsigned int n = 0, status = 0;
	const gnutls_datum_t *der = gnutls_certificate_get_peers(c->tls, &n);
	gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
					 .data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT};

	gnutls_x509_crt_t crt;
	if (!der || !n || gnutls_certificate_verify_peers(c->tls, &purpose, 1, &status) < 0 || status ||
	    gnutls_x509_crt_init(&crt) < 0)
		return;

	char buf[256];
	size_t len = sizeof(buf);
	if (gnutls_x509_crt_import(crt, &der[0], GNUTLS_X509_FMT_DER) == 0 &&
	    gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, 0, buf, &len) == 0 &&
	    memchr(buf, 0, len) == NULL) {
		c->peer_cn = td_strndup(buf, len);
		for (unsigned i = 0; i < 64; i++) {
			len = sizeof(buf);
			if (gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_ORGANIZATION_NAME, i, 0, buf, &len) < 0)
				break;
			if (!memchr(buf, 0, len))
				td_strv_steal(&c->peer_orgs, td_strndup(buf, len));
		}
	}
	gnutls_x509_crt_deinit(crt);
}

int td_tls_accept(struct td_tls *t, struct td_conn *c, int64_t deadline)
{
	static const gnutls_datum_t alpn = {(unsigned char *)"http/1.1", 8};

	if (gnutls_init(&c->tls, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0)
		abort();
	if (gnutls_priority_set(c->tls, t->prio) < 0 ||
	    gnutls_credentials_set(c->tls, GNUTLS_CRD_CERTIFICATE, t->cred) < 0)
		return TD_INTERNAL;

	gnutls_alpn_set_protocols(c->tls, &alpn, 1, 0);
	if (t->ask)
		gnutls_certificate_server_set_request(c->tls, GNUTLS_CERT_REQUEST);
	gnutls_transport_set_int(c->tls, c->fd);

	for (;;) {
		int rc = gnutls_handshake(c->tls);
		if (rc == 0)
			break;
		if (rc == GNUTLS_E_INTERRUPTED || (rc != GNUTLS_E_AGAIN && !gnutls_error_is_fatal(rc)))
			continue;
		if (rc != GNUTLS_E_AGAIN) {
			gnutls_alert_send_appropriate(c->tls, rc); // best effort
			return TD_NOT_FOUND;
		}

		int64_t left = deadline - td_now();
		if (left <= 0 || td_cancelled(c->stop))
			return left <= 0 ? TD_EXPIRED : TD_CANCELLED;

		struct pollfd p[2] = {{c->fd, gnutls_record_get_direction(c->tls) ? POLLOUT : POLLIN, 0},
				      {td_cancel_fd(c->stop), POLLIN, 0}};
		poll(p, 2, left > 60000 ? 60000 : (int)left);
	}

	if (t->ask)
		read_peer(c);
	return 0;
}
