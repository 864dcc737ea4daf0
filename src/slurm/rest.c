#include "slurm/rest.h"

#include "base/fault.h"
#include "base/log.h"
#include "http/client.h"
#include "slurm/adapter.h"
#include "slurm/token.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STATES_PER_CALL = 400 }; // ids in one filter: about 6 KB of URL

struct td_slurm {
	struct td_http_client *http;
	struct td_slurm_tokens *tokens;
	const struct td_slurm_adapter *a;
	char *url, *user;
	int dir; // of the socket; -1: reached over the network
	int64_t timeout_ms;
	struct {
		atomic_uint_fast64_t requests, bytes;
	} sum[TD_SLURM_OPS];
};

int td_slurm_new(const struct td_slurm_opts *o, struct td_slurm **ret, struct td_error *err)
{
	if (!o->key || !o->key_len)
		return td_fail(err, TD_INVALID, "no jwt key for slurmrestd");
	const char *user = o->user ? o->user : "root";
	if (!td_slurm_user_ok(user))
		return td_fail(err, TD_INVALID, "\"%.40s\" is no Slurm user name", user);
	struct td_http_client_opts ho = {.base_url = o->url, .timeout_ms = o->timeout_ms ? o->timeout_ms : 15000};
	// A socket's path may be longer than the 107 bytes of an address: it is reached through its directory, held open.
	td_auto_close int dir = -1;
	td_auto_free char *sock = NULL;
	if (o->url && td_starts(o->url, "unix:/")) {
		const char *path = o->url + strlen("unix:"), *base = strrchr(path, '/');
		td_auto_free char *parent = td_strndup(path, (size_t)(base - path));
		dir = open(parent, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (dir < 0)
			return td_fail_errno(err, TD_TRANSIENT, errno, "slurmrestd's socket %s", path);
		ho.unix_socket = sock = td_asprintf("/proc/self/fd/%d%s", dir, base);
		ho.base_url = "http://slurmrestd";
	}
	struct td_http_client *http;
	int r = td_http_client_new(&ho, &http, err);
	if (r)
		return td_wrap(err, "slurmrestd at %s", o->url);
	struct td_slurm *s = td_calloc(1, sizeof(*s));
	s->http = http;
	s->tokens = td_slurm_tokens_new(o->key, o->key_len, o->token_life_s, o->clock);
	s->a = &td_slurm_v0042;
	s->url = td_strdup(o->url);
	s->dir = dir;
	dir = -1;
	s->user = td_strdup(user);
	s->timeout_ms = ho.timeout_ms;
	*ret = s;
	return 0;
}

struct td_slurm *td_slurm_free(struct td_slurm *s)
{
	if (!s)
		return NULL;
	td_http_client_free(s->http);
	td_slurm_tokens_free(s->tokens);
	if (s->dir >= 0)
		close(s->dir);
	free(s->url);
	free(s->user);
	free(s);
	return NULL;
}

const char *td_slurm_url(const struct td_slurm *s)
{
	return s->url;
}

const char *td_slurm_op_name(enum td_slurm_op op)
{
	static const char *const names[TD_SLURM_OPS] = {"other",       "job-allocate", "job-submit", "job-update", "job-end", "node-update",
							"node-delete", "job",          "jobs",       "job-states", "nodes",   "node"};
	return op < TD_SLURM_OPS ? names[op] : "?";
}

void td_slurm_stats(const struct td_slurm *s, enum td_slurm_op op, uint64_t *ret_requests, uint64_t *ret_bytes)
{
	*ret_requests = atomic_load(&s->sum[op].requests);
	*ret_bytes = atomic_load(&s->sum[op].bytes);
}

// ---- one call -------------------------------------------------------------------------------------------------------------
struct call {
	enum td_slurm_op op;                     // for the sums; a write's name is that of its fault points too
	const char *user, *method, *path, *body; // path below /slurm/<version>
	size_t max_body;
	int64_t timeout_ms;
	int (*on_data)(void *ctx, const char *p, size_t n);
	void *ctx;
};

static bool is_read(const struct call *k)
{
	return !strcmp(k->method, "GET");
}

// Slurm's error number → what the caller decides. Numbers: slurm_errno.h of 24.11.
static int code_of(long long number, bool read)
{
	switch (number) {
	case 11:   // EAGAIN: MaxJobCount reached
	case 2013: // ESLURM_NOT_TOP_PRIORITY
	case 2015: // ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE: down or drained for now
	case 2016: // ESLURM_NODES_BUSY
	case 2050: // ESLURM_ACCOUNTING_POLICY: a limit
		return TD_THROTTLED;
	case 1007: // SLURM_PROTOCOL_AUTHENTICATION_ERROR
		return TD_UNAUTHENTICATED;
	case 2002: // ESLURM_ACCESS_DENIED
	case 2010: // ESLURM_USER_ID_MISSING
		return TD_DENIED;
	case 2017: // ESLURM_INVALID_JOB_ID
	case 2021: // ESLURM_ALREADY_DONE
		return TD_NOT_FOUND;
	case 2020: // ESLURM_TRANSITION_STATE_NO_UPDATE
	case 2024: // ESLURM_JOB_PENDING
	case 2073: // job is no longer pending execution
	case 2172: // ESLURM_JOB_SIGNAL_FAILED: not the name that was said
		return TD_CONFLICT;
	case 1800: // SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR: nothing was sent
	case 2027: // ESLURM_IN_STANDBY_MODE
		return TD_TRANSIENT;
	default:
		if ((number >= 2000 && number < 3000) || number >= 9000)
			return TD_INVALID;
		return read ? TD_TRANSIENT : TD_UNCERTAIN;
	}
}

// Puts Slurm's own words into err. `list`: its "errors".
static int refused(const struct call *k, int status, const yyjson_val *root, const char *text, struct td_error *err)
{
	yyjson_val *e = yyjson_arr_get_first(td_jget(root, "errors"));
	int code;
	if (e) {
		long long number = td_jint(e, "error_number", 0);
		const char *words = td_jstr(e, "error"), *what = td_jstr_or(e, "description", "");
		code = code_of(number, is_read(k));
		td_fail(err, code, "Slurm: %s%s%s (%lld)", words && strcmp(words, "No error") != 0 ? words : what,
			words && *what ? ": " : "", words && *what && strcmp(words, "No error") != 0 ? what : "", number);
	} else if (status == 401 || status == 511) {
		code = td_fail(err, TD_UNAUTHENTICATED, "slurmrestd refused our token (HTTP %d)", status);
	} else if (status == 404) {
		code = td_fail(err, TD_UNSUPPORTED, "slurmrestd does not know %s %s", k->method, k->path);
	} else if (status == 400 || status == 422) {
		code = td_fail(err, TD_INVALID, "slurmrestd: HTTP %d: %.200s", status, text);
	} else {
		code = td_fail(err, is_read(k) ? TD_TRANSIENT : TD_UNCERTAIN, "slurmrestd: HTTP %d: %.200s", status, text);
	}
	if (status == 511)
		code = td_fail(err, TD_UNAUTHENTICATED,
			       "slurmctld refused our token (HTTP 511): wrong jwt key, or the clocks differ by more than a token's life");
	if (err)
		err->http = status;
	return code;
}

static int send_once(struct td_slurm *s, const struct call *k, struct td_cancel *c, struct td_http_reply *ret, struct td_error *err)
{
	td_auto_free char *token = NULL;
	int r = td_slurm_token(s->tokens, k->user ? k->user : s->user, &token, err);
	if (r)
		return r;
	td_auto_free char *head = td_asprintf("X-SLURM-USER-TOKEN: %s", token);
	td_auto_free char *path = td_asprintf("/slurm/%s%s", s->a->version, k->path);
	const char *const headers[] = {head, NULL};
	const struct td_http_call hc = {
		.method = k->method,
		.path = path,
		.body = k->body,
		.body_len = k->body ? strlen(k->body) : 0,
		.content_type = k->body ? "application/json" : NULL,
		.headers = headers,
		.timeout_ms = k->timeout_ms,
		.max_body = k->max_body ? k->max_body : 64u << 20,
		.on_data = k->on_data,
		.ctx = k->ctx,
		.idle_ms = k->on_data ? 60000 : 0,
	};
	atomic_fetch_add(&s->sum[k->op].requests, 1);
	r = td_http_do(s->http, &hc, c, ret, err);
	if (r == TD_UNCERTAIN && is_read(k))
		r = err ? (err->code = TD_TRANSIENT) : TD_TRANSIENT;
	if (!r)
		atomic_fetch_add(&s->sum[k->op].bytes, ret->body.len);
	return r;
}

// The reply's document when the status is 200, whatever it holds; *ret_status for those who look further. A refused token is tried once
// more with a fresh one: nothing was done.
static int call(struct td_slurm *s, const struct call *k, struct td_cancel *c, int *ret_status, struct td_json **ret, struct td_error *err)
{
	bool write = !is_read(k);
	int fault = write ? td_fault_at(err, "slurm.%s.before", td_slurm_op_name(k->op)) : 0;
	if (fault)
		return fault;
	for (int tries = 0;; tries++) {
		td_auto_reply struct td_http_reply rep = {0};
		int r = send_once(s, k, c, &rep, err);
		if (r)
			return td_wrap(err, "slurmrestd");
		if (write && (r = td_fault_at(err, "slurm.%s.after", td_slurm_op_name(k->op))))
			return r;
		if (rep.status == 511 && !tries) {
			td_slurm_tokens_drop(s->tokens);
			continue;
		}
		td_auto(td_json_unref) struct td_json *j = NULL;
		bool parsed = rep.body.len && td_json_parse(td_buf_str(&rep.body), rep.body.len, &j, NULL) == 0;
		if (rep.status != 200 && !(ret_status && parsed))
			return refused(k, rep.status, td_json_root(j), td_buf_str(&rep.body), err);
		if (!parsed && !k->on_data)
			return td_fail(err, is_read(k) ? TD_TRANSIENT : TD_UNCERTAIN, "slurmrestd: a reply of %zu bytes that is no JSON",
				       rep.body.len);
		if (ret_status)
			*ret_status = rep.status;
		*ret = td_steal(j);
		return 0;
	}
}

// HTTP 200 with errors inside is a failure as well.
static int call_ok(struct td_slurm *s, const struct call *k, struct td_cancel *c, struct td_json **ret, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = call(s, k, c, NULL, &j, err);
	if (r)
		return r;
	if (yyjson_arr_size(td_jget(td_json_root(j), "errors")))
		return refused(k, 200, td_json_root(j), "", err);
	if (ret)
		*ret = td_steal(j);
	return 0;
}

int td_slurm_raw(struct td_slurm *s, const char *method, const char *path, const char *body, struct td_cancel *c, struct td_buf *ret,
		 struct td_error *err)
{
	const struct call k = {.method = method, .path = path, .body = body};
	for (int tries = 0;; tries++) {
		td_auto_reply struct td_http_reply rep = {0};
		int r = send_once(s, &k, c, &rep, err);
		if (r)
			return td_wrap(err, "slurmrestd");
		if (rep.status == 511 && !tries) {
			td_slurm_tokens_drop(s->tokens);
			continue;
		}
		if (rep.status / 100 != 2) {
			td_auto(td_json_unref) struct td_json *j = NULL;
			td_json_parse(td_buf_str(&rep.body), rep.body.len, &j, NULL);
			return refused(&k, rep.status, td_json_root(j), td_buf_str(&rep.body), err);
		}
		td_buf_add(ret, td_buf_str(&rep.body), rep.body.len);
		return 0;
	}
}

int td_slurm_check(struct td_slurm *s, struct td_cancel *c, struct td_error *err)
{
	// Refused without a valid token, and small: a filter that no job matches.
	const struct call k = {.op = TD_SLURM_JOB_STATES, .method = "GET", .path = "/jobs/state/?job_id=4294967000", .timeout_ms = 5000};
	return call_ok(s, &k, c, NULL, err);
}

// ---- jobs -----------------------------------------------------------------------------------------------------------------
static int ask(struct td_slurm *s, const char *user, const struct td_slurm_ask *a, bool immediate, struct td_cancel *c, int64_t *ret_job,
	       struct td_error *err)
{
	td_auto_free char *body = s->a->ask_body(a, immediate);
	const struct call k = {.op = immediate ? TD_SLURM_ALLOCATE : TD_SLURM_SUBMIT,
			       .user = user,
			       .method = "POST",
			       .path = immediate ? "/job/allocate" : "/job/submit",
			       .body = body};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int status = 0, r = call(s, &k, c, &status, &j, err);
	if (r)
		return r;
	yyjson_val *id = td_jget(td_json_root(j), "job_id");
	// A job id is a job, whatever else the reply says (slurm-facts 0.4); 200 without one is none (0.5).
	if (yyjson_is_int(id) && yyjson_get_sint(id) > 0) {
		*ret_job = yyjson_get_sint(id);
		return 0;
	}
	if (status != 200 || yyjson_arr_size(td_jget(td_json_root(j), "errors")))
		return refused(&k, status, td_json_root(j), "", err);
	const char *warn = td_jstr_or(yyjson_arr_get_first(td_jget(td_json_root(j), "warnings")), "description", "no reason given");
	return td_fail(err, TD_INVALID, "Slurm took no job: %.300s", warn);
}

int td_slurm_allocate(struct td_slurm *s, const char *user, const struct td_slurm_ask *a, struct td_cancel *c, int64_t *ret_job,
		      struct td_error *err)
{
	return ask(s, user, a, true, c, ret_job, err);
}

int td_slurm_submit(struct td_slurm *s, const char *user, const struct td_slurm_ask *a, struct td_cancel *c, int64_t *ret_job,
		    struct td_error *err)
{
	return ask(s, user, a, false, c, ret_job, err);
}

void td_slurm_job_done(struct td_slurm_job *j)
{
	char **const f[] = {&j->name,    &j->user,   &j->account,     &j->partition,      &j->qos,       &j->admin_comment,
			    &j->comment, &j->reason, &j->description, &j->excluded_nodes, &j->nodes_text};
	for (size_t i = 0; i < TD_LEN(f); i++)
		free(*f[i]);
	for (size_t i = 0; i < j->n_nodes; i++) {
		free(j->nodes[i].name);
		free(j->nodes[i].gres);
		free(j->nodes[i].cores);
	}
	free(j->nodes);
	*j = (struct td_slurm_job){0};
}

int td_slurm_job(struct td_slurm *s, int64_t id, struct td_cancel *c, struct td_slurm_job *ret, struct td_error *err)
{
	char path[64];
	snprintf(path, sizeof(path), "/job/%" PRId64, id);
	const struct call k = {.op = TD_SLURM_JOB, .method = "GET", .path = path};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = call_ok(s, &k, c, &j, err);
	if (r)
		return td_wrap(err, "job %" PRId64, id);
	yyjson_val *v, *list = td_jget(td_json_root(j), "jobs");
	size_t i, n;
	yyjson_arr_foreach (list, i, n, v) {
		if (td_jint(v, "job_id", 0) != id)
			continue;
		td_auto_job struct td_slurm_job job = {0};
		r = s->a->read_job(v, &job, err);
		if (r)
			return r;
		*ret = job;
		job = (struct td_slurm_job){0};
		return 0;
	}
	return td_fail(err, TD_NOT_FOUND, "Slurm does not know job %" PRId64, id);
}

struct each {
	struct td_slurm *s;
	int (*fn)(void *ctx, const struct td_slurm_job *j);
	void *ctx;
	struct td_json_split split;
	struct td_error err;
};

static int each_element(void *ctx, const char *p, size_t n)
{
	struct each *e = ctx;
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_job struct td_slurm_job job = {0};
	int r = td_json_parse(p, n, &j, &e->err);
	if (!r)
		r = e->s->a->read_job(td_json_root(j), &job, &e->err);
	return r ? r : e->fn(e->ctx, &job);
}

static int each_data(void *ctx, const char *p, size_t n)
{
	struct each *e = ctx;
	atomic_fetch_add(&e->s->sum[TD_SLURM_JOBS].bytes, n);
	return td_json_split(&e->split, p, n, &e->err);
}

int td_slurm_jobs(struct td_slurm *s, struct td_cancel *c, int (*fn)(void *ctx, const struct td_slurm_job *j), void *ctx,
		  struct td_error *err)
{
	struct each e = {.s = s, .fn = fn, .ctx = ctx, .split = {.list = "jobs", .each = each_element}};
	e.split.ctx = &e;
	const struct call k = {
		.op = TD_SLURM_JOBS, .method = "GET", .path = "/jobs/", .on_data = each_data, .ctx = &e, .timeout_ms = 120000};
	td_auto(td_json_unref) struct td_json *none = NULL, *rest = NULL;
	int r = call(s, &k, c, NULL, &none, err);
	if (r && e.err.code)
		r = td_fail(err, e.err.code, "listing jobs: %.400s", e.err.msg);
	// Only a list that came whole counts: the rest parses and holds no error.
	if (!r)
		r = td_json_parse(td_buf_str(&e.split.rest), e.split.rest.len, &rest, err);
	if (r == TD_INVALID && !e.err.code)
		r = td_fail(err, TD_TRANSIENT, "listing jobs: the reply was cut");
	if (!r && yyjson_arr_size(td_jget(td_json_root(rest), "errors")))
		r = refused(&k, 200, td_json_root(rest), "", err);
	td_json_split_done(&e.split);
	return r;
}

void td_slurm_states_done(struct td_slurm_states *l)
{
	free(l->v);
	*l = (struct td_slurm_states){0};
}

static void add_state(struct td_slurm_states *l, const struct td_slurm_state *st)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 64;
		l->v = td_realloc(l->v, l->cap * sizeof(*l->v));
	}
	l->v[l->n++] = *st;
}

