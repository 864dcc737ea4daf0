// Sessions at the hub of a Federation: started at a member with free GPUs, and reached through the hub under the id
// that they have there. The hub keeps no record of one: its member is whoever says that it has it.
#include "gateway/hub.h"
#include "gateway/path.h"
#include "gateway/sessions.h"
#include "gateway/statement.h"

#include "base/clock.h"
#include "http/client.h"

#include <string.h>

enum { CALL_MS = 20000, SEEN_MOST = 4096, MISSED_MS = 5000 };

// ---- which member has a session ----

// What was found, of any person. When there is too much of it, what is oldest goes: first of what nobody had, which
// anybody may ask for.
static struct {
	pthread_mutex_t lock;
	struct seen {
		char *user, *id, *member; // member NULL: none had it
		int64_t at_ms;
	} v[SEEN_MOST];
	size_t n;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void forget_locked(size_t i)
{
	free(seen.v[i].user);
	free(seen.v[i].id);
	free(seen.v[i].member);
	seen.v[i] = seen.v[--seen.n];
}

// False: nobody looked lately. *ret NULL: nobody has it.
static bool recall(const char *user, const char *id, char **ret)
{
	bool found = false;
	pthread_mutex_lock(&seen.lock);
	for (size_t i = 0; i < seen.n && !found; i++) {
		const struct seen *s = &seen.v[i];
		if (strcmp(s->id, id) != 0 || strcmp(s->user, user) != 0 ||
		    (!s->member && td_mono_ms(&td_clock_system) - s->at_ms > MISSED_MS))
			continue;
		found = true;
		*ret = td_strdup(s->member);
	}
	pthread_mutex_unlock(&seen.lock);
	return found;
}

static void make_room_locked(void)
{
	size_t old = 0;
	if (seen.n < SEEN_MOST)
		return;
	for (size_t i = 1; i < seen.n; i++) {
		const struct seen *a = &seen.v[i], *b = &seen.v[old];
		if (!a->member != !b->member ? !a->member : a->at_ms < b->at_ms)
			old = i;
	}
	forget_locked(old);
}

static void remember(const char *user, const char *id, const char *member)
{
	pthread_mutex_lock(&seen.lock);
	for (size_t i = seen.n; i-- > 0;)
		if (!strcmp(seen.v[i].id, id) && !strcmp(seen.v[i].user, user))
			forget_locked(i);
	make_room_locked();
	seen.v[seen.n++] = (struct seen){.user = td_strdup(user),
					 .id = td_strdup(id),
					 .member = td_strdup(member),
					 .at_ms = td_mono_ms(&td_clock_system)};
	pthread_mutex_unlock(&seen.lock);
}

int64_t td_hub_session_seen(const char *user, const char *member, const char *but)
{
	int64_t n = 0;
	pthread_mutex_lock(&seen.lock);
	for (size_t i = 0; i < seen.n; i++)
		n += !strcmp(seen.v[i].user, user) && td_streq(seen.v[i].member, member) &&
		     !td_streq(seen.v[i].id, but);
	pthread_mutex_unlock(&seen.lock);
	return n;
}

static char *path_of(const char *id, const char *what)
{
	struct td_buf b = {0};
	td_buf_puts(&b, "/api/v1/sessions/");
	td_url_escape(&b, id);
	td_buf_puts(&b, what);
	return td_buf_take(&b);
}

// Whether it may be a session of this cluster's own: it is, or that cannot be said now. Only asked at a hub.
static bool here(struct td_gateway_ask *q, const char *id)
{
	td_auto(td_object_unref) struct td_object *o = NULL, *kept = NULL;
	struct td_error e = TD_ERROR_INIT;
	int r = td_session_find(q, id, &o, &e);
	if (r == TD_NOT_FOUND)
		r = td_session_record_of(q, id, &kept, &e);
	return r != TD_NOT_FOUND && r != TD_UNSUPPORTED;
}

// The member that has this person's session; NULL: none that answers has it, and *ret_silent is one that does not.
static char *member_of(struct td_gateway_ask *q, const struct td_hub *h, const char *id, const char **ret_silent)
{
	char *member = NULL;
	*ret_silent = NULL;
	if (td_gateway_name_check("session", id, NULL))
		return NULL;
	if (recall(q->user.name, id, &member) && (!member || td_hub_member(h, member)))
		return member;
	free(member); // it left the federation
	member = NULL;
	td_auto_free char *path = path_of(id, "");
	td_auto_free struct td_hub_answer *got = td_calloc(h->n_members + 1, sizeof(*got));
	td_hub_ask_all(q, h, path, true, got);
	for (size_t i = 0; i < h->n_members; i++) {
		int r = got[i].r;
		td_json_unref(got[i].json);
		if (!r && !member)
			member = td_strdup(h->members[i].name);
		else if (r && r != TD_NOT_FOUND && r != TD_DENIED && r != TD_UNSUPPORTED)
			*ret_silent = h->members[i].name;
	}
	if (member || !*ret_silent)
		remember(q->user.name, id, member);
	return member;
}

// The hub, and where the session is, which is not this cluster's own; *ret_member NULL: nobody's. TD_TRANSIENT: a member
// that may have it does not answer.
static int find(struct td_gateway_ask *q, const char *id, struct td_hub **ret, char **ret_member, struct td_error *err)
{
	td_auto(td_hub_unref) struct td_hub *h = q->hub ? NULL : td_hub_get(q->g);
	const char *silent = NULL;
	char *member = h ? member_of(q, h, id, &silent) : NULL;
	if (!member && silent)
		return td_fail(err, TD_TRANSIENT,
			       "session %s: no cluster that answers has it, and %s does not answer: try again later",
			       id, silent);
	*ret_member = member;
	if (member)
		*ret = td_steal(h);
	return 0;
}

// ---- operations ----

static void answer(struct td_gateway_ask *q, int status, const struct td_json *j, const char *member)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(j));
	if (td_jget(td_json_root(j), "id"))
		td_jm_str(d, yyjson_mut_doc_get_root(d), "cluster", member);
	td_gateway_send(q, status, d);
}

