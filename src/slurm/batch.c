#include "slurm/batch.h"

#include "slurm/rest_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_MB = 1024 };

void td_slurm_batch_done(struct td_slurm_batch *b)
{
	td_strv_done(&b->env);
}

static void number(yyjson_mut_doc *d, yyjson_mut_val *o, const char *key, long long n)
{
	yyjson_mut_val *v = td_jm_obj(d, o, key);
	td_jm_bool(d, v, "set", true);
	td_jm_int(d, v, "number", n);
}

char *td_slurm_batch_body(const struct td_slurm_batch *b)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *j = td_jm_obj(d, root, "job");
	td_jm_str(d, root, "script", b->script);

	td_jm_str(d, j, "name", b->name);
	if (b->uid > 0)
		td_jm_strf(d, j, "user_id", "%" PRId64, b->uid);
	td_jm_str(d, j, "account", b->account);
	td_jm_str(d, j, "partition", b->partition);
	td_jm_str(d, j, "qos", b->qos);
	td_jm_str(d, j, "constraints", b->constraints);
	td_jm_str(d, j, "reservation", b->reservation);
	td_jm_str(d, j, "dependency", b->dependency);
	td_jm_str(d, j, "comment", b->comment);
	td_jm_str(d, j, "array", b->array);
	td_jm_str(d, j, "current_working_directory", b->cwd);
	td_jm_str(d, j, "standard_output", b->output);
	td_jm_str(d, j, "standard_input", "/dev/null");

	int64_t nodes = b->nodes > 0 ? b->nodes : 1, each = b->tasks_per_node > 0 ? b->tasks_per_node : 1;
	td_jm_strf(d, j, "nodes", "%" PRId64, nodes);
	td_jm_int(d, j, "tasks", b->tasks > 0 ? b->tasks : nodes * each);
	if (b->tasks_per_node > 0)
		td_jm_int(d, j, "tasks_per_node", b->tasks_per_node);
	td_jm_int(d, j, "cpus_per_task", b->cpus > 0 ? b->cpus : 1);
	if (b->memory_per_cpu_mb > 0 && b->memory_mb <= 0)
		number(d, j, "memory_per_cpu", b->memory_per_cpu_mb);
	else
		number(d, j, "memory_per_node", b->memory_mb > 0 ? b->memory_mb : DEFAULT_MB);
	if (b->gpus > 0)
		td_jm_strf(d, j, "tres_per_node", "gres/gpu%s%s:%" PRId64, b->gpu_type ? ":" : "",
			   b->gpu_type ? b->gpu_type : "", b->gpus);
	for (size_t i = 0; b->exclude && i < b->exclude->n; i++)
		yyjson_mut_arr_append(td_jm_arr(d, j, "excluded_nodes"), yyjson_mut_strcpy(d, b->exclude->v[i]));
	if (b->time_limit_min > 0)
		number(d, j, "time_limit", b->time_limit_min);
	if (b->begin > 0)
		number(d, j, "begin_time", b->begin);
	td_jm_bool(d, j, "requeue", b->requeue);
	// Else a job whose dependency failed would wait for ever.
	if (b->dependency)
		yyjson_mut_arr_append(td_jm_arr(d, j, "flags"), yyjson_mut_strcpy(d, "KILL_INVALID_DEPENDENCY"));

	yyjson_mut_val *env = td_jm_arr(d, j, "environment");
	yyjson_mut_arr_append(env, yyjson_mut_strcpy(d, "PATH=/usr/local/bin:/usr/bin:/bin"));
	for (size_t i = 0; i < b->env.n; i++)
		yyjson_mut_arr_append(env, yyjson_mut_strcpy(d, b->env.v[i]));
	return td_json_mut_text(root, NULL);
}