static int states_once(struct td_slurm *s, const char *path, struct td_cancel *c, struct td_slurm_states *l, struct td_error *err)
{
	const struct call k = {.op = TD_SLURM_JOB_STATES, .method = "GET", .path = path};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = call_ok(s, &k, c, &j, err);
	if (r)
		return td_wrap(err, "job states");
	yyjson_val *v, *list = td_jget(td_json_root(j), "jobs");
	if (!yyjson_is_arr(list))
		return td_fail(err, TD_TRANSIENT, "job states: no list in the reply");
	size_t i, n;
	yyjson_arr_foreach (list, i, n, v) {
		struct td_slurm_state st;
		if (s->a->read_state(v, &st))
			add_state(l, &st);
	}
	return 0;
}

int td_slurm_job_states(struct td_slurm *s, const int64_t *ids, size_t n, struct td_cancel *c, struct td_slurm_states *ret,
			struct td_error *err)
{
	td_auto_states struct td_slurm_states l = {0};
	int r = 0;
	if (!ids)
		r = states_once(s, "/jobs/state/", c, &l, err);
	for (size_t at = 0; ids && at < n && !r; at += STATES_PER_CALL) {
		td_auto_buf struct td_buf path = {0};
		td_buf_puts(&path, "/jobs/state/");
		for (size_t i = at; i < n && i < at + STATES_PER_CALL; i++)
			td_buf_printf(&path, "%cjob_id=%" PRId64, i == at ? '?' : '&', ids[i]);
		r = states_once(s, td_buf_str(&path), c, &l, err);
	}
	if (r)
		return r;
	td_slurm_states_done(ret);
	*ret = l;
	l = (struct td_slurm_states){0};
	return 0;
}

