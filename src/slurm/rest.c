// The client of slurmrestd: how it is reached, how one call is made, and what refusals mean.
#include "slurm/rest.h"

#include "base/fault.h"
#include "metrics/metrics.h"
#include "slurm/rest_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int td_slurm_new(const struct td_slurm_opts *o, struct td_slurm **ret, struct td_error *err)
{
	if (!o->key || !o->key_len)
		return td_fail(err, TD_INVALID, "no jwt key for slurmrestd");

	const char *user = o->user ? o->user : "root";
	if (!td_slurm_user_ok(user))
		return td_fail(err, TD_INVALID, "\"%.40s\" is no Slurm user name", user);

	struct td_http_client_opts ho = {.base_url = o->url, .timeout_ms = o->timeout_ms ? o->timeout_ms : 15000};

	// A socket's path may be longer than the 107 bytes of a socket address. So its directory is
	// held open, and the socket is reached through that.
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

void td_slurm_stop(struct td_slurm *s)
{
	td_http_client_stop(s->http);
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
	static const char *const names[TD_SLURM_OPS] = {"other",      "job-allocate", "job-submit",  "job-update",
							"job-end",    "node-update",  "node-delete", "job",
							"job-states", "nodes",        "node",        "accounting"};
	return op < TD_SLURM_OPS ? names[op] : "?";
}

bool td_slurm_is_silence(const struct td_error *err)
{
	return (err->code == TD_TRANSIENT || err->code == TD_UNCERTAIN) && !err->http && !err->detail;
}

bool td_slurm_is_refused(const struct td_slurm *s)
{
	return atomic_load(&s->refused);
}

// ---- one call ----
static bool is_read(const struct td_slurm_call *k)
{
	return !strcmp(k->method, "GET");
}

// slurmctld cannot be reached, or says nothing: SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR, SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT
enum { NO_CONTACT = 1800, NO_ANSWER = 5004 };

// The numbers are those of slurm_errno.h of 24.11.
int td_slurm_code(long long number, bool read)
{
	switch (number) {
	case 11:   // EAGAIN: MaxJobCount reached
	case 2007: // the same from 26.05 on, ESLURM_MAX_JOB_COUNT (docs/facts/slurm.md S-V4)
	case TD_SLURM_ERR_NOT_TOP:
	case 2015: // ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE: down or drained for now
	case 2016: // ESLURM_NODES_BUSY
	case 2050: // ESLURM_ACCOUNTING_POLICY: a limit
		return TD_THROTTLED;
	case 1007: // SLURM_PROTOCOL_AUTHENTICATION_ERROR
		return TD_UNAUTHENTICATED;
	case 2002: // ESLURM_ACCESS_DENIED
	case TD_SLURM_ERR_USER:
		return TD_DENIED;
	case 2017: // ESLURM_INVALID_JOB_ID
	case 2021: // ESLURM_ALREADY_DONE
		return TD_NOT_FOUND;
	case 2020: // ESLURM_TRANSITION_STATE_NO_UPDATE
	case 2024: // ESLURM_JOB_PENDING
	case 2073: // job is no longer pending execution
	case 2172: // ESLURM_JOB_SIGNAL_FAILED: the job has another name
		return TD_CONFLICT;
	case NO_CONTACT: // nothing was sent
	case 2027:       // ESLURM_IN_STANDBY_MODE
		return TD_TRANSIENT;
	default:
		if ((number >= 2000 && number < 3000) || number >= 9000)
			return TD_INVALID;
		return read ? TD_TRANSIENT : TD_UNCERTAIN;
	}
}

int td_slurm_refused(const struct td_slurm_call *k, int status, const yyjson_val *root, const char *text,
		     struct td_error *err)
{
	yyjson_val *e = yyjson_arr_get_first(td_jget(root, "errors"));
	int code;

	if (e) {
		long long number = td_jint(e, "error_number", 0);
		const char *words = td_jstr(e, "error"), *what = td_jstr_or(e, "description", "");
		code = td_slurm_code(number, is_read(k));
		bool silent = number == NO_CONTACT || number == NO_ANSWER;
		td_fail_detail(err, code, (int)number, "Slurm%s: %s%s%s (%lld)", silent ? " does not answer" : "",
			       words && strcmp(words, "No error") != 0 ? words : what, words && *what ? ": " : "",
			       words && *what && strcmp(words, "No error") != 0 ? what : "", number);
	} else if (status == 401 || status == 511) {
		code = td_fail(err, TD_UNAUTHENTICATED, "slurmrestd refused our token (HTTP %d)", status);
	} else if (status == 404) {
		code = td_fail(
			err, TD_UNSUPPORTED,
			"slurmrestd does not know %s %s; is it of Slurm 24.11 or newer, and does it load the data "
			"parser v0.0.42, v0.0.43 or v0.0.44?",
			k->method, k->path);
	} else if (status == 400 || status == 422) {
		code = td_fail(err, TD_INVALID, "slurmrestd: HTTP %d: %.200s", status, text);
	} else {
		code = td_fail(err, is_read(k) ? TD_TRANSIENT : TD_UNCERTAIN, "slurmrestd: HTTP %d: %.200s", status,
			       text);
	}

	if (status == 511)
		code = td_fail(err, TD_UNAUTHENTICATED,
			       "slurmctld refused our token (HTTP 511): wrong jwt key, or the clocks differ by more "
			       "than a token's life");

	if (err)
		err->http = status;
	return code;
}

// The label op is td_slurm_op_name()'s. The label code is the HTTP status, which slurmrestd also
// uses for Slurm's refusals.
static void measure(const struct td_slurm_call *k, int status, size_t received, int64_t took_ms)
{
	struct td_metrics *m = td_metrics_process();
	const char *op = td_slurm_op_name(k->op);

	char code[16] = "none";
	if (status)
		snprintf(code, sizeof(code), "%d", status);

	td_metric_add(td_counter(m, "tandem_slurm_requests_total",
				 "Requests to slurmrestd by operation and HTTP status; code \"none\": no reply came.",
				 TD_LABELS("op", "code")),
		      1, TD_LABELS(op, code));
	td_metric_add(td_counter(m, "tandem_slurm_sent_bytes_total", "Bytes of request bodies sent to slurmrestd.",
				 TD_LABELS("op")),
		      k->body ? (double)strlen(k->body) : 0, TD_LABELS(op));
	td_metric_add(td_counter(m, "tandem_slurm_received_bytes_total",
				 "Bytes of reply bodies received from slurmrestd.", TD_LABELS("op")),
		      (double)received, TD_LABELS(op));
	td_metric_observe(td_histogram(m, "tandem_slurm_request_duration_seconds",
				       "How long requests to slurmrestd took, in seconds.", TD_LABELS("op"), NULL, 0),
			  (double)took_ms / 1000, TD_LABELS(op));
}

static int send_once(struct td_slurm *s, const struct td_slurm_call *k, size_t version, struct td_cancel *c,
		     struct td_http_reply *ret, struct td_error *err)
{
	td_auto_free char *token = NULL;
	int r = td_slurm_token(s->tokens, k->user ? k->user : s->user, &token, err);
	if (r)
		return r;

	td_auto_free char *head = td_asprintf("X-SLURM-USER-TOKEN: %s", token);
	td_auto_free char *path =
		td_asprintf("/%s/%s%s", k->db ? "slurmdb" : "slurm", s->a->versions[version], k->path);

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
	};

	int64_t began = td_mono_ms(&td_clock_system);
	r = td_http_do(s->http, &hc, c, ret, err);
	measure(k, r ? 0 : ret->status, ret->body.len, td_mono_ms(&td_clock_system) - began);

	if (r == TD_UNCERTAIN && is_read(k))
		r = err ? (err->code = TD_TRANSIENT) : TD_TRANSIENT;
	return r;
}

