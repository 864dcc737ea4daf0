// Tokens of service accounts: JSON Web Tokens with the claims of real ones, signed with pki/sa.key
// (HS256: only this server verifies them, so no key pair is needed). A token is valid until it
// expires, or until its service account or the object that it is bound to (pod, secret, node) is
// deleted.
#include "apiserver/srv.h"

#include "base/rand.h"
#include "http/pki.h"

#include <string.h>

enum { LEEWAY_S = 60, SECONDS_MIN = 600 }; // LEEWAY_S: for clocks, and after a deletion
static const long long seconds_max = 1ll << 32;

// ---- reading ----
static bool in_list(yyjson_val *v, const char *s)
{
	yyjson_val *e;
	size_t i, n;
	if (yyjson_is_str(v))
		return !strcmp(yyjson_get_str(v), s);
	yyjson_arr_foreach (v, i, n, e)
		if (yyjson_is_str(e) && !strcmp(yyjson_get_str(e), s))
			return true;
	return false;
}

// Whether the object of that name and UID exists, or was deleted no longer ago than the leeway.
static bool alive(struct td_srv *s, const char *plural, const char *ns, yyjson_val *ref)
{
	const char *name = td_jstr(ref, "name"), *uid = td_jstr(ref, "uid");
	td_auto(td_item_unref) struct td_item *i =
		name && uid ? td_store_get(s->store, td_store_table(s->store, "", plural), ns, name) : NULL;
	if (!i || strcmp(i->uid, uid) != 0)
		return false;
	const char *gone = td_jstr(td_item_root(i), "metadata.deletionTimestamp");
	int64_t at = 0;
	return !gone || td_time_parse(gone, &at) < 0 || at / 1000 > td_real_ms(s->clock) / 1000 - LEEWAY_S;
}

