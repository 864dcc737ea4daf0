// What people ask of the hub about their runs: answered from the records, and by the members that have them.
#include "gateway/hub.h"

#include "gateway/path.h"
#include "http/client.h"

#include <string.h>

enum { LIST_MOST = 200, SHOW_MS = 8000, LOG_MS = 120000 };

// ---- one run in words ----

static void steps_of(const struct td_hub_run *r, const char *state, const char *words, yyjson_mut_doc *d,
		     yyjson_mut_val *o)
{
	yyjson_mut_val *s = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "steps"));
	td_jm_str(d, s, "name", "main");
	td_jm_int(d, s, "job", 0);
	td_jm_str(d, s, "state", state);
	td_jm_str(d, s, "words", words);
	td_jm_str(d, o, "state", state);
}

// What the hub itself knows of it.
static void known(const struct td_hub_run *r, yyjson_mut_doc *d, yyjson_mut_val *o)
{
	td_auto_free char *away = td_asprintf("%s does not answer", r->member ? r->member : "its cluster");
	td_auto_free char *begun =
		td_asprintf("it was let begin at %s, which does not answer", r->member ? r->member : "?");
	switch (r->phase) {
	case TD_FED_WAITING:
		steps_of(r, "waiting", r->why, d, o);
		return;
	case TD_FED_PLACED:
		steps_of(r, "waiting", away, d, o);
		return;
	case TD_FED_STARTED:
		steps_of(r, "unknown", begun, d, o);
		return;
	case TD_FED_REFUSED:
		td_jm_str(d, o, "refused", r->why);
		td_jm_str(d, o, "state", "not-submitted");
		return;
	case TD_FED_CANCELLED:
		steps_of(r, "cancelled", NULL, d, o);
		return;
	default:
		steps_of(r, r->result ? r->result : "unknown", NULL, d, o);
	}
}

static void write(const struct td_hub *h, const struct td_hub_run *r, const yyjson_val *there, yyjson_mut_doc *d,
		  yyjson_mut_val *o)
{
	static const char *const copied[] = {"name", "job", "refused", "steps", "state"};
	size_t n = strlen(r->run);
	td_auto_free char *name = td_strndup(r->run, n > 7 ? n - 7 : n);
	td_jm_str(d, o, "id", r->run);
	td_jm_str(d, o, "name", name);
	td_jm_str(d, o, "user", r->user);
	td_jm_int(d, o, "created", r->created);
	bool shown = there && r->phase != TD_FED_CANCELLED;
	for (size_t i = 0; i < TD_LEN(copied) && shown; i++)
		td_jm_copyval(d, o, copied[i], td_jget(there, copied[i]));
	if (!shown)
		known(r, d, o);
	yyjson_mut_val *f = td_jm_obj(d, o, "federation");
	td_jm_str(d, f, "name", h->name);
	td_jm_str(d, f, "phase", td_fed_phase_name(r->phase));
	td_jm_str(d, f, "member", r->member);
	td_jm_str(d, f, "there", r->there);
	td_jm_str(d, f, "team", r->team);
	td_jm_str(d, f, "rule", r->rule);
	td_jm_str(d, f, "why", r->why);
	td_jm_int(d, f, "attempt", r->attempt);
	for (size_t i = 0; i < r->refused.n; i++) {
		yyjson_mut_val *e = yyjson_mut_arr_add_obj(d, td_jm_arr(d, f, "refused"));
		td_jm_str(d, e, "member", r->refused.v[i]);
		td_jm_str(d, e, "why", r->refused_why.v[i]);
	}
}

static bool has_there(const struct td_hub_run *r)
{
	return r->member && r->there &&
	       (r->phase == TD_FED_PLACED || r->phase == TD_FED_STARTED || r->phase == TD_FED_ENDED);
}

static char *path_of(const char *run, const char *what)
{
	struct td_buf b = {0};
	td_buf_puts(&b, "/api/v1/runs/");
	td_url_escape(&b, run);
	td_buf_puts(&b, what);
	return td_buf_take(&b);
}

