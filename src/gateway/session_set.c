// A session of several pods session-ID, session-ID-1, … of its owner's: an endpoint with replicas, each a job of its own in the one
// queue, or a session over several nodes (session_nodes.c says what is different then). How many there are to be stands in the session's record (`replicas`), so each gateway evens them and a new
// one finds all again: nothing is kept elsewhere.
#include "gateway/hub.h"
#include "gateway/sessions.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/names.h"

#include <stdio.h>
#include <string.h>

enum { BUSY_S = 6, REACH_S = 1 }; // BUSY_S: a gateway looks more often than this

static int64_t now_s(void)
{
	return td_real_ms(&td_clock_system) / 1000;
}

// A number in the record, which its owner may have changed; 0: it is not there.
static int64_t kept(const struct td_object *record, const char *key)
{
	long long n = 0;
	const char *text = record ? td_jkey_str(td_jget(record->root, "data"), key) : NULL;
	return text && td_parse_i64(text, &n) && n > 0 ? n : 0;
}

// ---- which ----

static int number_of_pods(const struct td_object *record, const char *key)
{
	const char *id = record ? td_object_label(record, TD_LABEL_SESSION) : NULL;
	// The record is its owner's to change, and everything here goes by what the label says.
	if (!id || !td_starts(record->name, "session-") || strcmp(record->name + strlen("session-"), id) != 0)
		return 0;
	int64_t n = kept(record, key);
	return n > TD_REPLICAS_MOST ? TD_REPLICAS_MOST : (int)n;
}

int td_session_replicas(const struct td_object *record)
{
	return td_session_nodes(record) ? 0 : number_of_pods(record, "replicas");
}

int td_session_nodes(const struct td_object *record)
{
	return number_of_pods(record, "nodes");
}

int td_session_several(const struct td_object *record)
{
	int nodes = td_session_nodes(record);
	return nodes ? nodes : td_session_replicas(record);
}

int td_session_number_of(const struct td_object *pod, const char *id)
{
	td_auto_free char *first = td_asprintf("session-%s", id);
	long long n;
	if (!strcmp(pod->name, first))
		return 0;
	if (!td_starts(pod->name, first) || pod->name[strlen(first)] != '-')
		return -1;
	const char *end = pod->name + strlen(first) + 1;
	return *end >= '1' && *end <= '9' && td_parse_i64(end, &n) && n < TD_REPLICAS_MOST ? (int)n : -1;
}

void td_session_set_of(const struct td_object *record, const struct td_objects *pods, struct td_session_set *ret)
{
	const char *id = td_object_label(record, TD_LABEL_SESSION);
	ret->record = record;
	ret->nodes = td_session_nodes(record);
	ret->asked = td_jstr(record->root, "data.ended") ? 0 : td_session_several(record);
	for (size_t i = 0; i < pods->n; i++) {
		const struct td_object *o = pods->v[i];
		int n = td_streq(o->ns, record->ns) && td_streq(td_object_label(o, TD_LABEL_SESSION), id) &&
					td_streq(td_object_annotation(o, TD_ANN_SESSION_OWNER),
						 td_object_annotation(record, TD_ANN_SESSION_OWNER))
				? td_session_number_of(o, id)
				: -1;
		if (n >= 0)
			ret->pods[n] = o;
	}
}

void td_session_set_done(struct td_session_set *s)
{
	td_objects_done(&s->all);
}

int td_session_set_find(struct td_gateway *g, const struct td_object *record, struct td_cancel *c,
			struct td_session_set *ret, struct td_error *err)
{
	td_auto_free char *labels =
		td_asprintf(TD_LABEL_SESSION "=%s" TD_SESSION_REAL, td_object_label(record, TD_LABEL_SESSION));
	int r = td_kube_list(g->kube, &td_pods, record->ns, labels, NULL, c, &ret->all, err);
	if (!r)
		td_session_set_of(record, &ret->all, ret);
	return r;
}

