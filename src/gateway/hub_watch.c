// Looks after the runs of the hub: asks each member what its copies do, lets them begin, takes them back from
// members that are lost, and tells members of copies that are elsewhere by now.
#include "gateway/hub.h"

#include "base/log.h"
#include "http/client.h"

#include <string.h>

enum {
	EACH_MS = 1000,
	IDLE_LOOKS = 5, // a member without runs is asked every fifth time, and so is whether this is a hub now
	SHY_LOOKS = 60, // of who may not know
	USED_MS = 15000,
	LOOK_MS = 4000,
	PLACE_MS = 500,
	KEEP_S = 7 * 86400,
	KEEP_MOST = 1000, // of a person
	SWEEP_LOOKS = 600
};

static int64_t now_s(void)
{
	return td_real_ms(&td_clock_system) / 1000;
}

// A path of one run at a member.
static char *path_of(const char *run, const char *what)
{
	struct td_buf b = {0};
	td_buf_puts(&b, "/api/v1/runs/");
	td_url_escape(&b, run);
	td_buf_puts(&b, what);
	return td_buf_take(&b);
}

static int post(struct td_gateway *g, const struct td_hub *h, const struct td_hub_run *r, const char *member,
		const char *path, struct td_error *err)
{
	const struct td_hub_call k = {
		.hub = h, .member = member, .user = r->user, .method = "POST", .path = path, .timeout_ms = LOOK_MS};
	return td_hub_do(g, &k, g->cancel, NULL, err);
}

// ---- one run ----

static void says(struct td_hub_run *r, char *why)
{
	free(r->why);
	r->why = why;
}

// over: the member knows no job of it any more. When it has no such run either, none can begin.
static void tell(struct td_gateway *g, const struct td_hub *h, struct td_hub_run *r, bool over)
{
	struct td_error e = TD_ERROR_INIT;
	td_auto_free char *path = path_of(r->there, "/consent");
	int rc = post(g, h, r, r->member, path, &e);
	const struct td_fed_state s = {.phase = r->phase, .refused = rc == TD_CONFLICT};
	if (!rc || (rc == TD_NOT_FOUND && over)) {
		r->told = true;
		rc = td_hub_run_write(g, r, &e);
	} else if (td_fed_next(&s) == TD_FED_MOVE) {
		td_info("federation: run %s of %s is taken back from %s: %s", r->run, r->user, r->member, e.msg);
		says(r, td_asprintf("%s was told too late that it may begin, and it had given up", r->member));
		td_hub_run_back(r, true); // what of it waits in the queue there is cancelled
		rc = td_hub_run_write(g, r, &e);
	}
	if (rc && rc != TD_CONFLICT)
		td_info("federation: run %s of %s at %s: %s", r->run, r->user, r->member, e.msg);
}

static enum td_fed_seen seen_of(const yyjson_val *v)
{
	static const struct {
		const char *word;
		enum td_fed_seen seen;
	} words[] = {
		{"waiting", TD_FED_WAITS}, {"begun", TD_FED_BEGUN}, {"gave-up", TD_FED_GAVE_UP}, {"over", TD_FED_OVER}};
	const char *state = td_jstr(v, "state");
	for (size_t i = 0; i < TD_LEN(words); i++)
		if (td_streq(state, words[i].word))
			return words[i].seen;
	return TD_FED_ABSENT;
}

// What a member says of a run. It answers in the order of what was asked (*at): the rest is a look at each.
static const yyjson_val *answer_of(const struct td_json *look, const struct td_hub_run *r, yyjson_arr_iter *at)
{
	size_t i, n;
	yyjson_val *v = yyjson_arr_iter_next(at);
	if (td_streq(td_jstr(v, "user"), r->user) && td_streq(td_jstr(v, "run"), r->there))
		return v;
	yyjson_arr_foreach (td_jget(td_json_root(look), "runs"), i, n, v)
		if (td_streq(td_jstr(v, "user"), r->user) && td_streq(td_jstr(v, "run"), r->there))
			return v;
	return NULL;
}

