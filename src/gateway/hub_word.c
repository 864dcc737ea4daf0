// What the hub tells its members of limits over all of them, with the look that it takes anyway (pool/fedword.h).
#include "gateway/hub.h"

#include "api/status.h"
#include "base/log.h"
#include "pool/fedword.h"

#include <string.h>

enum { LOOK_MS = 4000, WHY_MOST = 300, WORD_MOST = 256 << 10, GPUS_MOST = 1000000000 };

// ---- what is known ----

struct word_name { // an account or a user, and the first team that has it
	const char *name;
	size_t team;
};
struct word_names {
	struct word_name *v;
	size_t n;
};
struct td_hub_words {
	struct td_arena *arena;
	const struct td_hub *hub;
	struct td_hub_known *known; // of members; texts of what follows are in what was heard of them
	int64_t *weights;
	struct word_names accounts, users;
	struct td_fedword_facts *facts; // of limits
	size_t *rooms;                  // of facts[].held
	size_t bytes;                   // of names that a word has at least
	bool sure;                      // what a member holds that has never said so is not taken for nothing
};

static int by_name(const void *a, const void *b)
{
	const struct word_name *x = a, *y = b;
	int d = strcmp(x->name, y->name);
	return d ? d : (x->team > y->team) - (x->team < y->team);
}

static int is_name(const void *a, const void *b)
{
	return strcmp(((const struct word_name *)a)->name, ((const struct word_name *)b)->name);
}

static void put(struct word_names *l, const struct td_strv *names, size_t team)
{
	for (size_t i = 0; i < names->n; i++)
		l->v[l->n++] = (struct word_name){names->v[i], team};
}

static void settle(struct word_names *l)
{
	size_t n = 0;
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_name);
	for (size_t i = 0; i < l->n; i++)
		if (!n || strcmp(l->v[n - 1].name, l->v[i].name) != 0)
			l->v[n++] = l->v[i];
	l->n = n;
}

static const struct word_name *find(const struct word_names *l, const char *name)
{
	const struct word_name key = {.name = name};
	return l->n && name ? bsearch(&key, l->v, l->n, sizeof(key), is_name) : NULL;
}

// The limit for the team of what a member tells of (td_fed_team_of()); NULL: none.
static struct td_fedword_facts *facts_of(const struct td_hub_words *w, const yyjson_val *row,
					 const struct td_fed_limit **ret)
{
	const struct word_name *x = find(&w->accounts, td_jstr(row, "account"));
	x = x ? x : find(&w->users, td_jstr_or(row, "user", ""));
	*ret = x ? td_hub_limit(w->hub, w->hub->teams[x->team].name) : NULL;
	return *ret ? &w->facts[*ret - w->hub->limits] : NULL;
}

// What jobs hold, each job once for all limits and all members that are told.
static void held(struct td_hub_words *w, const struct td_hub_view *v)
{
	const struct td_fed_limit *l;
	size_t i, n;
	yyjson_val *e;
	for (size_t k = 0; k < v->n_copies; k++)
		v->copies[k].held = 0;
	for (size_t m = 0; m < w->hub->n_members; m++) {
		yyjson_arr_foreach (td_jget(td_json_root(w->known[m].held), "held"), i, n, e) {
			struct td_fedword_facts *f = facts_of(w, e, &l);
			int64_t gpus = td_jint(e, "gpus", 0);
			if (!f || gpus <= 0)
				continue;
			size_t *room = &w->rooms[f - w->facts];
			struct td_fedword_held *all = (struct td_fedword_held *)(uintptr_t)f->held;
			if (f->n_held == *room) {
				*room = 2 * *room + 16;
				f->held = all = td_realloc(all, *room * sizeof(*all));
			}
			struct td_hub_copy *c = td_hub_copy(v, w->hub->members[m].name, e);
			all[f->n_held++] =
				(struct td_fedword_held){m, td_jstr_or(e, "account", ""), td_jstr_or(e, "user", ""),
							 gpus < GPUS_MOST ? gpus : GPUS_MOST};
			if (c && td_streq(td_jstr(c->o->root, "spec.team"), l->team))
				c->held += all[f->n_held - 1].gpus;
		}
	}
}

static void runs(struct td_hub_words *w, const struct td_hub_view *v)
{
	for (size_t k = 0; k < v->n_copies; k++) {
		const yyjson_val *root = v->copies[k].o->root;
		const struct td_hub_member *m = td_hub_member(w->hub, v->copies[k].member);
		const struct td_fed_limit *l = td_hub_limit(w->hub, td_jstr(root, "spec.team"));
		struct td_fedword_facts *f = m && l ? &w->facts[l - w->hub->limits] : NULL;
		if (!f)
			continue;
		struct td_fedword_run *all = (struct td_fedword_run *)(uintptr_t)f->runs;
		if (!all)
			f->runs = all = td_arena_alloc(w->arena, (v->n_copies + 1) * sizeof(*all));
		all[f->n_runs++] = (struct td_fedword_run){(size_t)(m - w->hub->members), v->copies[k].user,
							   td_jint(root, "spec.holds", td_jint(root, "spec.gpus", 0)),
							   v->copies[k].held};
	}
}

