// Replies: negotiation of the form, objects, Status documents.
#include "apiserver/srv.h"

#include <stdio.h>
#include <string.h>

bool td_query_true(const struct td_req *q, const char *name)
{
	const char *v = td_http_query(q->x, name);
	return v && strcasecmp(v, "false") != 0 && strcmp(v, "0") != 0; // as in a real API server
}

// Reads one element of Accept. The first that we support wins: clients send their preference in
// order, and q values are rare and then agree with the order.
static bool accept_one(struct td_req *q, char *item, bool *ret_form)
{
	char *save = NULL;
	char *type = strtok_r(item, ";", &save);
	if (!type)
		return false;
	type += strspn(type, " \t");
	type[strcspn(type, " \t")] = 0;
	const char *as = NULL, *v = NULL;
	for (char *p = strtok_r(NULL, ";", &save); p; p = strtok_r(NULL, ";", &save)) {
		p += strspn(p, " \t");
		if (!strncmp(p, "as=", 3))
			as = p + 3;
		else if (!strncmp(p, "v=", 2))
			v = p + 2;
	}

	bool json = !strcmp(type, "application/json") || !strcmp(type, "*/*");
	bool yaml = !strcmp(type, "application/yaml");

	// A request for protobuf gets JSON: the content type says so, and clients that offer it
	// understand both.
	if (!json && !yaml && strcmp(type, "application/vnd.kubernetes.protobuf") != 0)
		return false;
	if (as) {
		*ret_form = true;
		if (!json || !v || strcmp(v, "v1") != 0)
			return !strncmp(as, "APIGroupDiscoveryList", 21) && json;
		if (!strcmp(as, "Table"))
			q->as = TD_AS_TABLE;
		else if (!strcmp(as, "PartialObjectMetadata") || !strcmp(as, "PartialObjectMetadataList"))
			q->as = TD_AS_PARTIAL;
		else
			return false;
	}

	q->yaml = yaml;
	return true;
}

// Refuses the form of a single object for a list, and the other way round; a watch sends objects.
static int check_form(struct td_req *q, bool list_form, struct td_refusal *r)
{
	bool list = !strcmp(q->verb, "list");
	if (q->as != TD_AS_PARTIAL || list == list_form)
		return 0;
	return td_refuse(r, 406, "NotAcceptable",
			 list ? "you requested PartialObjectMetadata, but the requested object is a list (%s)"
			      : "you requested PartialObjectMetadataList, but the requested object is not a list (%s)",
			 list ? q->k->list_kind : q->k->kind);
}

int td_reply_negotiate(struct td_req *q, struct td_refusal *r)
{
	const char *h = td_http_header(q->x, "Accept");
	if (!h || !*h)
		return 0;
	td_auto_free char *copy = td_strdup(h);
	char *save = NULL;
	bool form = false; // a form (Table, …) was asked for, but none that exists
	for (char *p = strtok_r(copy, ",", &save); p; p = strtok_r(NULL, ",", &save))
		if (accept_one(q, p, &form)) {
			if (q->yaml && !strcmp(q->verb, "watch"))
				break;
			return check_form(q, strstr(h, "PartialObjectMetadataList") != NULL, r);
		}
#define TYPES "application/json, application/yaml, application/vnd.kubernetes.protobuf"

	if (form)
		return td_refuse(r, 406, "NotAcceptable", "only the following media types are accepted: " TYPES);
	return td_refuse_generic(
		r, 406, "NotAcceptable", "406: Not Acceptable\n\nAvailable representations: " TYPES "%s",
		!strcmp(q->verb, "list") || !strcmp(q->verb, "watch")
			? ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
			: "");
}

void td_reply_json(struct td_req *q, int status, const char *text, size_t len)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (q->yaml && td_json_parse(text, len, &j, NULL) == 0) {
		td_auto_free char *y = td_yaml_text(td_json_root(j));
		td_http_send(q->x, status, "application/yaml", y, strlen(y));
		return;
	}
	td_http_send(q->x, status, "application/json", text, len);
}

void td_reply_doc(struct td_req *q, int status, yyjson_mut_doc *d)
{
	size_t len = 0;
	td_auto_free char *text = td_json_mut_text(yyjson_mut_doc_get_root(d), &len);
	td_reply_json(q, status, text, len);
}

struct td_item *td_item_shown(const struct td_kind *k, const struct td_item *i)
{
	const char *have = i->api;
	size_t g = strlen(k->group);
	bool same = g ? !strncmp(have, k->group, g) && have[g] == '/' && !strcmp(have + g + 1, k->version)
		      : !strcmp(have, k->version);
	if (same && (k->builtin || !td_schema_has_defaults(k->schema)))
		return td_item_ref((struct td_item *)(uintptr_t)i);