int td_slurm_job_update(struct td_slurm *s, int64_t id, const struct td_slurm_job_change *ch, struct td_cancel *c, struct td_error *err)
{
	char path[64];
	snprintf(path, sizeof(path), "/job/%" PRId64, id);
	td_auto_free char *body = s->a->job_change_body(ch);
	const struct call k = {.op = TD_SLURM_JOB_UPDATE, .method = "POST", .path = path, .body = body};
	int r = call_ok(s, &k, c, NULL, err);
	return r ? td_wrap(err, "updating job %" PRId64, id) : 0;
}

int td_slurm_job_end(struct td_slurm *s, int64_t id, const char *name, struct td_cancel *c, struct td_error *err)
{
	if (id <= 0 || !name || !*name)
		return td_fail(err, TD_INVALID, "job %" PRId64 " is not ended without its name", id);
	td_auto_free char *body = s->a->job_end_body(id, name);
	const struct call k = {.op = TD_SLURM_JOB_END, .method = "DELETE", .path = "/jobs/", .body = body};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = call_ok(s, &k, c, &j, err);
	if (r)
		return td_wrap(err, "ending job %" PRId64, id);
	yyjson_val *v; // a refusal comes with HTTP 200 in status[]
	size_t i, n;
	yyjson_arr_foreach (td_jget(td_json_root(j), "status"), i, n, v) {
		long long code = td_jint(v, "error.code", 0);
		if (code)
			return td_fail(err, code_of(code, false), "ending job %" PRId64 ": %s (%lld)", id,
				       td_jstr_or(v, "error.message", td_jstr_or(v, "error.string", "refused")), code);
	}
	return 0;
}

