// Who asks, and whether they may. Client certificates (CN, O) and bearer tokens (HS256 with pki/sa.key: sub, groups, exp).
// system:masters and tandem:roles may do everything; every authenticated user may look at discovery and at itself.
#include "apiserver/srv.h"

#include "http/pki.h"

#include <stdio.h>
#include <string.h>

void td_user_done(struct td_user *u)
{
	free(u->name);
	td_strv_done(&u->groups);
	*u = (struct td_user){0};
}

bool td_user_in(const struct td_user *u, const char *group)
{
	return td_strv_has(&u->groups, group);
}

bool td_auth_is_role(const struct td_user *u)
{
	return td_user_in(u, "tandem:roles");
}

static int by_token(struct td_srv *s, const char *token, struct td_user *ret, struct td_refusal *r)
{
	td_auto_free char *claims = NULL;
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!s->sa_key_len || td_jwt_verify(s->sa_key, s->sa_key_len, token, &claims, NULL) < 0 ||
	    td_json_parse(claims, strlen(claims), &j, NULL) < 0)
		return td_refuse(r, 401, NULL, "Unauthorized");
	yyjson_val *c = td_json_root(j);
	const char *sub = td_jstr(c, "sub");
	long long exp = td_jint(c, "exp", -1), nbf = td_jint(c, "nbf", 0), now = td_real_ms(s->clock) / 1000;
	if (!sub || !*sub || (td_jget(c, "exp") && exp <= now) || nbf > now + 60)
		return td_refuse(r, 401, NULL, "Unauthorized");
	// A token of a service account dies with the account.
	yyjson_val *bound = td_jkey(c, "kubernetes.io");
	const char *uid = td_jstr(bound, "serviceaccount.uid");
	if (uid) {
		struct td_table *t = td_store_table(s->store, "", "serviceaccounts");
		td_auto(td_item_unref) struct td_item *i =
			td_store_get(s->store, t, td_jstr_or(bound, "namespace", ""), td_jstr_or(bound, "serviceaccount.name", ""));
		if (!i || strcmp(i->uid, uid) != 0)
			return td_refuse(r, 401, NULL, "Unauthorized");
	}
	ret->name = td_strdup(sub);
	yyjson_val *groups = td_jget(c, "groups"), *g;
	size_t i, n;
	yyjson_arr_foreach (groups, i, n, g)
		if (yyjson_is_str(g))
			td_strv_add(&ret->groups, yyjson_get_str(g));
	return 0;
}

int td_auth_user(struct td_srv *s, struct td_http_x *x, struct td_user *ret, struct td_refusal *r)
{
	const char *h = td_http_header(x, "Authorization");
	const char *cn = td_http_peer_cn(x);
	if (cn && *cn) {
		ret->name = td_strdup(cn);
		const struct td_strv *o = td_http_peer_orgs(x);
		for (size_t i = 0; o && i < o->n; i++)
			td_strv_add(&ret->groups, o->v[i]);
	} else if (h) {
		if (strncasecmp(h, "Bearer ", 7) != 0)
			return td_refuse(r, 401, NULL, "Unauthorized");
		int rc = by_token(s, h + 7 + strspn(h + 7, " "), ret, r);
		if (rc < 0)
			return rc;
	}
	if (ret->name && !td_user_in(ret, "system:authenticated"))
		td_strv_add(&ret->groups, "system:authenticated");
	return 0;
}

int td_auth_may(const struct td_req *q, struct td_refusal *r)
{
	const struct td_user *u = &q->user;
	if (!u->name)
		return td_refuse(r, 401, NULL, "Unauthorized");
	if (td_user_in(u, "system:masters") || td_user_in(u, "tandem:roles"))
		return 0;
	if (!q->res) {
		static const char *const open[] = {"/api", "/apis", "/openapi", "/version", "/healthz", "/livez", "/readyz"};
		for (size_t i = 0; i < TD_LEN(open); i++) {
			size_t n = strlen(open[i]);
			if (!strncmp(q->path, open[i], n) && (!q->path[n] || q->path[n] == '/'))
				return 0;
		}
		return td_refuse(r, 403, NULL, "forbidden: User \"%s\" cannot %s path \"%s\"", u->name, q->verb, q->path);
	}
	td_auto_free char *scope = *q->ns ? td_asprintf("in the namespace \"%s\"", q->ns) : td_strdup("at the cluster scope");
	td_auto_free char *name = *q->name ? td_asprintf(" \"%s\"", q->name) : td_strdup("");
	td_auto_free char *about = td_asprintf("%s%s%s%s", q->plural, *q->group ? "." : "", q->group, name);
	td_auto_free char *what = *q->sub ? td_asprintf("%s/%s", q->plural, q->sub) : td_strdup(q->plural);
	td_refuse(r, 403, NULL, "%s is forbidden: User \"%s\" cannot %s resource \"%s\" in API group \"%s\" %s", about, u->name, q->verb,
		  what, q->group, scope);
	return td_refuse_about(r, q->group, q->plural, *q->name ? q->name : NULL);
}

char *td_auth_token(struct td_srv *s, const char *ns, const char *name, const char *sa_uid, int64_t exp_s)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_strf(d, o, "sub", "system:serviceaccount:%s:%s", ns, name);
	td_jm_str(d, o, "iss", "https://kubernetes.default.svc");
	td_jm_int(d, o, "iat", td_real_ms(s->clock) / 1000);
	td_jm_int(d, o, "exp", exp_s);
	yyjson_mut_val *g = td_jm_arr(d, o, "groups");
	yyjson_mut_arr_add_str(d, g, "system:serviceaccounts");
	td_auto_free char *nsg = td_asprintf("system:serviceaccounts:%s", ns);
	yyjson_mut_arr_add_strcpy(d, g, nsg);
	yyjson_mut_val *k = yyjson_mut_obj(d);
	td_jm_str(d, k, "namespace", ns);
	td_jm_str(d, k, "serviceaccount.name", name);
	td_jm_str(d, k, "serviceaccount.uid", sa_uid);
	td_jm_key_set(d, o, "kubernetes.io", k);
	td_auto_free char *text = td_json_mut_text(o, NULL);
	return td_jwt_sign(s->sa_key, s->sa_key_len, text);
}