// look NULL: its member does not answer. v: what that says of this run; NULL: nothing.
static void step(struct td_gateway *g, const struct td_hub *h, struct td_hub_run *r, const struct td_json *look,
		 const yyjson_val *v)
{
	td_auto_known struct td_hub_known k = {0};
	td_hub_known(g, r->member, &k);
	const struct td_fed_state s = {.phase = r->phase,
				       .sent = r->sent,
				       .told = r->told,
				       .seen = look ? seen_of(v) : TD_FED_UNREACHED,
				       .silent_s = (td_mono_ms(&td_clock_system) - k.good_ms) / 1000,
				       .phase_s = now_s() - r->since,
				       .lost_after_s = h->lost_after_s};
	struct td_error e = TD_ERROR_INIT;
	int rc = 0;
	switch (td_fed_next(&s)) {
	case TD_FED_LET:
		// First it is written down: from then on no other member gets it. Then it is told.
		td_hub_run_phase(r, TD_FED_STARTED);
		if (!(rc = td_hub_run_write(g, r, &e)))
			tell(g, h, r, false);
		break;
	case TD_FED_TELL:
		tell(g, h, r, s.seen == TD_FED_ABSENT || s.seen == TD_FED_OVER || s.seen == TD_FED_GAVE_UP);
		break;
	case TD_FED_MOVE:
		td_info("federation: run %s of %s is taken back from %s", r->run, r->user, r->member);
		says(r, s.seen == TD_FED_UNREACHED
				? td_asprintf("%s, which had it, does not answer", r->member)
				: td_asprintf("%s had it and could not ask whether it may begin", r->member));
		if (s.seen == TD_FED_UNREACHED)
			td_hub_lost(g, r->member);
		td_hub_run_back(r, true);
		rc = td_hub_run_write(g, r, &e);
		break;
	case TD_FED_END:
		free(r->result);
		r->result = td_strdup(td_jstr_or(v, "result", "unknown"));
		td_hub_run_phase(r, TD_FED_ENDED);
		rc = td_hub_run_write(g, r, &e);
		break;
	default:
		break;
	}
	if (rc && rc != TD_CONFLICT)
		td_warn("federation: run %s of %s: %s", r->run, r->user, e.msg);
}

// Tells members that answer of copies that are elsewhere by now, or were cancelled.
static void untie(struct td_gateway *g, const struct td_hub *h, struct td_hub_run *r)
{
	bool changed = false;
	for (size_t i = 0; i < r->stale.n;) {
		struct td_error e = TD_ERROR_INIT;
		td_auto_free char *path = path_of(r->stale_there.v[i], "/cancel");
		const char *member = r->stale.v[i];
		bool gone = !td_hub_member(h, member);
		int rc = gone ? 0 : !td_hub_asks(g, member, &e) ? TD_TRANSIENT : post(g, h, r, member, path, &e);
		if (rc && rc != TD_NOT_FOUND) {
			i++;
			continue;
		}
		if (!gone)
			td_info("federation: %s was told that run %s of %s is not its any more", member, r->run,
				r->user);
		free(r->stale.v[i]);
		free(r->stale_there.v[i]);
		r->stale.n--;
		r->stale_there.n--;
		memmove(&r->stale.v[i], &r->stale.v[i + 1], (r->stale.n - i) * sizeof(*r->stale.v));
		memmove(&r->stale_there.v[i], &r->stale_there.v[i + 1],
			(r->stale_there.n - i) * sizeof(*r->stale_there.v));
		changed = true;
	}
	if (changed)
		td_hub_run_write(g, r, NULL); // else it is told again
}

// ---- the members ----

// What is asked of a member. The caller frees it.
static char *question(struct td_gateway *g, const struct td_hub *h, const char *member, const struct td_objects *live,
		      const char *word, size_t *ret_n)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_auto_known struct td_hub_known k = {0};
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *runs = td_jm_arr(d, o, "runs"),
		       *days = td_jm_arr(d, o, "days");
	for (size_t i = 0; i < live->n; i++)
		if (td_hub_run_is_at(live->v[i], member)) {
			yyjson_mut_val *e = yyjson_mut_arr_add_obj(d, runs);
			td_jm_str(d, e, "user", td_jstr(live->v[i]->root, "spec.user"));
			td_jm_str(d, e, "run", td_jstr(live->v[i]->root, "state.there"));
		}
	td_hub_known(g, member, &k);
	if (!k.used || td_mono_ms(&td_clock_system) - k.used_ms > USED_MS) {
		yyjson_mut_arr_add_int(d, days, 30);
		for (size_t i = 0; i < h->n_limits; i++)
			yyjson_mut_arr_add_int(d, days, h->limits[i].days);
	}
	td_jm_str(d, o, "limits", word);
	return td_json_mut_text(o, ret_n);
}

