// Logging in by the issuer without a browser of one's own (RFC 8628), and what kubectl needs after it.
//
// The gateway speaks with the issuer, so a laptop needs neither the client's secret nor the issuer's CA.
// It gets an API key, and for Kubernetes the ID token with what renews it.
#include "gateway/keys.h"
#include "gateway/oidc.h"

#include "base/log.h"
#include "http/pki.h"

#include <string.h>

enum { KEY_S = 30 * 86400 };

static const struct td_gateway_rate asks = {"questions about logins", 20, 100};

// With what renews a token, unless the issuer says that it knows no such thing.
static char *scope_of(const struct td_gateway_oidc *o, struct td_cancel *c)
{
	static const char again[] = "offline_access";
	return td_oidc_offers(o->issuer, "scopes_supported", again, c) ? td_asprintf("%s %s", o->scope, again)
								       : td_strdup(o->scope);
}

static int begin(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto_gateway_oidc struct td_gateway_oidc o = {0};
	td_auto(td_json_unref) struct td_json *said = NULL;
	int r = td_gateway_limit(q->g->limits, &td_gateway_oidc_logins, "", err);
	if (!r)
		r = td_gateway_oidc(q->g, &o, err);
	if (r)
		return r;
	td_auto_free char *scope = scope_of(&o, td_gateway_cancel(q));
	if ((r = td_oidc_device(o.issuer, scope, td_gateway_cancel(q), &said, err))) {
		if (r != TD_UNSUPPORTED && r != TD_UNAUTHENTICATED && r != TD_DENIED)
			return r;
		// Nobody's proof was looked at yet: it is the client that may not.
		td_wrap(err, "this site's login cannot be confirmed by a code: make an API key on the page, and give "
			     "it to tandem login --key; or an administrator allows the client the device flow");
		return err->code = TD_UNSUPPORTED;
	}
	yyjson_val *s = td_json_root(said);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *out = yyjson_mut_doc_get_root(d);
	td_jm_str(d, out, "device", td_jstr(s, "device_code"));
	td_jm_str(d, out, "code", td_jstr(s, "user_code"));
	td_jm_str(d, out, "address", td_jstr(s, "verification_uri"));
	td_jm_str(d, out, "complete", td_jstr(s, "verification_uri_complete"));
	td_jm_int(d, out, "interval", td_jint(s, "interval", 5));
	td_jm_int(d, out, "expires", td_jint(s, "expires_in", 600));
	td_gateway_send(q, 200, d);
	return 0;
}

static void add_tokens(yyjson_mut_doc *d, const struct td_oidc_tokens *t)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "idToken", t->id_token);
	td_jm_int(d, o, "expires", td_jint(td_json_root(t->claims), "exp", 0));
	td_jm_str(d, o, "refresh", t->refresh);
}

static int send_key(struct td_gateway_ask *q, const char *user, const struct td_oidc_tokens *t, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	int r = td_gateway_key_answer(q, user, KEY_S, d, err);
	if (r)
		return r;
	add_tokens(d, t);
	td_info("login of %s by the issuer: key %s", user,
		yyjson_mut_get_str(yyjson_mut_obj_get(yyjson_mut_doc_get_root(d), "id")));
	td_gateway_send(q, 201, d);
	return 0;
}

static int finish(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto_gateway_oidc struct td_gateway_oidc o = {0};
	td_auto_oidc_tokens struct td_oidc_tokens t = {0};
	td_auto_user struct td_gateway_user u = {0};
	int r = td_gateway_limit(q->g->limits, &asks, "", err);
	if (!r)
		r = td_gateway_oidc(q->g, &o, err);
	if (!r)
		r = td_oidc_by_device(o.issuer, td_jstr_or(q->body, "device", ""), td_gateway_cancel(q), &t, err);
	if (r && err->detail == TD_OIDC_WAITS) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		td_jm_bool(d, yyjson_mut_doc_get_root(d), "waiting", true);
		td_jm_int(d, yyjson_mut_doc_get_root(d), "longer", err->retry_after_ms / 1000);
		td_gateway_send(q, 200, d);
		return 0;
	}
	if (!r)
		r = td_gateway_oidc_person(q->g, &o, td_json_root(t.claims), &u, err);
	if (r) {
		td_info("login by the issuer refused: %s", err->msg);
		return r == TD_EXPIRED
			       ? td_fail(err, TD_UNAUTHENTICATED, "nobody confirmed the login in time: begin again")
			       : r;
	}
	return send_key(q, u.name, &t, err);
}

// A new ID token of the caller's own.
static int renew(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto_gateway_oidc struct td_gateway_oidc o = {0};
	td_auto_oidc_tokens struct td_oidc_tokens t = {0};
	td_auto_user struct td_gateway_user u = {0};
	int r = td_gateway_oidc(q->g, &o, err);
	if (!r)
		r = td_oidc_by_refresh(o.issuer, td_jstr_or(q->body, "refresh", ""), td_gateway_cancel(q), &t, err);
	if (!r)
		r = td_gateway_oidc_person(q->g, &o, td_json_root(t.claims), &u, err);
	if (r)
		return r;
	if (!td_streq(u.name, q->user.name))
		return td_fail(err, TD_DENIED, "this login is of somebody else");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	add_tokens(d, &t);
	td_gateway_send(q, 200, d);
	return 0;
}

static int kubeconfig(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(q->g->clusters, q->g->o.ns, q->g->o.cluster);
	yyjson_val *oidc = sc ? td_jget(sc->root, "spec.identity.oidc") : NULL;
	const char *url = td_jstr(oidc, "kubernetesURL");
	td_auto_buf struct td_buf ca = {0}, text = {0};
	td_auto_free char *server = NULL;
	if (!oidc)
		return td_fail(err, TD_UNSUPPORTED, "SlurmCluster %s/%s names no issuer (spec.identity.oidc)",
			       q->g->o.ns, q->g->o.cluster);
	if (!url && !q->g->o.kubeconfig) // a pod's own address of Kubernetes is for pods only
		return td_fail(err, TD_UNSUPPORTED,
			       "where people reach Kubernetes is not known: an administrator says it in "
			       "spec.identity.oidc.kubernetesURL of SlurmCluster %s/%s",
			       q->g->o.ns, q->g->o.cluster);
	int r = td_kube_place(q->g->kube, &server, &ca, err);
	if (r)
		return r;
	td_base64(&text, td_buf_str(&ca), ca.len);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "server", url ? url : server);
	td_jm_str(d, o, "ca", td_buf_str(&text));
	td_gateway_send(q, 200, d);
	return 0;
}

const struct td_gateway_op td_gateway_device_ops[] = {
	{"loginDevice", begin}, {"loginDeviceKey", finish}, {"renewToken", renew}, {"kubeconfig", kubeconfig},
	{NULL, NULL},
};
