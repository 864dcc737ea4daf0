// The door: finds the operation of a request, who asks, whether he may ask so often, and whether the
// body is what openapi.yaml says; after a change it writes one line of record.
#include "gateway/door.h"

#include "api/schema.h"
#include "base/clock.h"
#include "base/embedded.h"
#include "base/log.h"
#include "gateway/keys.h"
#include "gateway/scope.h"
#include "gateway/sessions.h"
#include "gateway/statement.h"
#include "metrics/metrics.h"

#include <stdio.h>
#include <string.h>

extern const struct td_embedded td_gateway_files[];

enum { ROUTES_MOST = 128 };

struct route {
	const char *path, *method; // "/api/v1/jobs/{id}", "GET"
	const struct td_gateway_op *op;
	struct td_schema *body; // NULL: it takes no JSON
	bool open;              // nobody has to be known
	bool project;           // a key of one project may do it (x-tandem-project)
	enum {
		HUB_NOT,
		HUB_TOO,
		HUB_ONLY,
		HUB_ITSELF,
		HUB_SESSIONS
	} hub; // whether the hub of a federation may ask (x-tandem-hub)
};

struct td_gateway_door {
	struct td_gateway *g;
	struct td_json *api;
	char *text;
	size_t text_len;
	struct route routes[ROUTES_MOST];
	size_t n;
};

static const struct td_gateway_op *const tables[] = {
	td_gateway_account_ops,  td_gateway_job_ops,     td_gateway_run_ops,    td_gateway_log_ops,
	td_gateway_file_ops,     td_gateway_session_ops, td_gateway_env_ops,    td_gateway_data_ops,
	td_gateway_schedule_ops, td_gateway_usage_ops,   td_gateway_tenant_ops, td_gateway_login_ops,
	td_gateway_device_ops,   td_gateway_bill_ops,    td_gateway_member_ops, td_gateway_project_ops};

static const struct td_gateway_op *op_of(const char *id)
{
	for (size_t i = 0; i < TD_LEN(tables); i++)
		for (const struct td_gateway_op *o = tables[i]; o->id; o++)
			if (td_streq(o->id, id))
				return o;
	return NULL;
}

static int add(struct td_gateway_door *d, const char *path, const char *method, const yyjson_val *o,
	       struct td_error *err)
{
	struct route *r = &d->routes[d->n];
	if (d->n == ROUTES_MOST)
		return td_fail(err, TD_INVALID, "openapi.yaml has too many operations");
	*r = (struct route){.path = path, .op = op_of(td_jstr(o, "operationId"))};
	if (!r->op)
		return td_fail(err, TD_INVALID, "openapi.yaml: nothing here does %s",
			       td_jstr_or(o, "operationId", path));
	static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};
	for (size_t i = 0; i < TD_LEN(methods); i++)
		if (!strcasecmp(methods[i], method))
			r->method = methods[i];
	if (!r->method)
		return td_fail(err, TD_INVALID, "openapi.yaml: %s %s", method, path);
	r->open = td_jget(o, "security") != NULL;
	r->project = td_jbool(o, "x-tandem-project", false);
	const char *hub = td_jstr_or(o, "x-tandem-hub", "");
	r->hub = !strcmp(hub, "too")        ? HUB_TOO
		 : !strcmp(hub, "only")     ? HUB_ONLY
		 : !strcmp(hub, "itself")   ? HUB_ITSELF
		 : !strcmp(hub, "sessions") ? HUB_SESSIONS
					    : HUB_NOT;
	d->n++;
	yyjson_val *schema = td_jget(td_jkey(td_jget(o, "requestBody.content"), "application/json"), "schema");
	return schema ? td_schema_compile(d->api, schema, &r->body, err) : 0;
}

int td_gateway_door_new(struct td_gateway *g, struct td_gateway_door **ret, struct td_error *err)
{
	const struct td_embedded *f = td_embedded(td_gateway_files, "openapi.yaml");
	td_auto_json_list struct td_json_list docs = {0};
	int r = td_yaml_parse(f->text, f->len, &docs, err);
	if (r)
		return td_wrap(err, "openapi.yaml");

	struct td_gateway_door *d = td_calloc(1, sizeof(*d));
	d->g = g;
	d->api = td_json_ref(docs.v[0]);
	d->text = td_json_text(td_json_root(d->api), &d->text_len);
	size_t i, n, j, m;
	yyjson_val *path, *item, *method, *op;
	yyjson_obj_foreach (td_jget(td_json_root(d->api), "paths"), i, n, path, item)
		yyjson_obj_foreach (item, j, m, method, op)
			if (!r)
				r = add(d, yyjson_get_str(path), yyjson_get_str(method), op, err);
	if (r)
		td_gateway_door_free(d);
	else
		*ret = d;
	return r;
}

