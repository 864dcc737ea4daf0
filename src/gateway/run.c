// Runs: submit, list, cancel. A run is made in three steps, each of which may be the last before a
// crash: its directory appears whole; its jobs are submitted, each with the run's name in its comment;
// the record names them. The same request goes on where the one before it ended: a directory that is
// there is taken, and a job of the person's that carries the mark is not submitted again.
#include "gateway/batch.h"
#include "gateway/cause.h"
#include "gateway/home.h"
#include "gateway/hub.h"
#include "gateway/job.h"
#include "gateway/need.h"
#include "gateway/runs.h"
#include "gateway/scope.h"

#include "api/status.h"
#include "base/clock.h"
#include "base/fault.h"
#include "http/pki.h"

#include <stdio.h>
#include <string.h>

enum { LOCKS = 32, KEEP_MOST = 20 };

// One request of a name at a time: a client that lost the answer repeats while the first one still
// works.
static pthread_mutex_t making[LOCKS] = {[0 ... LOCKS - 1] = PTHREAD_MUTEX_INITIALIZER};

// why: it was refused, in words; NULL: it was not.
static char *record_text(struct td_gateway_ask *q, const char *id, const int64_t *jobs, const struct td_gateway_plan *p,
			 const struct td_gateway_needs *needs, const char *why)
{
	int64_t created = td_real_ms(&td_clock_system) / 1000;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "id", id);
	td_jm_str(d, o, "name", td_jstr(q->body, "job.name"));
	td_jm_str(d, o, "user", q->user.name);
	td_jm_int(d, o, "created", created);
	td_jm_str(d, o, "refused", why);
	td_jm_copyval(d, o, "job", td_jget(q->body, "job"));
	yyjson_mut_val *list = td_jm_arr(d, o, "jobs");
	if (needs)
		td_gateway_needs_write(needs, d, list);
	for (size_t i = 0; jobs && i < p->n; i++) {
		yyjson_mut_val *j = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, j, "step", p->steps[i].name);
		td_jm_int(d, j, "id", jobs[i]);
		if (p->steps[i].tasks)
			td_jm_int(d, j, "tasks", p->steps[i].tasks);
	}
	return td_json_mut_text(o, NULL);
}

// Makes the directory. TD_EXISTS: it is there.
static int make(struct td_gateway_ask *q, const char *id, const struct td_gateway_plan *p, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "id", id);
	td_jm_copyval(d, o, "files", td_jget(q->body, "files"));
	td_jm_set(d, o, "texts", yyjson_mut_val_mut_copy(d, yyjson_mut_doc_get_root(p->texts)));
	td_auto_free char *record = record_text(q, id, NULL, p, NULL, NULL);
	td_jm_key_str(d, td_jm_obj(d, o, "texts"), "run.json", record);
	// For a run of the same code later.
	const yyjson_val *list = td_jget(q->body, "files");
	td_auto_free char *files = list ? td_json_text(list, NULL) : NULL;
	td_jm_key_str(d, td_jm_obj(d, o, "texts"), "files.json", files ? files : "[]");
	size_t n;
	td_auto_free char *text = td_json_mut_text(o, &n);
	const struct td_home_call k = {.user = &q->user, .verb = "make", .in = text, .in_len = n};
	return td_home_do(q->g, &k, td_gateway_cancel(q), NULL, err);
}

// Jobs of this run that Slurm has already, after an attempt that did not come to its end.
static int find(struct td_gateway_ask *q, struct td_slurm *client, const char *id, const struct td_gateway_plan *p,
		int64_t *ret_jobs, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *all = NULL;
	int r = td_slurm_jobs_raw(client, q->user.name, 0, td_gateway_cancel(q), &all, err);
	size_t i, n;
	yyjson_val *v;
	yyjson_arr_foreach (td_jget(td_json_root(all), "jobs"), i, n, v)
		for (size_t k = 0; k < p->n && !r; k++) {
			td_auto_free char *mark = td_gateway_mark(id, p->steps[k].name);
			long long array = td_jint(v, "array_job_id.number", 0);
			if (td_streq(td_jstr(v, "user_name"), q->user.name) && td_streq(td_jstr(v, "comment"), mark))
				ret_jobs[k] = array ? array : td_jint(v, "job_id", 0);
		}
	return r;
}

