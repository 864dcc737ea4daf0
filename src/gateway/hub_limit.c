// What teams hold and have used at all members, and the promises by which several gateways of the hub keep a limit
// together (pool/federation.h). Promises are in the Federation (state.reserved).
#include "gateway/hub.h"

#include "api/status.h"
#include "base/rand.h"

#include <string.h>

enum { TRIES = 20, AGAIN_MS = 20, UNKNOWN_MOST = 64 };

const struct td_fed_limit *td_hub_limit(const struct td_hub *h, const char *team)
{
	for (size_t i = 0; i < h->n_limits && team; i++)
		if (!strcmp(h->limits[i].team, team))
			return &h->limits[i];
	return NULL;
}

bool td_hub_said(const struct td_fed_limit *l, const struct td_hub_known *k)
{
	return (k->held || (l->gpus < 0 && l->user_gpus < 0)) && (k->used || l->gpu_hours < 0);
}

// A team, or one of its people (user NULL: all of them).
struct hub_whose {
	const char *team, *user;
};

static bool is_his(const struct hub_whose *w, const char *user)
{
	return !w->user || td_streq(w->user, user);
}

static bool of_team(const struct td_hub *h, const yyjson_val *row, const char *team)
{
	return team &&
	       td_streq(td_fed_team_of(h->teams, h->n_teams, td_jstr_or(row, "user", ""), td_jstr(row, "account")),
			team);
}

// ---- copies at members, by what they are called there ----

static int by_copy(const void *a, const void *b)
{
	const struct td_hub_copy *x = a, *y = b;
	int d = strcmp(x->there, y->there);
	d = d ? d : strcmp(x->user, y->user);
	return d ? d : strcmp(x->member, y->member);
}

static int by_name(const void *a, const void *b)
{
	const struct td_object *x = *(struct td_object *const *)a, *y = *(struct td_object *const *)b;
	return strcmp(x->name, y->name);
}

static const struct td_object *record_of(const struct td_hub_view *v, const char *name)
{
	struct td_object is = {.name = name}, *key = &is;
	struct td_object **found = v->live.n ? bsearch(&key, v->live.v, v->live.n, sizeof(*v->live.v), by_name) : NULL;
	return found ? *found : NULL;
}

int td_hub_view(struct td_gateway *g, const struct td_hub *h, struct td_cancel *c, struct td_hub_view *ret,
		struct td_error *err)
{
	struct td_hub_view v = {.hub = h};
	int r = td_hub_live(g, c, &v.live, err);
	if (r)
		return r;
	v.federation = td_object_ref(h->o);
	v.at = td_calloc(h->n_members + 1, sizeof(*v.at));
	v.copies = td_calloc(v.live.n + 1, sizeof(*v.copies));
	for (size_t j = 0; j < v.live.n; j++) {
		const yyjson_val *root = v.live.v[j]->root;
		const char *at = td_jstr(root, "state.member");
		const struct td_hub_member *m = at ? td_hub_member(h, at) : NULL;
		if (m)
			v.at[m - h->members]++;
		if (td_hub_run_is_at(v.live.v[j], NULL))
			v.copies[v.n_copies++] = (struct td_hub_copy){.member = at ? at : "",
								      .there = td_jstr_or(root, "state.there", ""),
								      .user = td_jstr_or(root, "spec.user", ""),
								      .o = v.live.v[j]};
	}
	if (v.live.n)
		qsort(v.live.v, v.live.n, sizeof(*v.live.v), by_name);
	if (v.n_copies)
		qsort(v.copies, v.n_copies, sizeof(*v.copies), by_copy);
	*ret = v;
	return 0;
}

void td_hub_view_done(struct td_hub_view *v)
{
	for (size_t i = 0; i < v->n_teams; i++)
		free(v->teams[i].name), free(v->teams[i].user), free(v->teams[i].each);
	free(v->teams);
	free(v->at);
	free(v->copies);
	td_strv_done(&v->gone);
	td_object_unref(v->federation);
	td_objects_done(&v->live);
	*v = (struct td_hub_view){0};
}

static struct td_hub_team *used_of(struct td_gateway *g, struct td_hub_view *v, const struct hub_whose *w);

void td_hub_view_add(struct td_gateway *g, struct td_hub_view *v, const struct td_hub_run *r)
{
	const struct td_fed_limit *l = td_hub_limit(v->hub, r->team);
	const struct td_hub_member *m = r->member ? td_hub_member(v->hub, r->member) : NULL;
	if (m)
		v->at[m - v->hub->members]++;
	td_hub_used(g, v, r->team)->sum.gpus += r->holds;
	if (l && l->user_gpus >= 0)
		used_of(g, v, &(struct hub_whose){r->team, r->user})->sum.gpus += r->holds;
}

