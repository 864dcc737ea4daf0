#include "gateway/runs.h"

#include "base/clock.h"
#include "gateway/cause.h"
#include "gateway/home.h"
#include "gateway/need.h"
#include "gateway/path.h"
#include "gateway/progress.h"
#include "gateway/scope.h"
#include "pool/notes.h"
#include "slurm/batch.h"

#include <string.h>

enum { YOUNG_S = 3 };

int td_gateway_run_record(struct td_gateway_ask *q, const char *id, struct td_json **ret, struct td_error *err)
{
	td_auto_buf struct td_buf out = {0};
	int r = td_gateway_name_check("run", id, err);
	const struct td_home_call k = {.user = &q->user, .verb = "one", .args = {id}};
	if (r || (r = td_home_do(q->g, &k, td_gateway_cancel(q), &out, err)))
		return r;
	td_auto(td_json_unref) struct td_json *record = NULL;
	r = td_json_parse(td_buf_str(&out), out.len, &record, err);
	if (r)
		return td_wrap(err, "the record of run %s", id);
	if (!td_gateway_scope_run(q, td_json_root(record)))
		return td_fail(err, TD_NOT_FOUND, "there is no run %.64s in project %.63s, of which this key is", id,
			       q->project);
	*ret = td_steal(record);
	return 0;
}

int64_t td_gateway_run_job(const yyjson_val *record, const char *step, long long *ret_tasks, const char **ret_log)
{
	size_t i, n;
	yyjson_val *v;
	yyjson_arr_foreach (td_jget(record, "jobs"), i, n, v)
		if (step ? td_streq(td_jstr(v, "step"), step) : !td_gateway_need_is(v)) {
			*ret_tasks = td_jint(v, "tasks", 0);
			*ret_log = td_jstr(v, "log");
			return td_jint(v, "id", 0);
		}
	return 0;
}

// What all records of one job say together.
struct sum {
	size_t waits, runs, done, bad, seen;
	const char *bad_state;
	int64_t started, ended, exit, bad_task;
	char *cause; // of the first that did not end well
};

static void count(struct sum *s, const struct td_slurm_job *j, const struct td_gateway_end *known)
{
	const char *state = td_gateway_job_state(j);
	bool over = td_slurm_job_ended(j->states);
	s->seen++;
	if (!over && td_job_phase(j->states) == TD_PHASE_WAITING)
		s->waits++;
	else if (!over)
		s->runs++;
	else if (!strcmp(state, "done"))
		s->done++;
	else {
		// Tasks that failed say more than those that were cancelled after them.
		if (!s->cause || (td_streq(s->bad_state, "cancelled") && strcmp(state, "cancelled") != 0)) {
			struct td_gateway_end e = *known;
			e.state = state;
			e.reason = j->reason;
			e.nodes = j->nodes_text;
			e.held = td_notes_scratch(j->admin_comment);
			e.exit_code = j->exit_code;
			e.signal = j->exit_signal;
			e.minutes = j->time_limit_min;
			e.memory_mb = j->want_memory_mb;
			free(s->cause);
			s->cause = td_gateway_cause(&e);
			s->bad_task = j->task;
		}
		s->bad++;
		s->bad_state = state;
		if (j->exit_code)
			s->exit = j->exit_code;
	}
	// One that was cancelled as it waited has a start, too: its end.
	if (td_job_phase(j->states) != TD_PHASE_WAITING && j->start && (j->n_nodes || j->start != j->end) &&
	    (!s->started || j->start < s->started))
		s->started = j->start;
	if (over && j->end > s->ended)
		s->ended = j->end;
}

static const char *state_of(const struct sum *s)
{
	return s->runs    ? "running"
	       : s->waits ? s->done + s->bad ? "running" : "waiting"
	       : s->bad   ? s->bad_state
			  : "done";
}

// A job of a run, as Slurm is asked after it.
struct run_job {
	struct td_slurm *client; // NULL: Slurm cannot be asked now
	const yyjson_val *entry; // of the run's record
	int64_t id;
	const struct td_gateway_end *known;
};

// Writes what Slurm says of a step's job. False: it knows no such job of this person's.
static bool step_write(struct td_gateway_ask *q, const struct run_job *a, const struct td_gateway_seen *s,
		       yyjson_mut_doc *d, yyjson_mut_val *o)
{
	struct sum sum = {.bad_task = -1};
	const yyjson_val *v;
	int64_t now = td_real_ms(&td_clock_system) / 1000;
	for (struct td_gateway_cursor c = {0}; (v = td_gateway_records_next(&s->jobs, a->id, &c));) {
		td_auto_job struct td_slurm_job j = {0};
		if (td_slurm_job_read(a->client, v, &j, NULL) || !td_streq(j.user, q->user.name))
			continue;
		count(&sum, &j, a->known);
		td_gateway_progress_step(q, a->client, a->entry, &j, d, o);
		if (sum.seen == 1 || td_job_phase(j.states) == TD_PHASE_WAITING) {
			td_auto(yyjson_mut_doc_free) yyjson_mut_doc *one = td_jm_new();
			td_gateway_job_write(one, yyjson_mut_doc_get_root(one), &j, now);
			static const char *const keep[] = {"reason", "words", "expected", "on"};
			for (size_t k = 0; k < TD_LEN(keep); k++) {
				yyjson_mut_val *w = td_jm_get(yyjson_mut_doc_get_root(one), keep[k]);
				if (w)
					td_jm_set(d, o, keep[k], yyjson_mut_val_mut_copy(d, w));
			}
		}
	}
	if (!sum.seen)
		return false;
	td_jm_str(d, o, "state", state_of(&sum));
	if (sum.started)
		td_jm_int(d, o, "started", sum.started);
	if (!sum.waits && !sum.runs) {
		td_jm_int(d, o, "ended", sum.ended);
		td_jm_int(d, o, "exit", sum.exit);
	}
	td_jm_str(d, o, "cause", sum.cause);
	if (sum.cause && sum.bad_task >= 0)
		td_jm_int(d, o, "badTask", sum.bad_task);
	free(sum.cause);
	if (sum.seen > 1) {
		td_jm_int(d, o, "tasksDone", (long long)sum.done);
		td_jm_int(d, o, "tasksFailed", (long long)sum.bad);
		td_jm_int(d, o, "tasksRunning", (long long)sum.runs);
	}
	return true;
}

