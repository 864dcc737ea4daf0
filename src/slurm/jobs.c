// The operations on jobs.
#include "slurm/rest_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { STATES_PER_CALL = 400 }; // ids in one filter: about 6 KB of URL

// Submits a job.
static int ask(struct td_slurm *s, const char *user, const struct td_slurm_ask *a, bool immediate, struct td_cancel *c,
	       int64_t *ret_job, struct td_error *err)
{
	td_auto_free char *body = s->a->ask_body(a, immediate);
	const struct td_slurm_call k = {.op = immediate ? TD_SLURM_ALLOCATE : TD_SLURM_SUBMIT,
					.user = user,
					.method = "POST",
					.path = immediate ? "/job/allocate" : "/job/submit",
					.body = body};

	td_auto(td_json_unref) struct td_json *j = NULL;
	int status = 0, r = td_slurm_call(s, &k, c, &status, &j, err);
	if (r)
		return r;

	yyjson_val *id = td_jget(td_json_root(j), "job_id");
	// A reply with a job id means a job, whatever else it says (docs/facts/slurm.md S-T3).
	// Status 200 without one means none (S-T4).
	if (yyjson_is_int(id) && yyjson_get_sint(id) > 0) {
		*ret_job = yyjson_get_sint(id);
		return 0;
	}

	if (status != 200 || yyjson_arr_size(td_jget(td_json_root(j), "errors")))
		return td_slurm_refused(&k, status, td_json_root(j), "", err);

	const char *warn = td_jstr_or(yyjson_arr_get_first(td_jget(td_json_root(j), "warnings")), "description",
				      "no reason given");
	return td_fail(err, TD_INVALID, "Slurm took no job: %.300s", warn);
}

int td_slurm_allocate(struct td_slurm *s, const char *user, const struct td_slurm_ask *a, struct td_cancel *c,
		      int64_t *ret_job, struct td_error *err)
{
	return ask(s, user, a, true, c, ret_job, err);
}

int td_slurm_submit(struct td_slurm *s, const char *user, const struct td_slurm_ask *a, struct td_cancel *c,
		    int64_t *ret_job, struct td_error *err)
{
	return ask(s, user, a, false, c, ret_job, err);
}