// ---- nodes ----------------------------------------------------------------------------------------------------------------
void td_slurm_nodes_done(struct td_slurm_nodes *l)
{
	for (size_t i = 0; i < l->n; i++) {
		struct td_slurm_node *n = &l->v[i];
		char **const f[] = {&n->name,    &n->reason, &n->reason_by, &n->comment,   &n->features,
				    &n->address, &n->gres,   &n->gres_used, &n->partitions};
		for (size_t k = 0; k < TD_LEN(f); k++)
			free(*f[k]);
	}
	free(l->v);
	*l = (struct td_slurm_nodes){0};
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct td_slurm_node *)a)->name, ((const struct td_slurm_node *)b)->name);
}

static int read_nodes(struct td_slurm *s, const yyjson_val *root, struct td_slurm_nodes *ret, struct td_error *err)
{
	td_auto_nodes struct td_slurm_nodes l = {0};
	yyjson_val *v, *list = td_jget(root, "nodes");
	size_t i, n;
	l.cap = yyjson_arr_size(list);
	l.v = td_calloc(l.cap ? l.cap : 1, sizeof(*l.v));
	yyjson_arr_foreach (list, i, n, v) {
		int r = s->a->read_node(v, &l.v[l.n++], err);
		if (r)
			return r;
	}
	qsort(l.v, l.n, sizeof(*l.v), by_name);
	td_slurm_nodes_done(ret);
	*ret = l;
	l = (struct td_slurm_nodes){0};
	return 0;
}