// What slurmdbd kept of a job that slurmctld has forgotten. False: nothing, or there is no slurmdbd.
static bool past_write(struct td_gateway_ask *q, const struct run_job *a, yyjson_mut_doc *d, yyjson_mut_val *o)
{
	struct td_slurm_past p;
	if (!a->client || q->silent || a->id <= 0 ||
	    td_slurm_job_past(a->client, q->user.name, a->id, td_gateway_cancel(q), &p, NULL) ||
	    !td_slurm_job_ended(p.states))
		return false;
	const struct td_slurm_job j = {.states = p.states};
	td_jm_str(d, o, "state", td_gateway_job_state(&j));
	if (p.start)
		td_jm_int(d, o, "started", p.start);
	td_jm_int(d, o, "ended", p.end);
	td_jm_int(d, o, "exit", p.exit_code);
	const struct td_gateway_end e = {
		.state = td_jm_getstr(o, "state"), .exit_code = p.exit_code, .by = a->known->by};
	td_auto_free char *cause = td_gateway_cause(&e);
	td_jm_str(d, o, "cause", cause);
	if (p.records > 1) {
		td_jm_int(d, o, "tasksDone", (long long)p.done);
		td_jm_int(d, o, "tasksFailed", (long long)(p.records - p.done));
	}
	return true;
}

static bool over(const char *state)
{
	return state && strcmp(state, "waiting") != 0 && strcmp(state, "running") != 0 && strcmp(state, "unknown") != 0;
}

void td_gateway_run_write(struct td_gateway_ask *q, const yyjson_val *record, const struct td_gateway_seen *s,
			  yyjson_mut_doc *d, yyjson_mut_val *o, bool *ret_over)
{
	static const char *const copied[] = {"id", "name", "user", "created", "job", "refused"};
	for (size_t i = 0; i < TD_LEN(copied); i++)
		td_jm_copyval(d, o, copied[i], td_jget(record, copied[i]));
	td_auto(td_gateway_slurm_unref) struct td_gateway_slurm *l = s ? td_gateway_slurm(q->g, NULL) : NULL;

	const char *all = NULL, *bad = NULL, *bad_step = NULL;
	bool ended = true, begun = false;
	yyjson_mut_val *steps = td_jm_arr(d, o, "steps");
	size_t i, n;
	yyjson_val *v;
	yyjson_arr_foreach (td_jget(record, "jobs"), i, n, v) {
		yyjson_mut_val *w = yyjson_mut_arr_add_obj(d, steps);
		td_jm_str(d, w, "name", td_jstr(v, "step"));
		td_jm_int(d, w, "job", td_jint(v, "id", 0));
		td_jm_str(d, w, "makes", td_jstr(v, "makes"));
		if (td_jint(v, "tasks", 0))
			td_jm_int(d, w, "tasks", td_jint(v, "tasks", 0));
		// What was seen at its end stays; Slurm forgets a job after a while.
		yyjson_val *kept = td_jget(v, "end");
		const struct td_gateway_end known = {.by = td_jstr(record, "cancelledBy"), .after = bad_step};
		const struct run_job a = {
			.client = l ? l->client : NULL, .entry = v, .id = td_jint(v, "id", 0), .known = &known};
		if (!l || !step_write(q, &a, s, d, w)) {
			size_t k, m;
			yyjson_val *key, *val;
			yyjson_obj_foreach (kept, k, m, key, val)
				td_jm_key_set(d, w, yyjson_get_str(key), yyjson_val_mut_copy(d, val));
			// The look may be older than its jobs, which come soon after the record.
			bool young = s && td_jint(record, "created", 0) >= s->at - YOUNG_S;
			if (!kept && (young || !l || !past_write(q, &a, d, w)))
				td_jm_str(d, w, "state", young ? "waiting" : "unknown");
		}
		const char *state = td_jm_getstr(w, "state");
		ended = ended && over(state);
		begun = begun || (state && strcmp(state, "waiting") != 0);
		all = state;
		// The lines of its log were kept with its end.
		if (kept && td_jm_get(w, "cause") && !td_jm_get(w, "lines"))
			td_jm_copyval(d, w, "lines", td_jget(kept, "lines"));
		if (over(state) && strcmp(state, "done") != 0 && !bad) {
			bad = state;
			bad_step = td_jstr(v, "step");
		}
	}
	if (!n)
		td_jm_str(d, o, "state", "not-submitted");
	else
		td_jm_str(d, o, "state", ended ? bad ? bad : "done" : n == 1 ? all : begun ? "running" : "waiting");
	*ret_over = n && ended;
}