// No program of slurmrestd's has answered: it does not know the address. Its own 404s are JSON.
static bool is_unknown(const struct td_http_reply *rep)
{
	return rep->status == 404 && td_buf_str(&rep->body)[strspn(td_buf_str(&rep->body), " \n")] != '{';
}

// Sends the call. After a refused token nothing was done, so it is sent once more with a fresh one; and so after an
// answer that slurmrestd does not know this parser version: the next one is asked for, until all were.
static int exchange(struct td_slurm *s, const struct td_slurm_call *k, struct td_cancel *c, struct td_http_reply *ret,
		    struct td_error *err)
{
	size_t first = atomic_load(&s->version), at = first;
	bool fresh = false;
	for (;;) {
		td_auto_reply struct td_http_reply rep = {0};
		int r = send_once(s, k, at, c, &rep, err);
		if (r)
			return td_wrap(err, "slurmrestd");

		if (rep.status == 511 && !fresh) {
			fresh = true;
			td_slurm_tokens_drop(s->tokens);
			continue;
		}

		bool unknown = is_unknown(&rep);
		size_t next = s->a->versions[at + 1] ? at + 1 : 0;
		if (unknown && next != first) {
			at = next;
			continue;
		}

		if (!unknown && at != first)
			atomic_store(&s->version, at);
		atomic_store(&s->refused, rep.status == 511);
		*ret = rep;
		rep = (struct td_http_reply){0};
		return 0;
	}
}

