// Questions about oneself: `kubectl auth whoami` and `kubectl auth can-i`. Answered, never stored.
#include "apiserver/srv.h"

#include <string.h>

static void copy_user(yyjson_mut_doc *d, yyjson_mut_val *o, const char *path, const struct td_user *u)
{
	td_auto_free char *name = td_asprintf("%s.username", path), *groups = td_asprintf("%s.groups", path);
	td_jm_str(d, o, name, u->name);
	yyjson_mut_val *a = td_jm_arr(d, o, groups);
	for (size_t i = 0; i < u->groups.n; i++)
		yyjson_mut_arr_add_strcpy(d, a, u->groups.v[i]);
}

// Asks the same function as every request: what it would say to this user.
static bool allowed(const struct td_req *q, yyjson_val *spec, const struct td_user *u)
{
	td_auto_refusal struct td_refusal r = {0};
	struct td_kind kind = {0};
	struct td_res res = {.kind = &kind};
	struct td_req ask = *q;
	ask.user = *u;
	yyjson_val *ra = td_jget(spec, "resourceAttributes"), *na = td_jget(spec, "nonResourceAttributes");
	ask.verb = td_jstr_or(ra ? ra : na, "verb", "get");
	ask.res = ra ? &res : NULL;
	ask.group = td_jstr_or(ra, "group", "");
	ask.plural = td_jstr_or(ra, "resource", "");
	ask.sub = td_jstr_or(ra, "subresource", "");
	ask.ns = td_jstr_or(ra, "namespace", "");
	ask.name = td_jstr_or(ra, "name", "");
	ask.path = td_jstr_or(na, "path", "/");
	return td_auth_may(&ask, &r) == 0;
}

static void subject(yyjson_val *spec, struct td_user *ret)
{
	yyjson_val *g;
	size_t i, n;
	ret->name = td_strdup(td_jstr_or(spec, "user", ""));
	yyjson_arr_foreach (td_jget(spec, "groups"), i, n, g)
		if (yyjson_is_str(g))
			td_strv_add(&ret->groups, yyjson_get_str(g));
}

int td_review(struct td_req *q, struct td_refusal *r)
{
	bool self = !strcmp(q->plural, "selfsubjectreviews"), mine = !strcmp(q->plural, "selfsubjectaccessreviews"),
	     other = !strcmp(q->plural, "subjectaccessreviews");
	bool authn = !strcmp(q->group, "authentication.k8s.io"), authz = !strcmp(q->group, "authorization.k8s.io");
	if (strcmp(q->version, "v1") || strcmp(q->verb, "create") || !((authn && self) || (authz && (mine || other))))
		return TD_NOT_FOUND;
	td_auto(td_json_unref) struct td_json *body = NULL;
	int rc = td_body_read(q, true, &body, r);
	if (rc < 0)
		return rc;
	yyjson_val *v = td_json_root(body), *spec = td_jget(v, "spec");
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = yyjson_is_obj(v) ? td_jm_copy(v) : td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "kind", self ? "SelfSubjectReview" : mine ? "SelfSubjectAccessReview" : "SubjectAccessReview");
	td_jm_strf(d, o, "apiVersion", "%s/v1", q->group);
	td_jm_obj(d, o, "metadata");
	if (self) {
		copy_user(d, o, "status.userInfo", &q->user);
	} else if (mine) {
		td_jm_bool(d, o, "status.allowed", allowed(q, spec, &q->user));
	} else {
		__attribute__((cleanup(td_user_done))) struct td_user u = {0};
		if ((rc = td_auth_may(q, r)) < 0)
			return rc;
		subject(spec, &u);
		td_jm_bool(d, o, "status.allowed", allowed(q, spec, &u));
	}
	td_reply_doc(q, 201, d);
	return 0;
}
