// The review APIs: questions about access that are answered and never stored (who am I, may I, may
// they, whose token is this). The answers come from the same functions that decide about every
// request.
#include "apiserver/srv.h"

#include <string.h>

static void copy_user(yyjson_mut_doc *d, yyjson_mut_val *o, const struct td_user *u)
{
	td_jm_str(d, o, "username", u->name);
	td_jm_str(d, o, "uid", u->uid);
	if (u->groups.n) {
		yyjson_mut_val *a = td_jm_arr(d, o, "groups");
		for (size_t i = 0; i < u->groups.n; i++)
			yyjson_mut_arr_add_strcpy(d, a, u->groups.v[i]);
	}
	for (size_t i = 0; i < u->extra.n; i++) {
		const char *e = u->extra.v[i], *value = strchr(e, '=');
		td_auto_free char *key = td_strndup(e, (size_t)(value - e));
		yyjson_mut_val *a = yyjson_mut_arr(d);
		yyjson_mut_arr_add_strcpy(d, a, value + 1);
		td_jm_key_set(d, td_jm_obj(d, o, "extra"), key, a);
	}
}

// ---- authentication ----
static int self_subject(struct td_req *q, yyjson_val *spec, yyjson_mut_doc *d, yyjson_mut_val *o, struct td_refusal *r)
{
	(void)spec;
	(void)r;
	copy_user(d, td_jm_obj(d, o, "status.userInfo"), &q->user);
	return 0;
}

static int token(struct td_req *q, yyjson_val *spec, yyjson_mut_doc *d, yyjson_mut_val *o, struct td_refusal *r)
{
	__attribute__((cleanup(td_user_done))) struct td_user u = {0};
	td_auto_strv struct td_strv want = {0}, got = {0};
	td_auto_free char *why = NULL;

	const char *text = td_jstr_or(spec, "token", "");
	if (!*text)
		return td_refuse(r, 400, NULL, "token is required for TokenReview in authentication");
	td_jstrs(td_jkey(spec, "audiences"), &want);
	if (!want.n)
		td_strv_add(&want, TD_AUDIENCE);
	td_jm_obj(d, o, "status.user");
	if (td_token_user(q->s, &(struct td_srv_token){text, &want, td_http_cancel(q->x)}, &u, &got, &why) < 0) {
		td_jm_str(d, o, "status.error", why);
		return 0;
	}
	td_strv_add(&u.groups, "system:authenticated");
	td_jm_bool(d, o, "status.authenticated", true);
	copy_user(d, td_jm_obj(d, o, "status.user"), &u);
	for (size_t i = 0; i < got.n; i++)
		yyjson_mut_arr_add_strcpy(d, td_jm_arr(d, o, "status.audiences"), got.v[i]);

	return 0;
}

// ---- authorization ----
static void answer(struct td_req *q, yyjson_val *spec, const struct td_user *u, yyjson_mut_doc *d, yyjson_mut_val *o)
{
	yyjson_val *ra = td_jkey(spec, "resourceAttributes"), *na = td_jkey(spec, "nonResourceAttributes");
	struct td_rbac_ask a = {
		.verb = td_jstr_or(ra ? ra : na, "verb", ""),
		.group = td_jstr_or(ra, "group", ""),
		.resource = td_jstr_or(ra, "resource", ""),
		.sub = td_jstr_or(ra, "subresource", ""),
		.name = td_jstr_or(ra, "name", ""),
		.ns = td_jstr_or(ra, "namespace", ""),
		.path = ra ? NULL : td_jstr_or(na, "path", ""),
	};
	td_auto_free char *why = NULL;
	td_jm_bool(d, o, "status.allowed", td_auth_ask(q->s, u, &a, &why));
	td_jm_str(d, o, "status.reason", why);
}

static int check(struct td_req *q, yyjson_val *spec, bool self, struct td_refusal *r)
{
	yyjson_val *ra = td_jkey(spec, "resourceAttributes"), *na = td_jkey(spec, "nonResourceAttributes");
	if (yyjson_is_obj(ra) && yyjson_is_obj(na))
		td_cause_add(&r->causes, "FieldValueInvalid", "spec.nonResourceAttributes",
			     "Invalid value: cannot be specified in combination with resourceAttributes");
	if (!yyjson_is_obj(ra) && !yyjson_is_obj(na))
		td_cause_add(&r->causes, "FieldValueInvalid", "spec.resourceAttributes",
			     "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be "
			     "specified");
	if (!self && !*td_jstr_or(spec, "user", "") && !yyjson_arr_size(td_jkey(spec, "groups")))
		td_cause_add(&r->causes, "FieldValueInvalid", "spec.user",
			     "Invalid value: \"\": at least one of user or group must be specified");
	if (!r->causes.n)
		return 0;
	int rc = td_refuse_invalid(r, q->group, "", "");
	free(r->kind); // a real API server omits it here
	r->kind = NULL;

	return rc;
}

