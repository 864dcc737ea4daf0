// get and list: selectors, revisions, pages.
#include "apiserver/srv.h"

#include "api/selector.h"
#include "http/pki.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

// Field selectors of the real API, by kind. All kinds have metadata.name and metadata.namespace.
static const char *fields_of(const struct td_kind *k)
{
	static const struct {
		const char *group, *plural, *fields;
	} known[] = {
		{"", "pods",
		 " status.podIPs spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName "
		 "spec.hostNetwork status.phase status.podIP status.nominatedNodeName "},
		{"", "events",
		 " involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid "
		 "involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath reason "
		 "reportingComponent source type "},
		{"", "nodes", " spec.unschedulable "},
		{"", "secrets", " type "},
		{"", "namespaces", " status.phase "},
		{"", "services", " spec.clusterIP spec.type "},
		{"batch", "jobs", " status.successful "},
	};
	for (size_t i = 0; i < TD_LEN(known); i++)
		if (!strcmp(k->group, known[i].group) && !strcmp(k->plural, known[i].plural))
			return known[i].fields;
	return NULL;
}

static bool field_known(const struct td_kind *k, const char *path)
{
	if (!strcmp(path, "metadata.name") || !strcmp(path, "metadata.namespace"))
		return true;
	td_auto_free char *want = td_asprintf(" %s ", path);
	const char *fields = fields_of(k);
	if (fields)
		return strstr(fields, want) != NULL;
	yyjson_val *versions = td_jget(td_json_root(k->source), "spec.versions"), *v, *f;
	size_t i, n, j, m;
	yyjson_arr_foreach (versions, i, n, v) {
		if (!td_streq(td_jstr(v, "name"), k->version))
			continue;
		yyjson_arr_foreach (td_jget(v, "selectableFields"), j, m, f) {
			const char *p = td_jstr(f, "jsonPath");
			if (p && *p == '.' && !strcmp(p + 1, path))
				return true;
		}
	}

	return false;
}

// The message depends on whether the kind has field selectors of its own.
static int refuse_field(const struct td_kind *k, const char *path, struct td_refusal *r)
{
	if (k->builtin && !strcmp(k->group, "batch"))
		return td_refuse(r, 400, NULL, "field label \"%s\" not supported for %s", path, k->kind);
	return k->builtin && !fields_of(k)
		       ? td_refuse(
				 r, 400, NULL,
				 "\"%s\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
				 path)
		       : td_refuse(r, 400, NULL, "field label not supported: %s", path);
}

int td_filter_init(const struct td_req *q, struct td_filter *ret, struct td_refusal *r)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto(td_selector_free) struct td_selector *labels = NULL;
	td_auto(td_field_selector_free) struct td_field_selector *fields = NULL;
	const char *l = td_http_query(q->x, "labelSelector"), *f = td_http_query(q->x, "fieldSelector");
	if (l && *l && td_selector_parse(l, &labels, &err) < 0)
		return td_refuse(r, 400, NULL, "unable to parse requirement: %s", err.msg);
	if (f && *f && td_field_selector_parse(f, &fields, &err) < 0)
		return td_refuse(r, 400, NULL, "invalid field selector: %s", err.msg);
	const char *p;
	for (size_t i = 0; fields && (p = td_field_selector_path(fields, i)); i++)
		if (!field_known(q->k, p))
			return refuse_field(q->k, p, r);
	*ret = (struct td_filter){.ns = q->ns, .labels = td_steal(labels), .fields = td_steal(fields)};
	return 0;
}

bool td_filter_matches(const struct td_filter *f, const struct td_item *i)
{
	if (f->ns && *f->ns && strcmp(i->ns, f->ns) != 0)
		return false;
	if (!f->labels && !f->fields)
		return true;
	td_auto(td_json_unref) struct td_json *doc = td_item_doc(i);
	yyjson_val *root = td_json_root(doc);
	return (!f->labels || td_selector_matches(f->labels, td_jget(root, "metadata.labels"))) &&
	       (!f->fields || td_field_selector_matches(f->fields, root));
}

void td_filter_done(struct td_filter *f)
{
	td_selector_free(f->labels);
	td_field_selector_free(f->fields);
	*f = (struct td_filter){0};
}

