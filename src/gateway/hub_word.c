// What the hub tells its members of limits over all of them, with the look that it takes anyway (pool/fedword.h).
#include "gateway/hub.h"

#include "api/status.h"
#include "base/log.h"
#include "pool/fedword.h"

#include <string.h>

enum { LOOK_MS = 4000, WHY_MOST = 300, WORD_MOST = 256 << 10 };

// ---- what is known ----

struct word_facts {
	struct td_fedword_held *held;
	struct td_fedword_run *runs;
	size_t n_held, n_runs, room;
};

static void done(struct word_facts *f)
{
	free(f->held);
	free(f->runs);
}

// What a team's jobs hold, and its runs. Texts are those of what was heard of members, which `known` keeps.
static void facts(const struct td_hub_view *v, const struct td_hub_known *known, const char *team,
		  struct word_facts *ret)
{
	size_t i, n;
	yyjson_val *e;
	for (size_t k = 0; k < v->n_copies; k++)
		v->copies[k].held = 0;
	for (size_t m = 0; m < v->hub->n_members; m++) {
		yyjson_arr_foreach (td_jget(td_json_root(known[m].held), "held"), i, n, e) {
			if (!td_hub_of_team(v->hub, e, team))
				continue;
			if (ret->n_held == ret->room) {
				ret->room = 2 * ret->room + 16;
				ret->held = td_realloc(ret->held, ret->room * sizeof(*ret->held));
			}
			const struct td_fedword_held h = {m, td_jstr_or(e, "account", ""), td_jstr_or(e, "user", ""),
							  td_jint(e, "gpus", 0)};
			struct td_hub_copy *c = td_hub_copy(v, v->hub->members[m].name, e);
			ret->held[ret->n_held++] = h;
			if (c && td_streq(td_jstr(c->o->root, "spec.team"), team))
				c->held += h.gpus;
		}
	}
	ret->runs = td_calloc(v->n_copies + 1, sizeof(*ret->runs));
	for (size_t k = 0; k < v->n_copies; k++) {
		const yyjson_val *root = v->copies[k].o->root;
		const struct td_hub_member *m = td_hub_member(v->hub, v->copies[k].member);
		if (m && td_streq(td_jstr(root, "spec.team"), team))
			ret->runs[ret->n_runs++] = (struct td_fedword_run){
				(size_t)(m - v->hub->members), v->copies[k].user,
				td_jint(root, "spec.holds", td_jint(root, "spec.gpus", 0)), v->copies[k].held};
	}
}

// ---- the word ----

static yyjson_mut_val *row(yyjson_mut_doc *d, yyjson_mut_val *list, const char *a, const char *b)
{
	yyjson_mut_val *r = yyjson_mut_arr_add_arr(d, list);
	yyjson_mut_arr_add_strcpy(d, r, a);
	if (b)
		yyjson_mut_arr_add_strcpy(d, r, b);
	return r;
}

static void say(yyjson_mut_doc *d, yyjson_mut_val *list, const struct td_hub *h, const struct td_fedword_team *t)
{
	yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list), *accounts = td_jm_arr(d, o, "accounts"),
		       *users = td_jm_arr(d, o, "users"), *rows = td_jm_arr(d, o, "rows"),
		       *people = td_jm_arr(d, o, "people"), *at = td_jm_arr(d, o, "at");
	td_jm_str(d, o, "name", t->name);
	td_jm_int(d, o, "gpus", t->gpus);
	td_jm_int(d, o, "perUser", t->user_gpus);
	td_jm_int(d, o, "used", t->used);
	td_jm_int(d, o, "waits", t->waits);
	td_jm_int(d, o, "alone", t->alone);
	td_jm_int(d, o, "userAlone", t->user_alone);
	td_jm_bool(d, o, "spent", t->spent);
	for (size_t i = 0; i < h->n_teams; i++) {
		const struct td_fed_team *x = &h->teams[i];
		for (size_t k = 0; !strcmp(x->name, t->name) && k < x->accounts.n; k++)
			yyjson_mut_arr_add_strcpy(d, accounts, x->accounts.v[k]);
		for (size_t k = 0; !strcmp(x->name, t->name) && k < x->users.n; k++)
			if (td_streq(td_fed_team_of(h->teams, h->n_teams, x->users.v[k], NULL), t->name))
				yyjson_mut_arr_add_strcpy(d, users, x->users.v[k]);
	}
	for (size_t i = 0; i < t->n_rows; i++)
		yyjson_mut_arr_add_int(d, row(d, rows, t->rows[i].account, t->rows[i].user), t->rows[i].gpus);
	for (size_t i = 0; i < t->n_people; i++) {
		yyjson_mut_val *r = row(d, people, t->people[i].user, NULL);
		yyjson_mut_arr_add_int(d, r, t->people[i].used);
		yyjson_mut_arr_add_int(d, r, t->people[i].waits);
	}
	for (size_t m = 0; m < h->n_members; m++)
		if (t->at[m])
			yyjson_mut_arr_add_int(d, row(d, at, h->members[m].name, NULL), t->at[m]);
}