bool td_hub_session(struct td_gateway_ask *q, const char *what, int *ret, struct td_error *err)
{
	td_auto(td_hub_unref) struct td_hub *h = NULL;
	td_auto_free char *member = NULL;
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto(td_hub_unref) struct td_hub *any = q->hub ? NULL : td_hub_get(q->g);
	if (!any || here(q, q->args[0]))
		return false;
	*ret = find(q, q->args[0], &h, &member, err);
	if (*ret || !member)
		return *ret != 0;
	size_t n = 0;
	int64_t replicas = td_jint(q->body, "replicas", 0);
	bool more = *what || replicas;
	struct td_hub_start at = {0};
	if (more && (*ret = td_hub_start_begin(q, h, &at, err)))
		return true;
	td_auto_free char *promise = NULL;
	if (more &&
	    ((*ret = td_hub_session_more(q, h, replicas, &promise, err)) || (*ret = td_hub_start_still(&at, err)))) {
		td_hub_session_not(q->g, h, promise);
		td_hub_start_end(q, h, &at, true);
		return true;
	}
	td_auto_free char *path = path_of(q->args[0], what), *text = q->body ? td_json_text(q->body, &n) : NULL;
	const struct td_hub_call call = {.hub = h,
					 .member = member,
					 .user = q->user.name,
					 .method = td_http_method(q->x),
					 .path = path,
					 .body = text,
					 .body_len = n,
					 .timeout_ms = CALL_MS};
	*ret = td_hub_do(q->g, &call, td_gateway_cancel(q), &j, err);
	if (*ret && *ret != TD_UNCERTAIN)
		td_hub_session_not(q->g, h, promise);
	if (more)
		td_hub_start_end(q, h, &at, *ret != TD_UNCERTAIN);
	if (*ret == TD_NOT_FOUND)
		remember(q->user.name, q->args[0], NULL);
	if (!*ret)
		answer(q, 200, j, member);
	return true;
}