int td_srv_parse_rv(const struct td_req *q, const char *what, const char *text, uint64_t *ret, struct td_refusal *r)
{
	*ret = 0;
	if (!text || !*text)
		return 0;
	errno = 0;
	char *end;
	unsigned long long v = strtoull(text, &end, 10);
	if (*end || errno || *text < '0' || *text > '9' || v > INT64_MAX)
		return td_refuse(r, 400, NULL, "invalid %s: Invalid value: \"%.64s\": must be a decimal number", what,
				 text);
	*ret = v;
	return 0;
}

static int too_large(uint64_t want, uint64_t have, struct td_refusal *r)
{
	td_refuse(r, 504, "Timeout", "Timeout: Too large resource version: %llu, current: %llu",
		  (unsigned long long)want, (unsigned long long)have);
	td_cause_add(&r->causes, "ResourceVersionTooLarge", "", "Too large resource version");
	r->retry_after_s = 1;
	return TD_EXPIRED;
}

int td_do_get(struct td_req *q, struct td_refusal *r)
{
	uint64_t rv;
	int rc = td_srv_parse_rv(q, "resourceVersion", td_http_query(q->x, "resourceVersion"), &rv, r);
	if (rc < 0)
		return rc;
	uint64_t now = td_store_revision(q->s->store);
	if (rv > now)
		return too_large(rv, now, r);
	td_auto(td_item_unref) struct td_item *i = td_store_get(q->s->store, q->res->table, q->ns, q->name);
	if (!i)
		return td_refuse_not_found(q, q->name, r);
	td_reply_item(q, 200, i);
	return 0;
}

// ---- continue tokens: base64url of {"v":"meta.k8s.io/v1","rv":N,"start":"ns/name\u0000"} ----
struct page {
	uint64_t rv; // 0: the rest may be inconsistent
	char *ns, *name;
};

static void page_done(struct page *p)
{
	free(p->ns);
	free(p->name);
}

static char *page_token(int64_t rv, const struct td_item *last)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);

	td_jm_str(d, o, "v", "meta.k8s.io/v1");
	td_jm_int(d, o, "rv", rv);
	td_jm_strf(d, o, "start", "%s/%s", last->ns, last->name);
	size_t len;
	td_auto_free char *text = td_json_mut_text(o, &len);
	td_auto_buf struct td_buf b = {0};
	td_base64(&b, text, len);
	for (size_t i = 0; i < b.len; i++) {
		if (b.s[i] == '+')
			b.s[i] = '-';
		else if (b.s[i] == '/')
			b.s[i] = '_';
		else if (b.s[i] == '=') {
			b.s[i] = 0;
			b.len = i;
		}
	}

	return td_buf_take(&b);
}

static int page_parse(const char *token, struct page *ret, struct td_refusal *r)
{
	td_auto_buf struct td_buf in = {0}, out = {0};
	for (const char *p = token; *p && in.len < 4096; p++)
		td_buf_putc(&in, *p == '-' ? '+' : *p == '_' ? '/' : *p);
	while (in.len % 4)
		td_buf_putc(&in, '=');
	td_auto(td_json_unref) struct td_json *j = NULL;
	const char *start, *slash;
	if (td_base64_decode(td_buf_str(&in), &out, NULL) < 0 ||
	    td_json_parse(td_buf_str(&out), out.len, &j, NULL) < 0 || !(start = td_jstr(td_json_root(j), "start")) ||
	    !(slash = strchr(start, '/')))
		return td_refuse(
			r, 400, NULL,
			"continue key is not valid: use the value of metadata.continue of the page before, unchanged");

	long long rv = td_jint(td_json_root(j), "rv", 0);
	ret->rv = rv > 0 ? (uint64_t)rv : 0;
	ret->ns = td_strndup(start, (size_t)(slash - start));
	ret->name = td_strdup(slash + 1);
	return 0;
}

struct read_list {
	struct td_items all;
	struct td_item **v; // those selected; borrowed
	size_t n;
	uint64_t rv;
	char *cont;
	long long remaining;
};

static void list_done(struct read_list *l)
{
	td_items_done(&l->all);
	free(l->v);
	free(l->cont);
}