// look NULL: it does not answer, or was not asked and its silence goes on.
static void member(struct td_gateway *g, const struct td_hub *h, const char *name, const struct td_objects *live,
		   const struct td_json *look)
{
	yyjson_arr_iter at = yyjson_arr_iter_with(td_jget(td_json_root(look), "runs"));
	for (size_t i = 0; i < live->n; i++) {
		if (!td_hub_run_is_at(live->v[i], name))
			continue;
		td_auto_hub_run struct td_hub_run x = {0};
		td_hub_run_read(live->v[i], &x);
		step(g, h, &x, look, look ? answer_of(look, &x, &at) : NULL);
	}
}

static bool concerns(const struct td_objects *live, const char *member)
{
	for (size_t i = 0; i < live->n; i++)
		if (td_hub_run_is_at(live->v[i], member) || yyjson_arr_size(td_jget(live->v[i]->root, "state.stale")))
			return true;
	return false;
}

// Asks all members side by side, and looks after the runs of each. turn: also those without runs, and those that are
// silent, or were late the last time: these are not waited for at each look, because others' runs want to begin.
static void members(struct td_gateway *g, const struct td_hub *h, const struct td_hub_view *view, bool turn)
{
	const struct td_objects *live = &view->live;
	if (!turn && !live->n) // nobody is asked
		return;
	td_auto_free struct td_hub_call *calls = td_calloc(h->n_members + 1, sizeof(*calls));
	td_auto_free struct td_hub_answer *got = td_calloc(h->n_members + 1, sizeof(*got));
	td_auto_strv struct td_strv texts = {0};
	td_auto_free bool *too_long = td_calloc(h->n_members + 1, sizeof(*too_long));
	size_t n = 0;
	td_auto(td_hub_words_free) struct td_hub_words *words = td_hub_words(g, view);
	for (size_t m = 0; m < h->n_members; m++) {
		const char *name = h->members[m].name;
		if (!turn && !concerns(live, name))
			continue;
		if (!turn && !td_hub_asks(g, name, NULL)) {
			member(g, h, name, live, NULL);
			continue;
		}
		size_t len = 0;
		td_auto_free char *word = td_hub_word(words, name, &too_long[n]);
		td_strv_steal(&texts, question(g, h, name, live, word, &len));
		calls[n++] = (struct td_hub_call){.hub = h,
						  .member = name,
						  .method = "POST",
						  .path = "/api/v1/federation/look",
						  .body = texts.v[texts.n - 1],
						  .body_len = len,
						  .timeout_ms = LOOK_MS};
	}
	td_hub_do_all(g, calls, n, false, g->cancel, got);
	for (size_t i = 0; i < n; i++) {
		if (got[i].r != TD_CANCELLED && !td_cancelled(g->cancel)) {
			td_hub_heard(g, calls[i].member, got[i].r ? &got[i].err : NULL, got[i].json);
			member(g, h, calls[i].member, live, got[i].json);
			if (!got[i].r)
				td_hub_word_kept(g, h, calls[i].member, got[i].json, too_long[i]);
		}
		td_json_unref(got[i].json);
	}
}

// Runs at members that the federation has no longer: as if these were silent.
static void strays(struct td_gateway *g, const struct td_hub *h, const struct td_objects *live)
{
	for (size_t i = 0; i < live->n; i++) {
		const char *at = td_jstr(live->v[i]->root, "state.member");
		if (!at || td_hub_member(h, at) || !td_hub_run_is_at(live->v[i], at))
			continue;
		td_auto_hub_run struct td_hub_run r = {0};
		td_hub_run_read(live->v[i], &r);
		if (r.phase == TD_FED_STARTED) { // how it ends is not seen from here
			td_hub_run_phase(&r, TD_FED_ENDED);
			td_hub_run_write(g, &r, NULL);
		} else {
			step(g, h, &r, NULL, NULL);
		}
	}
}