int td_slurm_nodes(struct td_slurm *s, struct td_cancel *c, struct td_slurm_nodes *ret, struct td_error *err)
{
	const struct call k = {.op = TD_SLURM_NODES, .method = "GET", .path = "/nodes/", .max_body = 512u << 20};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = call_ok(s, &k, c, &j, err);
	if (r)
		return td_wrap(err, "listing nodes");
	if (!yyjson_is_arr(td_jget(td_json_root(j), "nodes")))
		return td_fail(err, TD_TRANSIENT, "listing nodes: no list in the reply");
	return read_nodes(s, td_json_root(j), ret, err);
}

// An escaped "/node/<name>", or TD_INVALID.
static int node_path(const char *name, struct td_buf *ret, struct td_error *err)
{
	if (!name || !*name || strlen(name) > 253 || strpbrk(name, "/,[]?# "))
		return td_fail(err, TD_INVALID, "\"%.100s\" is no node name", name ? name : "");
	td_buf_puts(ret, "/node/");
	td_url_escape(ret, name);
	return 0;
}

int td_slurm_node(struct td_slurm *s, const char *name, struct td_cancel *c, struct td_slurm_nodes *ret, struct td_error *err)
{
	td_auto_buf struct td_buf path = {0};
	int r = node_path(name, &path, err);
	if (r)
		return r;
	const struct call k = {.op = TD_SLURM_NODE, .method = "GET", .path = td_buf_str(&path)};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int status = 0;
	r = call(s, &k, c, &status, &j, err);
	if (r)
		return td_wrap(err, "node %s", name);
	yyjson_val *list = td_jget(td_json_root(j), "nodes"), *e = yyjson_arr_get_first(td_jget(td_json_root(j), "errors"));
	// An unknown node: HTTP 200, no list, an error without a number (slurm-facts 0.8); by its real number on other versions.
	if (!yyjson_arr_size(list) && ((status == 200 && e && !td_jint(e, "error_number", 0)) || td_jint(e, "error_number", 0) == 2018))
		return td_fail(err, TD_NOT_FOUND, "Slurm does not know node %s", name);
	if (e || status != 200)
		return refused(&k, status, td_json_root(j), "", err);
	if (!yyjson_arr_size(list))
		return td_fail(err, TD_TRANSIENT, "node %s: no node in the reply", name);
	return read_nodes(s, td_json_root(j), ret, err);
}

