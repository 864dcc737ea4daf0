// A member of a Federation: what its hub asks for. Who asks was proven by a statement (statement.h).
#include "gateway/member.h"
#include "gateway/home.h"
#include "gateway/hub.h"
#include "gateway/jobs.h"
#include "gateway/runs.h"
#include "gateway/usage.h"
#include "slurm/batch.h"
#include "slurm/hostlist.h"
#include "slurm/states.h"

#include <string.h>

enum { GRES_MOST = 64 };
enum { GAVE_UP = 75 }; // programs/run.sh ends so when it was not let begin

// ---- letting begin ----

static int consent(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *record = NULL;
	int r = td_gateway_run_record(q, q->args[0], &record, err);
	const struct td_home_call k = {.user = &q->user, .verb = "consent", .args = {q->args[0]}};
	if (!r)
		r = td_home_do(q->g, &k, td_gateway_cancel(q), NULL, err);
	return r ? r : td_gateway_done(q);
}

// ---- a look ----

struct run_sum {
	const char *user, *run;
	size_t len; // of run
	size_t jobs, waits, over, gave_up;
	const char *bad; // how the first ended that did not end well
};

static int by_run(const void *a, const void *b)
{
	const struct run_sum *x = *(struct run_sum *const *)a, *y = *(struct run_sum *const *)b;
	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	int d = strncmp(x->run, y->run, x->len);
	return d ? d : strcmp(x->user, y->user);
}

// Which of the runs (in order, by_run) this job is of, by its comment "tandem RUN STEP".
static struct run_sum *of_run(struct run_sum **v, size_t n, const yyjson_val *job)
{
	const char *mark = td_jstr_or(job, "comment", ""), *user = td_jstr_or(job, "user_name", "");
	if (!td_starts(mark, "tandem "))
		return NULL;
	const char *run = mark + strlen("tandem ");
	struct run_sum is = {.user = user, .run = run, .len = strcspn(run, " ")}, *key = &is;
	struct run_sum **found = n ? bsearch(&key, v, n, sizeof(*v), by_run) : NULL;
	return found ? *found : NULL;
}

static void count(struct run_sum *s, const struct td_slurm_job *j)
{
	bool over = td_slurm_job_ended(j->states);
	s->jobs++;
	s->waits += !over && td_job_phase(j->states) == TD_PHASE_WAITING;
	s->over += over;
	s->gave_up += over && j->exit_code == GAVE_UP;
	const char *state = td_gateway_job_state(j);
	if (over && !s->bad && strcmp(state, "done") != 0)
		s->bad = state;
}

// What it holds, added to the row of its account and user, and of the run whose name it has (NULL: of none).
static void hold(yyjson_mut_doc *d, yyjson_mut_val *rows, const struct td_slurm_job *j, const char *run, int64_t gpus)
{
	size_t i, n;
	yyjson_mut_val *row;
	const char *is;
	yyjson_mut_arr_foreach (rows, i, n, row)
		if (td_streq(td_jm_getstr(row, "account"), j->account) &&
		    td_streq(td_jm_getstr(row, "user"), j->user) &&
		    ((is = td_jm_getstr(row, "run")) ? td_streq(is, run) : !run)) {
			td_jm_int(d, row, "gpus", yyjson_mut_get_sint(td_jm_get(row, "gpus")) + gpus);
			return;
		}
	row = yyjson_mut_arr_add_obj(d, rows);
	td_jm_str(d, row, "account", j->account);
	td_jm_str(d, row, "user", j->user);
	td_jm_str(d, row, "run", run);
	td_jm_int(d, row, "gpus", gpus);
}

static void used(struct td_gateway_ask *q, yyjson_mut_doc *d, yyjson_mut_val *o)
{
	size_t i, n;
	yyjson_val *v;
	int64_t today = td_real_ms(&td_clock_system) / 1000 / TD_USAGE_DAY_S, most = 0;
	yyjson_arr_foreach (td_jget(q->body, "days"), i, n, v)
		if (yyjson_get_sint(v) > most)
			most = yyjson_get_sint(v);
	if (!most)
		return;
	td_auto_usage struct td_usage u = {0};
	struct td_error e = TD_ERROR_INIT;
	const struct td_gateway_span span = {.from = today + 1 - most, .to = today + 1};
	// Without a history there is no answer, and nobody takes that for nothing.
	if (td_gateway_used(q->g, &span, td_gateway_cancel(q), &u, &e)) {
		td_jm_str(d, o, "problem", e.msg);
		return;
	}
	yyjson_mut_val *rows = td_jm_arr(d, o, "used");
	yyjson_arr_foreach (td_jget(q->body, "days"), i, n, v) {
		td_auto_usage struct td_usage some = {0};
		for (size_t k = 0; k < u.n; k++)
			if (u.v[k].day > today - yyjson_get_sint(v)) {
				struct td_usage_row row = u.v[k];
				row.day = -1;
				row.type = (char *)(uintptr_t)"";
				td_usage_put(&some, &row);
			}
		td_usage_settle(&some);
		for (size_t k = 0; k < some.n; k++) {
			if (some.v[k].sum.gpu <= 0)
				continue;
			yyjson_mut_val *w = yyjson_mut_arr_add_obj(d, rows);
			td_jm_int(d, w, "days", yyjson_get_sint(v));
			td_jm_str(d, w, "account", some.v[k].account);
			td_jm_str(d, w, "user", some.v[k].user);
			td_jm_set(d, w, "gpuHours", yyjson_mut_real(d, td_gateway_hours(some.v[k].sum.gpu)));
		}
	}
}