// Was it refused, so that nothing of it goes on when it is only sent again?
static bool refused(int r)
{
	return r && r != TD_UNCERTAIN && r != TD_TRANSIENT && r != TD_CANCELLED;
}

// Numbers of slurm_errno.h, besides those of slurm/rest.h.
enum { INVALID_PARTITION = 2000, INVALID_FEATURE = 2029 };

// Slurm's refusal names no field: it is put in front, with the value.
static void refused_because(const struct td_slurm_batch *b, struct td_error *err)
{
	const char *field = NULL, *value = NULL, *fix = NULL;
	switch (err->detail) {
	case INVALID_PARTITION:
		field = "partition", value = b->partition, fix = "leave it out, or give one that sinfo lists";
		break;
	case INVALID_FEATURE:
		field = "constraint", value = b->constraints,
		fix = "leave it out, or give features that nodes have (sinfo -o %f)";
		break;
	case TD_SLURM_ERR_ACCOUNT:
		field = "account", value = b->account,
		fix = "leave it out, or give one that you are in (sacctmgr show assoc user=$USER)";
		break;
	case TD_SLURM_ERR_QOS:
		field = "qos", value = b->qos, fix = "leave it out, or give one that your account may use";
		break;
	default:
		return;
	}
	if (!value)
		return;
	char says[sizeof(err->msg)];
	snprintf(says, sizeof(says), "%s", err->msg);
	td_fail_detail(err, err->code, err->detail, "%s: \"%.60s\" is refused: %s. %.200s", field, value, fix, says);
}

// first: what all steps wait for, "afterok:3"; NULL: nothing.
static int submit(struct td_gateway_ask *q, struct td_slurm *client, const char *first, struct td_gateway_plan *p,
		  int64_t *jobs, struct td_error *err)
{
	for (size_t i = 0; i < p->n; i++) {
		td_auto_buf struct td_buf dep = {0};
		struct td_slurm_batch b = p->steps[i].batch; // its env stays the plan's
		if (jobs[i])
			continue;
		if (first)
			td_buf_puts(&dep, first);
		for (size_t k = 0; k < p->steps[i].n_after; k++)
			td_buf_printf(&dep, "%s%lld",
				      dep.len ? ":" : "afterok:", (long long)jobs[p->steps[i].after[k]]);
		b.dependency = dep.len ? td_buf_str(&dep) : NULL;
		int r = td_gateway_batch(q, client, &b, &jobs[i], err);
		if (!r)
			r = td_fault_at(err, "gateway.run.submitted");
		if (!r)
			continue;
		refused_because(&b, err);
		td_wrap(err, "step %s", p->steps[i].name);
		// What was refused for good leaves nothing behind. After anything else the same request
		// goes on from here.
		for (size_t k = 0; k < i && refused(r); k++)
			td_gateway_job_end(q->g, q->user.name, jobs[k], NULL, NULL);
		return r;
	}
	return 0;
}

static int keep(struct td_gateway_ask *q, const char *id, const char *text, struct td_error *err)
{
	const struct td_home_call k = {
		.user = &q->user, .verb = "record", .args = {id}, .in = text, .in_len = strlen(text)};
	return td_home_do(q->g, &k, NULL, NULL, err);
}

