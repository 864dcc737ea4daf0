// A run at the hub: taken, given to a member, or kept until one may have it.
#include "gateway/hub.h"

#include "api/status.h"
#include "base/fault.h"
#include "base/log.h"
#include "gateway/home.h"
#include "gateway/job.h"
#include "http/pki.h"

#include <string.h>

enum { ASK = 20000, PACK = 8, SEND_MS = 120000, LIVE_MOST = 2000, SAY_MOST = 50 };

// Held while it is counted what a team holds and the next one is placed, so that two at once do not both
// find room for one.
static pthread_mutex_t placing = PTHREAD_MUTEX_INITIALIZER;

// ---- what a team holds ----

static const struct td_fed_limit *limit_of(const struct td_hub *h, const char *team)
{
	for (size_t i = 0; i < h->n_limits && team; i++)
		if (!strcmp(h->limits[i].team, team))
			return &h->limits[i];
	return NULL;
}

static bool of_team(const struct td_hub *h, const yyjson_val *row, const char *team)
{
	return team &&
	       td_streq(td_fed_team_of(h->teams, h->n_teams, td_jstr_or(row, "user", ""), td_jstr(row, "account")),
			team);
}

// What a team has and has used at all members, and in *ret_used at each.
static void reckon(struct td_gateway *g, const struct td_hub *h, const char *team, const struct td_objects *runs,
		   struct td_fed_used *ret, double *ret_used)
{
	const struct td_fed_limit *l = limit_of(h, team);
	size_t i, n;
	yyjson_val *v;
	*ret = (struct td_fed_used){.known = true};
	for (size_t m = 0; m < h->n_members; m++) {
		td_auto_known struct td_hub_known k = {0};
		td_hub_known(g, h->members[m].name, &k);
		yyjson_arr_foreach (td_jget(td_json_root(k.held), "held"), i, n, v)
			if (of_team(h, v, team))
				ret->gpus += td_jint(v, "gpus", 0);
		yyjson_arr_foreach (td_jget(td_json_root(k.used), "used"), i, n, v)
			if (of_team(h, v, team) && td_jint(v, "days", 0) == (l ? l->days : 30))
				ret_used[m] += yyjson_get_num(td_jget(v, "gpuHours"));
		ret->gpu_hours += ret_used[m];
		if (l && ((l->gpus >= 0 && !k.held) || (l->gpu_hours >= 0 && !k.used)))
			ret->known = false;
	}
	// Those of this hub count from when they are given to a member, also while they wait there.
	for (size_t k = 0; k < runs->n && team; k++)
		if (td_hub_run_is_at(runs->v[k], NULL) && td_streq(td_jstr(runs->v[k]->root, "spec.team"), team))
			ret->gpus += td_jint(runs->v[k]->root, "spec.holds", td_jint(runs->v[k]->root, "spec.gpus", 0));
}

int td_hub_view(struct td_gateway *g, const struct td_hub *h, struct td_cancel *c, struct td_hub_view *ret,
		struct td_error *err)
{
	struct td_hub_view v = {.hub = h};
	int r = td_hub_run_list(g, NULL, true, c, &v.live, err);
	if (r)
		return r;
	v.at = td_calloc(h->n_members + 1, sizeof(*v.at));
	for (size_t j = 0; j < v.live.n; j++) {
		const char *at = td_jstr(v.live.v[j]->root, "state.member");
		const struct td_hub_member *m = at ? td_hub_member(h, at) : NULL;
		if (m)
			v.at[m - h->members]++;
	}
	*ret = v;
	return 0;
}

void td_hub_view_done(struct td_hub_view *v)
{
	for (size_t i = 0; i < v->n_teams; i++)
		free(v->teams[i].name), free(v->teams[i].each);
	free(v->teams);
	free(v->at);
	td_objects_done(&v->live);
	*v = (struct td_hub_view){0};
}

void td_hub_view_add(struct td_gateway *g, struct td_hub_view *v, const struct td_hub_run *r)
{
	const struct td_hub_member *m = r->member ? td_hub_member(v->hub, r->member) : NULL;
	if (m)
		v->at[m - v->hub->members]++;
	td_hub_used(g, v, r->team)->sum.gpus += r->holds;
}

struct td_hub_team *td_hub_used(struct td_gateway *g, struct td_hub_view *v, const char *team)
{
	for (size_t i = 0; i < v->n_teams; i++)
		if (td_streq(v->teams[i].name, team) || (!team && !v->teams[i].name))
			return &v->teams[i];
	v->teams = td_realloc(v->teams, (v->n_teams + 1) * sizeof(*v->teams));
	struct td_hub_team *t = &v->teams[v->n_teams++];
	*t = (struct td_hub_team){.name = td_strdup(team), .each = td_calloc(v->hub->n_members + 1, sizeof(*t->each))};
	reckon(g, v->hub, team, &v->live, &t->sum, t->each);
	return t;
}

