// The client and its verbs.
#include "kube/kube.h"

#include "api/condition.h"
#include "api/status.h"
#include "base/fault.h"
#include "base/file.h"
#include "kube/internal.h"

#include <string.h>
#include <unistd.h>

#define PAGE 500

// A client with the identity of `c`. url and ca_file NULL mean the server of `c`.
static int client(const struct td_kube_config *c, const char *url, const char *ca_file, int64_t timeout_ms,
		  struct td_http_client **ret, struct td_error *err)
{
	const struct td_http_client_opts o = {.base_url = url ? url : c->server,
					      .ca_file = ca_file ? ca_file : c->ca_file,
					      .cert_file = c->cert_file,
					      .key_file = c->key_file,
					      .token_file = c->token_file,
					      .bearer = c->token,
					      .timeout_ms = timeout_ms};
	return td_http_client_new(&o, ret, err);
}

int td_kube_new(const char *kubeconfig, struct td_kube **ret, struct td_error *err)
{
	struct td_kube_config c __attribute__((cleanup(td_kube_config_done))) = {.fds = {-1, -1, -1}};
	int r = td_kube_config_load(kubeconfig, &c, err);
	if (r)
		return r;

	struct td_http_client *http = NULL;
	if ((r = client(&c, NULL, NULL, 30000, &http, err)))
		return r;

	struct td_kube *k = td_calloc(1, sizeof(*k));
	k->http = http;
	k->server = td_steal(c.server);
	k->ca_file = td_steal(c.ca_file);
	for (int i = 0; i < 3; i++)
		k->fds[i] = td_steal_fd(&c.fds[i]);
	*ret = k;
	return 0;
}

int td_kube_place(const struct td_kube *k, char **ret_server, struct td_buf *ret_ca, struct td_error *err)
{
	int r = k->ca_file ? td_file_read(k->ca_file, 1 << 20, ret_ca, err) : 0;
	if (!r)
		*ret_server = td_strdup(k->server);
	return r;
}

int td_kube_call_as(const char *kubeconfig, const char *url, const char *ca_file, int64_t timeout_ms,
		    const struct td_http_call *call, struct td_cancel *cancel, struct td_http_reply *ret,
		    struct td_error *err)
{
	struct td_kube_config c __attribute__((cleanup(td_kube_config_done))) = {.fds = {-1, -1, -1}};
	td_auto(td_http_client_free) struct td_http_client *http = NULL;
	int r = td_kube_config_load(kubeconfig, &c, err);
	if (r || (r = client(&c, url, ca_file, timeout_ms, &http, err)))
		return r;
	return td_http_do(http, call, cancel, ret, err);
}

struct td_kube *td_kube_free(struct td_kube *k)
{
	if (k) {
		td_http_client_free(k->http);
		for (int i = 0; i < 3; i++)
			if (k->fds[i] >= 0)
				close(k->fds[i]);
		free(k->server);
		free(k->ca_file);
		free(k);
	}
	return NULL;
}

const char *td_kube_server(const struct td_kube *k)
{
	return k->server;
}

int td_kube_ca(const struct td_kube *k, char **ret, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	int r = k->ca_file ? td_file_read(k->ca_file, 1u << 20, &b, err) : 0;
	if (!r)
		*ret = k->ca_file ? td_buf_take(&b) : NULL;
	return r;
}

void td_kube_stats(const struct td_kube *k, uint64_t *ret_requests, uint64_t *ret_bytes)
{
	if (ret_requests)
		*ret_requests = __atomic_load_n(&k->requests, __ATOMIC_RELAXED);
	if (ret_bytes)
		*ret_bytes = __atomic_load_n(&k->bytes, __ATOMIC_RELAXED);
}

// ---- paths ----