static int made(struct td_gateway_ask *q, const char *id, int status, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *record = NULL;
	int r = td_gateway_run_record(q, id, &record, err);
	if (r)
		return r;
	td_auto(td_gateway_seen_unref) struct td_gateway_seen *s = td_gateway_look(q->g, NULL);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	bool over;
	td_gateway_run_write(q, td_json_root(record), s, d, yyjson_mut_doc_get_root(d), &over);
	td_gateway_last_lines(q, td_json_root(record), d, yyjson_mut_doc_get_root(d));
	td_gateway_send(q, status, d);
	return 0;
}

static int make_locked(struct td_gateway_ask *q, const char *id, struct td_gateway_plan *p,
		       struct td_gateway_needs *needs, struct td_error *err)
{
	td_auto(td_gateway_slurm_unref) struct td_gateway_slurm *l = td_gateway_slurm(q->g, err);
	td_auto_free int64_t *jobs = td_calloc(p->n + 1, sizeof(*jobs));
	if (!l)
		return err->code;
	int r = make(q, id, p, err);
	if (r == TD_EXISTS) {
		td_auto(td_json_unref) struct td_json *record = NULL;
		if ((r = td_gateway_run_record(q, id, &record, err)))
			return r;
		if (yyjson_arr_size(td_jget(td_json_root(record), "jobs")))
			return made(q, id, 200, err);
		r = find(q, l->client, id, p, jobs, err);
	}
	// What is being made stays when the run is refused: the next run finds it.
	if (!r)
		r = td_gateway_needs_get(q, l->client, needs, &p->steps[0].batch, err);
	td_auto_free char *first = td_gateway_needs_dependency(needs);
	if (!r)
		r = submit(q, l->client, first, p, jobs, err);
	if (refused(r)) {
		// The reason stands there for whoever lists the runs later; that it cannot be kept hides
		// nothing from him who is told now.
		td_auto_free char *words = td_text_clean(err->msg), *text = record_text(q, id, NULL, p, NULL, words);
		keep(q, id, text, NULL);
	}
	if (r)
		return r;
	td_auto_free char *text = record_text(q, id, jobs, p, needs, NULL);
	return (r = keep(q, id, text, err)) ? r : made(q, id, 201, err);
}

int td_gateway_run_make(struct td_gateway_ask *q, struct td_error *err)
{
	const char *request = td_jstr(q->body, "request"), *name = td_jstr(q->body, "job.name");
	char hex[65];
	td_auto(td_json_unref) struct td_json *scoped = NULL;
	int r = td_gateway_scope_body(q, "job.steps", &scoped, err);
	if (r)
		return r;
	td_auto_free char *all = td_asprintf("%s %s", q->user.name, request);
	td_sha256_hex(all, strlen(all), hex);
	td_auto_free char *id = td_asprintf("%s-%.6s", name, hex);
	struct td_gateway_plan_in in = {
		.job = td_jget(q->body, "job"), .id = id, .user = q->user.name, .home = q->user.home, .hub = q->hub};
	td_auto_plan struct td_gateway_plan p = {0};
	td_auto(td_hub_unref) struct td_hub *hub = NULL;
	r = q->hub ? 0 : td_hub_ask(q->g, &hub, err);
	if (r)
		return r;
	if (hub && !hub->ending)
		return td_hub_make(q, id, err);
	if (hub && td_jget(q->body, "cluster"))
		return td_fail(
			err, TD_INVALID,
			"cluster: federation %s is being deleted and takes no runs: leave it out, and it runs at "
			"this cluster",
			hub->name);
	if (td_jget(q->body, "cluster"))
		return td_fail(err, TD_INVALID, "cluster: this gateway is the hub of no federation: leave it out");
	td_auto_needs struct td_gateway_needs needs = {0};
	td_auto_free char *env = NULL, *data = NULL;
	td_auto_strv struct td_strv held = {0};
	r = td_gateway_env_of(q, in.job, &needs, &env, err);
	if (!r)
		r = td_gateway_data_of(q, in.job, &needs, &data, &held, err);
	in.node_data = &held;
	in.env = env;
	in.data = data;
	if (r || (r = td_gateway_plan(&in, &p, err)))
		return r;
	free(q->args[0]);
	q->args[0] = td_strdup(id); // for the record of changes

	pthread_mutex_t *lock = &making[(unsigned char)hex[0] % LOCKS];
	pthread_mutex_lock(lock);
	r = make_locked(q, id, &p, &needs, err);
	pthread_mutex_unlock(lock);
	return r;
}