void td_slurm_job_done(struct td_slurm_job *j)
{
	char **const f[] = {&j->name,
			    &j->user,
			    &j->account,
			    &j->partition,
			    &j->qos,
			    &j->admin_comment,
			    &j->comment,
			    &j->reason,
			    &j->description,
			    &j->excluded_nodes,
			    &j->nodes_text,
			    &j->tasks,
			    &j->required_nodes,
			    &j->tres_per_node,
			    &j->tres_per_job,
			    &j->tres_per_task,
			    &j->tres_per_socket,
			    &j->shared,
			    &j->tres_req,
			    &j->tres_alloc};
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

void td_slurm_job_list_done(struct td_slurm_job_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		td_slurm_job_done(&l->v[i]);
	free(l->v);
	*l = (struct td_slurm_job_list){0};
}

int td_slurm_job_records(struct td_slurm *s, int64_t id, struct td_cancel *c, struct td_slurm_job_list *ret,
			 struct td_error *err)
{
	char path[64];
	snprintf(path, sizeof(path), "/job/%" PRId64, id);

	const struct td_slurm_call k = {.op = TD_SLURM_JOB, .method = "GET", .path = path};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_slurm_call_ok(s, &k, c, &j, err);
	if (r)
		return td_wrap(err, "job %" PRId64, id);

	td_auto_job_list struct td_slurm_job_list all = {0};
	yyjson_val *v, *list = td_jget(td_json_root(j), "jobs");
	size_t i, n;
	all.v = td_calloc(yyjson_arr_size(list) + 1, sizeof(*all.v));
	yyjson_arr_foreach (list, i, n, v) {
		td_auto_job struct td_slurm_job job = {0};
		if ((r = s->a->read_job(v, &job, err)))
			return r;
		if (job.id != id && job.array != id)
			continue;
		all.v[all.n++] = job;
		job = (struct td_slurm_job){0};
	}
	if (!all.n)
		return td_fail(err, TD_NOT_FOUND, "Slurm does not know job %" PRId64, id);

	*ret = all;
	all = (struct td_slurm_job_list){0};
	return 0;
}

int td_slurm_job(struct td_slurm *s, int64_t id, struct td_cancel *c, struct td_slurm_job *ret, struct td_error *err)
{
	td_auto_job_list struct td_slurm_job_list all = {0};
	int r = td_slurm_job_records(s, id, c, &all, err);
	if (r)
		return r;

	for (size_t i = 0; i < all.n; i++)
		if (all.v[i].id == id) {
			*ret = all.v[i];
			all.v[i] = (struct td_slurm_job){0};
			return 0;
		}
	return td_fail(err, TD_NOT_FOUND, "Slurm does not know job %" PRId64, id);
}

struct task_range {
	long long from, to, step; // step: 1 or more
};

// Takes the next range off a list such as "0-9:2,12"; false: there is no more of it, or it is no list.
static bool next_range(const char **list, struct task_range *ret)
{
	enum { MOST = 1 << 30 }; // far above what Slurm takes (MaxArraySize)
	const char *p = *list;
	char *end;
	if (!p || *p < '0' || *p > '9')
		return false;
	struct task_range r = {.from = strtoll(p, &end, 10), .step = 1};
	r.to = *end == '-' ? strtoll(end + 1, &end, 10) : r.from;
	if (*end == ':')
		r.step = strtoll(end + 1, &end, 10);
	if (r.from > MOST || r.to > MOST || r.step < 1)
		return false;
	*list = *end == ',' ? end + 1 : "";
	*ret = r;
	return true;
}

bool td_slurm_tasks_has(const char *tasks, int64_t task)
{
	struct task_range r;
	while (next_range(&tasks, &r))
		if (task >= r.from && task <= r.to && (task - r.from) % r.step == 0)
			return true;
	return false;
}

int64_t td_slurm_tasks_count(const char *tasks)
{
	struct task_range r;
	int64_t all = 0;
	while (next_range(&tasks, &r))
		all += r.to >= r.from ? (r.to - r.from) / r.step + 1 : 0;
	return all;
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

static int states_once(struct td_slurm *s, const char *path, bool (*read)(const yyjson_val *, struct td_slurm_state *),
		       struct td_cancel *c, struct td_slurm_states *l, struct td_error *err)
{
	const struct td_slurm_call k = {.op = TD_SLURM_JOB_STATES, .method = "GET", .path = path};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_slurm_call_ok(s, &k, c, &j, err);
	if (r)
		return td_wrap(err, "job states");

	yyjson_val *v, *list = td_jget(td_json_root(j), "jobs");
	if (!yyjson_is_arr(list))
		return td_fail(err, TD_TRANSIENT, "job states: no list in the reply");

	size_t i, n;
	yyjson_arr_foreach (list, i, n, v) {
		struct td_slurm_state st;
		if (read(v, &st))
			add_state(l, &st);
	}
	return 0;
}

int td_slurm_job_states(struct td_slurm *s, const int64_t *ids, size_t n, struct td_cancel *c,
			struct td_slurm_states *ret, struct td_error *err)
{
	td_auto_states struct td_slurm_states l = {0};
	int r = 0;

	if (!ids)
		r = states_once(s, "/jobs/state/", s->a->read_state, c, &l, err);
	for (size_t at = 0; ids && at < n && !r; at += STATES_PER_CALL) {
		td_auto_buf struct td_buf path = {0};
		td_buf_puts(&path, "/jobs/state/");
		for (size_t i = at; i < n && i < at + STATES_PER_CALL; i++)
			td_buf_printf(&path, "%cjob_id=%" PRId64, i == at ? '?' : '&', ids[i]);
		r = states_once(s, td_buf_str(&path), s->a->read_state, c, &l, err);
	}

	if (r)
		return r;
	td_slurm_states_done(ret);
	*ret = l;
	l = (struct td_slurm_states){0};
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const struct td_slurm_state *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

int td_slurm_job_states_all(struct td_slurm *s, struct td_cancel *c, struct td_slurm_states *ret, struct td_error *err)
{
	td_auto_states struct td_slurm_states l = {0};
	int r = states_once(s, "/jobs/state/", s->a->read_any_state, c, &l, err);
	if (r)
		return r;
	size_t n = 0;
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), by_id);
	for (size_t i = 0; i < l.n; i++)
		if (!n || l.v[n - 1].id != l.v[i].id)
			l.v[n++] = l.v[i];
	l.n = n;
	td_slurm_states_done(ret);
	*ret = l;
	l = (struct td_slurm_states){0};
	return 0;
}

int64_t td_slurm_tres_of(const char *list, const char *name)
{
	size_t len = strlen(name);
	for (const char *p = list; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
		if (strncmp(p, name, len) != 0 || p[len] != '=')
			continue;
		char *end;
		double n = strtod(p + len + 1, &end);
		if (!strcmp(name, "mem"))
			n = *end == 'T' ? n * 1048576 : *end == 'G' ? n * 1024 : *end == 'K' ? n / 1024 : n;
		return end > p + len + 1 && n >= 0 && n <= 1e15 ? (int64_t)n : 0;
	}
	return 0;
}

int td_slurm_job_update(struct td_slurm *s, int64_t id, const struct td_slurm_job_change *ch, struct td_cancel *c,
			struct td_error *err)
{
	char path[64];
	snprintf(path, sizeof(path), "/job/%" PRId64, id);
	td_auto_free char *body = s->a->job_change_body(ch);
	const struct td_slurm_call k = {.op = TD_SLURM_JOB_UPDATE, .method = "POST", .path = path, .body = body};
	int r = td_slurm_call_ok(s, &k, c, NULL, err);
	return r ? td_wrap(err, "updating job %" PRId64, id) : 0;
}

int td_slurm_job_end(struct td_slurm *s, int64_t id, const char *name, struct td_cancel *c, struct td_error *err)
{
	return td_slurm_job_signal(s, id, name, NULL, c, err);
}

int td_slurm_job_signal(struct td_slurm *s, int64_t id, const char *name, const struct td_slurm_signal *signal,
			struct td_cancel *c, struct td_error *err)
{
	if (id <= 0 || !name || !*name)
		return td_fail(err, TD_INVALID, "job %" PRId64 " is not ended without its name", id);

	td_auto_free char *body = s->a->job_end_body(id, name, signal);
	const struct td_slurm_call k = {.op = TD_SLURM_JOB_END, .method = "DELETE", .path = "/jobs/", .body = body};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_slurm_call_ok(s, &k, c, &j, err);
	if (r)
		return td_wrap(err, "%s job %" PRId64, signal ? "signalling" : "ending", id);

	// A refusal comes with HTTP 200, in status[] (S-T6).
	yyjson_val *v;
	size_t i, n;
	yyjson_arr_foreach (td_jget(td_json_root(j), "status"), i, n, v) {
		long long code = td_jint(v, "error.code", 0);
		if (code)
			return td_fail_detail(err, td_slurm_code(code, false), (int)code,
					      "%s job %" PRId64 ": %s (%lld)", signal ? "signalling" : "ending", id,
					      td_jstr_or(v, "error.message", td_jstr_or(v, "error.string", "refused")),
					      code);
	}
	return 0;
}
