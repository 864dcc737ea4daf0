// Limits of a Federation where a person starts, resumes or scales a session at the hub (docs/federation.md). His sessions
// are asked for at all members then: the hub keeps no record of them.
#include "gateway/hub.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/rand.h"

#include <inttypes.h>
#include <string.h>

// How many pods a session is to have, as its member shows it.
static int64_t pods_of(const yyjson_val *session)
{
	return td_jint(session, "replicas.asked", td_jint(session, "nodes.asked", 1));
}

static void add(const yyjson_val *session, struct td_fed_sessions *to)
{
	static const char *const over[] = {"done", "failed", "stopping", "reclaimed", "stopped"};
	const char *state = td_jstr_or(session, "state", "");
	for (size_t i = 0; i < TD_LEN(over); i++)
		if (!strcmp(state, over[i]))
			return;
	int64_t gpus = td_jint(session, "gpus", 0) * pods_of(session);
	to->n++;
	to->asks += gpus;
	to->waits += strcmp(state, "waiting") ? 0 : gpus;
}

// One session, as its member shows it.
struct hub_shown {
	bool found;
	const char *team;   // the hub's; NULL: it is of none
	int64_t gpus, pods; // GPUs of each pod
	struct td_fed_sessions is;
};

static const char *team_of(const struct td_gateway_ask *q, const struct td_hub *h, const yyjson_val *session)
{
	return td_fed_team_of(h->teams, h->n_teams, q->user.name, td_jstr(session, "account"));
}

// His sessions of that team at all members. but: the one called so is left out and goes to *ret_but, and its team counts
// instead. Of a member that does not answer all those count that were seen there last.
static void sessions_of(struct td_gateway_ask *q, const struct td_hub *h, const char *team, const char *but,
			struct td_fed_sessions *ret, struct hub_shown *ret_but)
{
	td_auto_free struct td_hub_answer *got = td_calloc(h->n_members + 1, sizeof(*got));
	size_t i, count;
	yyjson_val *v;
	td_hub_ask_all(q, h, "/api/v1/sessions", false, got);
	for (size_t m = 0; m < h->n_members && but; m++)
		if ((v = td_jfind(td_jget(td_json_root(got[m].json), "sessions"), "id", but))) {
			*ret_but = (struct hub_shown){true, team_of(q, h, v), td_jint(v, "gpus", 0), pods_of(v), {0}};
			add(v, &ret_but->is);
			team = ret_but->team;
		}
	for (size_t m = 0; m < h->n_members; m++) {
		if (got[m].r && got[m].r != TD_DENIED)
			ret->n += td_hub_session_seen(q->user.name, h->members[m].name, but);
		yyjson_arr_foreach (td_jget(td_json_root(got[m].json), "sessions"), i, count, v)
			if (!(but && td_streq(td_jstr(v, "id"), but)) && td_streq(team_of(q, h, v), team))
				add(v, ret);
		td_json_unref(got[m].json);
	}
}

// Of one person's, by his own limit.
static int allowed_one(struct td_gateway_ask *q, struct td_hub_view *view, const struct td_hub_run *r,
		       const struct td_fed_sessions *s, struct td_error *err)
{
	const struct td_fed_limit *l = td_hub_limit(view->hub, r->team);
	struct td_fed_used his = td_hub_used_by(q->g, view, r->team, r->user);
	his.gpus = td_fed_holds_one(s, his.gpus, td_hub_runs_of(view, r->team, r->user));
	td_auto_free char *over = td_fed_sessions_over(l, r->user, s);
	if (!over)
		over = td_fed_over_one(l, r->user, &his, r->holds);
	return over ? td_fail(err, TD_THROTTLED, "%s", over) : 0;
}

