// /openapi/v3: an index and one document per group and version, made of the kinds' own schemas.
// kubectl reads there which query parameters a verb has, merge keys, and what `explain` prints.
// /openapi/v2 is refused, except to kubectl (version2).
#include "apiserver/srv.h"

#include <stdio.h>
#include <string.h>

// Resources that are served but never stored.
static const struct asked {
	const char *group, *version, *plural, *kind, *part;
	bool namespaced;
} asked[] = {
	{"", "v1", "bindings", "Binding", "binding", true},
	{"authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", "selfSubjectReview", false},
	{"authentication.k8s.io", "v1", "tokenreviews", "TokenReview", "tokenReview", false},
	{"authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", "subjectAccessReview",
	 true},
	{"authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", "selfSubjectAccessReview",
	 false},
	{"authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", "selfSubjectRulesReview",
	 false},
	{"authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", "subjectAccessReview", false},
};

static bool asked_in(const char *group, const char *version)
{
	for (size_t i = 0; i < TD_LEN(asked); i++)
		if (!strcmp(asked[i].group, group) && !strcmp(asked[i].version, version))
			return true;
	return false;
}

static void index_v3(struct td_req *q)
{
	td_auto_buf struct td_buf b = {0};
	td_buf_puts(&b, "{\"paths\":{");
	bool first = true;
	for (size_t i = 0; i < q->snap->n; i++) {
		const struct td_kind *k = q->snap->v[i].kind;
		bool seen = false;
		for (size_t j = 0; j < i; j++)
			seen |= !strcmp(q->snap->v[j].kind->group, k->group) &&
				!strcmp(q->snap->v[j].kind->version, k->version);
		if (seen)
			continue;
		td_auto_free char *p =
			*k->group ? td_asprintf("apis/%s/%s", k->group, k->version) : td_asprintf("api/%s", k->version);
		// The hash changes with the served kinds, so that clients may cache a document for
		// ever.
		td_buf_printf(&b, "%s\"%s\":{\"serverRelativeURL\":\"/openapi/v3/%s?hash=%u-" TD_VERSION "\"}",
			      first ? "" : ",", p, p, q->snap->gen);
		first = false;
	}

	for (size_t i = 0; i < TD_LEN(asked); i++) { // groups in which nothing is stored
		const struct asked *a = &asked[i];
		if (td_snap_has_group(q->snap, a->group, a->version) || (i && !strcmp(a->group, asked[i - 1].group)))
			continue;
		td_buf_printf(&b,
			      "%s\"apis/%s/%s\":{\"serverRelativeURL\":\"/openapi/v3/apis/%s/%s?hash=" TD_VERSION "\"}",
			      first ? "" : ",", a->group, a->version, a->group, a->version);
		first = false;
	}

	td_buf_puts(&b, "}}\n");
	td_http_send(q->x, 200, "application/json", td_buf_str(&b), b.len);
}

static void param(struct td_buf *b, bool *first, const char *name)
{
	td_buf_printf(b, "%s{\"name\":\"%s\",\"in\":\"query\",\"schema\":{\"type\":\"string\",\"uniqueItems\":true}}",
		      *first ? "" : ",", name);
	*first = false;
}

struct gvk {
	const char *group, *version, *kind;
};

static void operation(struct td_buf *b, bool *first, const struct gvk *of, const char *method, const char *action,
		      const char *params)
{
	td_buf_printf(
		b,
		"%s\"%s\":{\"x-kubernetes-action\":\"%s\",\"x-kubernetes-group-version-kind\":{\"group\":\"%s\","
		"\"version\":\"%s\",\"kind\":\"%s\"},\"responses\":{\"200\":{\"description\":\"OK\"}},\"parameters\":[",
		*first ? "" : ",", method, action, of->group, of->version, of->kind);
	*first = false;
	bool first_param = true;
	td_auto_free char *copy = td_strdup(params);
	char *save = NULL;
	for (char *p = strtok_r(copy, " ", &save); p; p = strtok_r(NULL, " ", &save))
		param(b, &first_param, p);
	td_buf_puts(b, "]}");
}

#define LIST_PARAMS                                                                                                    \
	"labelSelector fieldSelector limit continue resourceVersion resourceVersionMatch watch allowWatchBookmarks "   \
	"sendInitialEvents "                                                                                           \
	"timeoutSeconds"
#define WRITE_PARAMS "dryRun fieldManager fieldValidation"