int td_slurm_call(struct td_slurm *s, const struct td_slurm_call *k, struct td_cancel *c, int *ret_status,
		  struct td_json **ret, struct td_error *err)
{
	bool write = !is_read(k);
	int r = write ? td_fault_at(err, "slurm.%s.before", td_slurm_op_name(k->op)) : 0;
	if (r)
		return r;

	td_auto_reply struct td_http_reply rep = {0};
	r = exchange(s, k, c, &rep, err);
	if (!r && write)
		r = td_fault_at(err, "slurm.%s.after", td_slurm_op_name(k->op));
	if (r)
		return r;

	td_auto(td_json_unref) struct td_json *j = NULL;
	bool parsed = rep.body.len && td_json_parse(td_buf_str(&rep.body), rep.body.len, &j, NULL) == 0;

	if (rep.status != 200 && !(ret_status && parsed))
		return td_slurm_refused(k, rep.status, td_json_root(j), td_buf_str(&rep.body), err);
	if (!parsed)
		return td_fail(err, is_read(k) ? TD_TRANSIENT : TD_UNCERTAIN,
			       "slurmrestd: a reply of %zu bytes that is no JSON", rep.body.len);

	if (ret_status)
		*ret_status = rep.status;
	*ret = td_steal(j);
	return 0;
}

int td_slurm_call_ok(struct td_slurm *s, const struct td_slurm_call *k, struct td_cancel *c, struct td_json **ret,
		     struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_slurm_call(s, k, c, NULL, &j, err);
	if (r)
		return r;
	if (yyjson_arr_size(td_jget(td_json_root(j), "errors")))
		return td_slurm_refused(k, 200, td_json_root(j), "", err);
	if (ret)
		*ret = td_steal(j);
	return 0;
}

int td_slurm_raw(struct td_slurm *s, const char *method, const char *path, const char *body, struct td_cancel *c,
		 struct td_buf *ret, struct td_error *err)
{
	const struct td_slurm_call k = {.method = method, .path = path, .body = body};
	td_auto_reply struct td_http_reply rep = {0};
	int r = exchange(s, &k, c, &rep, err);
	if (r)
		return r;

	if (rep.status / 100 != 2) {
		td_auto(td_json_unref) struct td_json *j = NULL;
		td_json_parse(td_buf_str(&rep.body), rep.body.len, &j, NULL);
		return td_slurm_refused(&k, rep.status, td_json_root(j), td_buf_str(&rep.body), err);
	}

	td_buf_add(ret, td_buf_str(&rep.body), rep.body.len);
	return 0;
}

int td_slurm_check(struct td_slurm *s, struct td_cancel *c, struct td_error *err)
{
	// This request needs a valid token, and its answer is small: no job matches the filter.
	const struct td_slurm_call k = {.op = TD_SLURM_JOB_STATES,
					.method = "GET",
					.path = "/jobs/state/?job_id=4294967000",
					.timeout_ms = 5000};
	return td_slurm_call_ok(s, &k, c, NULL, err);
}