static int read_list(struct td_req *q, const struct td_filter *f, struct read_list *ret, struct td_refusal *r)
{
	__attribute__((cleanup(page_done))) struct page page = {0};
	uint64_t rv = 0;
	struct td_list_options o = {0};

	int rc = td_list_options(q, &o, r);
	if (rc < 0 || (rc = td_srv_parse_rv(q, "resourceVersion", o.rv, &rv, r)) < 0)
		return rc;
	if (*o.cont) {
		if (rv)
			return td_refuse(r, 400, NULL,
					 "specifying resource version is not allowed when using continue");
		if ((rc = page_parse(o.cont, &page, r)) < 0)
			return rc;
	}

	uint64_t now = td_store_revision(q->s->store);
	if (rv > now || page.rv > now)
		return too_large(rv > now ? rv : page.rv, now, r);

	// The state at a revision is read for a page of an old list, for an exact list, and (as in
	// the real API) for a limited list at a revision.
	bool exact = !strcmp(o.match, "Exact");
	uint64_t at = page.rv ? page.rv : exact || (rv && o.limit && !*o.match) ? rv : 0;
	struct td_error err = TD_ERROR_INIT;
	if (td_store_list(q->s->store, q->res->table, f->ns, at, &ret->all, &ret->rv, &err) < 0) {
		td_refuse(r, 410, "Expired", "%s",
			  page.rv ? "The provided continue parameter is too old to display a consistent list result. "
				    "You can start a new list without the continue parameter, or use the continue "
				    "token in this response to retrieve the remainder of the results."
				  : err.msg);
		if (page.rv) {
			struct td_item last = {.ns = page.ns, .name = page.name};
			r->cont = page_token(-1, &last);
		}
		return TD_EXPIRED;
	}

	ret->v = td_malloc(ret->all.n * sizeof(*ret->v));
	for (size_t i = 0; i < ret->all.n; i++) {
		struct td_item *it = ret->all.v[i];
		if (page.name && td_item_cmp(it->ns, it->name, page.ns, page.name) <= 0)
			continue;
		if (!td_filter_matches(f, it))
			continue;
		if (o.limit && ret->n == (size_t)o.limit) {
			ret->remaining++;
			continue;
		}
		ret->v[ret->n++] = it;
	}

	if (ret->remaining)
		ret->cont = page_token((int64_t)ret->rv, ret->v[ret->n - 1]);
	// Lists with a selector have no remainingItemCount: a real API server does not know it
	// either.
	if (f->labels || f->fields)
		ret->remaining = 0;

	return 0;
}

int td_do_list(struct td_req *q, struct td_refusal *r)
{
	__attribute__((cleanup(td_filter_done))) struct td_filter f = {0};
	__attribute__((cleanup(list_done))) struct read_list l = {0};

	int rc = td_filter_init(q, &f, r);
	if (rc < 0 || (rc = read_list(q, &f, &l, r)) < 0)
		return rc;

	td_auto_buf struct td_buf b = {0};
	char rv[24];
	snprintf(rv, sizeof(rv), "%llu", (unsigned long long)l.rv);

	if (q->as == TD_AS_TABLE) {
		const char *include = td_http_query(q->x, "includeObject");
		if ((rc = td_check_include(include, r)) < 0)
			return rc;
		td_table_write(q->k, l.v, l.n,
			       &(struct td_table_head){.columns = true,
						       .include = include,
						       .rv = rv,
						       .cont = l.cont,
						       .remaining = l.remaining},
			       q->now, &b);
		td_buf_putc(&b, '\n');
	} else {
		const struct td_kind *k = q->k;
		if (q->as == TD_AS_PARTIAL)
			td_buf_puts(&b, "{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\"");
		else
			td_buf_printf(&b, "{\"kind\":\"%s\",\"apiVersion\":\"%s%s%s\"", k->list_kind, k->group,
				      *k->group ? "/" : "", k->version);

		td_buf_printf(&b, ",\"metadata\":{\"resourceVersion\":\"%s\"", rv);
		if (l.cont || (!k->builtin && q->as != TD_AS_PARTIAL))
			td_buf_printf(&b, ",\"continue\":\"%s\"", l.cont ? l.cont : "");
		if (l.cont && l.remaining)
			td_buf_printf(&b, ",\"remainingItemCount\":%lld", l.remaining);
		td_buf_puts(&b, "},\"items\":[");

		for (size_t i = 0; i < l.n; i++) {
			if (i)
				td_buf_putc(&b, ',');
			if (q->as == TD_AS_PARTIAL)
				td_partial_write(l.v[i], &b);
			else
				td_item_write_in_list(k, l.v[i], &b);
		}
		td_buf_puts(&b, "]}\n");
	}

	td_reply_json(q, 200, td_buf_str(&b), b.len);
	return 0;
}