// ---- what there is to say ----

bool td_session_lives(const struct td_object *pod)
{
	return pod && !td_object_deleting(pod) && !td_kube_pod_ended(pod->root);
}

static bool ready(const struct td_object *pod)
{
	return pod && !strcmp(td_session_state(pod), "ready");
}

// When the first of them started; -1: none has.
static int64_t began(const struct td_session_set *s)
{
	int64_t at = kept(s->record, "began");
	at = at ? at : -1;
	for (int i = 0; i < TD_REPLICAS_MOST; i++) {
		int64_t t = s->pods[i] ? td_session_started(s->pods[i]) : -1;
		at = t >= 0 && (at < 0 || t < at) ? t : at;
	}
	return at;
}

// The pod that stands for all: one that answers, else one that lives, else any.
static const struct td_object *shown(const struct td_session_set *s)
{
	if (s->nodes)
		return s->pods[0];
	for (int i = 0; i < TD_REPLICAS_MOST; i++)
		if (i < s->asked && ready(s->pods[i]))
			return s->pods[i];
	for (int i = 0; i < TD_REPLICAS_MOST; i++)
		if (td_session_lives(s->pods[i]))
			return s->pods[i];
	for (int i = 0; i < TD_REPLICAS_MOST; i++)
		if (s->pods[i])
			return s->pods[i];
	return NULL;
}

void td_session_set_write(struct td_gateway *g, const struct td_session_set *s, yyjson_mut_doc *d, yyjson_mut_val *w)
{
	const struct td_object *o = shown(s);
	int n = 0;
	if (s->nodes) {
		td_session_nodes_write(g, s, d, w);
		return;
	}
	if (o) {
		td_session_write(g, o, d, w);
		if (td_session_lives(o))
			td_session_write_end(g, o, began(s), d, w);
		if (s->asked && td_object_deleting(o))
			td_jm_str(d, w, "state", "starting"); // its next one
	} else {
		td_session_record_write(s->record, d, w);
		if (s->asked)
			td_jm_str(d, w, "state", "starting"); // each is made at the next look
	}
	yyjson_mut_val *each = td_jm_arr(d, w, "replicas.each");
	for (int i = 0; i < TD_REPLICAS_MOST; i++) {
		const struct td_object *p = s->pods[i];
		if (!p)
			continue;
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *one = td_jm_new();
		yyjson_mut_val *all = yyjson_mut_doc_get_root(one), *v = yyjson_mut_arr_add_obj(d, each);
		static const char *const fields[] = {"words", "node", "job", "devices"};
		td_session_write(g, p, one, all);
		td_jm_int(d, v, "number", i);
		td_jm_str(d, v, "state", i >= s->asked && ready(p) ? "draining" : td_session_state(p));
		for (size_t k = 0; k < TD_LEN(fields); k++)
			td_jm_str(d, v, fields[k], td_jm_getstr(all, fields[k]));
		td_jm_int(d, v, "inFlight", td_session_ways_waiting(g->ways, p->uid));
		if (td_session_ways_out(g->ways, p->uid))
			td_jm_bool(d, v, "unreached", true);
		n += i < s->asked && ready(p);
	}
	td_jm_int(d, w, "replicas.asked", s->asked);
	td_jm_int(d, w, "replicas.ready", n);
}

int td_session_set_answer(struct td_gateway_ask *q, int status, const struct td_object *record, struct td_error *err)
{
	td_auto_set struct td_session_set s = {0};
	int r = td_session_set_find(q->g, record, td_gateway_cancel(q), &s, err);
	if (r)
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_session_set_write(q->g, &s, d, yyjson_mut_doc_get_root(d));
	td_gateway_send(q, status, d);
	return 0;
}

// ---- what there is to do ----