static int make_run(struct td_gateway_ask *q, struct td_error *err)
{
	return td_gateway_run_make(q, err);
}

// The same code is there by its chunks, as long as those are kept. What the record says is checked as
// if it came with the request, because its owner may have changed it.
static int run_again(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *record = NULL, *files = NULL, *body = NULL;
	td_auto_buf struct td_buf text = {0};
	int r;
	bool federated = td_hub_submitted(q, &record, &r, err); // that has both
	if (!federated)
		r = td_gateway_run_record(q, q->args[0], &record, err);
	if (r)
		return r;
	td_auto_free char *path = td_asprintf("tandem/runs/%s/.tandem/files.json", q->args[0]);
	const struct td_home_call k = {.user = &q->user, .verb = "read", .args = {path, "0", "-1"}};
	if (!federated && ((r = td_home_do(q->g, &k, td_gateway_cancel(q), &text, err)) ||
			   (r = td_json_parse(td_buf_str(&text), text.len, &files, err))))
		return td_wrap(err, "the code of run %s", q->args[0]);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "request", td_jstr(q->body, "request"));
	td_jm_copyval(d, o, "job", td_jget(td_json_root(record), "job"));
	td_jm_copyval(d, o, "files", federated ? td_jget(td_json_root(record), "files") : td_json_root(files));
	body = td_json_from_mut(o);
	if ((r = td_gateway_body_check(q, "makeRun", td_json_root(body), err)))
		return td_wrap(err, "the record of run %s", q->args[0]);
	q->body = td_json_root(body);
	return td_gateway_run_make(q, err);
}

// Keeps in the record how its jobs ended, when that is not there yet.
static bool remember(struct td_gateway_ask *q, const yyjson_val *record, yyjson_mut_doc *of, yyjson_mut_val *shown)
{
	if (td_jget(record, "jobs.[0].end"))
		return false;
	td_gateway_last_lines(q, record, of, shown);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(record);
	yyjson_mut_val *jobs = td_jm_get(yyjson_mut_doc_get_root(d), "jobs"), *steps = td_jm_get(shown, "steps");
	static const char *const kept[] = {"state",     "words",       "started",   "ended", "exit",    "on",
					   "tasksDone", "tasksFailed", "cause",     "lines", "badTask", "restarts",
					   "again",     "hangs",       "straggler", "task"};
	for (size_t i = 0; i < yyjson_mut_arr_size(jobs); i++) {
		yyjson_mut_val *end = td_jm_obj(d, yyjson_mut_arr_get(jobs, i), "end");
		for (size_t k = 0; k < TD_LEN(kept); k++) {
			yyjson_mut_val *v = td_jm_get(yyjson_mut_arr_get(steps, i), kept[k]);
			if (v)
				td_jm_set(d, end, kept[k], yyjson_mut_val_mut_copy(d, v));
		}
	}
	td_auto_free char *text = td_json_mut_text(yyjson_mut_doc_get_root(d), NULL);
	const char *id = td_jstr(record, "id");
	return id && !keep(q, id, text, NULL);
}

static int newest_first(const void *a, const void *b)
{
	long long x = td_jint(*(yyjson_val *const *)a, "created", 0),
		  y = td_jint(*(yyjson_val *const *)b, "created", 0);
	return (x < y) - (x > y);
}

static bool is_listed(yyjson_mut_val *list, size_t n, const char *id)
{
	for (size_t i = 0; i < n; i++)
		if (td_streq(td_jm_getstr(yyjson_mut_arr_get(list, i), "federation.there"), id))
			return true;
	return false;
}