// Reads the record. False: it is none of the hub's. A record that cannot be read now is no other run's.
static bool find(struct td_gateway_ask *q, const char *run, struct td_hub **ret, struct td_hub_run *r, int *rc,
		 struct td_error *err)
{
	struct td_hub *h = NULL;
	*rc = q->hub ? 0 : td_hub_ask(q->g, &h, err);
	if (!*rc && !h)
		return false;
	if (!*rc)
		*rc = td_gateway_name_check("run", run, err);
	if (!*rc)
		*rc = td_hub_run_get(q->g, q->user.name, run, td_gateway_cancel(q), r, err);
	if (*rc == TD_NOT_FOUND || *rc == TD_INVALID) {
		*err = (struct td_error)TD_ERROR_INIT;
		td_hub_unref(h);
		return false;
	}
	*ret = h;
	return true;
}

bool td_hub_answers(struct td_gateway_ask *q, const char *run, int status, int *ret, struct td_error *err)
{
	td_auto(td_hub_unref) struct td_hub *h = NULL;
	td_auto_hub_run struct td_hub_run r = {0};
	td_auto(td_json_unref) struct td_json *there = NULL;
	if (!find(q, run, &h, &r, ret, err))
		return false;
	if (*ret)
		return true;
	if (has_there(&r)) {
		td_auto_free char *path = path_of(r.there, "");
		const struct td_hub_call k = {.hub = h,
					      .member = r.member,
					      .user = r.user,
					      .method = "GET",
					      .path = path,
					      .timeout_ms = SHOW_MS};
		td_hub_do(q->g, &k, td_gateway_cancel(q), &there, NULL); // without it the record says what is known
	}
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	write(h, &r, there ? td_json_root(there) : NULL, d, yyjson_mut_doc_get_root(d));
	td_gateway_send(q, status, d);
	return true;
}

bool td_hub_submitted(struct td_gateway_ask *q, struct td_json **body, int *ret, struct td_error *err)
{
	td_auto(td_hub_unref) struct td_hub *h = NULL;
	td_auto_hub_run struct td_hub_run r = {0};
	if (!find(q, q->args[0], &h, &r, ret, err))
		return false;
	if (!*ret)
		*ret = td_hub_body(q, &r, body, err);
	return true;
}

// ---- all of a person's ----

static int newest_first(const void *a, const void *b)
{
	const struct td_object *x = *(struct td_object *const *)a, *y = *(struct td_object *const *)b;
	long long i = td_jint(x->root, "spec.created", 0), j = td_jint(y->root, "spec.created", 0);
	return (i < j) - (i > j);
}

void td_hub_lists(struct td_gateway_ask *q, yyjson_mut_doc *d, yyjson_mut_val *list)
{
	td_auto(td_hub_unref) struct td_hub *h = NULL;
	td_auto_objects struct td_objects all = {0};
	struct td_error e = TD_ERROR_INIT;
	int rc = q->hub ? 0 : td_hub_ask(q->g, &h, &e);
	if (!rc && !h)
		return;
	if (rc || td_hub_run_list(q->g, q->user.name, false, td_gateway_cancel(q), &all, &e)) {
		td_jm_str(d, yyjson_mut_doc_get_root(d), "problem", e.msg);
		return;
	}
	td_auto_free struct td_hub_call *calls = td_calloc(h->n_members + 1, sizeof(*calls));
	td_auto_free struct td_hub_answer *got = td_calloc(h->n_members + 1, sizeof(*got));
	size_t n = 0;
	for (size_t i = 0; i < h->n_members; i++) {
		const char *name = h->members[i].name;
		bool any = false;
		for (size_t j = 0; j < all.n; j++)
			any = any || td_streq(td_jstr(all.v[j]->root, "state.member"), name);
		if (any && td_hub_asks(q->g, name, NULL)) // else the records say what is known
			calls[n++] = (struct td_hub_call){.hub = h,
							  .member = name,
							  .user = q->user.name,
							  .method = "GET",
							  .path = "/api/v1/runs",
							  .timeout_ms = SHOW_MS};
	}
	td_hub_do_all(q->g, calls, n, false, td_gateway_cancel(q), got);
	for (size_t i = 0; i < n; i++)
		if (got[i].r)
			td_jm_str(d, yyjson_mut_doc_get_root(d), "problem", got[i].err.msg);
	if (all.n)
		qsort(all.v, all.n, sizeof(*all.v), newest_first);
	for (size_t j = 0; j < all.n; j++) {
		td_auto_hub_run struct td_hub_run r = {0};
		yyjson_val *there = NULL;
		td_hub_run_read(all.v[j], &r);
		if (j >= LIST_MOST && td_hub_run_over(&r))
			continue;
		for (size_t i = 0; i < n && has_there(&r); i++)
			if (td_streq(calls[i].member, r.member))
				there = td_jfind(td_jget(td_json_root(got[i].json), "runs"), "id", r.there);
		write(h, &r, there, d, yyjson_mut_arr_add_obj(d, list));
	}
	for (size_t i = 0; i < n; i++)
		td_json_unref(got[i].json);
}