// ---- choosing ----

static char *there_of(const struct td_hub_run *r, char **ret_request)
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

static void says(char **to, const char *s)
{
	char *copy = td_strdup(s);
	free(*to);
	*to = copy;
}

static void refusals(const struct td_hub_run *r, struct td_buf *b)
{
	for (size_t i = 0; i < r->refused.n; i++)
		td_buf_printf(b, "%s%s", i ? "; " : "", r->refused_why.v[i]);
}

// last: what is seen is the newest there is, and nobody else places now. Else it only finds out whether the run
// goes on waiting; *ret_go says that it might go.
static int place(struct td_gateway *g, struct td_hub_view *view, struct td_hub_run *r, bool last, bool *ret_go,
		 struct td_error *err)
{
	const struct td_hub *h = view->hub;
	td_auto_free struct td_fed_member *m = td_calloc(h->n_members + 1, sizeof(*m));
	const struct td_hub_team *team = td_hub_used(g, view, r->team);
	for (size_t i = 0; i < h->n_members; i++) {
		td_auto_known struct td_hub_known k = {0};
		td_hub_known(g, h->members[i].name, &k);
		m[i] = (struct td_fed_member){.name = h->members[i].name,
					      .weight = h->members[i].weight,
					      .reached = k.reached,
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
				     .partition = r->partition,
				     .gpu_type = r->gpu_type,
				     .gpus = r->gpus,
				     .insists = r->insists};
	struct td_fed_choice choice;
	td_fed_choose(&f, &a, &choice);
	td_auto_free char *why = choice.why, *over = td_fed_over(limit_of(h, r->team), &team->sum, r->holds);
	bool waits = choice.where == TD_FED_WAIT || (choice.where == TD_FED_GO && over);
	if (!last && !waits) {
		*ret_go = true;
		return 0;
	}
	td_auto_free char *was = td_strdup(r->why);
	says(&r->rule, choice.rule);
	if (choice.where == TD_FED_FORBIDDEN || choice.where == TD_FED_NOWHERE) {
		td_auto_buf struct td_buf b = {0};
		td_buf_printf(&b, "%s", why);
		if (r->refused.n)
			td_buf_puts(&b, ": ");
		refusals(r, &b);
		says(&r->why, td_buf_str(&b));
		td_hub_run_phase(r, TD_FED_REFUSED);
		return td_hub_run_write(g, r, err);
	}
	if (waits) {
		says(&r->why, over ? over : why);
		// The figures in the words change with each job that begins or ends, for all who wait.
		return td_streq(was, r->why) || (!last && view->said++ >= SAY_MOST) ? 0 : td_hub_run_write(g, r, err);
	}
	says(&r->why, why);
	says(&r->member, m[choice.member].name);
	r->attempt++;
	td_auto_free char *request = NULL;
	free(r->there);
	r->there = there_of(r, &request);
	td_hub_run_phase(r, TD_FED_PLACED);
	int rc = td_hub_run_write(g, r, err);
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
	pthread_mutex_lock(&placing);
	int rc = td_hub_view(g, h, c, &view, err);
	if (!rc)
		rc = place(g, &view, r, true, ret_go, err);
	pthread_mutex_unlock(&placing);
	return rc;
}

// ---- giving ----

static int push(struct td_gateway_ask *q, const struct td_hub *h, const char *member, const struct td_strv *some,
		struct td_error *err)
{
	td_auto_buf struct td_buf in = {0}, pack = {0};
	for (size_t i = 0; i < some->n; i++)
		td_buf_printf(&in, "%s\n", some->v[i]);
	const struct td_home_call read = {.user = &q->user, .verb = "chunks", .in = td_buf_str(&in), .in_len = in.len};
	int r = td_home_do(q->g, &read, td_gateway_cancel(q), &pack, err);
	const struct td_hub_call put = {.hub = h,
					.member = member,
					.user = q->user.name,
					.method = "PUT",
					.path = "/api/v1/files/chunks",
					.body = pack.s,
					.body_len = pack.len,
					.type = "application/octet-stream",
					.timeout_ms = SEND_MS};
	return r ? r : td_hub_do(q->g, &put, td_gateway_cancel(q), NULL, err);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int td_hub_ship(struct td_gateway_ask *q, const struct td_hub *h, const char *member, const struct td_strv *hashes,
		struct td_error *err)
{
	for (size_t at = 0; at < hashes->n; at += ASK) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *l = td_jm_arr(d, yyjson_mut_doc_get_root(d), "chunks");
		for (size_t i = at; i < hashes->n && i < at + ASK; i++)
			yyjson_mut_arr_append(l, yyjson_mut_str(d, hashes->v[i]));
		size_t len, i, n;
		td_auto_free char *text = td_json_mut_text(yyjson_mut_doc_get_root(d), &len);
		const struct td_hub_call ask = {.hub = h,
						.member = member,
						.user = q->user.name,
						.method = "POST",
						.path = "/api/v1/files/missing",
						.body = text,
						.body_len = len};
		td_auto(td_json_unref) struct td_json *j = NULL;
		int r = td_hub_do(q->g, &ask, td_gateway_cancel(q), &j, err);
		if (r)
			return r;
		td_auto_strv struct td_strv some = {0}, missing = {0};
		yyjson_val *v;
		yyjson_arr_foreach (td_jget(td_json_root(j), "missing"), i, n, v)
			if (yyjson_is_str(v))
				td_strv_add(&missing, yyjson_get_str(v));
		if (missing.n)
			qsort(missing.v, missing.n, sizeof(*missing.v), by_text);
		// It gets what it was offered, once, and no other part of the home that it knows the sum of.
		for (i = at, n = at + ASK < hashes->n ? at + ASK : hashes->n; i < n; i++) {
			if (missing.n && bsearch(&hashes->v[i], missing.v, missing.n, sizeof(*missing.v), by_text))
				td_strv_add(&some, hashes->v[i]);
			if (!some.n || (some.n < PACK && i + 1 < n))
				continue;
			if ((r = push(q, h, member, &some, err)))
				return r;
			td_strv_done(&some);
		}
	}
	return 0;
}

// What was submitted, as its owner's home has it, if it is that.
int td_hub_body(struct td_gateway_ask *q, const struct td_hub_run *r, struct td_json **ret, struct td_error *err)
{
	td_auto_buf struct td_buf out = {0};
	const struct td_home_call k = {.user = &q->user, .verb = "federated-get", .args = {r->run}};
	char hex[65];
	int rc = td_home_do(q->g, &k, td_gateway_cancel(q), &out, err);
	if (rc)
		return rc == TD_NOT_FOUND
			       ? td_fail(err, TD_INVALID, "what was submitted is no longer in ~/tandem/federated")
			       : rc;
	td_sha256_hex(td_buf_str(&out), out.len, hex);
	// It is its owner's file. Who changes it would be placed and counted by other figures than he runs with.
	if (!td_streq(hex, r->hash))
		return td_fail(err, TD_INVALID, "~/tandem/federated/%s.json was changed since it was submitted",
			       r->run);
	return td_json_parse(td_buf_str(&out), out.len, ret, err);
}

static void chunks_of(const yyjson_val *body, struct td_strv *ret)
{
	size_t i, n;
	yyjson_val *f;
	yyjson_arr_foreach (td_jget(body, "files"), i, n, f)
		td_jstrs(td_jget(f, "chunks"), ret);
}

static int give(struct td_gateway_ask *q, const struct td_hub *h, struct td_hub_run *r, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *body = NULL, *reply = NULL;
	td_auto_strv struct td_strv hashes = {0};
	int rc = td_hub_body(q, r, &body, err);
	if (rc)
		return rc;
	chunks_of(td_json_root(body), &hashes);
	if ((rc = td_hub_ship(q, h, r->member, &hashes, err)))
		return rc;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_auto_free char *request = NULL, *there = there_of(r, &request);
	td_jm_str(d, o, "request", request);
	td_jm_copyval(d, o, "job", td_jget(td_json_root(body), "job"));
	td_jm_copyval(d, o, "files", td_jget(td_json_root(body), "files"));
	size_t len;
	td_auto_free char *text = td_json_mut_text(o, &len);
	const struct td_hub_call k = {.hub = h,
				      .member = r->member,
				      .user = r->user,
				      .method = "POST",
				      .path = "/api/v1/runs",
				      .body = text,
				      .body_len = len,
				      .timeout_ms = SEND_MS};
	if ((rc = td_hub_do(q->g, &k, td_gateway_cancel(q), &reply, err)))
		return rc;
	return td_streq(td_jstr(td_json_root(reply), "id"), there)
		       ? 0
		       : td_fail(err, TD_INVALID, "cluster %s calls it %.60s, not %s: it has another version of Tandem",
				 r->member, td_jstr_or(td_json_root(reply), "id", "nothing"), there);
}

// The record changed while this was sent. When it names another place by now, or none, nobody knows of the copy:
// it would hold devices until it gives up.
static void withdraw(struct td_gateway *g, const struct td_hub *h, const struct td_hub_run *r, const char *member,
		     const char *there)
{
	td_auto_hub_run struct td_hub_run is = {0};
	td_auto_free char *path = td_asprintf("/api/v1/runs/%s/cancel", there); // its name was checked
	int rc = td_hub_run_get(g, r->user, r->run, g->cancel, &is, NULL);
	if ((rc && rc != TD_NOT_FOUND) ||
	    ((is.phase == TD_FED_PLACED || is.phase == TD_FED_STARTED) && td_streq(is.there, there)))
		return;
	const struct td_hub_call k = {.hub = h, .member = member, .user = r->user, .method = "POST", .path = path};
	struct td_error e = TD_ERROR_INIT;
	if (td_hub_do(g, &k, g->cancel, NULL, &e) && e.code != TD_NOT_FOUND)
		td_info("federation: run %s of %s at %s, which is elsewhere by now: %s", r->run, r->user, member,
			e.msg);
}

int td_hub_send(struct td_gateway *g, const struct td_hub *h, struct td_hub_run *r, struct td_cancel *c,
		struct td_error *err)
{
	struct td_gateway_ask q = {.g = g};
	struct td_error e = TD_ERROR_INIT;
	// An attempt before this one may have come there, though nobody heard of it.
	bool again = td_real_ms(&td_clock_system) / 1000 - r->since >= TD_FED_SEND_S;
	td_auto_free char *member = td_strdup(r->member), *there = td_strdup(r->there);
	int rc = td_gateway_user(g, r->user, &q.user, &e);
	if (!rc)
		rc = give(&q, h, r, &e);
	td_gateway_user_done(&q.user);
	if (!rc)
		rc = td_fault_at(&e, "gateway.hub.sent");
	if (rc == TD_CANCELLED)
		return td_fail(err, rc, "%s", e.msg); // it may be there: who watches decides
	td_auto_known struct td_hub_known k = {0};
	td_hub_known(g, member, &k);
	bool taken = !rc;
	if (rc == TD_UNCERTAIN || rc == TD_THROTTLED || (rc == TD_TRANSIENT && k.reached)) {
		// It may be there, or what fails is this person's alone: it is sent again after a while.
		says(&r->why, e.msg);
		td_hub_run_phase(r, TD_FED_PLACED);
		int w = td_hub_run_write(g, r, err);
		return w ? w : td_fail(err, rc, "%s", e.msg);
	}
	if (taken) {
		r->sent = true;
		td_hub_run_phase(r, TD_FED_PLACED);
	} else if (rc == TD_TRANSIENT) { // surely not
		td_hub_run_back(r, again);
		says(&r->why, e.msg);
	} else {
		td_auto_free char *clean = td_text_clean(e.msg);
		td_strv_add(&r->refused, r->member);
		td_strv_add(&r->refused_why, clean);
		td_hub_run_back(r, again);
		says(&r->why, clean);
	}
	rc = td_hub_run_write(g, r, err);
	if (taken && rc == TD_CONFLICT)
		withdraw(g, h, r, member, there);
	return rc;
}

void td_hub_drop(struct td_gateway *g, const struct td_hub_run *r)
{
	td_auto_user struct td_gateway_user u = {0};
	const struct td_home_call k = {.user = &u, .verb = "federated-drop", .args = {r->run}};
	if (!td_gateway_user(g, r->user, &u, NULL))
		td_home_do(g, &k, NULL, NULL, NULL); // nothing reads it any more
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
			says(&r->account, account);
		if (!r->partition)
			says(&r->partition, td_jstr(v, "partition"));
		if (!r->gpu_type)
			says(&r->gpu_type, td_jstr(v, "gpuType"));
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
	says(&r->hash, hex);
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
	td_auto_objects struct td_objects live = {0};
	struct td_error e = TD_ERROR_INIT;
	rc = td_hub_run_get(q->g, r->user, id, td_gateway_cancel(q), &is, &e);
	if (rc != TD_NOT_FOUND)
		return rc ? td_fail(err, rc, "%s", e.msg) : TD_EXISTS;
	if ((rc = td_hub_run_list(q->g, r->user, true, td_gateway_cancel(q), &live, err)))
		return rc;
	if (live.n >= LIVE_MOST)
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
		if (!rc && go)
			rc = td_hub_send(q->g, h, r, td_gateway_cancel(q), &e);
		if (rc || !go)
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
