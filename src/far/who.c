// Who asks for a stream, and whether he may. As at a kubelet: a client certificate of the cluster's (the API server's), or
// a token that the API server knows; then the right to nodes/proxy of the node that the pod is on.
#include "far/face.h"

#include <string.h>

#define CA_NS "kube-system"
#define CA_NAME "extension-apiserver-authentication" // every API server writes into it by whom it knows clients
#define CA_KEY "client-ca-file"

int td_far_client_ca(struct td_kube *here, struct td_cancel *c, char **ret, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = td_kube_get(here, &td_configmaps, CA_NS, CA_NAME, c, &o, err);
	const char *pem = r ? NULL : td_jkey_str(td_jget(o->root, "data"), CA_KEY);
	if (r)
		return td_wrap(err, "the certificate by which clients are known");
	if (!pem || !*pem)
		return td_fail(err, TD_NOT_FOUND, "ConfigMap " CA_NS "/" CA_NAME " has no " CA_KEY);
	*ret = td_strdup(pem);
	return 0;
}

static int review(struct td_kube *here, const char *path, yyjson_mut_doc *d, struct td_cancel *c, struct td_json **ret,
		  struct td_error *err)
{
	size_t n = 0;
	td_auto_free char *text = td_json_mut_text(yyjson_mut_doc_get_root(d), &n);
	const struct td_kube_body body = {"application/json", text, n};
	int r = td_kube_raw(here, "POST", path, &body, c, ret, err);
	explicit_bzero(text, n);
	return r;
}

void td_far_caller_done(struct td_far_caller *w)
{
	free(w->user);
	free(w->uid);
	td_strv_done(&w->groups);
	td_json_unref(w->extra);
}

static int by_token(struct td_kube *here, const char *token, struct td_far_caller *ret, struct td_cancel *c,
		    struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_auto(td_json_unref) struct td_json *said = NULL;
	td_jm_str(d, root, "apiVersion", "authentication.k8s.io/v1");
	td_jm_str(d, root, "kind", "TokenReview");
	td_jm_str(d, root, "spec.token", token);
	int r = review(here, "/apis/authentication.k8s.io/v1/tokenreviews", d, c, &said, err);
	if (r)
		return r;
	const yyjson_val *status = td_jget(td_json_root(said), "status"), *user = td_jget(status, "user");
	const char *name = td_jstr(user, "username");
	if (!td_jbool(status, "authenticated", false) || !name || !*name)
		return td_fail(err, TD_UNAUTHENTICATED, "the token is not known");
	yyjson_val *g;
	size_t i, n;
	ret->user = td_strdup(name);
	ret->uid = td_strdup(td_jstr(user, "uid"));
	ret->extra = td_json_ref(said);
	yyjson_arr_foreach (td_jget(user, "groups"), i, n, g)
		if (yyjson_is_str(g))
			td_strv_add(&ret->groups, yyjson_get_str(g));
	return 0;
}

int td_far_caller(struct td_kube *here, const struct td_http_x *x, struct td_far_caller *ret, struct td_cancel *c,
		  struct td_error *err)
{
	static const char bearer[] = "Bearer ";
	const char *cn = td_http_peer_cn(x), *proof = td_http_header(x, "Authorization");
	const struct td_strv *orgs = td_http_peer_orgs(x);
	if (cn && *cn) {
		ret->user = td_strdup(cn);
		for (size_t i = 0; orgs && i < orgs->n; i++)
			td_strv_add(&ret->groups, orgs->v[i]);
		td_strv_add(&ret->groups, "system:authenticated");
		return 0;
	}
	if (proof && td_starts(proof, bearer) && proof[sizeof(bearer) - 1])
		return by_token(here, proof + sizeof(bearer) - 1, ret, c, err);
	return td_fail(err, TD_UNAUTHENTICATED,
		       "a client certificate that the cluster's API server accepts, or a token of it, is needed");
}

int td_far_caller_may(struct td_kube *here, const struct td_far_caller *w, const char *verb, const char *node,
		      struct td_cancel *c, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *spec = td_jm_obj(d, root, "spec");
	td_auto(td_json_unref) struct td_json *said = NULL;
	td_jm_str(d, root, "apiVersion", "authorization.k8s.io/v1");
	td_jm_str(d, root, "kind", "SubjectAccessReview");
	td_jm_str(d, spec, "user", w->user);
	if (w->uid)
		td_jm_str(d, spec, "uid", w->uid);
	yyjson_val *extra = td_jget(td_json_root(w->extra), "status.user.extra");
	if (yyjson_is_obj(extra))
		td_jm_copyval(d, spec, "extra", extra);
	yyjson_mut_val *groups = td_jm_arr(d, spec, "groups");
	for (size_t i = 0; i < w->groups.n; i++)
		yyjson_mut_arr_add_strcpy(d, groups, w->groups.v[i]);
	td_jm_str(d, spec, "resourceAttributes.verb", verb);
	td_jm_str(d, spec, "resourceAttributes.version", "v1");
	td_jm_str(d, spec, "resourceAttributes.resource", "nodes");
	td_jm_str(d, spec, "resourceAttributes.subresource", "proxy");
	td_jm_str(d, spec, "resourceAttributes.name", node);
	int r = review(here, "/apis/authorization.k8s.io/v1/subjectaccessreviews", d, c, &said, err);
	if (r)
		return r;
	const yyjson_val *status = td_jget(td_json_root(said), "status");
	return td_jbool(status, "allowed", false) && !td_jbool(status, "denied", false)
		       ? 0
		       : td_fail(err, TD_DENIED, "\"%s\" may not %s nodes/proxy of node \"%s\"", w->user, verb, node);
}
