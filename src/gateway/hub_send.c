// Giving runs to members: code, then the job. What is large or slow holds up nobody else's: threads of their own do
// it, a few for each member.
#include "gateway/hub.h"

#include "api/status.h"
#include "base/fault.h"
#include "base/log.h"
#include "gateway/home.h"
#include "http/pki.h"

#include <string.h>

enum { ASK = 20000, PACK = 8, SEND_MS = 120000 };

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
	td_auto_free char *request = NULL, *there = td_hub_there(r, &request);
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
		td_hub_run_say(&r->why, e.msg);
		td_hub_run_phase(r, TD_FED_PLACED);
		int w = td_hub_run_write(g, r, err);
		return w ? w : td_fail(err, rc, "%s", e.msg);
	}
	if (taken) {
		r->sent = true;
		td_hub_run_phase(r, TD_FED_PLACED);
	} else if (rc == TD_TRANSIENT) { // surely not
		td_hub_run_back(r, again);
		td_hub_run_say(&r->why, e.msg);
	} else {
		td_auto_free char *clean = td_text_clean(e.msg);
		td_strv_add(&r->refused, r->member);
		td_strv_add(&r->refused_why, clean);
		td_hub_run_back(r, again);
		td_hub_run_say(&r->why, clean);
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

// ---- threads that give ----

enum { WORKERS = 8, EACH_MEMBER = 3, EACH_PERSON = 2, LOOK_MS = 100 };

struct send {
	char *object, *user, *run, *member;
	bool busy;
};
struct td_hub_sends {
	struct td_gateway *g;
	pthread_mutex_t lock; // guards what follows
	struct send *v;       // in the order in which they came
	size_t n;
	pthread_t threads[WORKERS];
	size_t n_threads;
};

static void send_done(struct send *x)
{
	free(x->object);
	free(x->user);
	free(x->run);
	free(x->member);
}

static size_t find_locked(const struct td_hub_sends *s, const char *object)
{
	size_t i = 0;
	while (i < s->n && strcmp(s->v[i].object, object) != 0)
		i++;
	return i;
}

static void add_locked(struct td_hub_sends *s, const struct send *x)
{
	s->v = td_realloc(s->v, (s->n + 1) * sizeof(*s->v));
	s->v[s->n++] = (struct send){.object = td_strdup(x->object),
				     .user = td_strdup(x->user),
				     .run = td_strdup(x->run),
				     .member = td_strdup(x->member),
				     .busy = x->busy};
}

static void remove_locked(struct td_hub_sends *s, size_t i)
{
	send_done(&s->v[i]);
	memmove(&s->v[i], &s->v[i + 1], (--s->n - i) * sizeof(*s->v));
}

bool td_hub_sending(struct td_gateway *g, const char *object, bool begin)
{
	struct td_hub_sends *s = td_hub_sends(g);
	const struct send x = {.object = (char *)(uintptr_t)object, .user = "", .run = "", .member = "", .busy = true};
	pthread_mutex_lock(&s->lock);
	size_t i = find_locked(s, object);
	bool there = i < s->n;
	if (begin && !there)
		add_locked(s, &x);
	else if (!begin && there)
		remove_locked(s, i);
	pthread_mutex_unlock(&s->lock);
	return begin ? !there : there;
}

// The next one whose member and owner have not their part of the threads already. False: there is none.
static bool next(struct td_hub_sends *s, struct send *ret)
{
	bool found = false;
	pthread_mutex_lock(&s->lock);
	// Thousands may wait; few are under way.
	td_auto_free size_t *busy = td_calloc(s->n + 1, sizeof(*busy));
	size_t n_busy = 0;
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].busy)
			busy[n_busy++] = i;
	for (size_t i = 0; i < s->n && !found; i++) {
		struct send *x = &s->v[i];
		int member = 0, person = 0;
		for (size_t k = 0; k < n_busy; k++) {
			member += !strcmp(s->v[busy[k]].member, x->member);
			person += !strcmp(s->v[busy[k]].user, x->user);
		}
		if (x->busy || member >= EACH_MEMBER || person >= EACH_PERSON)
			continue;
		found = x->busy = true;
		*ret = (struct send){.object = td_strdup(x->object),
				     .user = td_strdup(x->user),
				     .run = td_strdup(x->run),
				     .member = td_strdup(x->member)};
	}
	pthread_mutex_unlock(&s->lock);
	return found;
}

static void *work(void *sends)
{
	struct td_hub_sends *s = sends;
	while (!td_cancel_wait(s->g->cancel, LOOK_MS)) {
		struct send x;
		while (!td_cancelled(s->g->cancel) && next(s, &x)) {
			td_auto(td_hub_unref) struct td_hub *h = td_hub_get(s->g);
			td_auto_hub_run struct td_hub_run r = {0};
			struct td_error e = TD_ERROR_INIT;
			int rc = h ? td_hub_run_get(s->g, x.user, x.run, s->g->cancel, &r, &e) : 0;
			if (h && !rc && r.phase == TD_FED_PLACED && !r.sent)
				rc = td_hub_send(s->g, h, &r, s->g->cancel, &e);
			if (rc && rc != TD_CONFLICT && rc != TD_CANCELLED)
				td_info("federation: run %s of %s: %s", x.run, x.user, e.msg);
			td_hub_sending(s->g, x.object, false);
			send_done(&x);
		}
	}
	return NULL;
}

void td_hub_send_later(struct td_gateway *g, const struct td_hub_run *r)
{
	struct td_hub_sends *s = td_hub_sends(g);
	const struct send x = {.object = r->object, .user = r->user, .run = r->run, .member = r->member};
	pthread_mutex_lock(&s->lock);
	if (find_locked(s, r->object) == s->n)
		add_locked(s, &x);
	// Most gateways are the hub of none, and have none of these.
	while (s->n_threads < WORKERS && !pthread_create(&s->threads[s->n_threads], NULL, work, s))
		s->n_threads++;
	pthread_mutex_unlock(&s->lock);
}

struct td_hub_sends *td_hub_sends_new(struct td_gateway *g)
{
	struct td_hub_sends *s = td_calloc(1, sizeof(*s));
	s->g = g;
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

struct td_hub_sends *td_hub_sends_free(struct td_hub_sends *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->n_threads; i++)
		pthread_join(s->threads[i], NULL);
	while (s->n)
		remove_locked(s, s->n - 1);
	free(s->v);
	pthread_mutex_destroy(&s->lock);
	free(s);
	return NULL;
}