// GPUs of nodes that take jobs now, by type: how many, and how many of them no job holds.
static void idle(const struct td_slurm_nodes *nodes, yyjson_mut_doc *d, yyjson_mut_val *rows)
{
	for (size_t i = 0; i < nodes->n; i++) {
		struct td_gres has[GRES_MOST], used[GRES_MOST];
		size_t n = 0, m = 0, k, rows_n;
		yyjson_mut_val *row;
		if (!td_slurm_node_usable(nodes->v[i].states) ||
		    td_gres_parse(nodes->v[i].gres, has, GRES_MOST, &n, NULL) ||
		    td_gres_parse(nodes->v[i].gres_used, used, GRES_MOST, &m, NULL))
			continue;
		for (size_t a = 0; a < n; a++) {
			int64_t taken = 0;
			yyjson_mut_val *to = NULL;
			if (strcmp(has[a].name, "gpu") != 0)
				continue;
			for (size_t b = 0; b < m; b++)
				if (!strcmp(used[b].name, "gpu") && !strcmp(used[b].type, has[a].type))
					taken += used[b].count;
			yyjson_mut_arr_foreach (rows, k, rows_n, row)
				if (td_streq(td_jm_getstr(row, "type"), has[a].type))
					to = row;
			if (!to) {
				to = yyjson_mut_arr_add_obj(d, rows);
				td_jm_str(d, to, "type", has[a].type);
			}
			td_jm_int(d, to, "gpus", yyjson_mut_get_sint(td_jm_get(to, "gpus")) + has[a].count);
			td_jm_int(d, to, "free", yyjson_mut_get_sint(td_jm_get(to, "free")) + has[a].count - taken);
		}
	}
}

// Keeps what the hub says of limits, and answers whether that holds here.
static void limits(struct td_gateway_ask *q, yyjson_mut_doc *d, yyjson_mut_val *o)
{
	struct td_error e = TD_ERROR_INIT;
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(q->g->clusters, q->g->o.ns, q->g->o.cluster);
	const yyjson_val *root = sc ? sc->root : NULL;
	const char *word = td_jstr(q->body, "limits"), *not = td_member_word_not(root, q->hub);
	// What is enforced nowhere is kept all the same, so that the Tenants' statuses show it.
	if (word && td_member_word_let(root, q->hub) &&
	    td_member_word_take(q->g, q->hub, word, td_gateway_cancel(q), &e) && !not)
		not = e.msg;
	td_jm_bool(d, o, "limits.kept", !not);
	td_jm_str(d, o, "limits.why", not);
}

static int look(struct td_gateway_ask *q, struct td_error *err)
{
	yyjson_val *asked = td_jget(q->body, "runs"), *v;
	size_t i, n, runs = yyjson_arr_size(asked);
	td_auto(td_gateway_seen_unref) struct td_gateway_seen *s = td_gateway_look(q->g, err);
	if (!s)
		return err->code;
	td_auto(td_gateway_slurm_unref) struct td_gateway_slurm *l = td_gateway_slurm(q->g, err);
	if (!l)
		return err->code;
	td_auto_free struct run_sum *sums = td_calloc(runs + 1, sizeof(*sums));
	td_auto_free struct run_sum **order = td_calloc(runs + 1, sizeof(*order));
	yyjson_arr_foreach (asked, i, n, v) {
		const char *run = td_jstr_or(v, "run", "");
		sums[i] = (struct run_sum){.user = td_jstr_or(v, "user", ""), .run = run, .len = strlen(run)};
		order[i] = &sums[i];
	}
	if (runs)
		qsort(order, runs, sizeof(*order), by_run);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *list = td_jm_arr(d, o, "runs"),
		       *held = td_jm_arr(d, o, "held");
	for (i = 0; i < s->jobs.n; i++) {
		v = s->jobs.v[i].v;
		td_auto_job struct td_slurm_job j = {0};
		struct run_sum *sum = of_run(order, runs, v);
		if (td_slurm_job_read(l->client, v, &j, NULL))
			continue;
		int64_t gpus = td_slurm_tres_of(j.tres_alloc, "gres/gpu");
		if (sum)
			count(sum, &j);
		// Anybody may name his job after a run of his: the hub counts what is held beyond what that asked for.
		if (gpus > 0 && !td_slurm_job_ended(j.states) && td_job_phase(j.states) != TD_PHASE_WAITING)
			hold(d, held, &j, sum ? sum->run : NULL, gpus);
	}
	for (i = 0; i < runs; i++) {
		const struct run_sum *x = &sums[i];
		yyjson_mut_val *w = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, w, "user", x->user);
		td_jm_str(d, w, "run", x->run);
		td_jm_str(d, w, "state",
			  !x->jobs              ? "absent"
			  : x->waits == x->jobs ? "waiting"
			  // Later steps wait for it in vain.
			  : x->gave_up && x->waits + x->over == x->jobs ? "gave-up"
			  : x->over < x->jobs                           ? "begun"
									: "over");
		if (x->jobs && x->over == x->jobs)
			td_jm_str(d, w, "result", x->bad ? x->bad : "done");
	}
	idle(&s->nodes->nodes, d, td_jm_arr(d, o, "free"));
	used(q, d, o);
	limits(q, d, o);
	td_gateway_send(q, 200, d);
	return 0;
}

const struct td_gateway_op td_gateway_member_ops[] = {{"consentRun", consent}, {"federationLook", look}, {NULL, NULL}};