static void paths_of(struct td_buf *b, bool *first, const struct td_kind *k)
{
	td_auto_free char *base =
		*k->group ? td_asprintf("/apis/%s/%s", k->group, k->version) : td_asprintf("/api/%s", k->version);
	const char *ns = k->namespaced ? "/namespaces/{namespace}" : "";
	const struct gvk of = {k->group, k->version, k->kind};
	bool op = true;

	if (k->namespaced) {
		td_buf_printf(b, "%s\"%s/%s\":{", *first ? "" : ",", base, k->plural);
		*first = false;
		operation(b, &op, &of, "get", "list", LIST_PARAMS);
		td_buf_putc(b, '}');
		op = true;
	}

	td_buf_printf(b, "%s\"%s%s/%s\":{", *first ? "" : ",", base, ns, k->plural);
	*first = false;
	operation(b, &op, &of, "get", "list", LIST_PARAMS);
	operation(b, &op, &of, "post", "post", WRITE_PARAMS);
	operation(b, &op, &of, "delete", "deletecollection",
		  LIST_PARAMS " dryRun gracePeriodSeconds propagationPolicy");
	op = true;
	td_buf_printf(b, "},\"%s%s/%s/{name}\":{", base, ns, k->plural);
	operation(b, &op, &of, "get", "get", "resourceVersion");
	operation(b, &op, &of, "put", "put", WRITE_PARAMS);
	operation(b, &op, &of, "patch", "patch", WRITE_PARAMS " force");
	operation(b, &op, &of, "delete", "delete", "dryRun gracePeriodSeconds propagationPolicy");
	td_buf_putc(b, '}');
}

#define INT_OR_STRING "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
#define QUANTITY "io.k8s.apimachinery.pkg.api.resource.Quantity"

// Changes a schema for clients: a value that may be a number or a string gets the name that it has
// in the real API, as `explain` shows it. Our own formats are removed: they mean nothing to
// clients.
static void publish(yyjson_mut_doc *d, yyjson_mut_val *v)
{
	size_t i, max;
	yyjson_mut_val *k, *x;

	if (yyjson_mut_is_arr(v)) {
		yyjson_mut_arr_foreach (v, i, max, x)
			publish(d, x);
		return;
	}

	if (!yyjson_mut_is_obj(v))
		return;
	yyjson_mut_val *format = yyjson_mut_obj_get(v, "format");
	bool quantity = yyjson_mut_is_str(format) && td_streq(yyjson_mut_get_str(format), "quantity");
	if (quantity || (yyjson_mut_is_str(format) && td_starts(yyjson_mut_get_str(format), "dns-")))
		yyjson_mut_obj_remove_key(v, "format");
	else if (yyjson_mut_is_str(format) && td_streq(yyjson_mut_get_str(format), "micro-time"))
		yyjson_mut_set_str(format, "date-time");
	yyjson_mut_obj_remove_key(v, "x-tandem-duplicates");
	if (yyjson_mut_is_true(yyjson_mut_obj_get(v, "x-kubernetes-int-or-string"))) {
		yyjson_mut_val *ref = yyjson_mut_obj(d);
		td_jm_key_str(d, ref, "$ref",
			      quantity ? "#/components/schemas/" QUANTITY : "#/components/schemas/" INT_OR_STRING);
		td_jm_key_set(d, v, "allOf", yyjson_mut_arr(d));
		yyjson_mut_arr_append(yyjson_mut_obj_get(v, "allOf"), ref);
	}

	yyjson_mut_obj_foreach (v, i, max, k, x)
		publish(d, x);
}

static void path_of(struct td_buf *b, bool *first, const struct asked *a)
{
	bool op = true;
	td_buf_printf(b, "%s\"/%s%s/%s%s/%s\":{", *first ? "" : ",", *a->group ? "apis/" : "api", a->group, a->version,
		      a->namespaced ? "/namespaces/{namespace}" : "", a->plural);
	*first = false;
	operation(b, &op, &(struct gvk){a->group, a->version, a->kind}, "post", "post", WRITE_PARAMS);
	td_buf_putc(b, '}');
}

