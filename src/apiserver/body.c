// Bodies: content types, JSON and YAML, and the checks of an object against its URL.
#include "apiserver/srv.h"

#include "apiserver/protobuf.h"

#include <string.h>

static bool type_is(const char *h, const char *t)
{
	size_t n = strlen(t);
	return !strncasecmp(h, t, n) && (!h[n] || h[n] == ';' || h[n] == ' ');
}

int td_body_read(struct td_req *q, bool optional, struct td_json **ret, struct td_refusal *r)
{
	size_t len = 0;
	const char *b = td_http_body(q->x, &len);
	if (!len) {
		if (!optional)
			return td_refuse(r, 400, NULL, "the request has no body: send the object as JSON or YAML");
		*ret = NULL;
		return 0;
	}
	const char *ct = td_http_header(q->x, "Content-Type");
	if (!ct || !*ct)
		ct = "application/json";
	struct td_error err = TD_ERROR_INIT;
	if (type_is(ct, "application/yaml") || type_is(ct, "application/apply-patch+yaml")) {
		td_auto_json_list struct td_json_list l = {0};
		if (td_yaml_parse(b, len, &l, &err) < 0)
			return td_refuse(r, 400, NULL, "the body is not YAML: %s", err.msg);
		if (l.n != 1)
			return td_refuse(r, 400, NULL, "the body holds %zu YAML documents: send exactly one", l.n);
		*ret = td_json_ref(l.v[0]);
		return 0;
	}
	if (type_is(ct, "application/vnd.kubernetes.protobuf")) {
		int rc = td_protobuf_parse(b, len, ret, &err);
		if (rc < 0)
			return td_refuse(r, rc == TD_UNSUPPORTED ? 415 : 400, NULL, "%s", err.msg);
		return 0;
	}
	if (!type_is(ct, "application/json") && !strstr(ct, "+json"))
		return td_refuse(r, 415, "UnsupportedMediaType",
				 "the body of the request was in an unknown format - accepted media types include: application/json, "
				 "application/yaml; got \"%.100s\"",
				 ct);
	if (td_json_parse(b, len, ret, &err) < 0)
		return td_refuse(r, 400, NULL, "the body is not JSON: %s", err.msg);
	return 0;
}

int td_body_object(struct td_req *q, yyjson_val *v, yyjson_mut_doc **ret, struct td_refusal *r)
{
	const struct td_kind *k = q->k;
	if (!yyjson_is_obj(v))
		return td_refuse(r, 400, NULL, "the body is not an object: a %s is a mapping with apiVersion, kind and metadata", k->kind);
	td_auto_free char *av = td_asprintf("%s%s%s", k->group, *k->group ? "/" : "", k->version);
	const char *kind = td_jstr(v, "kind"), *api = td_jstr(v, "apiVersion");
	if (kind && *kind && (strcmp(kind, k->kind) != 0 || (api && *api && strcmp(api, av) != 0)))
		return td_refuse(r, 400, NULL,
				 "the API version in the data (%s, kind %s) does not match the expected API version (%s, kind %s)",
				 api ? api : "", kind, av, k->kind);
	yyjson_val *m = td_jget(v, "metadata");
	if (m && !yyjson_is_obj(m) && !yyjson_is_null(m))
		return td_refuse(r, 400, NULL, "metadata of the %s is not an object", k->kind);
	static const char *const strings[] = {"name", "namespace", "generateName", "uid", "resourceVersion"};
	for (size_t i = 0; i < TD_LEN(strings); i++) {
		yyjson_val *s = td_jkey(m, strings[i]);
		if (s && !yyjson_is_str(s) && !yyjson_is_null(s))
			return td_refuse(r, 400, NULL, "metadata.%s of the %s is not a string", strings[i], k->kind);
	}
	const char *ns = td_jstr_or(m, "namespace", ""), *name = td_jstr_or(m, "name", "");
	if (*ns && k->namespaced && strcmp(ns, q->ns) != 0)
		return td_refuse(r, 400, NULL, "the namespace of the provided object does not match the namespace sent on the request");
	if (*name && *q->name && strcmp(name, q->name) != 0)
		return td_refuse(r, 400, NULL, "the name of the object (%s) does not match the name on the URL (%s)", name, q->name);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(v);
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "kind", k->kind);
	td_jm_str(d, o, "apiVersion", av);
	if (!yyjson_is_obj(m))
		td_jm_set(d, o, "metadata", yyjson_mut_obj(d));
	if (k->namespaced)
		td_jm_str(d, o, "metadata.namespace", q->ns);
	else
		td_jm_del(o, "metadata.namespace");
	if (*q->name)
		td_jm_str(d, o, "metadata.name", q->name);
	td_jm_del(o, "metadata.selfLink");
	*ret = td_steal(d);
	return 0;
}