void td_hub_session_list(struct td_gateway_ask *q, yyjson_mut_doc *d, yyjson_mut_val *list)
{
	td_auto(td_hub_unref) struct td_hub *h = q->hub ? NULL : td_hub_get(q->g);
	if (!h)
		return;
	td_auto_free struct td_hub_answer *got = td_calloc(h->n_members + 1, sizeof(*got));
	td_hub_ask_all(q, h, "/api/v1/sessions", false, got);
	for (size_t m = 0; m < h->n_members; m++) {
		if (got[m].r && got[m].r != TD_DENIED) // one that lets no sessions through has none to show
			td_jm_str(d, yyjson_mut_doc_get_root(d), "problem", got[m].err.msg);
		size_t i, count, a, b;
		yyjson_val *v;
		yyjson_mut_val *w;
		yyjson_arr_foreach (td_jget(td_json_root(got[m].json), "sessions"), i, count, v) {
			bool twice = false; // the hub's own cluster may be a member
			yyjson_mut_arr_foreach (list, a, b, w)
				twice = twice || td_streq(td_jm_getstr(w, "id"), td_jstr(v, "id"));
			if (twice)
				continue;
			w = yyjson_val_mut_copy(d, v);
			td_jm_str(d, w, "cluster", h->members[m].name);
			yyjson_mut_arr_append(list, w);
			remember(q->user.name, td_jstr_or(v, "id", ""), h->members[m].name);
		}
		td_json_unref(got[m].json);
	}
}

// ---- starting one ----

// What a run has written is where it ran. False: it is no run of the federation's, or is nowhere.
static bool where_run(struct td_gateway_ask *q, struct td_hub_run *r)
{
	const char *run = td_jstr(q->body, "run");
	struct td_error e = TD_ERROR_INIT;
	return run && !td_gateway_name_check("run", run, &e) &&
	       !td_hub_run_get(q->g, q->user.name, run, td_gateway_cancel(q), r, &e) && r->member && r->there;
}

static int give(struct td_gateway_ask *q, const struct td_hub *h, const char *member, const char *run,
		struct td_json **ret, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(q->body);
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_del(o, "cluster");
	if (run)
		td_jm_str(d, o, "run", run);
	size_t n;
	td_auto_free char *text = td_json_mut_text(o, &n);
	const struct td_hub_call call = {.hub = h,
					 .member = member,
					 .user = q->user.name,
					 .method = "POST",
					 .path = "/api/v1/sessions",
					 .body = text,
					 .body_len = n,
					 .timeout_ms = CALL_MS};
	return td_hub_do(q->g, &call, td_gateway_cancel(q), ret, err);
}

static int choose(struct td_gateway_ask *q, struct td_hub_view *view, const struct td_hub_run *r, const char **ret,
		  struct td_error *err)
{
	struct td_fed_choice c;
	td_hub_choose(q->g, view, r, true, &c);
	td_auto_free char *why = c.why;
	if (c.where != TD_FED_GO)
		return td_fail(err, c.where == TD_FED_WAIT ? TD_TRANSIENT : TD_INVALID, "%s%s%s", why,
			       r->refused.n ? ": " : "", r->refused.n ? r->refused_why.v[r->refused.n - 1] : "");
	*ret = view->hub->members[c.member].name;
	return 0;
}

// Gives it to a member. *ret_own: no member that may have it lets sessions through, so it is the hub's own cluster's, as
// without a federation.
static int place(struct td_gateway_ask *q, struct td_hub_view *view, struct td_hub_run *r, const struct td_hub_run *of,
		 const struct td_hub_start *at, bool *ret_own, struct td_error *err)
{
	const struct td_hub *h = view->hub;
	bool closed = true;
	int rc;
	for (size_t tries = 0; tries <= h->n_members; tries++) {
		const char *member = NULL;
		td_auto(td_json_unref) struct td_json *j = NULL;
		struct td_error e = TD_ERROR_INIT;
		if ((rc = choose(q, view, r, &member, err))) {
			*ret_own = closed && rc == TD_INVALID && r->refused.n && !r->insists;
			return rc;
		}
		if ((rc = td_hub_start_still(at, err)))
			return rc;
		rc = give(q, h, member, of && td_streq(of->member, member) ? of->there : NULL, &j, &e);
		if (!rc) {
			const char *id = td_jstr_or(td_json_root(j), "id", "");
			free(q->args[0]);
			q->args[0] = td_strdup(id); // for the record of changes
			remember(q->user.name, id, member);
			answer(q, 201, j, member);
			return 0;
		}
		// What a member refuses or is not reached for, another one may take; what it may have done is not done
		// twice.
		if (rc != TD_TRANSIENT && rc != TD_DENIED && rc != TD_UNSUPPORTED)
			return td_fail(err, rc, "%s", e.msg);
		closed = closed && rc == TD_DENIED;
		td_strv_add(&r->refused, member);
		td_strv_add(&r->refused_why, e.msg);
	}
	return td_fail(err, TD_TRANSIENT, "no member takes it now");
}

