// Request bodies: content types, JSON and YAML, and the checks of an object against its URL.
#include "apiserver/srv.h"

#include "apiserver/protobuf.h"

#include <string.h>

static bool type_is(const char *h, const char *t)
{
	size_t n = strlen(t);
	return !strncasecmp(h, t, n) && (!h[n] || h[n] == ';' || h[n] == ' ');
}

int td_refuse_decode(const struct td_req *q, struct td_refusal *r, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	td_auto_free char *m = td_vasprintf(fmt, ap);
	va_end(ap);
	td_causes_done(&r->causes);
	if (q->patched) {
		td_cause_add(&r->causes, "FieldValueInvalid", "patch", "Invalid value: %s", m);
		return td_refuse_invalid(r, NULL, NULL, NULL);
	}
	return td_refuse(r, 400, NULL, "%s in version \"%s\" cannot be handled as a %s: %s", q->k->kind, q->k->version,
			 q->k->kind, m);
}

// Whether the body is an object of q's kind, or a patch of one. It is not for a deletion, nor for a
// subresource with a kind of its own.
static bool is_object_body(const struct td_req *q)
{
	static const char *const verbs[] = {"create", "update", "patch"};
	for (size_t i = 0; i < TD_LEN(verbs); i++)
		if (q->k && !strcmp(q->verb, verbs[i]))
			return !*q->sub || !strcmp(q->sub, "status");
	return false;
}

static int no_duplicates(struct td_req *q, struct td_json **doc, struct td_refusal *r)
{
	td_auto_strv struct td_strv twice = {0};
	if (!td_duplicates_drop(doc, &twice) || q->strictness == TD_FIELDS_IGNORE)
		return 0;
	td_auto_buf struct td_buf b = {0};
	for (size_t i = 0; i < twice.n && i < 16; i++) {
		if (q->strictness == TD_FIELDS_WARN)
			td_reply_warn(q, "duplicate field \"%s\"", twice.v[i]);
		td_buf_printf(&b, "%sduplicate field \"%s\"", i ? ", " : "", twice.v[i]);
	}

	if (q->strictness == TD_FIELDS_WARN)
		return 0;

	// Nobody reads this body further, so unknown fields are reported now too.
	td_auto_strv struct td_strv unknown = {0};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(*doc));
	if (is_object_body(q) && yyjson_mut_is_obj(yyjson_mut_doc_get_root(d)))
		td_schema_prune(q->k->schema, yyjson_mut_doc_get_root(d), &unknown);
	for (size_t i = 0; i < unknown.n && i < 16; i++)
		td_buf_printf(&b, ", unknown field \"%s\"", unknown.v[i]);

	return td_refuse_decode(q, r, "strict decoding error: %s", td_buf_str(&b));
}

static int read_text(struct td_req *q, const char *b, size_t len, struct td_json **ret, struct td_refusal *r);

int td_body_read(struct td_req *q, bool optional, struct td_json **ret, struct td_refusal *r)
{
	td_auto(td_json_unref) struct td_json *doc = NULL;
	size_t len = 0;
	const char *b = td_http_body(q->x, &len);
	if (!len) {
		if (!optional)
			return td_refuse(r, 400, NULL, "the request has no body: send the object as JSON or YAML");
		*ret = NULL;
		return 0;
	}
	int rc = read_text(q, b, len, &doc, r);
	if (rc < 0 || (rc = no_duplicates(q, &doc, r)) < 0)
		return rc;
	*ret = td_steal(doc);
	return 0;
}

static int read_text(struct td_req *q, const char *b, size_t len, struct td_json **ret, struct td_refusal *r)
{
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

	// patch.c has checked the content types of patches.
	if (!type_is(ct, "application/json") && !(!strcmp(q->verb, "patch") && strstr(ct, "+json")))
		return td_refuse(r, 415, "UnsupportedMediaType",
				 "the body of the request was in an unknown format - accepted media types include: "
				 "application/json, application/yaml, application/vnd.kubernetes.protobuf");

	if (td_json_parse(b, len, ret, &err) < 0)
		return td_refuse(r, 400, NULL, "the body is not JSON: %s", err.msg);
	return 0;
}

int td_body_object(struct td_req *q, yyjson_val *v, yyjson_mut_doc **ret, struct td_refusal *r)
{
	const struct td_kind *k = q->k;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *empty = td_jm_new();

	td_auto(td_json_unref) struct td_json *nothing = td_json_from_mut(yyjson_mut_doc_get_root(empty));
	if (yyjson_is_null(v)) // treated as an empty object
		v = td_json_root(nothing);
	if (!yyjson_is_obj(v))
		return td_refuse(r, 400, NULL,
				 "the body is not an object: a %s is a mapping with apiVersion, kind and metadata",
				 k->kind);
	td_auto_free char *av = td_asprintf("%s%s%s", k->group, *k->group ? "/" : "", k->version);
	const char *kind = td_jstr(v, "kind"), *api = td_jstr(v, "apiVersion");

	// Only an object of a built-in kind may leave its kind out.
	if (!k->builtin && (!kind || !*kind))
		return td_refuse(r, 400, NULL,
				 "the object provided is unrecognized (must be of type %s): Object 'Kind' is missing",
				 k->kind);

	if (kind && *kind && (strcmp(kind, k->kind) != 0 || (api && *api && strcmp(api, av) != 0)))
		return td_refuse_decode(q, r, "it says apiVersion \"%s\" and kind \"%s\": write \"%s\" and \"%s\"",
					api ? api : "", kind, av, k->kind);
	yyjson_val *m = td_jget(v, "metadata");
	if (m && !yyjson_is_obj(m) && !yyjson_is_null(m))
		return td_refuse_decode(q, r, "metadata is not an object");
	static const char *const strings[] = {"name", "namespace", "generateName", "uid", "resourceVersion"};
	for (size_t i = 0; i < TD_LEN(strings); i++) {
		yyjson_val *s = td_jkey(m, strings[i]);
		if (s && !yyjson_is_str(s) && !yyjson_is_null(s))
			return td_refuse_decode(q, r, "metadata.%s is not a string", strings[i]);
		// A C string would end at the NUL.
		if (memchr(yyjson_is_str(s) ? yyjson_get_str(s) : "", 0, yyjson_get_len(s)))
			return td_refuse_decode(q, r, "metadata.%s has a NUL in it", strings[i]);
	}

	const char *ns = td_jstr_or(m, "namespace", ""), *name = td_jstr_or(m, "name", "");
	if (*ns && k->namespaced && strcmp(ns, q->ns) != 0)
		return td_refuse(
			r, 400, NULL,
			"the namespace of the provided object does not match the namespace sent on the request");
	if (!*name && *q->name && !*q->sub && (!strcmp(q->verb, "update") || q->patched))
		return td_refuse(r, 400, NULL,
				 "the name of the object (%s based on URL) was undeterminable: name must be provided",
				 q->name);
	if (*name && *q->name && strcmp(name, q->name) != 0)
		return td_refuse(r, 400, NULL, "the name of the object (%s) does not match the name on the URL (%s)",
				 name, q->name);

	// Kind and version come first: lists leave them out (td_item_write_in_list).
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "kind", k->kind);
	td_jm_str(d, o, "apiVersion", av);
	size_t i, n;
	yyjson_val *key, *x;
	yyjson_obj_foreach (v, i, n, key, x)
		if (!yyjson_equals_str(key, "kind") && !yyjson_equals_str(key, "apiVersion"))
			yyjson_mut_obj_add(o, yyjson_val_mut_copy(d, key), yyjson_val_mut_copy(d, x));
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
