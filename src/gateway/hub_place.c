// A run at the hub: taken, given to a member, or kept until one may have it.
#include "gateway/hub.h"

#include "api/status.h"
#include "gateway/home.h"
#include "gateway/job.h"
#include "http/pki.h"

#include <string.h>

enum { LIVE_MOST = 2000, SAY_MOST = 50 };

// ---- choosing ----

char *td_hub_there(const struct td_hub_run *r, char **ret_request)
{
	char hex[65];
	if (r->attempt <= 1) {
		*ret_request = td_strdup(r->request);
		return td_strdup(r->run);
	}
	// Each attempt is a run of its own there: one that was cancelled does not come back by its name.
	td_sha256_hex(r->request, strlen(r->request), hex);
	*ret_request = td_asprintf("attempt-%lld-%.32s", (long long)r->attempt, hex);
	td_auto_free char *both = td_asprintf("%s %s", r->user, *ret_request);
	td_sha256_hex(both, strlen(both), hex);
	return td_asprintf("%.*s-%.6s", (int)(strlen(r->run) - strlen("-123456")), r->run, hex);
}

static void refusals(const struct td_hub_run *r, struct td_buf *b)
{
	for (size_t i = 0; i < r->refused.n; i++)
		td_buf_printf(b, "%s%s", i ? "; " : "", r->refused_why.v[i]);
}

// GPUs that no job holds there; -1: it has not said so.
static int64_t free_at(const struct td_hub_known *k)
{
	yyjson_val *said = td_jget(td_json_root(k->held), "free"), *v;
	int64_t sum = 0;
	size_t i, n;
	if (!said)
		return -1;
	yyjson_arr_foreach (said, i, n, v)
		sum += td_jint(v, "free", 0);
	return sum;
}

void td_hub_choose(struct td_gateway *g, struct td_hub_view *view, const struct td_hub_run *r, bool soon,
		   struct td_fed_choice *ret)
{
	const struct td_hub *h = view->hub;
	td_auto_free struct td_fed_member *m = td_calloc(h->n_members + 1, sizeof(*m));
	const struct td_hub_team *team = td_hub_used(g, view, r->team);
	for (size_t i = 0; i < h->n_members; i++) {
		td_auto_known struct td_hub_known k = {0};
		td_hub_known(g, h->members[i].name, &k);
		int64_t free_gpus = soon ? free_at(&k) : -1;
		m[i] = (struct td_fed_member){.name = h->members[i].name,
					      .weight = h->members[i].weight,
					      .reached = k.reached,
					      .full = free_gpus >= 0 && free_gpus < r->gpus,
					      .live = view->at[i],
					      .used = team->each[i]};
	}
	const struct td_fed_field f = {.rules = h->rules,
				       .n_rules = h->n_rules,
				       .members = m,
				       .n_members = h->n_members,
				       .refused = &r->refused};
	const struct td_fed_ask a = {.user = r->user,
				     .team = r->team,
				     .account = r->account,
				     .partitions = &r->partitions,
				     .gpu_types = &r->gpu_types,
				     .gpus = r->gpus,
				     .insists = r->insists};
	td_fed_choose(&f, &a, ret);
}