// ---- what a team has ----

static struct td_fed_promise promise(const char *run, const yyjson_val *v)
{
	return (struct td_fed_promise){.run = run,
				       .team = td_jstr_or(v, "team", ""),
				       .holds = td_jint(v, "holds", 0),
				       .attempt = td_jint(v, "attempt", 0),
				       .until_s = td_jint(v, "until", 0)};
}

static bool over(const struct td_fed_promise *p, const struct td_object *record)
{
	enum td_fed_phase phase;
	return td_fed_phase_parse(td_jstr(record->root, "state.phase"), &phase) &&
	       td_fed_promise_over(p, phase, td_jint(record->root, "state.attempt", 0));
}

// What a promise adds to what is at members: nothing when its run is seen there, or is known to be over.
static int64_t adds(const struct td_hub_view *v, const struct td_fed_promise *p)
{
	if (p->until_s)
		return td_fed_session_promised(p, td_real_ms(&td_clock_system) / 1000);
	const struct td_object *o = record_of(v, p->run);
	if (!o && !v->exact) // over, most likely
		return 0;
	return td_strv_has(&v->gone, p->run) || (o && (td_hub_run_is_at(o, NULL) || over(p, o))) ? 0 : p->holds;
}

static int64_t promised(const struct td_hub_view *v, const struct hub_whose *w)
{
	size_t i, n;
	yyjson_val *k, *e;
	int64_t sum = 0;
	yyjson_obj_foreach (td_jget(v->federation->root, "state.reserved"), i, n, k, e) {
		struct td_fed_promise p = promise(yyjson_get_str(k), e);
		const char *user = td_jstr(e, "user"); // one that names nobody, of an older gateway, may be his
		if (w->user && p.until_s)              // members are asked for his sessions when he starts one
			continue;
		sum += !strcmp(p.team, w->team) && (!user || is_his(w, user)) ? adds(v, &p) : 0;
	}
	return sum;
}

// Its own promise keeps no run from going.
static int64_t own(const struct td_hub_view *v, const struct td_hub_run *r)
{
	yyjson_val *e = td_jkey(td_jget(v->federation->root, "state.reserved"), r->object);
	struct td_fed_promise p = promise(r->object, e);
	return e && td_streq(p.team, r->team) ? adds(v, &p) : 0;
}

struct td_hub_copy *td_hub_copy(const struct td_hub_view *v, const char *member, const yyjson_val *held)
{
	const char *run = td_jstr(held, "run");
	const struct td_hub_copy key = {
		.member = member, .there = run ? run : "", .user = td_jstr_or(held, "user", "")};
	return run && v->n_copies ? bsearch(&key, v->copies, v->n_copies, sizeof(key), by_copy) : NULL;
}

// What jobs hold at a member in the names of runs is added to these; all else counts by itself.
static int64_t held(const struct td_hub_view *v, const char *member, const struct td_json *said,
		    const struct hub_whose *w)
{
	size_t i, n;
	yyjson_val *e;
	int64_t sum = 0;
	yyjson_arr_foreach (td_jget(td_json_root(said), "held"), i, n, e) {
		struct td_hub_copy *c = td_hub_copy(v, member, e);
		if (!is_his(w, td_jstr_or(e, "user", "")) || !of_team(v->hub, e, w->team))
			continue;
		if (c && td_streq(td_jstr(c->o->root, "spec.team"), w->team))
			c->held += td_jint(e, "gpus", 0);
		else
			sum += td_jint(e, "gpus", 0);
	}
	return sum;
}