void td_kube_path(struct td_buf *b, const struct td_gvr *r, const char *ns, const char *name, const char *sub)
{
	if (*r->group)
		td_buf_printf(b, "/apis/%s/%s", r->group, r->version);
	else
		td_buf_printf(b, "/api/%s", r->version);
	if (r->namespaced && ns && *ns) {
		td_buf_puts(b, "/namespaces/");
		td_url_escape(b, ns);
	}
	td_buf_printf(b, "/%s", r->resource);
	if (name) {
		td_buf_putc(b, '/');
		td_url_escape(b, name);
	}
	if (sub)
		td_buf_printf(b, "/%s", sub);
}

void td_kube_selectors(struct td_buf *b, const char *labels, const char *fields)
{
	if (labels && *labels) {
		td_buf_puts(b, "&labelSelector=");
		td_url_escape(b, labels);
	}
	if (fields && *fields) {
		td_buf_puts(b, "&fieldSelector=");
		td_url_escape(b, fields);
	}
}

// ---- replies ----

static int code_of(int http, const char *reason, bool write)
{
	switch (http) {
	case 401:
		return TD_UNAUTHENTICATED;
	case 403:
		return TD_DENIED;
	case 404:
		return TD_NOT_FOUND;
	case 405:
	case 415:
		return TD_UNSUPPORTED;
	case 408:
		return write ? TD_UNCERTAIN : TD_TRANSIENT;
	case 409:
		return td_streq(reason, "AlreadyExists") ? TD_EXISTS : TD_CONFLICT;
	case 410:
		return TD_EXPIRED;
	case 429:
		return TD_THROTTLED;
	}
	if (http >= 500)
		return write ? TD_UNCERTAIN : TD_TRANSIENT;
	return http >= 400 ? TD_INVALID : TD_INTERNAL;
}

int td_kube_refusal(const struct td_http_reply *r, bool write, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (r->body.len && td_json_parse(r->body.s, r->body.len, &j, NULL))
		j = NULL;

	yyjson_val *root = td_json_root(j);
	const char *msg = td_jstr(root, "message");
	// Replies of a bridge, which come through the API server's proxy, have `text`.
	msg = msg ? msg : td_jstr(root, "text");
	int code = code_of(r->status, td_jstr(root, "reason"), write);

	if (msg)
		td_fail(err, code, "%s", msg);
	else
		td_fail(err, code, "HTTP %d: %.*s", r->status, (int)(r->body.len < 200 ? r->body.len : 200),
			td_buf_str(&r->body));
	if (err) {
		err->http = r->status;
		err->detail = td_cause_kind_of(td_jstr(td_jget(root, "details.causes.[0]"), "reason"));
		long long after = td_jint(root, "details.retryAfterSeconds", r->retry_after_s);
		if (after < r->retry_after_s)
			after = r->retry_after_s;
		err->retry_after_ms = after > 0 && after < 3600 ? (int)after * 1000 : 0;
	}
	return code;
}

// The name of a write's fault points: "kube.patch.pods.status" for PATCH
// /api/v1/namespaces/ns/pods/name/status.
#ifdef TD_FAULTS
static int fault(const struct td_http_call *call, const char *when, struct td_error *err)
{
	char resource[128];
	const char *verb = td_kube_verb(call, resource, sizeof(resource));
	for (char *c = resource; *c; c++)
		*c = *c == '/' ? '.' : *c;
	return strcmp(resource, "other") == 0 ? 0 : td_fault_at(err, "kube.%s.%s.%s", verb, resource, when);
}
#else
#define fault(call, when, err) 0
#endif

static int request(struct td_kube *k, struct td_http_call *call, struct td_cancel *c, struct td_http_reply *ret,
		   struct td_error *err)
{
	bool write = strcmp(call->method, "GET") != 0;
	td_auto_reply struct td_http_reply reply = {0};

	__atomic_add_fetch(&k->requests, 1, __ATOMIC_RELAXED);
	struct td_error e = TD_ERROR_INIT;
	int r = write ? fault(call, "before", &e) : 0;
	if (!r) {
		int64_t began = td_mono_ms(&td_clock_system);
		r = td_http_do(k->http, call, c, &reply, &e);
		td_kube_counted(call, r ? 0 : reply.status, reply.body.len, td_mono_ms(&td_clock_system) - began);
	}