// last: it is placed when that can be. Else this only finds out whether the run goes on waiting; *ret_go says that
// it might go.
static int place(struct td_gateway *g, struct td_hub_view *view, struct td_hub_run *r, bool last, bool *ret_go,
		 struct td_error *err)
{
	int rc = 0;
	struct td_fed_choice choice;
	td_hub_choose(g, view, r, false, &choice);
	td_auto_free char *why = choice.why, *over = NULL;
	if (!last || choice.where != TD_FED_GO)
		over = td_hub_over(g, view, r);
	else if ((rc = td_hub_promise(g, view, r, g->cancel, &over, err)))
		return rc;
	bool waits = choice.where == TD_FED_WAIT || (choice.where == TD_FED_GO && over);
	if (!last && !waits) {
		*ret_go = true;
		return 0;
	}
	td_auto_free char *was = td_strdup(r->why);
	td_hub_run_say(&r->rule, choice.rule);
	if (choice.where == TD_FED_FORBIDDEN || choice.where == TD_FED_NOWHERE) {
		td_auto_buf struct td_buf b = {0};
		td_buf_printf(&b, "%s", why);
		if (r->refused.n)
			td_buf_puts(&b, ": ");
		refusals(r, &b);
		td_hub_run_say(&r->why, td_buf_str(&b));
		td_hub_run_phase(r, TD_FED_REFUSED);
		return td_hub_run_write(g, r, err);
	}
	if (waits) {
		td_hub_run_say(&r->why, over ? over : why);
		// The figures in the words change with each job that begins or ends, for all who wait.
		return td_streq(was, r->why) || (!last && view->said++ >= SAY_MOST) ? 0 : td_hub_run_write(g, r, err);
	}
	td_hub_run_say(&r->why, why);
	td_hub_run_say(&r->member, view->hub->members[choice.member].name);
	r->attempt++;
	td_auto_free char *request = NULL;
	free(r->there);
	r->there = td_hub_there(r, &request);
	td_hub_run_phase(r, TD_FED_PLACED);
	rc = td_hub_run_write(g, r, err);
	*ret_go = !rc;
	return rc;
}

int td_hub_waits(struct td_gateway *g, struct td_hub_view *view, struct td_hub_run *r, bool *ret_waits,
		 struct td_error *err)
{
	bool go = false;
	int rc = place(g, view, r, false, &go, err);
	*ret_waits = !rc && !go;
	return rc;
}

int td_hub_place(struct td_gateway *g, const struct td_hub *h, struct td_hub_run *r, struct td_cancel *c, bool *ret_go,
		 struct td_error *err)
{
	*ret_go = false;
	td_auto_view struct td_hub_view view = {0};
	int rc = td_hub_view(g, h, c, &view, err);
	return rc ? rc : place(g, &view, r, true, ret_go, err);
}

// ---- taking ----

// GPUs of a step over all its nodes and those of its tasks that run at once.
static int64_t gpus_of(const yyjson_val *step)
{
	int64_t gpus = td_jint(step, "gpus", 0) * td_jint(step, "nodes", 1), tasks = 1,
		most = td_jint(step, "parallel", 0);
	size_t i, n;
	yyjson_val *key, *values;
	yyjson_obj_foreach (td_jget(step, "matrix"), i, n, key, values)
		tasks *= (int64_t)yyjson_arr_size(values);
	return gpus * (most && most < tasks ? most : tasks);
}

static int64_t at_once(const yyjson_val *job, const struct td_gateway_plan *p)
{
	td_auto_free struct td_fed_step *v = td_calloc(p->n + 1, sizeof(*v));
	for (size_t i = 0; i < p->n; i++)
		v[i] = (struct td_fed_step){gpus_of(td_jfind(td_jget(job, "steps"), "name", p->steps[i].name)),
					    p->steps[i].after, p->steps[i].n_after};
	return td_fed_at_once(v, p->n);
}

static void some(struct td_strv *l, const char *s)
{
	if (s && !td_strv_has(l, s))
		td_strv_add(l, s);
}

// What it asks for, as rules and limits see it.
static int read_job(const yyjson_val *job, struct td_hub_run *r, struct td_error *err)
{
	size_t i, n;
	yyjson_val *v;
	yyjson_arr_foreach (td_jget(job, "steps"), i, n, v) {
		const char *account = td_jstr(v, "account");
		int64_t gpus = gpus_of(v);
		if (i && !td_streq(account, r->account) && (account || r->account))
			return td_fail(err, TD_INVALID,
				       "step %s: account: in a federation all steps of a run name the same",
				       td_jstr_or(v, "name", "?"));
		if (!i)
			td_hub_run_say(&r->account, account);
		some(&r->partitions, td_jstr(v, "partition"));
		if (gpus)
			some(&r->gpu_types, td_jstr(v, "gpuType"));
		if (gpus > r->gpus)
			r->gpus = gpus;
	}
	return 0;
}

static int keep_body(struct td_gateway_ask *q, struct td_hub_run *r, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_copyval(d, o, "job", td_jget(q->body, "job"));
	td_jm_copyval(d, o, "files", td_jget(q->body, "files"));
	size_t n;
	char hex[65];
	td_auto_free char *text = td_json_mut_text(o, &n);
	td_sha256_hex(text, n, hex);
	td_hub_run_say(&r->hash, hex);
	const struct td_home_call k = {
		.user = &q->user, .verb = "federated-put", .args = {r->run}, .in = text, .in_len = n};
	return td_home_do(q->g, &k, td_gateway_cancel(q), NULL, err);
}