// What a team has and has used at all members, and in *ret_used at each.
static void reckon(struct td_gateway *g, const struct td_hub_view *v, const struct hub_whose *w,
		   struct td_fed_used *ret, double *ret_used)
{
	const char *team = w->team;
	const struct td_hub *h = v->hub;
	const struct td_fed_limit *l = td_hub_limit(h, team);
	size_t i, n;
	yyjson_val *e;
	*ret = (struct td_fed_used){.known = true};
	for (size_t k = 0; k < v->n_copies; k++)
		v->copies[k].held = 0;
	for (size_t m = 0; m < h->n_members; m++) {
		td_auto_known struct td_hub_known k = {0};
		td_hub_known(g, h->members[m].name, &k);
		ret->gpus += held(v, h->members[m].name, k.held, w);
		yyjson_arr_foreach (td_jget(td_json_root(k.used), "used"), i, n, e)
			if (of_team(h, e, team) && td_jint(e, "days", 0) == (l ? l->days : 30))
				ret_used[m] += yyjson_get_num(td_jget(e, "gpuHours"));
		ret->gpu_hours += ret_used[m];
		if (l && !td_hub_said(l, &k))
			ret->known = false;
	}
	// Those of this hub count from when they are given to a member, also while they wait there.
	for (size_t k = 0; k < v->n_copies && team; k++) {
		const yyjson_val *root = v->copies[k].o->root;
		if (td_streq(td_jstr(root, "spec.team"), team) && is_his(w, v->copies[k].user))
			ret->gpus += td_fed_counts(td_jint(root, "spec.holds", td_jint(root, "spec.gpus", 0)),
						   v->copies[k].held);
	}
	if (l)
		ret->gpus += promised(v, w);
}

static bool same(const char *a, const char *b)
{
	return td_streq(a, b) || (!a && !b);
}

static struct td_hub_team *used_of(struct td_gateway *g, struct td_hub_view *v, const struct hub_whose *w)
{
	for (size_t i = 0; i < v->n_teams; i++)
		if (same(v->teams[i].name, w->team) && same(v->teams[i].user, w->user))
			return &v->teams[i];
	v->teams = td_realloc(v->teams, (v->n_teams + 1) * sizeof(*v->teams));
	struct td_hub_team *t = &v->teams[v->n_teams++];
	*t = (struct td_hub_team){.name = td_strdup(w->team),
				  .user = td_strdup(w->user),
				  .each = td_calloc(v->hub->n_members + 1, sizeof(*t->each))};
	reckon(g, v, w, &t->sum, t->each);
	return t;
}

struct td_hub_team *td_hub_used(struct td_gateway *g, struct td_hub_view *v, const char *team)
{
	return used_of(g, v, &(struct hub_whose){team, NULL});
}

struct td_fed_used td_hub_used_by(struct td_gateway *g, struct td_hub_view *v, const char *team, const char *user)
{
	return used_of(g, v, &(struct hub_whose){team, user})->sum;
}

int64_t td_hub_runs_of(const struct td_hub_view *v, const char *team, const char *user)
{
	const struct hub_whose w = {team, user};
	int64_t sum = promised(v, &w);
	for (size_t k = 0; k < v->n_copies; k++) {
		const yyjson_val *root = v->copies[k].o->root;
		if (td_streq(td_jstr(root, "spec.team"), team) && is_his(&w, v->copies[k].user))
			sum += td_jint(root, "spec.holds", td_jint(root, "spec.gpus", 0));
	}
	return sum;
}

char *td_hub_over(struct td_gateway *g, struct td_hub_view *v, const struct td_hub_run *r)
{
	struct td_fed_used sum = td_hub_used(g, v, r->team)->sum;
	const struct td_fed_limit *l = td_hub_limit(v->hub, r->team);
	sum.gpus -= own(v, r);
	char *over = td_fed_over(l, &sum, r->holds);
	if (over || !l || l->user_gpus < 0)
		return over;
	struct td_fed_used his = td_hub_used_by(g, v, r->team, r->user);
	his.gpus -= own(v, r);
	return td_fed_over_one(l, r->user, &his, r->holds);
}

// ---- promising ----

// How many promises of a team have no record among the live ones.
static size_t unknown(const struct td_hub_view *v, const char *team)
{
	size_t i, n, sum = 0;
	yyjson_val *k, *e;
	yyjson_obj_foreach (td_jget(v->federation->root, "state.reserved"), i, n, k, e)
		sum += td_streq(td_jstr(e, "team"), team) && !td_jint(e, "until", 0) &&
		       !record_of(v, yyjson_get_str(k));
	return sum;
}

// Looks up the records of promises that are not among the live ones: what is over or gone counts no more. It is
// asked for when a limit is reached, or when there are many, so that ended runs cost little before and the Federation
// does not grow with each.
static int resolve(struct td_gateway *g, struct td_hub_view *v, const char *team, struct td_cancel *c,
		   struct td_error *err)
{
	size_t i, n;
	yyjson_val *k, *e;
	yyjson_obj_foreach (td_jget(v->federation->root, "state.reserved"), i, n, k, e) {
		struct td_fed_promise p = promise(yyjson_get_str(k), e);
		td_auto(td_object_unref) struct td_object *o = NULL;
		if (strcmp(p.team, team) != 0 || p.until_s || record_of(v, p.run))
			continue;
		int r = td_kube_get(g->kube, &td_federatedruns, g->o.ns, p.run, c, &o, err);
		if (r && r != TD_NOT_FOUND)
			return r;
		if (r || over(&p, o))
			td_strv_add(&v->gone, p.run);
	}
	return 0;
}