// ---- ending one ----

// While its member does not answer, the record says that it is cancelled, and the member is told when it answers.
int td_hub_cancel(struct td_gateway *g, const struct td_hub *h, struct td_hub_run *r, struct td_cancel *c,
		  struct td_error *err)
{
	if (r->phase >= TD_FED_ENDED)
		return td_fail(err, TD_NOT_FOUND, "run %s has ended already", r->run);
	if (has_there(r)) {
		td_auto_free char *path = path_of(r->there, "/cancel");
		const struct td_hub_call k = {.hub = h,
					      .member = r->member,
					      .user = r->user,
					      .method = "POST",
					      .path = path,
					      .timeout_ms = SHOW_MS};
		struct td_error e = TD_ERROR_INIT;
		int rc = td_hub_do(g, &k, c, NULL, &e);
		if (!rc && r->phase == TD_FED_STARTED)
			return 0; // its end is seen there
		if (rc && rc != TD_NOT_FOUND && rc != TD_TRANSIENT && rc != TD_UNCERTAIN)
			return td_fail(err, rc, "%s", e.msg);
		if (rc && rc != TD_NOT_FOUND) {
			td_strv_add(&r->stale, r->member);
			td_strv_add(&r->stale_there, r->there);
		}
	}
	td_hub_run_phase(r, TD_FED_CANCELLED);
	return td_hub_run_write(g, r, err);
}

bool td_hub_cancels(struct td_gateway_ask *q, int *ret, struct td_error *err)
{
	for (int tries = 0;; tries++) {
		td_auto(td_hub_unref) struct td_hub *h = NULL;
		td_auto_hub_run struct td_hub_run r = {0};
		if (!find(q, q->args[0], &h, &r, ret, err))
			return false;
		if (!*ret)
			*ret = td_hub_cancel(q->g, h, &r, td_gateway_cancel(q), err);
		if (*ret != TD_CONFLICT || tries == 5)
			break;
	}
	if (!*ret)
		td_hub_answers(q, q->args[0], 200, ret, err);
	return true;
}

// ---- logs and files: passed on as they come ----

struct passed {
	struct td_gateway_ask *q;
	const char *type;
	bool begun;
};

static int pass_on(void *ctx, const char *p, size_t n)
{
	struct passed *s = ctx;
	int r = s->begun ? 0 : td_http_stream_begin(s->q->x, 200, s->type, NULL);
	s->begun = true;
	return r || !n ? r : td_http_stream_write(s->q->x, p, n, NULL);
}

static int stream(struct td_gateway_ask *q, const struct td_hub *h, const struct td_hub_run *r, const char *path,
		  const char *type, struct td_error *err)
{
	struct passed s = {.q = q, .type = type};
	const struct td_hub_call k = {.hub = h,
				      .member = r->member,
				      .user = r->user,
				      .method = "GET",
				      .path = path,
				      .timeout_ms = LOG_MS,
				      .on_data = pass_on,
				      .ctx = &s};
	int rc = td_hub_do(q->g, &k, td_gateway_cancel(q), NULL, err);
	if (!rc && !s.begun)
		td_http_send(q->x, 200, type, "", 0);
	if (!s.begun)
		return rc;
	// What was cut is not taken for the end: the reader goes on from where it was.
	if (rc)
		td_http_stream_cut(q->x);
	return 0;
}

static int nowhere(const struct td_hub_run *r, struct td_error *err)
{
	return td_fail(err, TD_NOT_FOUND, "run %s is at no cluster now: %s", r->run,
		       r->why ? r->why : td_fed_phase_name(r->phase));
}

// A query of the request, passed on: "&NAME=VALUE".
static void also(struct td_gateway_ask *q, const char *name, struct td_buf *b)
{
	const char *v = td_http_query(q->x, name);
	if (!v)
		return;
	td_buf_printf(b, "&%s=", name);
	td_url_escape(b, v);
}