static int take(struct td_gateway_ask *q, const struct td_hub *h, const char *id, struct td_hub_run *r,
		struct td_error *err)
{
	yyjson_val *job = td_jget(q->body, "job");
	td_auto_plan struct td_gateway_plan p = {0};
	// What could never be submitted is refused now.
	const struct td_gateway_plan_in in = {.job = job, .id = id, .user = q->user.name, .home = q->user.home};
	int rc = td_gateway_plan(&in, &p, err);
	if (rc || (rc = read_job(job, r, err)))
		return rc;
	r->holds = at_once(job, &p);
	r->run = td_strdup(id);
	r->user = td_strdup(q->user.name);
	r->request = td_strdup(td_jstr(q->body, "request"));
	r->insists = td_strdup(td_jstr(q->body, "cluster"));
	r->team = td_strdup(td_fed_team_of(h->teams, h->n_teams, r->user, r->account));
	r->created = td_real_ms(&td_clock_system) / 1000;
	td_hub_run_phase(r, TD_FED_WAITING);
	// The same request once more, whose code may be another by now: what was taken first goes on.
	td_auto_hub_run struct td_hub_run is = {0};
	struct td_error e = TD_ERROR_INIT;
	size_t live = 0;
	rc = td_hub_run_get(q->g, r->user, id, td_gateway_cancel(q), &is, &e);
	if (rc != TD_NOT_FOUND)
		return rc ? td_fail(err, rc, "%s", e.msg) : TD_EXISTS;
	if ((rc = td_hub_live_of(q->g, r->user, td_gateway_cancel(q), &live, err)))
		return rc;
	if (live >= LIVE_MOST)
		return td_fail(err, TD_THROTTLED, "%s has %d runs here that have not ended: let some end first",
			       r->user, LIVE_MOST);
	return (rc = keep_body(q, r, err)) ? rc : td_hub_run_create(q->g, h, r, td_gateway_cancel(q), err);
}

// Places and gives it, as far as that goes now. What fails in passing is tried again by who looks after all.
static int now(struct td_gateway_ask *q, const struct td_hub *h, struct td_hub_run *r, struct td_error *err)
{
	for (size_t tries = 0; tries <= h->n_members && r->phase == TD_FED_WAITING; tries++) {
		struct td_error e = TD_ERROR_INIT;
		bool go = false;
		int rc = td_hub_place(q->g, h, r, td_gateway_cancel(q), &go, &e);
		bool mine = !rc && go && td_hub_sending(q->g, r->object, true);
		if (mine) {
			rc = td_hub_send(q->g, h, r, td_gateway_cancel(q), &e);
			td_hub_sending(q->g, r->object, false);
		}
		if (rc || !mine)
			break;
	}
	if (r->phase != TD_FED_REFUSED)
		return 0;
	td_fail(err, TD_INVALID, "%s", r->why ? r->why : "no member takes it");
	td_hub_run_remove(q->g, r, NULL);
	td_hub_drop(q->g, r);
	return TD_INVALID;
}

int td_hub_make(struct td_gateway_ask *q, const char *id, struct td_error *err)
{
	td_auto(td_hub_unref) struct td_hub *h = NULL;
	td_auto_hub_run struct td_hub_run r = {0};
	int rc = td_hub_ask(q->g, &h, err);
	if (rc)
		return rc;
	if (!h)
		return td_fail(err, TD_TRANSIENT, "this gateway is the hub of no federation any more");
	rc = take(q, h, id, &r, err);
	if (rc && rc != TD_EXISTS)
		return rc;
	free(q->args[0]);
	q->args[0] = td_strdup(id); // for the record of changes
	if (!rc && (rc = now(q, h, &r, err)))
		return rc;
	int answered;
	if (td_hub_answers(q, id, 201, &answered, err))
		return answered;
	return td_fail(err, TD_UNCERTAIN, "run %s: its record cannot be read now", id);
}