static void schema_of(struct td_buf *b, bool *first, const struct gvk *of, yyjson_mut_doc *d, yyjson_mut_val *o)
{
	yyjson_mut_val *gvk = yyjson_mut_obj(d), *a = yyjson_mut_arr(d);
	td_jm_str(d, gvk, "group", of->group);
	td_jm_str(d, gvk, "version", of->version);
	td_jm_str(d, gvk, "kind", of->kind);
	yyjson_mut_arr_append(a, gvk);
	td_jm_key_set(d, o, "x-kubernetes-group-version-kind", a);
	publish(d, o);
	size_t len = 0;
	td_auto_free char *text = td_json_mut_text(o, &len);
	td_buf_printf(b, "%s\"%s%s%s.%s\":", *first ? "" : ",", *of->group ? of->group : "core", ".", of->version,
		      of->kind);
	*first = false;
	td_buf_add(b, text, len);
}

static bool document(struct td_req *q, const char *group, const char *version)
{
	if (!td_snap_has_group(q->snap, group, version) && !asked_in(group, version))
		return false;
	td_auto_buf struct td_buf b = {0};
	td_buf_puts(&b, "{\"openapi\":\"3.0.0\",\"info\":{\"title\":\"Tandem\",\"version\":\"" TD_VERSION
			"\"},\"paths\":{");
	bool first = true;
	for (size_t i = 0; i < q->snap->n; i++) {
		const struct td_kind *k = q->snap->v[i].kind;
		if (!strcmp(k->group, group) && !strcmp(k->version, version))
			paths_of(&b, &first, k);
	}

	for (size_t i = 0; i < TD_LEN(asked); i++)
		if (!strcmp(asked[i].group, group) && !strcmp(asked[i].version, version))
			path_of(&b, &first, &asked[i]);
	td_buf_puts(&b, "},\"components\":{\"schemas\":{\"" INT_OR_STRING "\":{\"description\":\"A whole number or a "
			"text.\",\"format\":\"int-or-string\",\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"string\"}]}"
			",\"" QUANTITY "\":{\"description\":\"An amount: a number with or without a unit, for example "
			"500m, 2 or 4Gi.\",\"oneOf\":[{\"type\":\"string\"},{\"type\":\"number\"}]}");
	first = false;
	for (size_t i = 0; i < q->snap->n; i++) {
		const struct td_kind *k = q->snap->v[i].kind;
		if (strcmp(k->group, group) || strcmp(k->version, version))
			continue;
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		schema_of(&b, &first, &(struct gvk){group, version, k->kind}, d, td_kind_openapi(k, d));
	}

	for (size_t i = 0; i < TD_LEN(asked); i++) {
		if (strcmp(asked[i].group, group) || strcmp(asked[i].version, version))
			continue;
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		schema_of(&b, &first, &(struct gvk){group, version, asked[i].kind}, d,
			  td_part_openapi(asked[i].part, d));
	}

	td_buf_puts(&b, "}}}\n");
	td_http_send(q->x, 200, "application/json", td_buf_str(&b), b.len);
	return true;
}

// kubectl reads version 2, in its binary form, before it sends a List, and sends none if it gets no
// document. Kinds that are absent from it are validated by the server instead, so this document has
// no kinds; its title says where they are.
static int version2(struct td_req *q, struct td_refusal *r)
{
	static const char document[] = "\x0a\x03"            // a gnostic.openapi.v2.Document: swagger
				       "2.0\x12\x29\x0a\x22" // info: title, version
				       "Kinds are at /openapi/v3 (Tandem).\x12\x03"
				       "0.1\x42\x00\x4a\x00"; // no paths, no definitions
	const char *accept = td_http_header(q->x, "Accept");
	if (!accept || !strstr(accept, "proto-openapi"))
		return td_refuse_generic(
			r, 404, NULL,
			"the embedded API describes its kinds in OpenAPI version 3 only: read /openapi/v3");
	td_http_send(q->x, 200, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", document,
		     sizeof(document) - 1);
	return 0;
}

int td_openapi(struct td_req *q, struct td_refusal *r)
{
	if (!strcmp(q->path, "/openapi/v2"))
		return version2(q, r);
	if (!strcmp(q->path, "/openapi/v3") || !strcmp(q->path, "/openapi/v3/")) {
		index_v3(q);
		return 0;
	}
	if (td_starts(q->path, "/openapi/v3/api/"))
		return document(q, "", q->path + 16) ? 0 : TD_NOT_FOUND;
	if (td_starts(q->path, "/openapi/v3/apis/")) {
		td_auto_free char *g = td_strdup(q->path + 17);
		char *slash = strchr(g, '/');
		if (slash) {
			*slash = 0;
			return document(q, g, slash + 1) ? 0 : TD_NOT_FOUND;
		}
	}

	return TD_NOT_FOUND;
}