int td_slurm_batch(struct td_slurm *s, const char *user, const struct td_slurm_batch *b, struct td_cancel *c,
		   int64_t *ret_job, struct td_error *err)
{
	td_auto_free char *body = td_slurm_batch_body(b);
	const struct td_slurm_call k = {
		.op = TD_SLURM_SUBMIT, .user = user, .method = "POST", .path = "/job/submit", .body = body};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int status = 0, r = td_slurm_call(s, &k, c, &status, &j, err);
	if (r)
		return r;

	// As for stand-ins: a job id is a job, whatever else the reply says (S-T3, S-T4).
	long long id = td_jint(td_json_root(j), "job_id", 0);
	if (id > 0) {
		*ret_job = id;
		return 0;
	}
	if (status != 200 || yyjson_arr_size(td_jget(td_json_root(j), "errors")))
		return td_slurm_refused(&k, status, td_json_root(j), "", err);
	return td_fail(err, TD_INVALID, "Slurm took no job: %.300s",
		       td_jstr_or(yyjson_arr_get_first(td_jget(td_json_root(j), "warnings")), "description",
				  "no reason given"));
}

int td_slurm_jobs_raw(struct td_slurm *s, const char *user, int64_t since, struct td_cancel *c, struct td_json **ret,
		      struct td_error *err)
{
	char path[64] = "/jobs/";
	if (since)
		snprintf(path, sizeof(path), "/jobs/?update_time=%" PRId64, since);
	const struct td_slurm_call k = {
		.op = TD_SLURM_OTHER, .user = user, .method = "GET", .path = path, .timeout_ms = 30000};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_slurm_call_ok(s, &k, c, &j, err);
	if (r)
		return r;
	// An empty list may be news: that all jobs are gone. Without news last_update is 0 (S-W4).
	*ret = since && !td_jint(td_json_root(j), "last_update.number", 0) ? NULL : td_steal(j);
	return 0;
}

int td_slurm_job_read(struct td_slurm *s, const yyjson_val *v, struct td_slurm_job *ret, struct td_error *err)
{
	td_auto_job struct td_slurm_job job = {0};
	int r = s->a->read_job(v, &job, err);
	if (r)
		return r;
	*ret = job;
	job = (struct td_slurm_job){0};
	return 0;
}

int td_slurm_job_raw(struct td_slurm *s, const char *user, int64_t id, struct td_cancel *c, struct td_json **ret,
		     struct td_error *err)
{
	char path[64];
	snprintf(path, sizeof(path), "/job/%" PRId64, id);
	const struct td_slurm_call k = {.op = TD_SLURM_JOB, .user = user, .method = "GET", .path = path};
	return td_slurm_call_ok(s, &k, c, ret, err);
}

static void add_past(const yyjson_val *v, struct td_slurm_past *p)
{
	uint64_t states = 0;
	size_t i, n;
	yyjson_val *w;
	yyjson_arr_foreach (td_jget(v, "state.current"), i, n, w)
		states |= td_slurm_job_state_parse(yyjson_get_str(w));
	int64_t start = td_jint(v, "time.start", 0), end = td_jint(v, "time.end", 0);
	bool good = (states & TD_JOB(COMPLETED)) != 0;
	p->records++;
	p->done += good;
	if (!p->states || !good)
		p->states = states; // one that failed says more than those that did not
	if (start && (!p->start || start < p->start))
		p->start = start;
	if (end > p->end)
		p->end = end;
	if (!good && td_jint(v, "exit_code.return_code.number", 0))
		p->exit_code = td_jint(v, "exit_code.return_code.number", 0);
}

int td_slurm_job_past(struct td_slurm *s, const char *user, int64_t id, struct td_cancel *c, struct td_slurm_past *ret,
		      struct td_error *err)
{
	char path[64];
	snprintf(path, sizeof(path), "/job/%" PRId64, id);
	const struct td_slurm_call k = {
		.op = TD_SLURM_OTHER, .user = user, .method = "GET", .path = path, .db = true, .timeout_ms = 10000};
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_slurm_call_ok(s, &k, c, &j, err);
	if (r)
		return r;
	struct td_slurm_past p = {0};
	size_t i, n;
	yyjson_val *v;
	yyjson_arr_foreach (td_jget(td_json_root(j), "jobs"), i, n, v)
		if (td_streq(td_jstr(v, "user"), user) &&
		    (td_jint(v, "job_id", 0) == id || td_jint(v, "array.job_id", 0) == id))
			add_past(v, &p);
	if (!p.records)
		return td_fail(err, TD_NOT_FOUND, "slurmdbd knows no job %" PRId64 " of %s", id, user);
	*ret = p;
	return 0;
}
