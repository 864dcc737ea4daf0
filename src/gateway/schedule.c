#include "gateway/schedule.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "gateway/home.h"
#include "gateway/job.h"
#include "gateway/keys.h"
#include "gateway/path.h"
#include "gateway/runs.h"
#include "http/pki.h"
#include "pool/cron.h"

#include <string.h>

#define ENTRY "schedule."
enum { LOOK_MS = 1000, CLAIM_S = 120, AGAIN_S = 30, EACH_MOST = 20, KEEP_MS = 24 * 3600 * 1000 };

static int64_t now_s(void)
{
	return td_real_ms(&td_clock_system) / 1000;
}

// ---- the entries ----

// Read anew each time, and not kept where keys are looked for: a key that was made a moment ago is found
// there because the last look is not that young.
static int secret(struct td_gateway *g, struct td_object **ret, struct td_error *err)
{
	td_auto_free char *name = td_asprintf(TD_PEOPLE_SECRET, g->o.cluster);
	int r = td_kube_get(g->kube, &td_secrets, g->o.ns, name, g->cancel, ret, err);
	return r ? td_wrap(err, "Secret %s/%s", g->o.ns, name) : 0;
}

// Sets the entry, or removes it (e NULL). o: the Secret that was read; a change since then is TD_CONFLICT.
static int put(struct td_gateway *g, const struct td_object *o, const char *id, const yyjson_mut_val *e,
	       struct td_error *err)
{
	td_auto_free char *key = td_asprintf(ENTRY "%s", id), *name = td_asprintf(TD_PEOPLE_SECRET, g->o.cluster);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *data = td_jm_obj(d, root, "data");
	td_jm_str(d, root, "metadata.resourceVersion", td_jstr(o->root, "metadata.resourceVersion"));
	if (e) {
		td_auto_buf struct td_buf b = {0};
		size_t n;
		td_auto_free char *text = td_json_mut_text(e, &n);
		td_base64(&b, text, n);
		td_jm_key_str(d, data, key, td_buf_str(&b));
	} else {
		td_jm_key_set(d, data, key, yyjson_mut_null(d));
	}
	int r = td_kube_patch(g->kube, TD_AT(&td_secrets, g->o.ns, name), TD_PATCH_MERGE, root, g->cancel, NULL, err);
	td_gateway_keys_changed(g);
	return r ? td_wrap(err, "Secret %s/%s", g->o.ns, name) : 0;
}

// The entry of this id. NULL: there is none.
static struct td_json *entry_of(const struct td_object *o, const char *id)
{
	td_auto_free char *key = td_asprintf(ENTRY "%s", id);
	struct td_json *j = NULL;
	size_t n = 0;
	td_auto_free char *text = td_people_value(o->root, key, &n);
	return text && !td_json_parse(text, n, &j, NULL) ? j : NULL;
}

// ---- what is due ----

// Submits the run of one time. The same again makes no second run.
static int submit(struct td_gateway_ask *q, const char *id, int64_t due, struct td_error *err)
{
	td_auto_buf struct td_buf out = {0};
	td_auto(td_json_unref) struct td_json *kept = NULL, *body = NULL;
	const struct td_home_call k = {.user = &q->user, .verb = "schedule-get", .args = {id}};
	int r = td_home_do(q->g, &k, q->g->cancel, &out, err);
	if (r || (r = td_json_parse(td_buf_str(&out), out.len, &kept, err)))
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_strf(d, o, "request", "schedule-%lld-%.32s", (long long)due, id);
	for (char *p = (char *)(uintptr_t)td_jm_getstr(o, "request"); *p; p++)
		if (*p == '.' || *p == '_')
			*p = '-'; // a request has letters, digits and "-"
	td_jm_copyval(d, o, "job", td_jget(td_json_root(kept), "job"));
	td_jm_copyval(d, o, "files", td_jget(td_json_root(kept), "files"));
	body = td_json_from_mut(o);
	// It is a file of the owner's, who may have written anything there.
	if ((r = td_gateway_body_check(q, "makeRun", td_json_root(body), err)))
		return r;
	q->body = td_json_root(body);
	r = td_gateway_run_make(q, err);
	q->body = NULL;
	return r;
}