char *td_hub_word(struct td_gateway *g, struct td_hub_view *v, const char *member)
{
	const struct td_hub *h = v->hub;
	const struct td_hub_member *to = td_hub_member(h, member);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_auto(td_arena_free) struct td_arena *arena = td_arena_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *taken = td_jm_arr(d, o, "taken"),
		       *teams = td_jm_arr(d, o, "teams");
	struct td_hub_known *known = td_arena_alloc(arena, (h->n_members + 1) * sizeof(*known));
	int64_t *weights = td_arena_alloc(arena, (h->n_members + 1) * sizeof(*weights));
	bool sure = to != NULL;
	for (size_t m = 0; m < h->n_members; m++) {
		td_hub_known(g, h->members[m].name, &known[m]);
		weights[m] = h->members[m].weight;
	}
	for (size_t i = 0; i < h->n_teams && !h->ending; i++)
		for (size_t k = 0; k < h->teams[i].accounts.n; k++)
			yyjson_mut_arr_add_strcpy(d, taken, h->teams[i].accounts.v[k]);
	for (size_t i = 0; i < h->n_limits && sure && !h->ending; i++) {
		const struct td_fed_limit *l = &h->limits[i];
		const struct td_fed_used sum = td_hub_used(g, v, l->team)->sum;
		struct word_facts f = {0};
		struct td_fedword_team t = {.name = l->team};
		sure = sum.known; // what a member holds that has never said so is not taken for nothing
		facts(v, known, l->team, &f);
		const struct td_fedword_facts all = {.gpus = l->gpus,
						     .user_gpus = l->user_gpus,
						     .spent =
							     l->gpu_hours >= 0 && sum.gpu_hours >= (double)l->gpu_hours,
						     .held = f.held,
						     .n_held = f.n_held,
						     .runs = f.runs,
						     .n_runs = f.n_runs,
						     .weights = weights,
						     .n_members = h->n_members};
		td_fedword_reckon(arena, &all, (size_t)(to - h->members), &t);
		say(d, teams, h, &t);
		done(&f);
	}
	for (size_t m = 0; m < h->n_members; m++)
		td_hub_known_done(&known[m]);
	size_t n = 0;
	td_auto_free char *text = sure ? td_json_mut_text(o, &n) : NULL;
	if (n > WORD_MOST) {
		td_warn("federation %s: what members have to know of its limits is %zu bytes, of %d at most, so they "
			"are "
			"told nothing: name accounts in spec.teams instead of people",
			h->name, n, WORD_MOST);
		return NULL;
	}
	return td_steal(text);
}

// ---- what comes of it ----

void td_hub_word_kept(struct td_gateway *g, const struct td_hub *h, const char *member, const struct td_json *look)
{
	const yyjson_val *says = td_jget(td_json_root(look), "limits"),
			 *old = td_jkey(td_jget(h->o->root, "state.members"), member);
	bool limits = h->n_limits && !h->ending, kept = td_jbool(says, "kept", false);
	td_auto_free char *clean =
		td_text_clean(says ? td_jstr_or(says, "why", "")
				   : "its gateway is of an older release, which does not hold back: update it there");
	td_auto_free char *why = td_strndup(clean, WHY_MOST);
	if (!limits ? !old
		    : old && kept == td_jbool(old, "holdsBack", false) && td_streq(why, td_jstr_or(old, "why", "")))
		return;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *e = limits ? yyjson_mut_obj(d) : yyjson_mut_null(d);
	struct td_error err = TD_ERROR_INIT;
	td_jm_key_set(d, td_jm_obj(d, o, "state.members"), member, e);
	if (limits) {
		td_jm_bool(d, e, "holdsBack", kept);
		td_jm_str(d, e, "why", why);
	}
	int r = td_kube_patch(g->kube, TD_AT(&td_federations, NULL, h->name), TD_PATCH_MERGE, o, g->cancel, NULL, &err);
	if (r)
		td_debug("federation %s: whether %s holds back: %s", h->name, member, err.msg);
	else if (limits)
		td_info("federation: member %s %s%s", member,
			kept ? "holds back what goes beyond limits" : "holds nothing back: ", why);
}

void td_hub_farewell(struct td_gateway *g, const struct td_hub *was)
{
	static const char nothing[] = "{\"limits\": \"{\\\"taken\\\": [], \\\"teams\\\": []}\"}";
	td_auto(td_hub_unref) struct td_hub *now = td_hub_get(g);
	bool same = now && td_streq(now->name, was->name);
	td_auto_free struct td_hub_call *calls = td_calloc(was->n_members + 1, sizeof(*calls));
	td_auto_free struct td_hub_answer *got = td_calloc(was->n_members + 1, sizeof(*got));
	size_t n = 0;
	for (size_t m = 0; m < was->n_members; m++) {
		td_auto_known struct td_hub_known k = {0};
		td_hub_known(g, was->members[m].name, &k);
		if (k.takes_word && !(same && td_hub_member(now, was->members[m].name)))
			calls[n++] = (struct td_hub_call){.hub = was,
							  .member = was->members[m].name,
							  .method = "POST",
							  .path = "/api/v1/federation/look",
							  .body = nothing,
							  .body_len = strlen(nothing),
							  .timeout_ms = LOOK_MS};
	}
	td_hub_do_all(g, calls, n, false, g->cancel, got);
	for (size_t i = 0; i < n; i++) {
		if (got[i].r)
			td_warn("federation %s: %s could not be told that it limits nothing there any more; its "
				"administrator takes the hub out of spec.federation.hubs of its SlurmCluster: %s",
				was->name, calls[i].member, got[i].err.msg);
		td_json_unref(got[i].json);
	}
}