	td_auto(td_json_unref) struct td_json *doc = td_item_doc(i);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(doc));
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	// Conversion "None" changes nothing else.
	td_jm_strf(d, o, "apiVersion", "%s%s%s", k->group, g ? "/" : "", k->version);
	if (!k->builtin)
		td_schema_default(k->schema, d, o);
	return td_item_new(d, i->rv, i->crv);
}

struct td_item *td_item_get(const struct td_req *q, const char *name)
{
	td_auto(td_item_unref) struct td_item *i = td_store_get(q->s->store, q->res->table, q->ns, name);
	return i ? td_item_shown(q->k, i) : NULL;
}

void td_item_write(const struct td_kind *k, const struct td_item *i, struct td_buf *out)
{
	td_auto(td_item_unref) struct td_item *shown = td_item_shown(k, i);
	td_buf_add(out, shown->bytes, shown->len);
}

void td_item_write_in_list(const struct td_kind *k, const struct td_item *i, struct td_buf *out)
{
	if (!k->builtin) {
		td_item_write(k, i, out);
		return;
	}
	// td_body_object puts these two first in stored objects.
	td_auto_free char *head = td_asprintf("{\"kind\":\"%s\",\"apiVersion\":\"%s%s%s\",", k->kind, k->group,
					      *k->group ? "/" : "", k->version);
	if (td_starts(i->bytes, head)) {
		td_buf_putc(out, '{');
		td_buf_add(out, i->bytes + strlen(head), i->len - strlen(head));
		return;
	}

	// An older release stored it in another order.
	td_auto(td_json_unref) struct td_json *doc = td_item_doc(i);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(doc));
	td_jm_del(yyjson_mut_doc_get_root(d), "kind");
	td_jm_del(yyjson_mut_doc_get_root(d), "apiVersion");
	size_t len = 0;
	td_auto_free char *text = td_json_mut_text(yyjson_mut_doc_get_root(d), &len);
	td_buf_add(out, text, len);
}

void td_reply_item(struct td_req *q, int status, const struct td_item *i)
{
	td_auto_buf struct td_buf b = {0};
	struct td_item *v[1] = {(struct td_item *)(uintptr_t)i};
	if (q->as == TD_AS_TABLE) {
		char rv[24];
		snprintf(rv, sizeof(rv), "%llu", (unsigned long long)i->rv);
		td_table_write(q->k, v, 1,
			       &(struct td_table_head){
				       .columns = true, .include = td_http_query(q->x, "includeObject"), .rv = rv},
			       q->now, &b);
	} else if (q->as == TD_AS_PARTIAL) {
		td_partial_write(i, &b);
	} else {
		td_item_write(q->k, i, &b);
	}
	td_reply_json(q, status, td_buf_str(&b), b.len);
}

void td_reply_success(struct td_req *q, int status, const char *name, const char *uid)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);

	td_jm_str(d, o, "kind", "Status");
	td_jm_str(d, o, "apiVersion", "v1");
	td_jm_obj(d, o, "metadata");
	td_jm_str(d, o, "status", "Success");
	if (name) {
		td_jm_str(d, o, "details.name", name);
		if (*q->group)
			td_jm_str(d, o, "details.group", q->group);
		td_jm_str(d, o, "details.kind", q->plural);
		td_jm_str(d, o, "details.uid", uid);
	} else {
		td_jm_int(d, o, "code", status);
	}

	td_reply_doc(q, status, d);
}

void td_reply_refusal(struct td_http_x *x, const struct td_refusal *r)
{
	size_t len = 0;
	td_auto_free char *text = td_refusal_text(r, &len);
	if (r->retry_after_s) {
		char s[16];
		snprintf(s, sizeof(s), "%d", r->retry_after_s);
		td_http_add_header(x, "Retry-After", s);
	}
	td_http_send(x, r->http ? r->http : 500, "application/json", text, len);
}

void td_reply_warn(struct td_req *q, const char *fmt, ...)
{
	td_auto_buf struct td_buf b = {0};
	va_list ap;
	va_start(ap, fmt);
	td_auto_free char *m = td_vasprintf(fmt, ap);
	va_end(ap);
	td_buf_puts(&b, "299 - \"");
	for (const char *p = m; *p; p++) { // RFC 7230 quoted-string
		if (*p == '"' || *p == '\\')
			td_buf_putc(&b, '\\');
		td_buf_putc(&b, (unsigned char)*p < 0x20 ? ' ' : *p);
	}
	td_buf_putc(&b, '"');
	td_http_add_header(q->x, "Warning", td_buf_str(&b));
}

int td_refuse_not_found(const struct td_req *q, const char *name, struct td_refusal *r)
{
	td_refuse(r, 404, NULL, "%s%s%s \"%s\" not found", q->plural, *q->group ? "." : "", q->group, name);
	return td_refuse_about(r, q->group, q->plural, name);
}
