// /openapi/v3: an index and one document per group and version, from the kinds' own schemas; /openapi/v2: an empty one, for old clients
// that insist on it. kubectl reads from here which query parameters a verb knows, merge keys, and what `explain` prints.
#include "apiserver/srv.h"

#include <stdio.h>
#include <string.h>

static void index_v3(struct td_req *q)
{
	td_auto_buf struct td_buf b = {0};
	td_buf_puts(&b, "{\"paths\":{");
	bool first = true;
	for (size_t i = 0; i < q->snap->n; i++) {
		const struct td_kind *k = q->snap->v[i].kind;
		bool seen = false;
		for (size_t j = 0; j < i; j++)
			seen |= !strcmp(q->snap->v[j].kind->group, k->group) && !strcmp(q->snap->v[j].kind->version, k->version);
		if (seen)
			continue;
		td_auto_free char *p = *k->group ? td_asprintf("apis/%s/%s", k->group, k->version) : td_asprintf("api/%s", k->version);
		// The hash changes with what is served, so that clients may cache a document for ever.
		td_buf_printf(&b, "%s\"%s\":{\"serverRelativeURL\":\"/openapi/v3/%s?hash=%u-" TD_VERSION "\"}", first ? "" : ",", p, p,
			      q->snap->gen);
		first = false;
	}
	td_buf_puts(&b, "}}\n");
	td_http_send(q->x, 200, "application/json", td_buf_str(&b), b.len);
}

static void param(struct td_buf *b, bool *first, const char *name)
{
	td_buf_printf(b, "%s{\"name\":\"%s\",\"in\":\"query\",\"schema\":{\"type\":\"string\",\"uniqueItems\":true}}", *first ? "" : ",",
		      name);
	*first = false;
}

static void operation(struct td_buf *b, bool *first, const struct td_kind *k, const char *method, const char *action, const char *params)
{
	td_buf_printf(b,
		      "%s\"%s\":{\"x-kubernetes-action\":\"%s\",\"x-kubernetes-group-version-kind\":{\"group\":\"%s\",\"version\":\"%s\","
		      "\"kind\":\"%s\"},"
		      "\"responses\":{\"200\":{\"description\":\"OK\"}},\"parameters\":[",
		      *first ? "" : ",", method, action, k->group, k->version, k->kind);
	*first = false;
	bool first_param = true;
	td_auto_free char *copy = td_strdup(params);
	char *save = NULL;
	for (char *p = strtok_r(copy, " ", &save); p; p = strtok_r(NULL, " ", &save))
		param(b, &first_param, p);
	td_buf_puts(b, "]}");
}

#define LIST_PARAMS                                                                                                                        \
	"labelSelector fieldSelector limit continue resourceVersion resourceVersionMatch watch allowWatchBookmarks sendInitialEvents "     \
	"timeoutSeconds"
#define WRITE_PARAMS "dryRun fieldManager fieldValidation"

static void paths_of(struct td_buf *b, bool *first, const struct td_kind *k)
{
	td_auto_free char *base = *k->group ? td_asprintf("/apis/%s/%s", k->group, k->version) : td_asprintf("/api/%s", k->version);
	const char *ns = k->namespaced ? "/namespaces/{namespace}" : "";
	bool op = true;
	if (k->namespaced) {
		td_buf_printf(b, "%s\"%s/%s\":{", *first ? "" : ",", base, k->plural);
		*first = false;
		operation(b, &op, k, "get", "list", LIST_PARAMS);
		td_buf_putc(b, '}');
		op = true;
	}
	td_buf_printf(b, "%s\"%s%s/%s\":{", *first ? "" : ",", base, ns, k->plural);
	*first = false;
	operation(b, &op, k, "get", "list", LIST_PARAMS);
	operation(b, &op, k, "post", "post", WRITE_PARAMS);
	operation(b, &op, k, "delete", "deletecollection", LIST_PARAMS " dryRun gracePeriodSeconds propagationPolicy");
	op = true;
	td_buf_printf(b, "},\"%s%s/%s/{name}\":{", base, ns, k->plural);
	operation(b, &op, k, "get", "get", "resourceVersion");
	operation(b, &op, k, "put", "put", WRITE_PARAMS);
	operation(b, &op, k, "patch", "patch", WRITE_PARAMS " force");
	operation(b, &op, k, "delete", "delete", "dryRun gracePeriodSeconds propagationPolicy");
	td_buf_putc(b, '}');
}

static void schema_of(struct td_buf *b, bool *first, const struct td_kind *k)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = td_kind_openapi(k, d);
	yyjson_mut_val *gvk = yyjson_mut_obj(d), *a = yyjson_mut_arr(d);
	td_jm_str(d, gvk, "group", k->group);
	td_jm_str(d, gvk, "version", k->version);
	td_jm_str(d, gvk, "kind", k->kind);
	yyjson_mut_arr_append(a, gvk);
	td_jm_key_set(d, o, "x-kubernetes-group-version-kind", a);
	size_t len = 0;
	td_auto_free char *text = td_json_mut_text(o, &len);
	td_buf_printf(b, "%s\"%s%s%s.%s\":", *first ? "" : ",", *k->group ? k->group : "core", ".", k->version, k->kind);
	*first = false;
	td_buf_add(b, text, len);
}

static bool document(struct td_req *q, const char *group, const char *version)
{
	if (!td_snap_has_group(q->snap, group, version))
		return false;
	td_auto_buf struct td_buf b = {0};
	td_buf_puts(&b, "{\"openapi\":\"3.0.0\",\"info\":{\"title\":\"Tandem\",\"version\":\"" TD_VERSION "\"},\"paths\":{");
	bool first = true;
	for (size_t i = 0; i < q->snap->n; i++) {
		const struct td_kind *k = q->snap->v[i].kind;
		if (!strcmp(k->group, group) && !strcmp(k->version, version))
			paths_of(&b, &first, k);
	}
	td_buf_puts(&b, "},\"components\":{\"schemas\":{");
	first = true;
	for (size_t i = 0; i < q->snap->n; i++) {
		const struct td_kind *k = q->snap->v[i].kind;
		if (!strcmp(k->group, group) && !strcmp(k->version, version))
			schema_of(&b, &first, k);
	}
	td_buf_puts(&b, "}}}\n");
	td_http_send(q->x, 200, "application/json", td_buf_str(&b), b.len);
	return true;
}

int td_openapi(struct td_req *q, struct td_refusal *r)
{
	(void)r;
	if (!strcmp(q->path, "/openapi/v2")) {
		static const char text[] = "{\"swagger\":\"2.0\",\"info\":{\"title\":\"Tandem\",\"version\":\"" TD_VERSION
					   "\"},\"paths\":{},\"definitions\":{}}\n";
		// The same as a gnostic.openapi.v2.Document: kubectl asks for nothing else when v3 does not know a kind.
		static const char proto[] = "\x0a\x03"
					    "2.0"
					    "\x12\x0d\x0a\x06"
					    "Tandem"
					    "\x12\x03"
					    "0.1"
					    "\x42\x00\x4a\x00";
		const char *accept = td_http_header(q->x, "Accept");
		if (accept && strstr(accept, "proto-openapi"))
			td_http_send(q->x, 200, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", proto, sizeof(proto) - 1);
		else
			td_http_send(q->x, 200, "application/json", text, sizeof(text) - 1);
		return 0;
	}
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