const struct td_slurm_node *td_slurm_node_find(const struct td_slurm_nodes *l, const char *name)
{
	const struct td_slurm_node key = {.name = (char *)(uintptr_t)name};
	return l->n ? bsearch(&key, l->v, l->n, sizeof(*l->v), by_name) : NULL;
}

int td_slurm_node_update(struct td_slurm *s, const char *name, const char *state, const char *reason, struct td_cancel *c,
			 struct td_error *err)
{
	td_auto_buf struct td_buf path = {0};
	int r = node_path(name, &path, err);
	if (r)
		return r;
	for (const char *p = reason; p && *p; p++)
		if ((unsigned char)*p < ' ' || *p == 127)
			return td_fail(err, TD_INVALID, "the reason for node %s holds a control character", name);
	td_auto_free char *body = s->a->node_change_body(state, reason);
	const struct call k = {.op = TD_SLURM_NODE_UPDATE, .method = "POST", .path = td_buf_str(&path), .body = body};
	r = call_ok(s, &k, c, NULL, err);
	if (r == TD_INVALID && err && strstr(err->msg, "(2018)"))
		r = td_fail(err, TD_NOT_FOUND, "Slurm does not know node %s", name);
	return r ? td_wrap(err, "updating node %s", name) : 0;
}

int td_slurm_node_delete(struct td_slurm *s, const char *name, struct td_cancel *c, struct td_error *err)
{
	td_auto_buf struct td_buf path = {0};
	int r = node_path(name, &path, err);
	if (r)
		return r;
	const struct call k = {.op = TD_SLURM_NODE_DELETE, .method = "DELETE", .path = td_buf_str(&path)};
	struct td_error e = TD_ERROR_INIT;
	r = call_ok(s, &k, c, NULL, &e);
	if (r == TD_INVALID && strstr(e.msg, "(2018)"))
		return td_fail(err, TD_NOT_FOUND, "Slurm does not know node %s", name);
	return r ? td_fail(err, r, "deleting node %s: %.400s", name, e.msg) : 0;
}