static int by_person(const void *a, const void *b)
{
	const yyjson_val *x = (*(struct td_object *const *)a)->root, *y = (*(struct td_object *const *)b)->root;
	long long i = td_jint(x, "spec.created", 0), j = td_jint(y, "spec.created", 0);
	int d = strcmp(td_jstr_or(x, "spec.user", ""), td_jstr_or(y, "spec.user", ""));
	return d ? d : (i < j) - (i > j);
}

// Removes what is old, and of who has ended very many the oldest.
static void sweep(struct td_gateway *g)
{
	td_auto_objects struct td_objects all = {0};
	if (td_hub_run_list(g, NULL, false, g->cancel, &all, NULL) || !all.n)
		return;
	qsort(all.v, all.n, sizeof(*all.v), by_person);
	const char *user = "";
	for (size_t i = 0, of = 0; i < all.n && !td_cancelled(g->cancel); i++) {
		td_auto_hub_run struct td_hub_run r = {0};
		td_hub_run_read(all.v[i], &r);
		if (!td_streq(td_jstr(all.v[i]->root, "spec.user"), user)) {
			user = td_jstr_or(all.v[i]->root, "spec.user", "");
			of = 0;
		}
		if (!td_hub_run_over(&r) || (of++ < KEEP_MOST && r.since >= now_s() - KEEP_S))
			continue;
		if (!td_hub_run_remove(g, &r, NULL))
			td_hub_drop(g, &r);
	}
}

// ---- a Federation that is deleted ----

// A copy that has not begun begins no more, since nobody lets it, and ends by itself.
static void left(struct td_gateway *g)
{
	td_auto_objects struct td_objects live = {0};
	td_auto(td_hub_unref) struct td_hub *none = NULL;
	if (td_hub_ask(g, &none, NULL) || none || !td_informer_synced(td_hub_runs(g)) ||
	    td_hub_live(g, g->cancel, &live, NULL) || !live.n)
		return;
	// Another gateway may have seen a new Federation before this one. It is there as long as its runs' records.
	if (!td_hub_surely_none(g))
		return;
	for (size_t i = 0; i < live.n && !td_cancelled(g->cancel); i++) {
		td_auto_hub_run struct td_hub_run r = {0};
		td_hub_run_read(live.v[i], &r);
		bool began = r.phase == TD_FED_STARTED;
		td_strv_done(&r.stale);
		td_strv_done(&r.stale_there);
		says(&r, td_asprintf("federation %s is gone%s%s", td_jstr_or(live.v[i]->root, "spec.federation", "?"),
				     began ? "; it goes on at " : "", began && r.member ? r.member : ""));
		if (r.phase < TD_FED_ENDED)
			td_hub_run_phase(&r, began ? TD_FED_ENDED : TD_FED_CANCELLED);
		td_hub_run_write(g, &r, NULL); // else at the next look
	}
}

// It goes when its runs have ended, or were ended because that is asked for.
static void end(struct td_gateway *g, const struct td_hub *h, const struct td_objects *live)
{
	struct td_error e = TD_ERROR_INIT;
	td_auto_objects struct td_objects all = {0};
	for (size_t i = 0; i < live->n && h->cancels && !td_cancelled(g->cancel); i++) {
		td_auto_hub_run struct td_hub_run r = {0};
		td_hub_run_read(live->v[i], &r);
		if (r.phase < TD_FED_ENDED && td_hub_cancel(g, h, &r, g->cancel, &e) && e.code != TD_CONFLICT)
			td_info("federation: run %s of %s is cancelled later: %s", r.run, r.user, e.msg);
	}
	// Looked at anew: another gateway may have taken one.
	if (live->n || td_hub_run_list(g, NULL, true, g->cancel, &all, &e) || all.n)
		return;
	if (!td_hub_release(g, h, &e))
		td_info("federation %s is deleted, and none of its runs is left", h->name);
	else if (e.code != TD_CONFLICT)
		td_warn("federation %s: %s", h->name, e.msg);
}

