// TLS 1.2 and 1.3 for the server. A client certificate is asked for but stays optional. One that
// does not verify counts as none (the API then answers 401), as in the Kubernetes API server.
//
// A certificate that is renewed in its files counts for new connections within LOOK_MS: whoever
// renews it (cert-manager, a kubelet that brings a Secret) tells nobody. Connections go on with the
// one that they began with, so what was loaded stays until the end: a few kilobytes each time.
#include "base/log.h"
#include "http/conn.h"

#include <gnutls/x509.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

enum { LOOK_MS = 1000, LOADED_MOST = 1000 };

struct tls_files {
	struct timespec cert, key;
	ino_t cert_ino, key_ino;
};

struct td_tls {
	char *cert_file, *key_file, *client_ca_file;
	gnutls_priority_t prio;
	pthread_mutex_t lock;                    // guards the rest
	gnutls_certificate_credentials_t *creds; // the last one counts
	size_t n;
	struct tls_files seen;
	int64_t look_at;
};

struct td_tls *td_tls_free(struct td_tls *t)
{
	if (!t)
		return NULL;
	if (t->prio)
		gnutls_priority_deinit(t->prio);
	for (size_t i = 0; i < t->n; i++)
		gnutls_certificate_free_credentials(t->creds[i]);
	pthread_mutex_destroy(&t->lock);
	free(t->creds);
	free(t->cert_file);
	free(t->key_file);
	free(t->client_ca_file);
	free(t);
	return NULL;
}
TD_DEFINE_AUTO(struct td_tls *, td_tls_free)

static int load(const struct td_tls *t, gnutls_certificate_credentials_t *ret, struct td_error *err)
{
	gnutls_certificate_credentials_t cred;
	if (gnutls_certificate_allocate_credentials(&cred) < 0)
		abort();
	int rc = gnutls_certificate_set_x509_key_file(cred, t->cert_file, t->key_file, GNUTLS_X509_FMT_PEM);
	if (rc < 0)
		td_fail(err, TD_INVALID, "server certificate %s with key %s: %s", t->cert_file, t->key_file,
			gnutls_strerror(rc));
	if (rc >= 0 && t->client_ca_file &&
	    (rc = gnutls_certificate_set_x509_trust_file(cred, t->client_ca_file, GNUTLS_X509_FMT_PEM)) <= 0) {
		td_fail(err, TD_INVALID, "client CA %s: %s", t->client_ca_file,
			rc ? gnutls_strerror(rc) : "no certificate in it");
		rc = -1;
	}
	if (rc < 0) {
		gnutls_certificate_free_credentials(cred);
		return TD_INVALID;
	}
	*ret = cred;
	return 0;
}

static bool look(const struct td_tls *t, struct tls_files *ret)
{
	struct stat cert, key;
	if (stat(t->cert_file, &cert) < 0 || stat(t->key_file, &key) < 0)
		return false;
	memset(ret, 0, sizeof(*ret)); // it is compared as a whole
	ret->cert = cert.st_mtim;
	ret->key = key.st_mtim;
	ret->cert_ino = cert.st_ino;
	ret->key_ino = key.st_ino;
	return true;
}

// The lock is held, or nobody else knows t.
static void take(struct td_tls *t, gnutls_certificate_credentials_t cred, const struct tls_files *seen)
{
	t->creds = td_realloc(t->creds, (t->n + 1) * sizeof(*t->creds));
	t->creds[t->n++] = cred;
	t->seen = *seen;
}

// Certificate and key may be seen at different times: then they do not fit, and the next look tries again.
static void renew(struct td_tls *t, const struct tls_files *seen)
{
	struct td_error e = TD_ERROR_INIT;
	struct tls_files now;
	gnutls_certificate_credentials_t cred;
	if (!look(t, &now) || !memcmp(&now, seen, sizeof(now)))
		return;
	if (load(t, &cred, &e)) {
		td_warn("the certificate in use stays: %s", e.msg);
		return;
	}
	pthread_mutex_lock(&t->lock);
	take(t, cred, &now);
	bool last = t->n == LOADED_MOST;
	pthread_mutex_unlock(&t->lock);
	td_info("the certificate %s was renewed", t->cert_file);
	if (last) // connections may use each of them as long as we run, so they are kept
		td_warn("it was renewed %d times and is not looked at again: restart this process before it ends",
			LOADED_MOST - 1);
}

// What new connections get. One of them looks, and the others do not wait for it.
static gnutls_certificate_credentials_t current(struct td_tls *t)
{
	pthread_mutex_lock(&t->lock);
	const struct tls_files seen = t->seen;
	bool looks = td_now() >= t->look_at && t->n < LOADED_MOST;
	if (looks)
		t->look_at = td_now() + LOOK_MS;
	pthread_mutex_unlock(&t->lock);
	if (looks)
		renew(t, &seen);
	pthread_mutex_lock(&t->lock);
	gnutls_certificate_credentials_t cred = t->creds[t->n - 1];
	pthread_mutex_unlock(&t->lock);
	return cred;
}

int td_tls_new(const char *cert_file, const char *key_file, const char *client_ca_file, struct td_tls **ret,
	       struct td_error *err)
{
	td_auto(td_tls_free) struct td_tls *t = td_calloc(1, sizeof(*t));
	pthread_mutex_init(&t->lock, NULL);
	t->cert_file = td_strdup(cert_file);
	t->key_file = td_strdup(key_file);
	t->client_ca_file = td_strdup(client_ca_file);
	struct tls_files seen = {0};
	gnutls_certificate_credentials_t cred;
	look(t, &seen); // before it is read: what changes in between is read again
	t->look_at = td_now() + LOOK_MS;

	int rc = gnutls_priority_init(&t->prio, "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2", NULL);
	if (rc < 0)
		return td_fail(err, TD_INTERNAL, "TLS priorities: %s", gnutls_strerror(rc));
	if (load(t, &cred, err))
		return TD_INVALID;
	take(t, cred, &seen);
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
	    gnutls_credentials_set(c->tls, GNUTLS_CRD_CERTIFICATE, current(t)) < 0)
		return TD_INTERNAL;

	gnutls_alpn_set_protocols(c->tls, &alpn, 1, 0);
	if (t->client_ca_file)
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

	if (t->client_ca_file)
		read_peer(c);
	return 0;
}