static int self_access(struct td_req *q, yyjson_val *spec, yyjson_mut_doc *d, yyjson_mut_val *o, struct td_refusal *r)
{
	int rc = check(q, spec, true, r);
	if (rc == 0)
		answer(q, spec, &q->user, d, o);
	return rc;
}

static int access_of(struct td_req *q, yyjson_val *spec, yyjson_mut_doc *d, yyjson_mut_val *o, struct td_refusal *r)
{
	__attribute__((cleanup(td_user_done))) struct td_user u = {0};
	bool local = *q->ns;
	if (local && !td_streq(td_jstr_or(spec, "resourceAttributes.namespace", ""), q->ns))
		td_cause_add(&r->causes, "FieldValueInvalid", "spec.resourceAttributes.namespace",
			     "Invalid value: \"%.260s\": must match metadata.namespace",
			     td_jstr_or(spec, "resourceAttributes.namespace", ""));
	int rc = check(q, spec, false, r);
	if (rc < 0)
		return rc;
	u.name = td_strdup(td_jstr_or(spec, "user", ""));
	td_jstrs(td_jkey(spec, "groups"), &u.groups);
	answer(q, spec, &u, d, o);
	return 0;
}

static void list(yyjson_mut_doc *d, yyjson_mut_val *o, const char *key, const struct td_strv *l)
{
	for (size_t i = 0; i < l->n; i++)
		yyjson_mut_arr_add_strcpy(d, td_jm_arr(d, o, key), l->v[i]);
}

static int rules(struct td_req *q, yyjson_val *spec, yyjson_mut_doc *d, yyjson_mut_val *o, struct td_refusal *r)
{
	const char *ns = td_jstr_or(spec, "namespace", "");
	if (!*ns)
		return td_refuse(r, 400, NULL, "no namespace on request");
	td_auto(td_rbac_unref) struct td_rbac *rbac = td_rbac_cache_get(q->s->rbac);
	td_auto_rules struct td_rbac_rules l = {0};
	td_auto_free char *fault = NULL;
	td_rbac_rules_for(rbac, q->user.name, &q->user.groups, ns, &l, &fault);
	yyjson_mut_val *res = td_jm_arr(d, o, "status.resourceRules"),
		       *non = td_jm_arr(d, o, "status.nonResourceRules");
	for (size_t i = 0; i < l.n; i++) {
		if (l.v[i].resources.n) {
			yyjson_mut_val *e = yyjson_mut_arr_add_obj(d, res);
			list(d, e, "verbs", &l.v[i].verbs);
			list(d, e, "apiGroups", &l.v[i].groups);
			list(d, e, "resources", &l.v[i].resources);
			list(d, e, "resourceNames", &l.v[i].names);
		}
		if (l.v[i].urls.n) {
			yyjson_mut_val *e = yyjson_mut_arr_add_obj(d, non);
			list(d, e, "verbs", &l.v[i].verbs);
			list(d, e, "nonResourceURLs", &l.v[i].urls);
		}
	}

	td_jm_bool(d, o, "status.incomplete", false);
	td_jm_str(d, o, "status.evaluationError", fault);

	return 0;
}

// ---- the table of reviews ----
static const struct review {
	const char *group, *plural, *kind;
	bool namespaced;
	int (*f)(struct td_req *q, yyjson_val *spec, yyjson_mut_doc *d, yyjson_mut_val *o, struct td_refusal *r);
} reviews[] = {
	{"authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", false, self_subject},
	{"authentication.k8s.io", "tokenreviews", "TokenReview", false, token},
	{"authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", false, self_access},
	{"authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview", false, rules},
	{"authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", false, access_of},
	{"authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", true, access_of},
};

int td_review(struct td_req *q, struct td_refusal *r)
{
	const struct review *v = NULL;
	for (size_t i = 0; i < TD_LEN(reviews) && !v; i++)
		if (!strcmp(reviews[i].group, q->group) && !strcmp(reviews[i].plural, q->plural))
			v = &reviews[i];
	if (!v || strcmp(q->version, "v1") != 0 || *q->name || v->namespaced != (*q->ns != 0))
		return TD_NOT_FOUND;
	if (strcmp(q->verb, "create") != 0)
		return td_refuse_method(r);
	td_auto(td_json_unref) struct td_json *body = NULL;
	int rc = td_body_read(q, true, &body, r);
	if (rc < 0)
		return rc;
	yyjson_val *b = td_json_root(body);
	if (!td_streq(td_jstr_or(b, "kind", v->kind), v->kind))
		return td_refuse(r, 400, NULL, "the body has kind %.100s: this path takes a %s",
				 td_jstr_or(b, "kind", ""), v->kind);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = yyjson_is_obj(b) ? td_jm_copy(b) : td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "kind", v->kind);
	td_jm_strf(d, o, "apiVersion", "%s/v1", v->group);
	td_jm_obj(d, o, "metadata");
	td_jm_del(o, "status");
	if ((rc = v->f(q, td_jget(b, "spec"), d, o, r)) < 0)
		return rc;

	td_reply_doc(q, 201, d);
	return 0;
}