static int remove_pod(struct td_gateway *g, const struct td_object *o, struct td_cancel *c, struct td_error *err)
{
	const struct td_kube_delete_opts how = {.uid = o->uid, .grace_s = -1};
	int r = td_object_deleting(o) ? 0 : td_kube_delete(g->kube, &td_pods, o->ns, o->name, &how, c, err);
	return r == TD_NOT_FOUND ? 0 : r;
}

int td_session_set_remove(struct td_gateway *g, const struct td_session_set *s, struct td_cancel *c,
			  struct td_error *err)
{
	struct td_error e = TD_ERROR_INIT;
	int first = 0;
	for (int i = 0; i < TD_REPLICAS_MOST; i++) {
		int r = s->pods[i] ? remove_pod(g, s->pods[i], c, first ? &e : err) : 0;
		first = first ? first : r;
	}
	return first;
}

static char *soon_key(int number)
{
	return td_asprintf("soon-%d", number); // how often that one ended soon after its start
}

static void see(struct td_gateway *g, const struct td_session_set *s, int number, struct td_replica_seen *ret)
{
	const struct td_object *o = s->pods[number];
	td_auto_free char *key = soon_key(number);
	int64_t soon = kept(s->record, key), ms;
	*ret = (struct td_replica_seen){.soon = soon < 100 ? (int)soon : 100};
	if (!o)
		return;
	ret->is = td_object_deleting(o)        ? TD_REPLICA_GOES
		  : td_kube_pod_ended(o->root) ? TD_REPLICA_ENDED
					       : TD_REPLICA_LIVES;
	ret->in_flight = td_session_ways_waiting(g->ways, o->uid);
	const char *made = td_jstr_or(o->root, "metadata.creationTimestamp", ""),
		   *end = td_jstr_or(o->root, "status.containerStatuses.[0].state.terminated.finishedAt", made);
	ret->ended = !td_time_parse(end, &ms) ? ms / 1000 : 0;
	ret->began = td_session_started(o);
	if (ret->began < 0)
		ret->began = ret->ended;
}

// Writes down how often it has ended, and deletes what is left of it, so that it can be made anew.
static int clear(struct td_gateway_ask *q, const struct td_session_set *s, int number,
		 const struct td_replica_seen *seen, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_auto_free char *key = soon_key(number), *text = td_asprintf("%d", td_replica_soon(seen));
	td_jm_key_str(d, td_jm_obj(d, yyjson_mut_doc_get_root(d), "data"), key, text);
	int r = td_session_record_set(q->g, s->record, d, err);
	return r ? r : remove_pod(q->g, s->pods[number], td_gateway_cancel(q), err);
}

