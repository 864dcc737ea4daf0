// Logs of runs, also while they grow.
#include "gateway/home.h"
#include "gateway/hub.h"
#include "gateway/runs.h"

#include "base/clock.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_MS = 500, GONE_LOOKS = 3 };

// Whether a job may still write: it waits, runs, or could not be asked.
static bool lives(struct td_gateway *g, const char *user, int64_t id, long long task)
{
	struct td_error e = TD_ERROR_INIT;
	td_auto(td_gateway_seen_unref) struct td_gateway_seen *s = td_gateway_look(g, &e);
	if (!s)
		return true;
	size_t k, m;
	const yyjson_val *v;
	yyjson_val *w;
	for (struct td_gateway_cursor c = {0}; (v = td_gateway_records_next(&s->jobs, id, &c));) {
		if (!td_streq(td_jstr(v, "user_name"), user))
			continue;
		long long t = td_jbool(v, "array_task_id.set", false) ? td_jint(v, "array_task_id.number", -1) : -1;
		if (task >= 0 && t >= 0 && t != task)
			continue;
		uint64_t states = 0;
		yyjson_arr_foreach (td_jget(v, "job_state"), k, m, w)
			states |= td_slurm_job_state_parse(yyjson_get_str(w));
		if (td_job_phase(states) != TD_PHASE_ENDED)
			return true;
	}
	return false;
}

// Passes on what comes until the job has ended and all that it wrote is out.
static void pass(struct td_gateway_ask *q, struct td_home_stream *s, int64_t job, long long task)
{
	char buf[65536];
	int gone = 0;
	for (;;) {
		struct pollfd f[2] = {{s->out, POLLIN, 0}, {td_cancel_fd(td_http_cancel(q->x)), POLLIN, 0}};
		int n = poll(f, 2, s->in >= 0 ? LOOK_MS : -1);
		if (f[1].revents)
			return;
		if (n > 0 && f[0].revents) {
			ssize_t k = read(s->out, buf, sizeof(buf));
			if (k <= 0 || td_http_stream_write(q->x, buf, (size_t)k, NULL))
				return;
			continue;
		}
		// It is over when it was seen so several times: a job that was just submitted is not in the
		// look that was made before.
		gone = lives(q->g, q->user.name, job, task) ? 0 : gone + 1;
		if (gone == GONE_LOOKS && s->in >= 0) {
			close(s->in);
			s->in = -1;
		}
	}
}

static int run_log(struct td_gateway_ask *q, struct td_error *err)
{
	long long offset, follow, task, tasks = 0;
	const char *log = NULL;
	td_auto(td_json_unref) struct td_json *record = NULL;
	const char *step = td_http_query(q->x, "step");
	int r;
	if (td_hub_logs(q, &r, err))
		return r;
	r = td_gateway_query_int(q, "offset", 0, &offset, err);
	if (!r)
		r = td_gateway_query_int(q, "follow", 0, &follow, err);
	if (!r)
		r = td_gateway_query_int(q, "task", 0, &task, err);
	if (!r)
		r = td_gateway_run_record(q, q->args[0], &record, err);
	if (r)
		return r;
	int64_t job = td_gateway_run_job(td_json_root(record), step, &tasks, &log);
	if (!job)
		return td_fail(err, TD_NOT_FOUND, "run %s has no %s%.40s", q->args[0], step ? "step " : "job yet",
			       step ? step : "");

	// The record is its owner's, who may have written any path there: it is one of his own home, which
	// he may read as a file, too.
	td_auto_free char *path =
		log     ? td_strdup(log)
		: tasks ? td_asprintf("tandem/runs/%s/slurm_log/slurm-%lld_%lld.out", q->args[0], (long long)job, task)
			: td_asprintf("tandem/runs/%s/slurm_log/slurm-%lld.out", q->args[0], (long long)job);

	td_auto_free char *at = td_asprintf("%lld", offset);
	const struct td_home_call look = {.user = &q->user, .verb = "size", .args = {path}},
				  some = {.user = &q->user, .verb = "read", .args = {path, at, "-1"}},
				  all = {.user = &q->user, .verb = "follow", .args = {path, at}};
	struct td_home_stream s;
	if (!follow) {
		r = td_home_do(q->g, &look, td_http_cancel(q->x), NULL, err);
		if (r == TD_NOT_FOUND) { // it has not begun to write
			td_http_send(q->x, 200, "text/plain; charset=utf-8", "", 0);
			return 0;
		}
		if (r)
			return r;
	}
	if ((r = td_home_open(q->g, follow ? &all : &some, &s, err)))
		return r;
	if (!td_http_stream_begin(q->x, 200, "text/plain; charset=utf-8", NULL)) {
		if (!follow) {
			close(s.in);
			s.in = -1;
		}
		pass(q, &s, job, tasks ? task : -1);
	}
	td_home_close(&s, NULL);
	return 0;
}

const struct td_gateway_op td_gateway_log_ops[] = {{"runLog", run_log}, {NULL, NULL}};