void td_hub_session_not(struct td_gateway *g, const struct td_hub *h, const char *promise)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	struct td_error e = TD_ERROR_INIT;
	if (!promise || !*promise)
		return;
	// Nobody else writes a promise of this name, so it is taken away whatever the Federation says besides.
	td_jm_key_set(d, td_jm_obj(d, o, "state.reserved"), promise, yyjson_mut_null(d));
	if (td_kube_patch(g->kube, TD_AT(&td_federations, NULL, h->name), TD_PATCH_MERGE, o, g->cancel, NULL, &e))
		td_debug("what %s was promised in Federation %s counts for some seconds yet: %s", promise, h->name,
			 e.msg);
}

// As a run before it is given to a member: what sessions of others of the team are promised, by any gateway, counts.
static int promise(struct td_gateway_ask *q, struct td_hub_view *view, struct td_hub_run *r, const char *then,
		   struct td_error *err)
{
	uint64_t word = 0;
	td_auto_free char *over = NULL;
	if (r->holds <= 0)
		return 0;
	td_random(&word, sizeof(word));
	free(r->object);
	r->object = td_asprintf("session-%016" PRIx64, word);
	r->until_s = td_real_ms(&td_clock_system) / 1000 + TD_FED_SESSION_S;
	int rc = td_hub_promise(q->g, view, r, td_gateway_cancel(q), &over, err);
	if (rc == TD_UNCERTAIN) { // it may be promised, but no member is asked
		td_hub_session_not(q->g, view->hub, r->object);
		return td_fail(err, TD_TRANSIENT, "Federation %s: %s", view->hub->name, err->msg);
	}
	return rc || !over ? rc : td_fail(err, TD_THROTTLED, "%s%s", over, then);
}

int td_hub_session_allowed(struct td_gateway_ask *q, struct td_hub_view *view, struct td_hub_run *r,
			   struct td_error *err)
{
	const struct td_fed_limit *l = td_hub_limit(view->hub, r->team);
	int rc = 0;
	// Its person waits for it here and now: beyond the limit it is not kept for later.
	td_auto_free char *over = td_hub_over(q->g, view, r);
	if (over)
		return td_fail(err, TD_THROTTLED, "%s: it is not started now", over);
	if (l && (l->user_gpus >= 0 || l->user_sessions >= 0)) {
		struct td_fed_sessions s = {0};
		sessions_of(q, view->hub, r->team, NULL, &s, NULL);
		rc = allowed_one(q, view, r, &s, err);
	}
	return rc || !l || l->gpus < 0 ? rc : promise(q, view, r, ": it is not started now", err);
}

int td_hub_session_more(struct td_gateway_ask *q, const struct td_hub *h, int64_t replicas, char **ret_promise,
			struct td_error *err)
{
	td_auto_hub_run struct td_hub_run r = {0};
	td_auto_view struct td_hub_view view = {0};
	struct hub_shown it = {0};
	struct td_fed_sessions s = {0};
	r.user = td_strdup(q->user.name);
	r.object = td_strdup("");
	if (!h->n_limits)
		return 0;
	sessions_of(q, h, NULL, q->args[0], &s, &it);
	r.team = td_strdup(it.team);
	r.gpus = r.holds = it.gpus * (replicas ? replicas : it.pods) - it.is.asks;
	// What is not found, its member says what that is. What lives and becomes no larger may.
	if (!it.found || !td_hub_limit(h, r.team) || (r.holds <= 0 && it.is.n))
		return 0;
	int rc = td_hub_view(q->g, h, td_gateway_cancel(q), &view, err);
	if (rc)
		return rc;
	td_auto_free char *over = td_hub_over(q->g, &view, &r);
	if (over)
		return td_fail(err, TD_THROTTLED, "%s", over);
	s.asks += it.is.asks;
	s.waits += it.is.waits;
	rc = allowed_one(q, &view, &r, &s, err);
	if (rc || td_hub_limit(h, r.team)->gpus < 0 || (rc = promise(q, &view, &r, "", err)))
		return rc;
	*ret_promise = td_steal(r.object);
	return 0;
}