	if (!r && write)
		r = fault(call, "after", &e);
	if (r == TD_UNCERTAIN && !write)
		e.code = r = TD_TRANSIENT;

	if (r) {
		if (err)
			*err = e;
		return r;
	}

	__atomic_add_fetch(&k->bytes, reply.body.len, __ATOMIC_RELAXED);
	if (reply.status < 200 || reply.status > 299)
		return td_kube_refusal(&reply, write, err);
	*ret = reply;
	reply = (struct td_http_reply){0};
	return 0;
}

int td_kube_raw(struct td_kube *k, const char *method, const char *path, const struct td_kube_body *body,
		struct td_cancel *c, struct td_json **ret, struct td_error *err)
{
	struct td_http_call call = {.method = method, .path = path};
	if (body) {
		call.content_type = body->type;
		call.body = body->text;
		call.body_len = body->len;
	}
	td_auto_reply struct td_http_reply reply = {0};
	struct td_json *j = NULL;

	int r = request(k, &call, c, &reply, err);
	if (r || !ret)
		return r;
	r = td_json_parse(td_buf_str(&reply.body), reply.body.len, &j, err);
	if (r)
		return td_wrap(err, "%s %s: the reply is no JSON", method, path);
	*ret = j;
	return 0;
}

struct list_stream {
	struct td_kube *k;
	int (*on_data)(void *ctx, const char *p, size_t n);
	void *ctx;
	struct td_http_call call;
};

static int stream_data(void *ctx, const char *p, size_t n)
{
	struct list_stream *s = ctx;
	__atomic_add_fetch(&s->k->bytes, n, __ATOMIC_RELAXED);
	td_kube_received(&s->call, n);
	return s->on_data(s->ctx, p, n);
}

int td_kube_stream(struct td_kube *k, const char *path, int64_t idle_ms,
		   int (*on_data)(void *ctx, const char *p, size_t n), void *ctx, struct td_cancel *c,
		   struct td_error *err)
{
	struct list_stream s = {k,
				on_data,
				ctx,
				{.method = "GET", .path = path, .on_data = stream_data, .ctx = &s, .idle_ms = idle_ms}};
	td_auto_reply struct td_http_reply reply = {0};
	return request(k, &s.call, c, &reply, err);
}

// ---- verbs ----

static int object_call(struct td_kube *k, const char *method, const char *path, const struct td_kube_body *body,
		       struct td_cancel *c, struct td_object **ret, struct td_error *err)
{
	struct td_json *j = NULL;
	int r = td_kube_raw(k, method, path, body, c, ret ? &j : NULL, err);
	if (!r && ret)
		*ret = td_object_new(j);
	return r;
}

int td_kube_get(struct td_kube *k, const struct td_gvr *r, const char *ns, const char *name, struct td_cancel *c,
		struct td_object **ret, struct td_error *err)
{
	td_auto_buf struct td_buf p = {0};
	td_kube_path(&p, r, ns, name, NULL);
	return object_call(k, "GET", p.s, NULL, c, ret, err);
}

// What of a resource is listed; NULL does not narrow it. limit: objects of a page; 0 asks for
// everything in one reply.
struct selection {
	const struct td_gvr *resource;
	const char *ns, *labels, *fields;
	int limit;
};

// *ret: the page's document. cont: as the page before says; NULL: the first one.
static int list_page(struct td_kube *k, const struct selection *s, const char *cont, struct td_cancel *c,
		     struct td_json **ret, struct td_error *err)
{
	td_auto_buf struct td_buf p = {0};
	td_kube_path(&p, s->resource, s->ns, NULL, NULL);
	td_buf_printf(&p, "?limit=%d", s->limit);
	td_kube_selectors(&p, s->labels, s->fields);
	if (cont) {
		td_buf_puts(&p, "&continue=");
		td_url_escape(&p, cont);
	}
	return td_kube_raw(k, "GET", p.s, NULL, c, ret, err);
}