static int refuse(char **ret_why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int refuse(char **ret_why, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (ret_why)
		*ret_why = td_vasprintf(fmt, ap);
	va_end(ap);
	return TD_UNAUTHENTICATED;
}

static void extra(struct td_user *u, const char *key, yyjson_val *ref, const char *field)
{
	const char *v = td_jstr(ref, field);
	if (v)
		td_strv_addf(&u->extra, "authentication.kubernetes.io/%s=%s", key, v);
}

// Fills *ret from the claims c of a service account's token. sub: the account's user name.
static int account_user(struct td_srv *s, yyjson_val *c, const char *sub, struct td_user *ret, char **ret_why)
{
	yyjson_val *k = td_jkey(c, "kubernetes.io"), *sa = td_jkey(k, "serviceaccount"), *pod = td_jkey(k, "pod"),
		   *node = td_jkey(k, "node");
	const char *ns = td_jstr_or(k, "namespace", "");

	td_auto_free char *want = td_asprintf("system:serviceaccount:%s:%s", ns, td_jstr_or(sa, "name", ""));
	if (strcmp(want, sub) != 0)
		return refuse(ret_why, "the claims name two service accounts");
	if (!alive(s, "serviceaccounts", ns, sa))
		return refuse(ret_why, "service account %s/%s has been deleted", ns, td_jstr_or(sa, "name", ""));
	yyjson_val *secret = td_jkey(k, "secret");
	if ((pod && !alive(s, "pods", ns, pod)) || (secret && !alive(s, "secrets", ns, secret)) ||
	    (node && !pod && !alive(s, "nodes", "", node)))
		return refuse(ret_why, "service account token has been invalidated");
	ret->uid = td_strdup(td_jstr(sa, "uid"));
	td_user_account_groups(ret, ns);
	const char *jti = td_jstr(c, "jti");
	if (jti)
		td_strv_addf(&ret->extra, "authentication.kubernetes.io/credential-id=JTI=%s", jti);
	extra(ret, "node-name", node, "name");
	extra(ret, "node-uid", node, "uid");
	extra(ret, "pod-name", pod, "name");
	extra(ret, "pod-uid", pod, "uid");

	return 0;
}

int td_token_user(struct td_srv *s, const struct td_srv_token *t, struct td_user *ret, struct td_strv *ret_audiences,
		  char **ret_why)
{
	const struct td_strv *audiences = t->audiences;
	__attribute__((cleanup(td_user_done))) struct td_user u = {0};
	td_auto_free char *claims = NULL;
	td_auto(td_json_unref) struct td_json *j = NULL;

	if (!s->sa_key_len || td_jwt_verify(s->sa_key, s->sa_key_len, t->text, &claims, NULL) < 0) {
		// Not of our own making. An issuer's token is for this server, whatever its audience is called.
		int r = td_strv_has(audiences, TD_AUDIENCE) ? td_srv_person(s, t->text, t->cancel, ret)
							    : TD_UNAUTHENTICATED;
		if (r)
			refuse(ret_why, r == TD_TRANSIENT ? "the issuer of the token cannot be asked now"
							  : "invalid bearer token");
		if (r)
			return r;
		if (ret_audiences)
			td_strv_add(ret_audiences, TD_AUDIENCE);
		return 0;
	}
	if (td_json_parse(claims, strlen(claims), &j, NULL) < 0)
		return refuse(ret_why, "invalid bearer token");
	yyjson_val *c = td_json_root(j), *aud = td_jkey(c, "aud");
	const char *sub = td_jstr_or(c, "sub", "");
	long long exp = td_jint(c, "exp", 0), nbf = td_jint(c, "nbf", 0), now = td_real_ms(s->clock) / 1000;
	if (!*sub)
		return refuse(ret_why, "the token names nobody");
	if (exp <= now)
		return refuse(ret_why, "service account token has expired");
	if (nbf > now + LEEWAY_S)
		return refuse(ret_why, "service account token is not valid yet");
	bool account = td_starts(sub, "system:serviceaccount:");
	size_t fits = 0;
	for (size_t i = 0; i < audiences->n; i++) {
		// A token without an audience, for a user who is no service account, was made with
		// the key itself: it is meant for this server.
		bool meant = aud ? in_list(aud, audiences->v[i]) : !account && !strcmp(audiences->v[i], TD_AUDIENCE);
		if (meant && ret_audiences)
			td_strv_add(ret_audiences, audiences->v[i]);
		fits += meant;
	}

	if (!fits) {
		td_auto_free char *have = aud ? td_json_text(aud, NULL) : td_strdup("[]");
		return refuse(ret_why, "token audiences %.300s is invalid for the target audiences", have);
	}
	int rc = account ? account_user(s, c, sub, &u, ret_why) : 0;
	if (rc < 0)
		return rc;
	u.name = td_strdup(sub);
	td_jstrs(account ? NULL : td_jget(c, "groups"), &u.groups);

	*ret = u;
	u = (struct td_user){0};
	return 0;
}

// ---- serviceaccounts/token ----
static int bound_conflict(struct td_refusal *r, const char *kind, const char *name, const char *uid)
{
	td_refuse(r, 409, "Conflict",
		  "Operation cannot be fulfilled on %s \"%s\": the UID in the bound object reference (%s) does not "
		  "match the UID in record. The object might have been deleted and then recreated",
		  kind, name, uid);
	return td_refuse_about(r, "", kind, name);
}

static void ref_claim(yyjson_mut_doc *d, yyjson_mut_val *k, const char *key, const char *name, const char *uid)
{
	yyjson_mut_val *o = td_jm_obj(d, k, key);
	td_jm_str(d, o, "name", name);
	td_jm_str(d, o, "uid", uid);
}

// Checks the object that the token is to be bound to, and adds it to the claims k.
static int bind(struct td_req *q, yyjson_val *ref, yyjson_mut_doc *d, yyjson_mut_val *k, struct td_refusal *r)
{
	static const struct {
		const char *kind, *plural, *claim;
	} kinds[] = {{"Pod", "pods", "pod"}, {"Secret", "secrets", "secret"}, {"Node", "nodes", "node"}};
	const char *kind = td_jstr_or(ref, "kind", ""), *name = td_jstr_or(ref, "name", ""),
		   *uid = td_jstr_or(ref, "uid", ""), *api = td_jstr_or(ref, "apiVersion", "");
	size_t i = 0;

	while (i < TD_LEN(kinds) && (strcmp(kinds[i].kind, kind) != 0 || strchr(api, '/')))
		i++;
	if (i == TD_LEN(kinds))
		return td_refuse(r, 400, NULL, "cannot bind token to object of type %s%s, Kind=%s",
				 strchr(api, '/') ? "" : "/", api, kind);
	struct td_store *s = q->s->store;
	td_auto(td_item_unref) struct td_item *o =
		td_store_get(s, td_store_table(s, "", kinds[i].plural), i == 2 ? "" : q->ns, name);
	if (!o) {
		td_refuse(r, 404, NULL, "%s \"%s\" not found", kinds[i].plural, name);
		return td_refuse_about(r, "", kinds[i].plural, name);
	}
	if (i == 0 && strcmp(td_jstr_or(td_item_root(o), "spec.serviceAccountName", ""), q->name) != 0)
		return td_refuse(r, 400, NULL,
				 "cannot bind token for serviceaccount \"%s\" to pod running with different "
				 "serviceaccount name.",
				 q->name);

	if (*uid && strcmp(uid, o->uid) != 0)
		return bound_conflict(r, kind, name, uid);
	ref_claim(d, k, kinds[i].claim, name, o->uid);
	const char *node = i == 0 ? td_jstr_or(td_item_root(o), "spec.nodeName", "") : "";
	if (*node) {
		td_auto(td_item_unref) struct td_item *n = td_store_get(s, td_store_table(s, "", "nodes"), "", node);
		ref_claim(d, k, "node", node, n ? n->uid : NULL);
	}

	return 0;
}

// The kubelet requests tokens for its pods. As NodeRestriction does for real kubelets, refuses it a
// token that is not bound to a pod on a node.
static int of_a_placed_pod(struct td_req *q, yyjson_val *ref, struct td_refusal *r)
{
	if (!td_streq(q->user.name, "system:tandem:kubelet") || !td_auth_is_role(&q->user))
		return 0;
	bool pod = td_streq(td_jstr(ref, "kind"), "Pod");
	td_auto(td_item_unref) struct td_item *o =
		pod ? td_store_get(q->s->store, td_store_table(q->s->store, "", "pods"), q->ns,
				   td_jstr_or(ref, "name", ""))
		    : NULL;
	if (o && *td_jstr_or(td_item_root(o), "spec.nodeName", "") && td_streq(o->uid, td_jstr(ref, "uid")))
		return 0;
	td_refuse(r, 403, NULL,
		  "serviceaccounts \"%s\" is forbidden: node requested token not bound to a pod on a node", q->name);
	return td_refuse_about(r, "", "serviceaccounts", q->name);
}

static int check(struct td_req *q, yyjson_val *v, long long seconds, const struct td_item *sa, struct td_refusal *r)
{
	const char *name = td_jstr_or(v, "metadata.name", ""), *ns = td_jstr_or(v, "metadata.namespace", "");
	if (*ns && strcmp(ns, q->ns) != 0)
		return td_refuse(
			r, 400, NULL,
			"the namespace of the provided object does not match the namespace sent on the request");
	if (*name && strcmp(name, q->name) != 0) {
		td_cause_add(&r->causes, "FieldValueInvalid", "metadata.name",
			     "Invalid value: \"%.260s\": must match the service account name if specified", name);
		return td_refuse_invalid(r, "authentication.k8s.io", "TokenRequest", q->name);
	}

	const char *uid = td_jstr_or(v, "metadata.uid", "");
	if (*uid && strcmp(uid, sa->uid) != 0) {
		td_refuse(r, 409, "Conflict",
			  "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"%s\": the UID in the "
			  "token request (%s) does not match the UID of the service account (%s)",
			  q->name, uid, sa->uid);
		return td_refuse_about(r, "authentication.k8s.io", "TokenRequest", q->name);
	}

	if (seconds < SECONDS_MIN)
		td_cause_add(&r->causes, "FieldValueInvalid", "spec.expirationSeconds",
			     "Invalid value: %lld: may not specify a duration less than 10 minutes", seconds);
	else if (seconds > seconds_max)
		td_cause_add(&r->causes, "FieldValueInvalid", "spec.expirationSeconds",
			     "Invalid value: %lld: may not specify a duration larger than 2^32 seconds", seconds);

	yyjson_val *a, *list = td_jget(v, "spec.audiences");
	size_t i, n;
	yyjson_arr_foreach (list, i, n, a)
		if (!yyjson_is_str(a) || !yyjson_get_len(a))
			return td_refuse(r, 400, NULL,
					 "spec.audiences[%zu] of the TokenRequest: want a text that is not empty", i);

	return r->causes.n ? td_refuse_invalid(r, "authentication.k8s.io", "TokenRequest", "") : 0;
}

int td_do_token(struct td_req *q, struct td_refusal *r)
{
	td_auto(td_json_unref) struct td_json *body = NULL;
	int rc = td_body_read(q, true, &body, r);
	if (rc < 0)
		return rc;

	td_auto(td_item_unref) struct td_item *sa = td_store_get(q->s->store, q->res->table, q->ns, q->name);
	if (!sa)
		return td_refuse_not_found(q, q->name, r);
	if (!q->s->sa_key_len)
		return td_refuse(r, 500, NULL, "the server has no key to sign tokens with (pki/sa.key)");

	yyjson_val *v = td_json_root(body), *ref = td_jget(v, "spec.boundObjectRef");
	long long seconds = td_jint(v, "spec.expirationSeconds", 3600), now = q->now / 1000;
	if ((rc = check(q, v, seconds, sa, r)) < 0 || (rc = of_a_placed_pod(q, ref, r)) < 0)
		return rc;

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *out = yyjson_is_obj(v) ? td_jm_copy(v) : td_jm_new(),
						    *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(out), *c = yyjson_mut_doc_get_root(d), *k = yyjson_mut_obj(d);
	char t[TD_TIME_LEN], id[TD_UUID_LEN];

	if (!yyjson_arr_size(td_jget(v, "spec.audiences"))) {
		td_jm_set(out, o, "spec.audiences", yyjson_mut_arr(out));
		yyjson_mut_arr_add_str(out, td_jm_arr(out, o, "spec.audiences"), TD_AUDIENCE);
	}

	td_jm_set(d, c, "aud", yyjson_mut_val_mut_copy(d, td_jm_get(o, "spec.audiences")));
	td_jm_int(d, c, "exp", now + seconds);
	td_jm_int(d, c, "iat", now);
	td_jm_str(d, c, "iss", TD_AUDIENCE);
	td_jm_str(d, c, "jti", td_uuid(id));
	td_jm_str(d, k, "namespace", q->ns);
	ref_claim(d, k, "serviceaccount", q->name, sa->uid);
	if (yyjson_is_obj(ref) && (rc = bind(q, ref, d, k, r)) < 0)
		return rc;
	td_jm_key_set(d, c, "kubernetes.io", k);
	td_jm_int(d, c, "nbf", now);
	td_jm_strf(d, c, "sub", "system:serviceaccount:%s:%s", q->ns, q->name);

	td_auto_free char *text = td_json_mut_text(c, NULL);
	td_auto_free char *token = td_jwt_sign(q->s->sa_key, q->s->sa_key_len, text);

	td_jm_str(out, o, "kind", "TokenRequest");
	td_jm_str(out, o, "apiVersion", "authentication.k8s.io/v1");
	td_jm_str(out, o, "metadata.name", q->name);
	td_jm_str(out, o, "metadata.namespace", q->ns);
	td_jm_str(out, o, "metadata.uid", sa->uid);
	td_jm_str(out, o, "metadata.creationTimestamp", td_time_format(q->now, t));
	td_jm_int(out, o, "spec.expirationSeconds", seconds);
	if (!ref)
		td_jm_set(out, o, "spec.boundObjectRef", yyjson_mut_null(out));
	td_jm_del(o, "status");
	td_jm_str(out, o, "status.token", token);
	td_jm_str(out, o, "status.expirationTimestamp", td_time_format((now + seconds) * 1000, t));

	td_reply_doc(q, 201, out);
	return 0;
}