static void spent(struct td_hub_words *w)
{
	const struct td_fed_limit *l;
	double *hours = td_arena_alloc(w->arena, (w->hub->n_limits + 1) * sizeof(*hours));
	size_t i, n;
	yyjson_val *e;
	for (size_t m = 0; m < w->hub->n_members; m++)
		yyjson_arr_foreach (td_jget(td_json_root(w->known[m].used), "used"), i, n, e)
			if (facts_of(w, e, &l) && td_jint(e, "days", 0) == l->days)
				hours[l - w->hub->limits] += yyjson_get_num(td_jget(e, "gpuHours"));
	for (i = 0; i < w->hub->n_limits; i++) {
		l = &w->hub->limits[i];
		w->facts[i].spent = l->gpu_hours >= 0 && hours[i] >= (double)l->gpu_hours;
		for (size_t m = 0; m < w->hub->n_members; m++)
			w->sure = w->sure && td_hub_said(l, &w->known[m]);
	}
}

struct td_hub_words *td_hub_words(struct td_gateway *g, const struct td_hub_view *v)
{
	const struct td_hub *h = v->hub;
	struct td_hub_words *w = td_calloc(1, sizeof(*w));
	struct td_arena *a = td_arena_new();
	size_t n_accounts = 0, n_users = 0, n_teams = h->n_limits && !h->ending ? h->n_teams : 0;
	*w = (struct td_hub_words){.arena = a, .hub = h, .sure = true};
	w->known = td_arena_alloc(a, (h->n_members + 1) * sizeof(*w->known));
	w->weights = td_arena_alloc(a, (h->n_members + 1) * sizeof(*w->weights));
	w->facts = td_arena_alloc(a, (h->n_limits + 1) * sizeof(*w->facts));
	w->rooms = td_arena_alloc(a, (h->n_limits + 1) * sizeof(*w->rooms));
	for (size_t m = 0; m < h->n_members; m++) {
		td_hub_known(g, h->members[m].name, &w->known[m]);
		w->weights[m] = h->members[m].weight;
	}
	for (size_t i = 0; i < n_teams; i++) {
		n_accounts += h->teams[i].accounts.n;
		n_users += h->teams[i].users.n;
	}
	w->accounts.v = td_arena_alloc(a, (n_accounts + 1) * sizeof(*w->accounts.v));
	w->users.v = td_arena_alloc(a, (n_users + 1) * sizeof(*w->users.v));
	for (size_t i = 0; i < n_teams; i++) {
		put(&w->accounts, &h->teams[i].accounts, i);
		put(&w->users, &h->teams[i].users, i);
	}
	settle(&w->accounts);
	settle(&w->users);
	for (size_t i = 0; i < w->users.n; i++)
		if (td_hub_limit(h, h->teams[w->users.v[i].team].name))
			w->bytes += strlen(w->users.v[i].name);
	for (size_t i = 0; i < h->n_limits; i++)
		w->facts[i] = (struct td_fedword_facts){.gpus = h->limits[i].gpus,
							.user_gpus = h->limits[i].user_gpus,
							.weights = w->weights,
							.n_members = h->n_members};
	held(w, v);
	runs(w, v);
	spent(w);
	return w;
}

struct td_hub_words *td_hub_words_free(struct td_hub_words *w)
{
	if (!w)
		return NULL;
	for (size_t i = 0; i < w->hub->n_limits; i++)
		free((void *)(uintptr_t)w->facts[i].held);
	for (size_t m = 0; m < w->hub->n_members; m++)
		td_hub_known_done(&w->known[m]);
	td_arena_free(w->arena);
	free(w);
	return NULL;
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

static void say(yyjson_mut_doc *d, yyjson_mut_val *list, const struct td_hub_words *w, const struct td_fedword_team *t)
{
	const struct td_hub *h = w->hub;
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
			if (find(&w->users, x->users.v[k])->team == i)
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

char *td_hub_word(const struct td_hub_words *w, const char *member, bool *ret_long)
{
	const struct td_hub *h = w->hub;
	const struct td_hub_member *to = td_hub_member(h, member);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_auto(td_arena_free) struct td_arena *arena = td_arena_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *taken = td_jm_arr(d, o, "taken"),
		       *teams = td_jm_arr(d, o, "teams");
	bool takes = to && w->known[to - h->members].takes_word;
	*ret_long = takes && !h->ending && w->bytes > WORD_MOST;
	if (!takes || *ret_long || (!w->sure && !h->ending))
		return NULL;
	for (size_t i = 0; i < h->n_teams && !h->ending; i++)
		for (size_t k = 0; k < h->teams[i].accounts.n; k++)
			yyjson_mut_arr_add_strcpy(d, taken, h->teams[i].accounts.v[k]);
	for (size_t i = 0; i < h->n_limits && !h->ending; i++) {
		struct td_fedword_team t = {.name = h->limits[i].team};
		td_fedword_reckon(arena, &w->facts[i], (size_t)(to - h->members), &t);
		say(d, teams, w, &t);
	}
	size_t n = 0;
	td_auto_free char *text = td_json_mut_text(o, &n);
	*ret_long = n > WORD_MOST;
	return *ret_long ? NULL : td_steal(text);
}

// ---- what comes of it ----

void td_hub_word_kept(struct td_gateway *g, const struct td_hub *h, const char *member, const struct td_json *look,
		      bool too_long)
{
	const yyjson_val *says = td_jget(td_json_root(look), "limits"),
			 *old = td_jkey(td_jget(h->o->root, "state.members"), member);
	bool limits = h->n_limits && !h->ending, kept = !too_long && td_jbool(says, "kept", false);
	const char *because = too_long ? "what it has to know of the limits is more than 256 KiB, so it is told "
					 "nothing: name accounts in spec.teams instead of people"
			      : says   ? td_jstr_or(says, "why", "")
				     : "its gateway is of an older release, which does not hold back: update it there";
	td_auto_free char *cut = td_strndup(td_text_printable(because) ? because : "?", WHY_MOST);
	td_auto_free char *why = td_text_clean(cut); // as it is read again, so that it is written once
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