static int write(struct td_gateway *g, const struct td_hub_view *v, const struct td_hub_run *r, struct td_cancel *c,
		 struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *map = td_jm_obj(d, o, "state.reserved"),
		       *mine = yyjson_mut_obj(d);
	size_t i, n;
	yyjson_val *k, *e, *is = td_jkey(td_jget(v->federation->root, "state.reserved"), r->object);
	struct td_fed_promise want = {.run = r->object, .team = r->team, .holds = r->holds, .attempt = r->attempt + 1},
			      has = promise(r->object, is);
	if (is && !td_fed_promise_may(&has, &want))
		return td_fail(err, TD_CONFLICT, "run %s was changed since it was read", r->run);
	td_jm_str(d, o, "metadata.resourceVersion", v->federation->rv);
	yyjson_obj_foreach (td_jget(v->federation->root, "state.reserved"), i, n, k, e) {
		struct td_fed_promise p = promise(yyjson_get_str(k), e);
		const struct td_object *record = record_of(v, p.run);
		if (p.until_s ? !td_fed_session_promised(&p, td_real_ms(&td_clock_system) / 1000)
			      : td_strv_has(&v->gone, p.run) || (record && over(&p, record)))
			td_jm_key_set(d, map, p.run, yyjson_mut_null(d));
	}
	td_jm_str(d, mine, "team", want.team);
	td_jm_str(d, mine, "user", r->user);
	td_jm_int(d, mine, "holds", want.holds);
	td_jm_int(d, mine, "attempt", want.attempt);
	if (r->until_s)
		td_jm_int(d, mine, "until", r->until_s);
	td_jm_key_set(d, map, r->object, mine);
	return td_kube_patch(g->kube, TD_AT(&td_federations, NULL, v->hub->name), TD_PATCH_MERGE, o, c, NULL, err);
}

int td_hub_promise(struct td_gateway *g, struct td_hub_view *v, const struct td_hub_run *r, struct td_cancel *c,
		   char **ret_over, struct td_error *err)
{
	const struct td_fed_limit *l = td_hub_limit(v->hub, r->team);
	if (!l || (l->gpus < 0 && l->user_gpus < 0) || r->holds <= 0) {
		*ret_over = td_hub_over(g, v, r);
		return 0;
	}
	for (int tries = 0; tries < TRIES; tries++) {
		td_auto(td_object_unref) struct td_object *fresh = NULL;
		td_auto_view struct td_hub_view now = {0};
		// What others have promised is read before the records, which may be older.
		int rc = td_kube_get(g->kube, &td_federations, NULL, v->hub->name, c, &fresh, err);
		if (rc == TD_DENIED)
			return td_fail(err, TD_TRANSIENT, "this gateway may not write to Federation %s: %s",
				       v->hub->name, err->msg);
		if (rc || (rc = td_hub_view(g, v->hub, c, &now, err)))
			return rc;
		td_object_unref(now.federation);
		now.federation = td_steal(fresh);
		now.exact = true;
		bool looked = unknown(&now, r->team) >= UNKNOWN_MOST;
		if (looked && (rc = resolve(g, &now, r->team, c, err)))
			return rc;
		td_auto_free char *over = td_hub_over(g, &now, r);
		if (over && !looked) {
			if ((rc = resolve(g, &now, r->team, c, err)))
				return rc;
			td_auto_view struct td_hub_view again = {0};
			if ((rc = td_hub_view(g, v->hub, c, &again, err)))
				return rc;
			td_object_unref(again.federation);
			again.federation = td_object_ref(now.federation);
			again.exact = true;
			for (size_t i = 0; i < now.gone.n; i++)
				td_strv_add(&again.gone, now.gone.v[i]);
			free(over);
			over = td_hub_over(g, &again, r);
		}
		if (over) {
			*ret_over = td_steal(over);
			return 0;
		}
		rc = write(g, &now, r, c, err);
		if (rc != TD_CONFLICT)
			return rc;
		if ((rc = td_cancel_wait(
			     c, AGAIN_MS + td_random_below(AGAIN_MS * (1 + tries))))) // not in step with others
			return td_fail(err, rc, "cancelled");
	}
	return td_fail(err, TD_TRANSIENT, "Federation %s is changed all the time", v->hub->name);
}