void *td_hub_watch_thread(void *gateway)
{
	struct td_gateway *g = gateway;
	td_auto_free char *said = NULL;
	td_auto(td_hub_unref) struct td_hub *last = NULL;
	bool may = true;
	for (uint64_t looks = 0; !td_cancel_wait(g->cancel, looks ? EACH_MS : 0); looks++) {
		td_auto(td_hub_unref) struct td_hub *none = NULL, *h = NULL;
		if (looks % (!may ? SHY_LOOKS : td_hub_ask(g, &none, NULL) || none ? 1 : IDLE_LOOKS) == 0)
			may = td_hub_look(g);
		h = td_hub_get(g);
		td_auto_view struct td_hub_view view = {0};
		const struct td_objects *live = &view.live;
		struct td_error e = TD_ERROR_INIT;
		if (last && last != h)
			td_hub_farewell(g, last);
		td_hub_unref(last);
		last = h ? td_hub_ref(h) : NULL;
		if (!h) {
			left(g);
			continue;
		}
		if (td_hub_view(g, h, g->cancel, &view, &e)) {
			if (!td_streq(said, e.msg))
				td_warn("federation %s: %s", h->name, e.msg);
			free(said);
			said = td_strdup(e.msg);
			continue;
		}
		members(g, h, &view, looks % IDLE_LOOKS == 0);
		strays(g, h, live);
		for (size_t i = 0; i < live->n; i++) {
			td_auto_hub_run struct td_hub_run r = {0};
			if (!yyjson_arr_size(td_jget(live->v[i]->root, "state.stale")))
				continue;
			td_hub_run_read(live->v[i], &r);
			untie(g, h, &r);
		}
		if (h->ending)
			end(g, h, live);
		if (looks % SWEEP_LOOKS == SWEEP_LOOKS - 1)
			sweep(g);
	}
	return NULL;
}

// ---- those that wait ----

struct waiting {
	const struct td_object *o;
	double used; // GPU hours of its team at all members
	int64_t created;
};

// Whose team has used least comes first, then who has waited longest.
static int first(const void *a, const void *b)
{
	const struct waiting *x = a, *y = b;
	return x->used != y->used ? (x->used > y->used) - (x->used < y->used)
				  : (x->created > y->created) - (x->created < y->created);
}

// False: what the view tells is not so any more.
static bool one(struct td_gateway *g, struct td_hub_view *view, const struct td_object *o)
{
	const struct td_hub *h = view->hub;
	td_auto_hub_run struct td_hub_run r = {0};
	td_auto_known struct td_hub_known k = {0};
	struct td_error e = TD_ERROR_INIT;
	bool go = false, waits = false, true_still = true;
	int rc = 0;
	td_hub_run_read(o, &r);
	if (r.phase == TD_FED_WAITING) {
		rc = td_hub_waits(g, view, &r, &waits, &e);
		if (!rc && !waits) {
			rc = td_hub_place(g, h, &r, g->cancel, &go, &e);
			waits = r.phase == TD_FED_WAITING;
			true_still = rc || !waits;
		}
		if (go)
			td_hub_view_add(g, view, &r);
	} else if (r.phase == TD_FED_PLACED && !r.sent && now_s() - r.since >= TD_FED_SEND_S) {
		td_hub_known(g, r.member, &k);
		go = k.reached;
	}
	if (!rc && go)
		td_hub_send_later(g, &r);
	if (rc && rc != TD_CONFLICT && rc != TD_CANCELLED)
		td_info("federation: run %s of %s: %s", r.run, r.user, e.msg);
	return true_still;
}

void *td_hub_place_thread(void *gateway)
{
	struct td_gateway *g = gateway;
	while (!td_cancel_wait(g->cancel, PLACE_MS)) {
		td_auto(td_hub_unref) struct td_hub *h = td_hub_get(g);
		td_auto_view struct td_hub_view view = {0};
		if (!h || td_hub_view(g, h, g->cancel, &view, NULL))
			continue;
		td_auto_free struct waiting *w = td_calloc(view.live.n + 1, sizeof(*w));
		size_t n = 0;
		for (size_t i = 0; i < view.live.n; i++) {
			const struct td_object *o = view.live.v[i];
			const char *phase = td_jstr_or(o->root, "state.phase", "Waiting");
			if (strcmp(phase, "Waiting") != 0 && strcmp(phase, "Placed") != 0)
				continue;
			w[n++] =
				(struct waiting){o, td_hub_used(g, &view, td_jstr(o->root, "spec.team"))->sum.gpu_hours,
						 td_jint(o->root, "spec.created", 0)};
		}
		if (n)
			qsort(w, n, sizeof(*w), first);
		for (size_t i = 0; i < n && !td_cancelled(g->cancel) && one(g, &view, w[i].o); i++)
			;
	}
	return NULL;
}