static void fire(struct td_gateway_door *door, const char *id)
{
	struct td_gateway *g = td_gateway_door_of(door);
	struct td_error e = TD_ERROR_INIT;
	td_auto(td_object_unref) struct td_object *o = NULL;
	if (secret(g, &o, &e))
		return;
	td_auto(td_json_unref) struct td_json *j = entry_of(o, id);
	int64_t due = td_jint(td_json_root(j), "next", 0), now = now_s();
	if (!j || !due || due > now || td_jint(td_json_root(j), "until", 0) > now)
		return;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(j));
	yyjson_mut_val *w = yyjson_mut_doc_get_root(d);
	td_jm_int(d, w, "until", now + CLAIM_S);
	if (put(g, o, id, w, &e) || td_fault_at(&e, "gateway.schedule.claimed"))
		return; // somebody else was first, or it is tried again

	struct td_gateway_ask q = {.g = g, .door = door};
	const char *user = td_jstr_or(td_json_root(j), "user", "");
	int r = td_gateway_user(g, user, &q.user, &e);
	if (!r)
		r = submit(&q, id, due, &e);
	if (!r)
		r = td_fault_at(&e, "gateway.schedule.submitted");
	bool later = r == TD_TRANSIENT || r == TD_UNCERTAIN || r == TD_CANCELLED || r == TD_THROTTLED;
	struct td_pool_cron c;
	int64_t next = td_pool_cron_parse(td_jstr_or(td_json_root(j), "cron", ""), &c, NULL)
			       ? 0
			       : td_pool_cron_next(&c, now_s());
	td_jm_del(w, "problem");
	td_jm_del(w, "until");
	if (r) {
		td_auto_free char *clean = td_strndup(e.msg, 300);
		td_jm_str(d, w, "problem", clean);
	} else {
		td_jm_str(d, w, "run", q.args[0]);
		td_jm_int(d, w, "ran", due);
	}
	if (later)
		td_jm_int(d, w, "until", now_s() + AGAIN_S);
	else
		td_jm_int(d, w, "next", next);
	td_info("schedule %s of %s: %s%s", id, user, r ? "not submitted: " : "run ", r ? e.msg : q.args[0]);

	// Others' entries may have changed meanwhile; this one is ours until the claim ends.
	for (int tries = 0; tries < 5; tries++) {
		td_object_unref(td_steal(o));
		struct td_error again = TD_ERROR_INIT;
		if (secret(g, &o, &again))
			break;
		td_auto(td_json_unref) struct td_json *still = entry_of(o, id);
		if (!still || put(g, o, id, w, &again) != TD_CONFLICT)
			break; // it was cancelled, or it is written
	}
	td_gateway_user_done(&q.user);
	free(q.args[0]);
}

// Once a day the code of every schedule is used, so that it stays although it runs rarely.
static void keep(struct td_gateway *g, const char *id, const char *user)
{
	struct td_gateway_user u = {0};
	struct td_error e = TD_ERROR_INIT;
	const struct td_home_call k = {.user = &u, .verb = "schedule-get", .args = {id}};
	if (td_gateway_user(g, user, &u, &e) || td_home_do(g, &k, g->cancel, NULL, &e))
		td_warn("schedule %s of %s: %s", id, user, e.msg);
	td_gateway_user_done(&u);
}

void *td_schedule_thread(void *arg)
{
	struct td_gateway_door *door = arg;
	struct td_gateway *g = td_gateway_door_of(door);
	int64_t kept = td_mono_ms(&td_clock_system) - KEEP_MS;
	while (!td_cancel_wait(g->cancel, LOOK_MS)) {
		struct td_error e = TD_ERROR_INIT;
		td_auto(td_object_unref) struct td_object *o = NULL;
		if (secret(g, &o, &e))
			continue;
		bool day = td_mono_ms(&td_clock_system) - kept >= KEEP_MS;
		size_t i, n;
		yyjson_val *k, *v;
		yyjson_obj_foreach (td_jget(o->root, "data"), i, n, k, v) {
			if (!td_starts(yyjson_get_str(k), ENTRY))
				continue;
			const char *id = yyjson_get_str(k) + strlen(ENTRY);
			td_auto(td_json_unref) struct td_json *j = entry_of(o, id);
			int64_t next = td_jint(td_json_root(j), "next", 0);
			if (next && next <= now_s())
				fire(door, id);
			else if (j && day)
				keep(g, id, td_jstr_or(td_json_root(j), "user", ""));
		}
		if (day)
			kept = td_mono_ms(&td_clock_system);
	}
	return NULL;
}

// ---- the API ----

static void show(const char *id, const yyjson_val *e, yyjson_mut_doc *d, yyjson_mut_val *w)
{
	static const char *const shown[] = {"name", "cron", "next", "run", "ran", "problem"};
	td_jm_str(d, w, "id", id);
	for (size_t i = 0; i < TD_LEN(shown); i++)
		td_jm_copyval(d, w, shown[i], td_jget(e, shown[i]));
	td_jm_str(d, w, "timezone", "UTC");
}