static int list_pages(struct td_kube *k, const struct selection *s, struct td_cancel *c, struct td_objects *ret,
		      struct td_error *err)
{
	td_auto_objects struct td_objects l = {0};
	td_auto_free char *cont = NULL;
	do {
		td_auto(td_json_unref) struct td_json *page = NULL;
		int e = list_page(k, s, cont, c, &page, err);
		if (e)
			return e;

		yyjson_val *root = td_json_root(page), *items = td_jget(root, "items"), *it;
		const char *rv = td_jstr(root, "metadata.resourceVersion");
		if (!rv || (items && !yyjson_is_arr(items) && !yyjson_is_null(items)))
			return td_fail(err, TD_INTERNAL, "listing %s: the reply is no list", s->resource->resource);
		size_t i, n;
		// Each object gets a document of its own: one that lives long must not keep its
		// whole page alive.
		yyjson_arr_foreach (items, i, n, it)
			td_objects_add(&l, td_object_kept(it));
		free(l.rv);
		l.rv = td_strdup(rv);

		free(cont);
		cont = td_strdup(td_jstr(root, "metadata.continue"));
	} while (cont && *cont);

	*ret = l;
	l = (struct td_objects){0};
	return 0;
}

int td_kube_list(struct td_kube *k, const struct td_gvr *r, const char *ns, const char *labels, const char *fields,
		 struct td_cancel *c, struct td_objects *ret, struct td_error *err)
{
	struct td_error e = TD_ERROR_INIT;
	int code = list_pages(k, &(struct selection){r, ns, labels, fields, PAGE}, c, ret, &e);
	// A continue token expired. Try once more in one piece, which cannot expire.
	if (code == TD_EXPIRED)
		return list_pages(k, &(struct selection){r, ns, labels, fields, 0}, c, ret, err);
	if (code && err)
		*err = e;
	return code;
}

int td_kube_create(struct td_kube *k, const struct td_gvr *r, const char *ns, const yyjson_mut_val *obj,
		   struct td_cancel *c, struct td_object **ret, struct td_error *err)
{
	td_auto_buf struct td_buf p = {0};
	td_kube_path(&p, r, ns, NULL, NULL);
	td_buf_puts(&p, "?fieldManager=tandem");
	size_t len;
	td_auto_free char *body = td_json_mut_text(obj, &len);
	return object_call(k, "POST", p.s, &(struct td_kube_body){"application/json", body, len}, c, ret, err);
}

int td_kube_patch(struct td_kube *k, const struct td_kube_place *at, enum td_kube_patch type,
		  const yyjson_mut_val *patch, struct td_cancel *c, struct td_object **ret, struct td_error *err)
{
	static const char *const types[] = {"application/merge-patch+json", "application/json-patch+json",
					    "application/strategic-merge-patch+json", "application/apply-patch+yaml"};
	td_auto_buf struct td_buf p = {0};
	td_kube_path(&p, at->resource, at->ns, at->name, at->part);
	td_buf_puts(&p, type == TD_PATCH_APPLY ? "?fieldManager=tandem&force=true" : "?fieldManager=tandem");
	size_t len;
	td_auto_free char *body = td_json_mut_text(patch, &len);
	return object_call(k, "PATCH", p.s, &(struct td_kube_body){types[type], body, len}, c, ret, err);
}

int td_kube_pod_condition(struct td_kube *k, const struct td_object *pod, const struct td_condition_want *w,
			  const struct td_clock *clock, struct td_cancel *c, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "metadata.uid", pod->uid);
	td_condition_add(d, td_jm_arr(d, root, "status.conditions"), td_jget(pod->root, "status.conditions"), w,
			 td_real_ms(clock));
	return td_kube_patch(k, TD_AT(&td_pods, pod->ns, pod->name, "status"), TD_PATCH_STRATEGIC, root, c, NULL, err);
}