bool td_hub_logs(struct td_gateway_ask *q, int *ret, struct td_error *err)
{
	td_auto(td_hub_unref) struct td_hub *h = NULL;
	td_auto_hub_run struct td_hub_run r = {0};
	static const char *const queries[] = {"offset", "follow", "task", "step"};
	td_auto_buf struct td_buf path = {0};
	if (!find(q, q->args[0], &h, &r, ret, err))
		return false;
	// Who follows one that waits at the hub waits with it.
	while (!*ret && !has_there(&r) && r.phase == TD_FED_WAITING && td_streq(td_http_query(q->x, "follow"), "1")) {
		if (td_cancel_wait(td_gateway_cancel(q), 500)) {
			*ret = td_fail(err, TD_CANCELLED, "nobody waits for the answer any more");
			return true;
		}
		td_hub_run_done(&r);
		*ret = td_hub_run_get(q->g, q->user.name, q->args[0], td_gateway_cancel(q), &r, err);
	}
	if (!*ret && !has_there(&r))
		*ret = nowhere(&r, err);
	if (*ret)
		return true;
	td_auto_free char *run = path_of(r.there, "/log?of=run");
	td_buf_puts(&path, run);
	for (size_t i = 0; i < TD_LEN(queries); i++)
		also(q, queries[i], &path);
	*ret = stream(q, h, &r, td_buf_str(&path), "text/plain; charset=utf-8", err);
	return true;
}

#define RUNS "tandem/runs/"

static int files(struct td_gateway_ask *q, const struct td_hub *h, const struct td_hub_run *r, enum td_hub_file what,
		 const char *there, struct td_error *err)
{
	td_auto_buf struct td_buf path = {0};
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (what == TD_HUB_PUT) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(q->body);
		td_auto_strv struct td_strv hashes = {0};
		td_jm_str(d, yyjson_mut_doc_get_root(d), "path", there);
		td_jstrs(td_jget(q->body, "chunks"), &hashes);
		size_t n;
		td_auto_free char *text = td_json_mut_text(yyjson_mut_doc_get_root(d), &n);
		const struct td_hub_call k = {.hub = h,
					      .member = r->member,
					      .user = r->user,
					      .method = "POST",
					      .path = "/api/v1/files",
					      .body = text,
					      .body_len = n};
		int rc = td_hub_ship(q, h, r->member, &hashes, err);
		if (!rc)
			rc = td_hub_do(q->g, &k, td_gateway_cancel(q), NULL, err);
		if (!rc)
			td_http_send(q->x, 201, "application/json", "{\"ok\":true}", strlen("{\"ok\":true}"));
		return rc;
	}
	td_buf_puts(&path, what == TD_HUB_LIST ? "/api/v1/files?path=" : "/api/v1/files/content?path=");
	td_url_escape(&path, there);
	if (what == TD_HUB_CONTENT) {
		also(q, "offset", &path);
		td_http_add_header(q->x, "Content-Disposition", "attachment");
		return stream(q, h, r, td_buf_str(&path), "application/octet-stream", err);
	}
	const struct td_hub_call k = {
		.hub = h, .member = r->member, .user = r->user, .method = "GET", .path = td_buf_str(&path)};
	int rc = td_hub_do(q->g, &k, td_gateway_cancel(q), &j, err);
	if (rc)
		return rc;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(j));
	td_gateway_send(q, 200, d);
	return 0;
}

bool td_hub_files(struct td_gateway_ask *q, enum td_hub_file what, const char *path, int *ret, struct td_error *err)
{
	td_auto(td_hub_unref) struct td_hub *h = NULL;
	td_auto_hub_run struct td_hub_run r = {0};
	if (!path || !td_starts(path, RUNS) || !q->x)
		return false;
	const char *rest = path + strlen(RUNS);
	td_auto_free char *run = td_strndup(rest, strcspn(rest, "/"));
	if (!find(q, run, &h, &r, ret, err))
		return false;
	if (!*ret && !has_there(&r))
		*ret = nowhere(&r, err);
	if (*ret)
		return true;
	td_auto_free char *there = td_asprintf(RUNS "%s%s", r.there, rest + strlen(run));
	*ret = files(q, h, &r, what, there, err);
	return true;
}