int td_session_set_even(struct td_gateway_ask *q, const struct td_session_set *s, struct td_error *err)
{
	const char *id = td_object_label(s->record, TD_LABEL_SESSION);
	struct td_replica_want want = {.n = s->asked,
				       .now = now_s(),
				       .shrunk = kept(s->record, "shrunk"),
				       .busy_until = kept(s->record, "busyUntil")};
	want.shrunk = want.shrunk < want.now ? want.shrunk : want.now; // it is its owner's to change
	want.busy_until = want.busy_until < want.now + BUSY_S ? want.busy_until : want.now + BUSY_S;
	bool busy = false, refused = false;
	int first = 0;
	if (s->nodes)
		want.n = td_session_nodes_wanted(s);
	for (int i = 0; i < TD_REPLICAS_MOST && want.n >= 0; i++) {
		struct td_error e = TD_ERROR_INIT;
		struct td_replica_seen seen;
		see(q->g, s, i, &seen);
		if (s->nodes && td_session_nodes_keeps(s, i, seen.is))
			continue;
		busy = busy || (i >= s->asked && seen.in_flight);
		enum td_replica_act act = td_replica_next(&seen, i, &want);
		int r = 0;
		if (refused && (act == TD_REPLICA_MAKE || act == TD_REPLICA_REPLACE))
			continue; // what refuses one, such as a quota, refuses the next: the next look tries again
		if (act == TD_REPLICA_REPLACE)
			r = clear(q, s, i, &seen, &e);
		if (!r && act == TD_REPLICA_REMOVE)
			r = remove_pod(q->g, s->pods[i], td_gateway_cancel(q), &e);
		if (!r && (act == TD_REPLICA_MAKE || act == TD_REPLICA_REPLACE))
			r = td_session_make(q, s->record->ns, id, i, NULL, &e);
		if (r == TD_EXISTS)
			r = 0; // another gateway was first, or the last one still ends
		refused = refused || (r && act == TD_REPLICA_MAKE);
		if (act != TD_REPLICA_LEAVE)
			td_info("%s %d of session %s: %s%s%s", s->nodes ? "node" : "replica", i, id,
				act == TD_REPLICA_REMOVE ? "ended"
				: act == TD_REPLICA_MAKE ? "started"
							 : "started again",
				r ? ": " : "", r ? e.msg : "");
		if (r && !first && (first = r))
			td_fail(err, r, "%s %d: %s", s->nodes ? "node" : "replica", i, e.msg);
	}
	if (busy && s->asked) { // so that no other gateway ends what this one's requests wait for
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		td_jm_strf(d, yyjson_mut_doc_get_root(d), "data.busyUntil", "%lld", (long long)want.now + BUSY_S);
		int r = td_session_record_set(q->g, s->record, d, first ? NULL : err);
		first = first ? first : r;
	}
	return first;
}

// ---- one look ----

void td_session_set_use(const struct td_session_set *s, const struct td_session_source *from,
			struct td_session_figures *ret)
{
	struct td_session_figures all = {.gpu = -1, .at_ms = -1};
	bool blind = false;
	for (int i = 0; i < TD_REPLICAS_MOST; i++) {
		const struct td_object *o = s->pods[i];
		struct td_session_figures f;
		if (!td_session_lives(o) || !td_jstr(o->root, "spec.nodeName"))
			continue;
		td_session_figures_of(from, o, &f);
		// As old as the oldest: a part of them, newer than the rest, would be a wrong rate.
		all.at_ms = all.at_ms < 0 || f.at_ms < all.at_ms ? f.at_ms : all.at_ms;
		all.cpu = f.cpu < 0 || all.cpu < 0 ? -1 : all.cpu + f.cpu;
		all.gpus += f.gpus;
		blind = blind || (f.gpus && f.gpu < 0);
		all.gpu = f.gpu > all.gpu ? f.gpu : all.gpu;
		if (!*all.why)
			memcpy(all.why, f.why, sizeof(all.why));
	}
	if (all.at_ms < 0) { // none of them runs
		all.cpu = -1;
		all.at_ms = from->at_ms;
	}
	all.gpu = blind ? -1 : all.gpu;
	*ret = all;
}

// One that does not answer costs its second, and the thread is that of all sessions: the others of this one are tried
// when it answers, or by requests as their marks fade.
static void reach_again(struct td_gateway *g, const struct td_session_set *s)
{
	for (int i = 0; i < TD_REPLICAS_MOST; i++) {
		const struct td_object *o = s->pods[i];
		const char *ip = o ? td_jstr(o->root, "status.podIP") : NULL;
		if (s->nodes || !ip || !ready(o) || !td_session_ways_out(g->ways, o->uid))
			continue;
		td_auto_close int fd = td_http_far_dial(ip, (int)td_session_number(o, TD_ANN_SESSION_PORT), REACH_S);
		td_session_ways_reached(g->ways, o->uid, fd >= 0);
		if (fd < 0)
			return;
	}
}

static void reclaim(struct td_gateway *g, const struct td_session_set *s, enum td_idle_why why)
{
	struct td_error e = TD_ERROR_INIT;
	const char *id = td_object_label(s->record, TD_LABEL_SESSION);
	const struct td_session_end end = {.at = now_s(), .why = td_idle_words(why)};
	int r = td_session_record_end(g, s->record->ns, id, &end, &e);
	if (!r)
		r = td_session_set_remove(g, s, g->cancel, &e);
	td_session_reclaimed(s->record, why, r ? &e : NULL);
}