int td_kube_update(struct td_kube *k, const struct td_kube_place *at, const yyjson_mut_val *obj, struct td_cancel *c,
		   struct td_object **ret, struct td_error *err)
{
	td_auto_buf struct td_buf p = {0};
	td_kube_path(&p, at->resource, at->ns, at->name, at->part);
	td_buf_puts(&p, "?fieldManager=tandem");
	size_t len;
	td_auto_free char *body = td_json_mut_text(obj, &len);
	return object_call(k, "PUT", p.s, &(struct td_kube_body){"application/json", body, len}, c, ret, err);
}

static void delete_options(yyjson_mut_doc *d, yyjson_mut_val *o, const struct td_kube_delete_opts *opts)
{
	if (!opts)
		return;
	td_jm_str(d, o, "preconditions.uid", opts->uid);
	td_jm_str(d, o, "preconditions.resourceVersion", opts->rv);
	if (opts->grace_s >= 0)
		td_jm_int(d, o, "gracePeriodSeconds", opts->grace_s);
	td_jm_str(d, o, "propagationPolicy", opts->propagation);
}

int td_kube_delete(struct td_kube *k, const struct td_gvr *r, const char *ns, const char *name,
		   const struct td_kube_delete_opts *opts, struct td_cancel *c, struct td_error *err)
{
	td_auto_buf struct td_buf p = {0};
	td_kube_path(&p, r, ns, name, NULL);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "kind", "DeleteOptions");
	td_jm_str(d, o, "apiVersion", "v1");
	delete_options(d, o, opts);
	size_t len;
	td_auto_free char *body = td_json_mut_text(o, &len);
	return td_kube_raw(k, "DELETE", p.s, &(struct td_kube_body){"application/json", body, len}, c, NULL, err);
}

int td_kube_evict(struct td_kube *k, const char *ns, const char *pod, const char *uid, struct td_cancel *c,
		  struct td_error *err)
{
	td_auto_buf struct td_buf p = {0};
	td_kube_path(&p, &td_pods, ns, pod, "eviction");

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "kind", "Eviction");
	td_jm_str(d, o, "apiVersion", "policy/v1");
	td_jm_str(d, o, "metadata.name", pod);
	td_jm_str(d, o, "metadata.namespace", ns);
	td_jm_str(d, o, "deleteOptions.preconditions.uid", uid);

	size_t len;
	td_auto_free char *body = td_json_mut_text(o, &len);
	return td_kube_raw(k, "POST", p.s, &(struct td_kube_body){"application/json", body, len}, c, NULL, err);
}

int td_kube_bind(struct td_kube *k, const struct td_kube_binding *b, struct td_cancel *c, struct td_error *err)
{
	td_auto_buf struct td_buf p = {0};
	td_kube_path(&p, &td_pods, b->ns, b->pod, "binding");
	td_buf_puts(&p, "?fieldManager=tandem");

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "kind", "Binding");
	td_jm_str(d, o, "apiVersion", "v1");
	td_jm_str(d, o, "metadata.name", b->pod);
	td_jm_str(d, o, "metadata.namespace", b->ns);
	td_jm_str(d, o, "metadata.uid", b->uid);
	td_jm_str(d, o, "metadata.resourceVersion", b->rv);
	if (b->annotations)
		td_jm_set(d, o, "metadata.annotations", yyjson_mut_val_mut_copy(d, (yyjson_mut_val *)b->annotations));
	td_jm_str(d, o, "target.kind", "Node");
	td_jm_str(d, o, "target.name", b->node);

	size_t len;
	td_auto_free char *body = td_json_mut_text(o, &len);
	return td_kube_raw(k, "POST", p.s, &(struct td_kube_body){"application/json", body, len}, c, NULL, err);
}