struct td_gateway_door *td_gateway_door_free(struct td_gateway_door *d)
{
	for (size_t i = 0; d && i < d->n; i++)
		td_schema_free(d->routes[i].body);
	if (d) {
		td_json_unref(d->api);
		free(d->text);
		free(d);
	}
	return NULL;
}

const char *td_gateway_openapi(const struct td_gateway_door *d, size_t *ret_len)
{
	*ret_len = d->text_len;
	return d->text;
}

// ---- answers ----

struct td_cancel *td_gateway_cancel(const struct td_gateway_ask *q)
{
	return q->x ? td_http_cancel(q->x) : q->stop ? q->stop : q->g->cancel;
}

struct td_gateway *td_gateway_door_of(const struct td_gateway_door *d)
{
	return d->g;
}

void td_gateway_send(struct td_gateway_ask *q, int status, const yyjson_mut_doc *d)
{
	if (!q->x)
		return;
	size_t n;
	td_auto_free char *s = td_json_mut_text(yyjson_mut_doc_get_root((yyjson_mut_doc *)(uintptr_t)d), &n);
	td_http_send(q->x, status, "application/json", s, n);
}

int td_gateway_done(struct td_gateway_ask *q)
{
	td_http_send(q->x, 200, "application/json", "{\"ok\":true}", strlen("{\"ok\":true}"));
	return 0;
}

int td_gateway_status(int code)
{
	switch (code) {
	case TD_NOT_FOUND:
		return 404;
	case TD_EXISTS:
	case TD_CONFLICT:
		return 409;
	case TD_THROTTLED:
		return 429;
	case TD_INVALID:
		return 422;
	case TD_UNAUTHENTICATED:
		return 401;
	case TD_DENIED:
		return 403;
	case TD_UNSUPPORTED:
		return 501;
	case TD_INTERNAL:
		return 500;
	default:
		return 503;
	}
}

static int refuse(struct td_http_x *x, const struct td_error *e)
{
	int status = e->http && e->code == TD_INVALID && e->http < 500 ? e->http : td_gateway_status(e->code);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_jm_str(d, yyjson_mut_doc_get_root(d), "error.code", td_code_name(e->code));
	td_auto_free char *clean = td_text_clean(e->msg);
	td_jm_str(d, yyjson_mut_doc_get_root(d), "error.message", clean);
	if (e->retry_after_ms > 0) {
		td_auto_free char *s = td_asprintf("%d", e->retry_after_ms / 1000 + 1);
		td_http_add_header(x, "Retry-After", s);
	}
	size_t n;
	td_auto_free char *s = td_json_mut_text(yyjson_mut_doc_get_root(d), &n);
	td_http_send(x, status, "application/json", s, n);
	return status;
}

int td_gateway_query_int(struct td_gateway_ask *q, const char *name, long long def, long long *ret,
			 struct td_error *err)
{
	const char *s = td_http_query(q->x, name);
	*ret = def;
	if (s && (!td_parse_i64(s, ret) || *ret < 0))
		return td_fail(err, TD_INVALID, "%s=%.40s: give a number, 0 or more", name, s);
	return 0;
}

// ---- who asks ----

char *td_gateway_cookie_of(const struct td_http_x *x, const char *name)
{
	const char *header = td_http_header(x, "Cookie");
	size_t n = strlen(name);
	for (const char *p = header; p; p = strchr(p, ';') ? strchr(p, ';') + 1 : NULL) {
		p += strspn(p, " ");
		if (!strncmp(p, name, n) && p[n] == '=')
			return td_strndup(p + n + 1, strcspn(p + n + 1, "; "));
	}
	return NULL;
}

// A browser sends the cookie whatever page made it ask. So a change needs a header that other origins
// may not send, and where the browser names the origin it must be ours.
static int same_origin(struct td_http_x *x, struct td_error *err)
{
	const char *origin = td_http_header(x, "Origin"), *host = td_http_header(x, "Host"),
		   *mark = td_http_header(x, "X-Tandem");
	const char *from = origin ? strstr(origin, "://") : NULL;
	if (!mark || strcmp(mark, "page") != 0 || (origin && (!from || !host || strcmp(from + 3, host) != 0)))
		return td_fail(err, TD_DENIED, "this change does not come from the page (header X-Tandem, Origin)");
	return 0;
}