static int start(struct td_gateway_ask *q, const struct td_hub *h, const struct td_hub_start *at, bool *ret_own,
		 struct td_error *err)
{
	td_auto_hub_run struct td_hub_run r = {0}, of = {0};
	td_auto_view struct td_hub_view view = {0};
	r.user = td_strdup(q->user.name);
	r.team = td_strdup(td_fed_team_of(h->teams, h->n_teams, r.user, td_jstr(q->body, "account")));
	r.gpus = r.holds = td_jint(q->body, "gpus", 0) * td_jint(q->body, "replicas", 1) * td_jint(q->body, "nodes", 1);
	r.insists = td_strdup(td_jstr(q->body, "cluster"));
	r.object = td_strdup("");
	bool of_run = where_run(q, &of);
	if (of_run && !r.insists)
		r.insists = td_strdup(of.member);
	int rc = td_hub_view(q->g, h, td_gateway_cancel(q), &view, err);
	if (rc)
		return rc;
	if ((rc = td_hub_session_allowed(q, &view, &r, err)))
		return rc;
	rc = place(q, &view, &r, of_run ? &of : NULL, at, ret_own, err);
	if (rc && rc != TD_UNCERTAIN && !*ret_own)
		td_hub_session_not(q->g, h, r.object);
	return rc;
}

bool td_hub_session_starts(struct td_gateway_ask *q, int *ret, struct td_error *err)
{
	td_auto(td_hub_unref) struct td_hub *h = NULL;
	*ret = q->hub ? 0 : td_hub_ask(q->g, &h, err);
	if (*ret)
		return true;
	bool asks = td_jget(q->body, "cluster") != NULL;
	if (h && !h->ending) {
		bool own = false;
		struct td_hub_start at = {0};
		if ((*ret = td_hub_start_begin(q, h, &at, err)))
			return true;
		*ret = start(q, h, &at, &own, err);
		td_hub_start_end(q, h, &at, *ret != TD_UNCERTAIN);
		if (own)
			*err = (struct td_error)TD_ERROR_INIT;
		return !own;
	}
	if (asks)
		*ret = td_fail(err, TD_INVALID,
			       "cluster: this gateway is the hub of no federation that takes sessions: "
			       "leave it out");
	return asks;
}

// ---- its address ----

bool td_hub_session_pass(struct td_gateway_ask *q, const char *id, int *ret, struct td_error *err)
{
	td_auto(td_hub_unref) struct td_hub *h = NULL;
	td_auto_free char *member = NULL, *bearer = NULL;
	*ret = find(q, id, &h, &member, err);
	if (*ret || !member)
		return *ret != 0;
	if ((*ret = td_session_from_us(q, err)))
		return true;
	const struct td_hub_member *m = td_hub_member(h, member); // it is there: find() looked
	const struct td_statement s = {.federation = h->name, .member = member, .user = q->user.name};
	if ((*ret = td_statement_make(q->g, &s, &bearer, err)))
		return true;
	const struct td_http_client_opts o = {.base_url = m->url, .ca_file = m->ca_path};
	td_auto(td_http_client_free) struct td_http_client *client = NULL;
	td_auto(td_http_tunnel_free) struct td_http_tunnel *tunnel = NULL;
	int fd = -1;
	*ret = td_http_client_new(&o, &client, err);
	if (!*ret)
		*ret = td_http_tunnel_new(client, td_gateway_cancel(q), &tunnel, &fd, err);
	if (*ret) {
		td_wrap(err, "cluster %s", member);
		return true;
	}
	td_auto_free char *proof = td_asprintf("Bearer %s", bearer);
	const struct td_http_far far = {.target = td_http_target(q->x), .hide = "tandem", .authorization = proof};
	td_http_relay_on(q->x, fd, &far);
	explicit_bzero(bearer, strlen(bearer));
	explicit_bzero(proof, strlen(proof));
	return true;
}