static int even(struct td_gateway_door *door, const struct td_session_set *s, struct td_error *err)
{
	struct td_gateway_ask q = {.g = td_gateway_door_of(door), .door = door};
	td_auto_user struct td_gateway_user u = {0};
	td_auto(td_json_unref) struct td_json *request = NULL;
	int r = td_gateway_user(q.g, td_object_annotation(s->record, TD_ANN_SESSION_OWNER), &u, err);
	q.user = u;
	if (!r)
		r = td_session_request(&q, s->record, &request, err);
	return r ? r : td_session_set_even(&q, s, err);
}

void td_session_set_look(struct td_gateway_door *door, const struct td_session_set *s,
			 const struct td_session_source *from)
{
	struct td_gateway *g = td_gateway_door_of(door);
	struct td_error e = TD_ERROR_INIT;
	const struct td_object *o = shown(s);
	int64_t at = 0, start = began(s);
	if (td_session_lives(o) && s->asked) {
		const struct td_idle_rules rules = td_session_rules_of(g, o);
		struct td_session_figures f = {.cpu = -1, .gpu = -1, .at_ms = from->at_ms};
		if (rules.low_cpu_s > 0)
			td_session_set_use(s, from, &f);
		bool news = td_session_look(g->traffic, td_object_label(s->record, TD_LABEL_SESSION), &rules, &f);
		enum td_idle_why why = td_session_end_of(g, o, start, &at);
		if (why != TD_IDLE_NEVER && at <= now_s() && (news || why != TD_IDLE_CPU)) {
			reclaim(g, s, why);
			return;
		}
	}
	// Those that are started again later do not make the session younger.
	if (s->asked && start >= 0 && !kept(s->record, "began")) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		td_jm_strf(d, yyjson_mut_doc_get_root(d), "data.began", "%lld", (long long)start);
		if (td_session_record_set(g, s->record, d, &e))
			td_debug("session %s: %s", s->record->name, e.msg);
	}
	reach_again(g, s);
	if (even(door, s, &e))
		td_warn("session %s/%s: %s", s->record->ns, s->record->name, e.msg);
}

// ---- another number ----

int td_session_scale(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *record = NULL, *now = NULL;
	td_auto(td_json_unref) struct td_json *request = NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	long long n = td_jint(q->body, "replicas", 1);
	int r;
	if (td_hub_session(q, "", &r, err))
		return r;
	r = td_session_record_of(q, q->args[0], &record, err);
	if (!r)
		r = td_session_request(q, record, &request, err);
	if (r)
		return r;
	const struct td_session_kind *kind = td_session_kind(td_jstr_or(td_json_root(request), "kind", "endpoint"));
	if (td_session_nodes(record))
		return td_fail(err, TD_INVALID,
			       "replicas: session %s is one over %d nodes, and keeps them: start another one",
			       q->args[0], td_session_nodes(record));
	if (!kind->measured)
		return td_fail(err, TD_INVALID, "replicas: session %s is a %s, and only endpoints have several",
			       q->args[0], kind->name);
	td_jm_strf(d, o, "data.replicas", "%lld", n);
	if (n < td_session_replicas(record))
		td_jm_strf(d, o, "data.shrunk", "%lld", (long long)now_s());
	if ((r = td_session_record_set(q->g, record, d, err)) || (r = td_session_record_of(q, q->args[0], &now, err)))
		return r;
	td_auto_set struct td_session_set s = {0};
	if ((r = td_session_set_find(q->g, now, td_gateway_cancel(q), &s, err)) ||
	    (s.asked && (r = td_session_set_even(q, &s, err))))
		return r;
	return td_session_set_answer(q, 200, now, err);
}