static int list_runs(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto_buf struct td_buf out = {0};
	td_auto(td_json_unref) struct td_json *all = NULL;
	const struct td_home_call k = {.user = &q->user, .verb = "runs"};
	int r = td_home_do(q->g, &k, td_gateway_cancel(q), &out, err);
	if (r || (r = td_json_parse(td_buf_str(&out), out.len, &all, err)))
		return r;
	struct td_error e = TD_ERROR_INIT;
	td_auto(td_gateway_seen_unref) struct td_gateway_seen *s = td_gateway_look(q->g, &e);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *list = td_jm_arr(d, o, "runs");
	if (!s) {
		td_jm_str(d, o, "problem", e.msg);
		s = td_gateway_last_look(q->g);
		q->silent = true;
	}
	td_hub_lists(q, d, list);
	size_t i, n, remembered = 0, federated = yyjson_mut_arr_size(list);
	yyjson_val *v;
	size_t runs = yyjson_arr_size(td_json_root(all));
	td_auto_free yyjson_val **sorted = td_calloc(runs + 1, sizeof(*sorted));
	yyjson_arr_foreach (td_json_root(all), i, n, v)
		sorted[i] = v;
	if (runs)
		qsort(sorted, runs, sizeof(*sorted), newest_first);
	for (i = 0; i < runs; i++) {
		// A member that shares its homes with the hub, or is it, has them here under their names there.
		if (is_listed(list, federated, td_jstr(sorted[i], "id")) || !td_gateway_scope_run(q, sorted[i]))
			continue;
		yyjson_mut_val *w = yyjson_mut_arr_add_obj(d, list);
		bool over;
		td_gateway_run_write(q, sorted[i], s, d, w, &over);
		if (over && remembered < KEEP_MOST)
			remembered += remember(q, sorted[i], d, w);
	}
	td_gateway_send(q, 200, d);
	return 0;
}

static int get_run(struct td_gateway_ask *q, struct td_error *err)
{
	int r;
	return td_hub_answers(q, q->args[0], 200, &r, err) ? r : made(q, q->args[0], 200, err);
}

static int cancel_run(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *record = NULL;
	int r;
	if (td_hub_cancels(q, &r, err))
		return r;
	r = td_gateway_run_record(q, q->args[0], &record, err);
	if (r)
		return r;
	// Who did it is known only here: Slurm keeps it to itself until slurmdbd has the job.
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *by = td_jm_copy(td_json_root(record));
	td_jm_str(by, yyjson_mut_doc_get_root(by), "cancelledBy", q->user.name);
	td_auto_free char *text = td_json_mut_text(yyjson_mut_doc_get_root(by), NULL);
	const char *id = td_jstr(td_json_root(record), "id");
	if (yyjson_arr_size(td_jget(td_json_root(record), "jobs")) && !td_jget(td_json_root(record), "jobs.[0].end") &&
	    id && (r = keep(q, id, text, err)))
		return r;
	size_t i, n, ended = 0;
	yyjson_val *v;
	yyjson_arr_foreach (td_jget(td_json_root(record), "jobs"), i, n, v) {
		if (td_gateway_need_is(v))
			continue; // other runs may wait for it
		r = td_gateway_job_end(q->g, q->user.name, td_jint(v, "id", 0), td_gateway_cancel(q), err);
		if (r && r != TD_NOT_FOUND)
			return r;
		ended += !r;
	}
	if (!ended)
		return td_fail(err, TD_NOT_FOUND, "run %s has ended already", q->args[0]);
	return made(q, q->args[0], 200, err);
}

const struct td_gateway_op td_gateway_run_ops[] = {
	{"listRuns", list_runs},   {"makeRun", make_run},   {"getRun", get_run},
	{"cancelRun", cancel_run}, {"runAgain", run_again}, {NULL, NULL},
};