static int make(struct td_gateway_ask *q, struct td_error *err)
{
	struct td_pool_cron c;
	const char *cron = td_jstr(q->body, "cron"), *request = td_jstr(q->body, "request");
	yyjson_val *job = td_jget(q->body, "job");
	td_auto_plan struct td_gateway_plan p = {0};
	char hex[65];
	td_auto_free char *all = td_asprintf("%s %s", q->user.name, request);
	td_sha256_hex(all, strlen(all), hex);
	int r = td_gateway_name_check("name", td_jstr(job, "name"), err);
	if (r || (r = td_pool_cron_parse(cron, &c, err)))
		return r;
	td_auto_free char *id = td_asprintf("%.24s-%.6s", td_jstr(job, "name"), hex);
	// What could never be submitted is refused now.
	const struct td_gateway_plan_in in = {.job = job, .id = id, .user = q->user.name, .home = q->user.home};
	td_auto(td_object_unref) struct td_object *o = NULL;
	if ((r = td_gateway_plan(&in, &p, err)) || (r = secret(q->g, &o, err)))
		return r;
	size_t i, n, have = 0;
	yyjson_val *k, *v;
	yyjson_obj_foreach (td_jget(o->root, "data"), i, n, k, v) {
		if (!td_starts(yyjson_get_str(k), ENTRY))
			continue;
		td_auto(td_json_unref) struct td_json *j = entry_of(o, yyjson_get_str(k) + strlen(ENTRY));
		have += td_streq(td_jstr(td_json_root(j), "user"), q->user.name);
	}
	if (have >= EACH_MOST)
		return td_fail(err, TD_THROTTLED, "%s has %d schedules already: cancel some first", q->user.name,
			       EACH_MOST);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *kept = td_jm_new(), *d = td_jm_new();
	td_jm_copyval(kept, yyjson_mut_doc_get_root(kept), "job", job);
	td_jm_copyval(kept, yyjson_mut_doc_get_root(kept), "files", td_jget(q->body, "files"));
	size_t len;
	td_auto_free char *text = td_json_mut_text(yyjson_mut_doc_get_root(kept), &len);
	const struct td_home_call call = {
		.user = &q->user, .verb = "schedule-put", .args = {id}, .in = text, .in_len = len};
	if ((r = td_home_do(q->g, &call, td_gateway_cancel(q), NULL, err)))
		return r;

	td_auto(td_json_unref) struct td_json *entry = NULL;
	yyjson_mut_val *w = yyjson_mut_doc_get_root(d);
	td_jm_str(d, w, "user", q->user.name);
	td_jm_str(d, w, "name", td_jstr(job, "name"));
	td_jm_str(d, w, "cron", cron);
	td_jm_int(d, w, "next", td_pool_cron_next(&c, now_s()));
	// A stranger could look for a request whose id is that of somebody else's schedule.
	td_auto(td_json_unref) struct td_json *there = entry_of(o, id);
	if (there && !td_streq(td_jstr(td_json_root(there), "user"), q->user.name))
		return td_fail(err, TD_EXISTS, "there is a schedule %s already: submit again", id);
	for (int tries = 0; (r = put(q->g, o, id, w, err)) == TD_CONFLICT && tries < 5; tries++) {
		td_object_unref(td_steal(o));
		if ((r = secret(q->g, &o, err)))
			return r;
	}
	if (r)
		return r;
	free(q->args[0]);
	q->args[0] = td_strdup(id); // for the record of changes
	entry = td_json_from_mut(w);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *reply = td_jm_new();
	show(id, td_json_root(entry), reply, yyjson_mut_doc_get_root(reply));
	td_gateway_send(q, 201, reply);
	return 0;
}

static int list(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = secret(q->g, &o, err);
	if (r)
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *all = td_jm_arr(d, yyjson_mut_doc_get_root(d), "schedules");
	size_t i, n;
	yyjson_val *k, *v;
	yyjson_obj_foreach (td_jget(o->root, "data"), i, n, k, v) {
		if (!td_starts(yyjson_get_str(k), ENTRY))
			continue;
		const char *id = yyjson_get_str(k) + strlen(ENTRY);
		td_auto(td_json_unref) struct td_json *j = entry_of(o, id);
		if (td_streq(td_jstr(td_json_root(j), "user"), q->user.name))
			show(id, td_json_root(j), d, yyjson_mut_arr_add_obj(d, all));
	}
	td_gateway_send(q, 200, d);
	return 0;
}

static int cancel(struct td_gateway_ask *q, struct td_error *err)
{
	const char *id = q->args[0];
	int r = td_gateway_name_check("schedule", id, err);
	for (int tries = 0; !r; tries++) {
		td_auto(td_object_unref) struct td_object *o = NULL;
		if ((r = secret(q->g, &o, err)))
			return r;
		td_auto(td_json_unref) struct td_json *j = entry_of(o, id);
		if (!td_streq(td_jstr(td_json_root(j), "user"), q->user.name))
			return td_fail(err, TD_NOT_FOUND, "you have no schedule %s: `tandem schedule list` shows yours",
				       id);
		r = put(q->g, o, id, NULL, err);
		if (r != TD_CONFLICT || tries == 5)
			break;
		r = 0;
	}
	if (r)
		return r;
	const struct td_home_call k = {.user = &q->user, .verb = "schedule-drop", .args = {id}};
	td_home_do(q->g, &k, NULL, NULL, NULL); // nothing reads it any more
	return td_gateway_done(q);
}

const struct td_gateway_op td_gateway_schedule_ops[] = {
	{"makeSchedule", make},
	{"listSchedules", list},
	{"cancelSchedule", cancel},
	{NULL, NULL},
};