// A statement of a federation's hub opens what a run needs, and nothing that outlasts it: no keys. Sessions only where
// the member's administrator says so.
static int who_by_hub(struct td_gateway_ask *q, const struct route *route, const char *bearer, char **ret_name,
		      char **ret_hub, struct td_error *err)
{
	int r = td_statement_check(q->g, bearer, ret_name, ret_hub, err);
	if (r)
		return r;
	bool session = *ret_name && (route ? route->hub == HUB_SESSIONS : q->session);
	if (session)
		return td_statement_sessions(q->g, *ret_hub)
			       ? 0
			       : td_fail(err, TD_DENIED,
					 "sessions are not opened through federation %s: this cluster's administrator "
					 "sets "
					 "spec.federation.hubs[].sessions of its SlurmCluster",
					 *ret_hub);
	bool fits = route && (*ret_name ? route->hub == HUB_TOO || route->hub == HUB_ONLY : route->hub == HUB_ITSELF);
	return fits ? 0
		    : td_fail(err, TD_DENIED, "%s is not done through a federation: ask this cluster's own gateway",
			      route ? route->op->id : "this");
}

// by is the key by which he has come, if he has.
static int who(struct td_gateway_ask *q, const struct route *route, struct td_gateway_key *by, struct td_error *err)
{
	// A page of a notebook server has hundreds of files.
	static const struct td_gateway_rate calls = {"calls", 50, 200}, pages = {"sessions", 200, 2000};
	const char *bearer = td_http_header(q->x, "Authorization");
	td_auto_free char *name = NULL, *c = td_gateway_cookie_of(q->x, "tandem");
	int r;
	if (bearer) {
		if (strncasecmp(bearer, "Bearer ", 7) != 0)
			return td_fail(err, TD_UNAUTHENTICATED, "Authorization: give Bearer and an API key");
		bool statement = td_starts(bearer + 7, TD_STATEMENT);
		r = statement ? who_by_hub(q, route, bearer + 7, &name, &by->id, err)
			      : td_gateway_by_key(q->g, bearer + 7, by, err);
		if (!r && !statement)
			name = td_strdup(by->user);
		if (!r && statement)
			q->hub = by->id;
		if (!r && statement && !name)
			return 0;
	} else if (c) {
		r = td_gateway_by_cookie(q->g, c, &name, err);
		if (!r && !q->session && strcmp(td_http_method(q->x), "GET") != 0)
			r = same_origin(q->x, err);
	} else {
		r = td_fail(err, TD_UNAUTHENTICATED, "log in first: `tandem login URL`, or on the page");
	}
	if (!r && !q->hub && route && (route->hub == HUB_ONLY || route->hub == HUB_ITSELF))
		r = td_fail(err, TD_DENIED, "%s is for the hub of a federation", route->op->id);
	if (!r && by->project)
		r = td_gateway_scope_begin(q, by->project, route ? route->project : q->session,
					   route ? route->op->id : "this", err);
	if (r)
		return r;
	if ((r = td_gateway_limit(q->g->limits, q->session ? &pages : &calls, name, err)))
		return r;
	q->key = by->id;
	r = td_gateway_user(q->g, name, &q->user, err);
	return r == TD_NOT_FOUND
		       ? td_fail(err, TD_UNAUTHENTICATED, "user %s is no longer among this cluster's users", name)
		       : r;
}

// ---- routes ----

// Whether the path is the template's; what stands for {…} goes to args.
static bool fits(const char *template_, const char *path, char *args[2])
{
	size_t n = 0;
	while (*template_ && *path) {
		if (*template_ == '{') {
			size_t len = strcspn(path, "/");
			if (!len || n == 2)
				return false;
			free(args[n]);
			args[n++] = td_strndup(path, len);
			template_ += strcspn(template_, "}") + 1;
			path += len;
		} else if (*template_++ != *path++) {
			return false;
		}
	}
	return !*template_ && !*path;
}

static int check(const struct td_schema *schema, const yyjson_val *body, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(body);
	td_auto_strv struct td_strv unknown = {0};
	td_auto_causes struct td_causes c = {0};
	td_schema_prune(schema, yyjson_mut_doc_get_root(d), &unknown);
	if (unknown.n)
		return td_fail(err, TD_INVALID, "%s: there is no such field", unknown.v[0]);
	if (td_schema_validate(schema, body, &c))
		return td_fail(err, TD_INVALID, "%s: %s", c.v[0].field, c.v[0].message);
	return 0;
}

int td_gateway_body_check(const struct td_gateway_ask *q, const char *operation, const yyjson_val *body,
			  struct td_error *err)
{
	for (size_t i = 0; i < q->door->n; i++)
		if (td_streq(q->door->routes[i].op->id, operation))
			return check(q->door->routes[i].body, body, err);
	return td_fail(err, TD_INTERNAL, "there is no operation %s", operation);
}

static int body_of(struct td_gateway_ask *q, const struct route *r, struct td_json **ret, struct td_error *err)
{
	size_t n;
	const char *text = td_http_body(q->x, &n);
	if (!r->body)
		return 0;
	int rc = td_json_parse(n ? text : "{}", n ? n : 2, ret, err);
	if (rc)
		return td_wrap(err, "the body");
	q->body = td_json_root(*ret);
	return check(r->body, q->body, err);
}

static int serve(struct td_gateway_ask *q, const struct route *r, struct td_error *err)
{
	td_auto_key struct td_gateway_key by = {0};
	td_auto(td_json_unref) struct td_json *body = NULL;
	int rc = r->open ? 0 : who(q, r, &by, err);
	bool change = strcmp(r->method, "GET") != 0 && r->hub != HUB_ITSELF; // that one only looks
	if (!rc)
		rc = body_of(q, r, &body, err);
	if (!rc)
		rc = r->op->run(q, err);
	// The record of changes: who, with what, what, and how it went. Arguments are names that were
	// checked, or they were refused.
	if (change && !r->open)
		td_info("change by %s (%s%s): %s%s%s: %s", q->user.name ? q->user.name : "nobody",
			q->hub ? "federation " : "", by.id ? by.id : "page", r->op->id, q->args[0] && !rc ? " " : "",
			q->args[0] && !rc ? q->args[0] : "", rc ? td_code_name(rc) : "done");
	return rc;
}

static void measure(const char *op, int rc)
{
	td_metric_add(td_counter(td_metrics_process(), "tandem_gateway_requests_total",
				 "Requests of people by operation and how they went.", TD_LABELS("op", "code")),
		      1, TD_LABELS(op, rc ? td_code_name(rc) : "OK"));
}

// A request that belongs to a session. What a browser sends from another site has no cookie of ours
// (SameSite), and what a session's own page sends is its owner's.
static void session(struct td_gateway_door *d, struct td_http_x *x)
{
	struct td_gateway_ask q = {.g = d->g, .x = x, .door = d, .session = true};
	struct td_error e = TD_ERROR_INIT;
	td_auto_key struct td_gateway_key by = {0};
	int rc = who(&q, NULL, &by, &e);
	if (!rc)
		rc = td_session_pass(&q, &e);
	if (rc)
		refuse(x, &e);
	td_gateway_user_done(&q.user);
}

void td_gateway_handle(struct td_http_x *x, void *door)
{
	struct td_gateway_door *d = door;
	struct td_error e = TD_ERROR_INIT;
	const char *path = td_http_path(x);
	bool get = !strcmp(td_http_method(x), "GET") || !strcmp(td_http_method(x), "HEAD");

	td_http_add_header(x, "X-Content-Type-Options", "nosniff");
	td_http_add_header(x, "Referrer-Policy", "no-referrer");
	td_http_add_header(x, "X-Frame-Options", "DENY");
	// The terminal of a session (page/terminal.js) makes styles of its own.
	td_auto_free char *policy = td_asprintf(
		"default-src 'none'; script-src 'self'; style-src 'self'%s; img-src 'self'; connect-src 'self'; "
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		td_starts(path, "/s/") ? " 'unsafe-inline'" : "");
	td_http_add_header(x, "Content-Security-Policy", policy);
	if (get && td_gateway_page(x))
		return;
	if (td_starts(path, "/s/")) {
		session(d, x);
		return;
	}
	td_http_add_header(x, "Cache-Control", "no-store");
	if (get && !strcmp(path, "/api/v1/openapi.json")) {
		td_http_send(x, 200, "application/json", d->text, d->text_len);
		return;
	}

	struct td_gateway_ask q = {.g = d->g, .x = x, .door = d};
	bool known = false, served = false;
	for (size_t i = 0; i < d->n && !served; i++) {
		if (!fits(d->routes[i].path, path, q.args))
			continue;
		known = true;
		if (strcmp(d->routes[i].method, td_http_method(x)) != 0)
			continue;
		served = true;
		int rc = serve(&q, &d->routes[i], &e);
		measure(d->routes[i].op->id, rc);
		if (rc)
			refuse(x, &e);
	}
	if (!served) {
		td_fail(&e, known ? TD_INVALID : TD_NOT_FOUND, known ? "%s does not take %s" : "there is nothing at %s",
			path, td_http_method(x));
		e.http = known ? 405 : 0;
		refuse(x, &e);
	}
	td_gateway_user_done(&q.user);
	free(q.args[0]);
	free(q.args[1]);
}
