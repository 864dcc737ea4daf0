#include "gateway/sessions.h"

#include "api/condition.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/names.h"
#include "gateway/hub.h"
#include "gateway/path.h"
#include "gateway/scope.h"
#include "metrics/metrics.h"

#include <stdio.h>
#include <string.h>

enum { LOOK_MS = 5000, LOOK_SOON_MS = 2000 }; // the second while there are endpoints with replicas

const struct td_idle_rules td_session_rules = {.max_age_s = 12 * 3600, .no_traffic_s = 3600, .low_cpu = 0.05};

static int64_t now_s(void)
{
	return td_real_ms(&td_clock_system) / 1000;
}

// ---- where ----

char *td_session_namespace(struct td_gateway *g, const char *user, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(g->clusters, g->o.ns, g->o.cluster);
	size_t i, n;
	yyjson_val *v;
	yyjson_arr_foreach (sc ? td_jget(sc->root, "spec.scheduler.namespaces") : NULL, i, n, v) {
		const char *ns = td_jstr_or(v, "namespace", "*");
		if (!strcmp(ns, "*"))
			break; // it fits every namespace, so what stands behind it counts for none
		if (td_streq(td_jstr(v, "user"), user))
			return td_strdup(ns);
	}
	td_fail(err, TD_UNSUPPORTED,
		"%s has no namespace for sessions: an administrator adds {namespace: …, user: %s} to "
		"spec.scheduler.namespaces of SlurmCluster %s/%s",
		user, user, g->o.ns, g->o.cluster);
	return NULL;
}

int td_session_find(struct td_gateway_ask *q, const char *id, struct td_object **ret, struct td_error *err)
{
	td_auto_free char *ns = td_session_namespace(q->g, q->user.name, err), *name = td_asprintf("session-%s", id);
	if (!ns)
		return err->code;
	int r = td_gateway_name_check("session", id, err);
	td_session_looks_wake(q->g->looks, ns);
	td_auto(td_object_unref) struct td_object *o = NULL;
	if (!r)
		r = td_kube_get(q->g->kube, &td_pods, ns, name, td_http_cancel(q->x), &o, err);
	if (!r && td_session_host(o)) { // whose, and of which job, nobody has checked
		td_object_unref(td_steal(o));
		r = TD_NOT_FOUND;
	}
	if (r == TD_NOT_FOUND) { // it may be a job, and no pod
		td_auto(td_object_unref) struct td_object *kept = NULL;
		struct td_error none = TD_ERROR_INIT;
		int k = td_session_record_get(q, ns, id, &kept, &none);
		if (k && k != TD_NOT_FOUND)
			return td_fail(err, k, "%s", none.msg);
		if (!k && td_session_host_record(kept) && (o = td_session_host_pod(q->g, kept)))
			r = 0;
	}
	if (r == TD_NOT_FOUND || (!r && !td_streq(td_object_label(o, TD_LABEL_SESSION), id)) ||
	    (!r && !td_streq(td_object_annotation(o, TD_ANN_SESSION_OWNER), q->user.name)))
		return td_fail(err, TD_NOT_FOUND, "there is no session %.40s: `tandem session list` shows yours", id);
	if (!r && !td_gateway_scope_session(q, td_object_annotation(o, TD_ANN_ASK_PREFIX "account")))
		return td_fail(err, TD_NOT_FOUND, "there is no session %.40s in project %.63s, of which this key is",
			       id, q->project);
	if (!r)
		*ret = td_steal(o);
	return r;
}

// ---- what there is to say of one ----

int64_t td_session_number(const struct td_object *o, const char *key)
{
	long long n;
	const char *s = td_object_annotation(o, key);
	return s && td_parse_i64(s, &n) ? n : 0;
}

// The rules for all, what the gateway was told besides, those of his Tenants, and what the person asked for.
struct td_idle_rules td_session_rules_of(struct td_gateway *g, const struct td_object *o)
{
	struct td_idle_rules r = td_session_rules;
	const struct td_idle_rules site = {.low_cpu_s = g->o.low_use_min * 60LL},
				   own = {.max_age_s = td_session_number(o, TD_ANN_SESSION_MAX_AGE),
					  .no_traffic_s = td_session_number(o, TD_ANN_SESSION_IDLE),
					  .low_cpu_s = td_session_number(o, TD_ANN_SESSION_LOW)};
	td_idle_merge(&r, &site);
	const char *owner = td_object_annotation(o, TD_ANN_SESSION_OWNER);
	if (owner)
		td_session_scopes_add(g, owner, &r);
	td_idle_merge(&r, &own);
	if (!td_session_kind_of(o)->served)
		r.no_traffic_s = 0; // nobody is expected to come
	return r;
}

int64_t td_session_started(const struct td_object *o)
{
	int64_t at;
	const char *text = td_jstr(o->root, "status.startTime");
	return text && !td_time_parse(text, &at) ? at / 1000 : -1;
}

enum td_idle_why td_session_end_of(struct td_gateway *g, const struct td_object *o, int64_t began, int64_t *ret_at)
{
	const struct td_idle_rules r = td_session_rules_of(g, o);
	struct td_idle_seen s = {.started = -1, .traffic = -1, .low_cpu_since = -1};
	const char *id = td_object_label(o, TD_LABEL_SESSION);
	if (id)
		td_session_seen(g->traffic, id, &s);
	s.started = began >= 0 ? began : td_session_started(o);
	return td_idle_end(&r, &s, ret_at);
}

void td_session_write_end(struct td_gateway *g, const struct td_object *o, int64_t began, yyjson_mut_doc *d,
			  yyjson_mut_val *w)
{
	int64_t at;
	char lacks[200];
	const char *id = td_object_label(o, TD_LABEL_SESSION);
	if (id && td_session_rules_of(g, o).low_cpu_s > 0 && td_session_lacks(g->traffic, id, lacks, sizeof(lacks)))
		td_jm_str(d, w, "useUnknown", lacks);
	enum td_idle_why why = td_session_end_of(g, o, began, &at);
	if (why == TD_IDLE_NEVER)
		return;
	td_jm_int(d, w, "ends", at);
	td_jm_str(d, w, "endsBecause", td_idle_words(why));
}

// What its server answers, as this gateway sees it.
static void write_answers(struct td_gateway *g, const char *id, yyjson_mut_doc *d, yyjson_mut_val *w)
{
	struct td_answers_said a;
	if (!id || !td_session_answers(g->traffic, id, &a))
		return;
	td_jm_int(d, w, "requests.inFlight", a.in_flight);
	td_jm_int(d, w, "requests.answered", (int64_t)a.total);
	if (!a.recent)
		return;
	td_jm_int(d, w, "requests.perMinute", (a.recent * 60000LL + a.over_ms - 1) / a.over_ms);
	td_jm_int(d, w, "requests.p50Ms", a.p50_ms);
	td_jm_int(d, w, "requests.p95Ms", a.p95_ms);
	td_jm_int(d, w, "requests.maxMs", a.max_ms);
}

const char *td_session_state(const struct td_object *o)
{
	if (td_object_deleting(o))
		return "stopping";
	if (td_kube_pod_ended(o->root))
		return td_streq(td_jstr(o->root, "status.phase"), "Succeeded") ? "done" : "failed";
	if (!td_jstr(o->root, "spec.nodeName"))
		return "waiting";
	if (!td_condition_true(o->root, "Ready"))
		return "starting";
	return td_session_kind_of(o)->served ? "ready" : "running";
}

void td_session_write(struct td_gateway *g, const struct td_object *o, yyjson_mut_doc *d, yyjson_mut_val *w)
{
	const char *id = td_object_label(o, TD_LABEL_SESSION);
	bool placed = td_jstr(o->root, "spec.nodeName") != NULL, over = td_kube_pod_ended(o->root);
	yyjson_val *scheduled = td_condition(o->root, "PodScheduled");
	int64_t at;
	td_jm_str(d, w, "id", id);
	td_jm_str(d, w, "state", td_session_state(o));
	td_jm_str(d, w, "kind", td_session_kind_of(o)->name);
	if (!placed && scheduled)
		td_jm_str(d, w, "words", td_jstr(scheduled, "message"));
	if (!placed && td_streq(td_jstr(scheduled, "reason"), "Refused"))
		td_jm_bool(d, w, "refused", true); // it waits for nothing that ends
	if (over) {
		yyjson_val *end = td_jget(o->root, "status.containerStatuses.[0].state.terminated");
		const char *last = td_jstr_or(end, "message", "");
		td_jm_str(d, w, "words", *last ? last : td_jstr(o->root, "status.message"));
	}
	td_jm_str(d, w, "node", td_jstr(o->root, "spec.nodeName"));
	td_jm_str(d, w, "machines", td_session_host(o));
	if (td_session_host(o))
		td_session_host_nodes_write(o, d, w);
	if (td_session_other(o) && !over)
		td_session_other_write(o, d, w);
	if (td_jstr(o->root, "status.startTime") && !td_time_parse(td_jstr(o->root, "status.startTime"), &at))
		td_jm_int(d, w, "started", at / 1000);
	td_jm_str(d, w, "command", td_object_annotation(o, TD_ANN_SESSION_COMMAND));
	td_jm_str(d, w, "job", td_object_annotation(o, TD_ANN_JOB));
	td_jm_str(d, w, "devices", td_object_annotation(o, TD_ANN_DEVICES));
	if (td_session_kind_of(o)->served)
		td_jm_strf(d, w, "path", "/s/%s/", id);
	if (!over)
		write_answers(g, id, d, w);
	const char *begin = td_object_annotation(o, TD_ANN_ASK_PREFIX "begin");
	if (!placed && begin && !td_time_parse(begin, &at) && at / 1000 > now_s())
		td_jm_int(d, w, "begins", at / 1000);
	if (!over)
		td_session_write_end(g, o, -1, d, w);
}

int td_session_list(struct td_gateway *g, const char *ns, struct td_cancel *c, struct td_objects *ret,
		    struct td_error *err)
{
	return td_kube_list(g->kube, &td_pods, ns, TD_LABEL_SESSION TD_SESSION_REAL, NULL, c, ret, err);
}

// The record of the session whose pod this is; NULL: there is none.
static const struct td_object *record_in(const struct td_objects *records, const struct td_object *pod)
{
	for (size_t i = 0; i < records->n; i++)
		if (td_streq(td_object_label(records->v[i], TD_LABEL_SESSION), td_object_label(pod, TD_LABEL_SESSION)))
			return records->v[i];
	return NULL;
}

// What was asked for: GPUs of each of its pods, and who is charged. record NULL: it has none.
static void write_asked(const struct td_object *record, yyjson_mut_doc *d, yyjson_mut_val *w)
{
	const char *text = record ? td_jstr(record->root, "data.request") : NULL;
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!text || td_json_parse(text, strlen(text), &j, NULL))
		return;
	if (td_jint(td_json_root(j), "gpus", 0) > 0)
		td_jm_int(d, w, "gpus", td_jint(td_json_root(j), "gpus", 0));
	td_jm_str(d, w, "account", td_jstr(td_json_root(j), "account"));
}

static int list(struct td_gateway_ask *q, struct td_error *err)
{
	struct td_error none = TD_ERROR_INIT;
	td_auto_free char *ns = td_session_namespace(q->g, q->user.name, &none);
	td_auto_objects struct td_objects l = {0}, kept = {0};
	// Records first: one whose pod ends meanwhile is then shown as it was, not lost.
	int r = ns ? td_session_record_list(q->g, ns, td_http_cancel(q->x), &kept, err) : 0;
	if (!r && ns)
		r = td_session_list(q->g, ns, td_http_cancel(q->x), &l, err);
	if (r)
		return r;
	td_session_host_pods(q->g, &kept, &l);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *v = td_jm_arr(d, yyjson_mut_doc_get_root(d), "sessions");
	for (size_t i = 0; i < l.n; i++)
		if (td_streq(td_object_annotation(l.v[i], TD_ANN_SESSION_OWNER), q->user.name) &&
		    td_gateway_scope_session(q, td_object_annotation(l.v[i], TD_ANN_ASK_PREFIX "account")) &&
		    !td_session_several(record_in(&kept, l.v[i])) && !td_session_number(l.v[i], TD_ANN_SESSION_NODE)) {
			yyjson_mut_val *w = yyjson_mut_arr_add_obj(d, v);
			td_session_write(q->g, l.v[i], d, w);
			write_asked(record_in(&kept, l.v[i]), d, w);
		}
	for (size_t i = 0; i < kept.n; i++) {
		bool lives = false;
		if (!td_streq(td_object_annotation(kept.v[i], TD_ANN_SESSION_OWNER), q->user.name) ||
		    !td_session_record_scoped(q, kept.v[i]))
			continue;
		for (size_t k = 0; k < l.n; k++)
			lives = lives || !strcmp(l.v[k]->name, kept.v[i]->name);
		if (td_session_several(kept.v[i])) {
			struct td_session_set s = {0};
			td_session_set_of(kept.v[i], &l, &s);
			yyjson_mut_val *w = yyjson_mut_arr_add_obj(d, v);
			td_session_set_write(q->g, &s, d, w);
			write_asked(kept.v[i], d, w);
		} else if (!lives) {
			yyjson_mut_val *w = yyjson_mut_arr_add_obj(d, v);
			td_session_record_write(kept.v[i], d, w);
			write_asked(kept.v[i], d, w);
		}
	}
	if (!ns)
		td_jm_str(d, yyjson_mut_doc_get_root(d), "problem", none.msg);
	td_hub_session_list(q, d, v);
	td_gateway_send(q, 200, d);
	return 0;
}

// ---- one ----

// The record of the session; TD_NOT_FOUND: there is none.
int td_session_record_of(struct td_gateway_ask *q, const char *id, struct td_object **ret, struct td_error *err)
{
	td_auto_free char *ns = td_session_namespace(q->g, q->user.name, err);
	int r = ns ? td_gateway_name_check("session", id, err) : err->code;
	if (ns)
		td_session_looks_wake(q->g->looks, ns);
	return r ? r : td_session_record_get(q, ns, id, ret, err);
}

static int get(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL, *kept = NULL;
	struct td_error none = TD_ERROR_INIT;
	int r;
	if (td_hub_session(q, "", &r, err))
		return r;
	r = td_session_find(q, q->args[0], &o, err);
	// The others have no replicas.
	bool alone = !r && !td_session_kind_of(o)->measured && !td_object_annotation(o, TD_ANN_SESSION_NODE);
	int k = alone ? TD_NOT_FOUND : td_session_record_of(q, q->args[0], &kept, r ? err : &none);
	if (!k && td_session_several(kept))
		return td_session_set_answer(q, 200, kept, err);
	if (!r && k && k != TD_NOT_FOUND)
		return td_fail(err, k, "%s", none.msg);
	if (r == TD_NOT_FOUND)
		r = k;
	if (r)
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	if (o)
		td_session_write(q->g, o, d, yyjson_mut_doc_get_root(d));
	else
		td_session_record_write(kept, d, yyjson_mut_doc_get_root(d));
	td_gateway_send(q, 200, d);
	return 0;
}

// The record first, so that nobody starts replicas again; those that are left without one are ended (look).
static int stop_all(struct td_gateway_ask *q, const struct td_object *kept, struct td_error *err)
{
	td_auto_set struct td_session_set s = {0};
	int r = td_session_record_remove(q, kept, err);
	if (!r || r == TD_NOT_FOUND)
		r = td_session_set_find(q->g, kept, td_gateway_cancel(q), &s, err);
	if (!r)
		r = td_session_set_remove(q->g, &s, td_gateway_cancel(q), err);
	return r ? r : td_gateway_done(q);
}

// The pod first: a record without a pod can be stopped again.
static int stop(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL, *kept = NULL;
	struct td_error none = TD_ERROR_INIT;
	int r;
	if (td_hub_session(q, "", &r, err))
		return r;
	r = td_session_find(q, q->args[0], &o, err);
	if (r && r != TD_NOT_FOUND)
		return r;
	int k = td_session_record_of(q, q->args[0], &kept, &none);
	if (k && k != TD_NOT_FOUND) // with replicas, its pod alone would be made anew
		return td_fail(err, k, "%s", none.msg);
	if (!k && td_session_several(kept))
		return stop_all(q, kept, err);
	if (!r)
		r = td_session_end_pod(q->g, o, td_http_cancel(q->x), err);
	if (r == TD_NOT_FOUND && !k)
		r = 0;
	if (!r && !k)
		r = td_session_record_remove(q, kept, err);
	return r ? r : td_gateway_done(q);
}

// ---- the end ----

void td_session_reclaimed(const struct td_object *o, enum td_idle_why why, const struct td_error *e)
{
	const char *const name = why == TD_IDLE_AGE ? "age" : why == TD_IDLE_TRAFFIC ? "unused" : "idle";
	if (!e)
		td_metric_add(td_counter(td_metrics_process(), "tandem_gateway_sessions_reclaimed_total",
					 "Sessions that were ended by the rules.", TD_LABELS("why")),
			      1, TD_LABELS(name));
	td_info("session %s of %s ends: %s%s%s", td_object_label(o, TD_LABEL_SESSION),
		td_object_annotation(o, TD_ANN_SESSION_OWNER), td_idle_words(why), e ? ": " : "", e ? e->msg : "");
}

// Ends one by the rules. Why is written down before the pod goes, so that it can be resumed.
static void reclaim(struct td_gateway *g, const struct td_object *o, enum td_idle_why why)
{
	struct td_error e = TD_ERROR_INIT;
	const char *id = td_object_label(o, TD_LABEL_SESSION);
	const struct td_session_end end = {.at = now_s(), .why = td_idle_words(why)};
	int r = td_session_record_end(g, o->ns, id, &end, &e);
	if (r == TD_NOT_FOUND)
		r = 0; // one without a record: nobody can resume it
	if (!r)
		r = td_session_end_pod(g, o, g->cancel, &e);
	td_session_reclaimed(o, why, r ? &e : NULL);
}

// One pod alone. Who does nothing is ended only right after a look that has seen so.
static void look_at(struct td_gateway *g, const struct td_object *o, const struct td_session_source *from)
{
	int64_t at = 0;
	struct td_session_figures f = {.cpu = -1, .gpu = -1, .at_ms = from->at_ms};
	if (!td_session_lives(o))
		return;
	const struct td_idle_rules r = td_session_rules_of(g, o);
	if (r.low_cpu_s > 0 && td_jstr(o->root, "spec.nodeName"))
		td_session_figures_of(from, o, &f);
	bool news = td_session_look(g->traffic, td_object_label(o, TD_LABEL_SESSION), &r, &f);
	enum td_idle_why why = td_session_end_of(g, o, -1, &at);
	if (why != TD_IDLE_NEVER && at <= now_s() && (news || why != TD_IDLE_CPU))
		reclaim(g, o, why);
}

// Its session was stopped while it was made.
static void orphan(struct td_gateway *g, const struct td_object *o)
{
	struct td_error e = TD_ERROR_INIT;
	const struct td_kube_delete_opts how = {.uid = o->uid, .grace_s = -1};
	int r = td_object_deleting(o) ? 0 : td_kube_delete(g->kube, &td_pods, o->ns, o->name, &how, g->cancel, &e);
	if (r && r != TD_NOT_FOUND)
		td_warn("pod %s/%s of a session that was stopped: %s", o->ns, o->name, e.msg);
}

// Gateways tell each other by the record when it was used.
static void tell(struct td_gateway *g, const struct td_object *record)
{
	const char *id = td_object_label(record, TD_LABEL_SESSION), *text = td_jstr(record->root, "data.used");
	struct td_error e = TD_ERROR_INIT;
	long long kept = 0;
	if (td_jstr(record->root, "data.ended"))
		return;
	int64_t used = td_session_tell(g->traffic, id, text && td_parse_i64(text, &kept) && kept > 0 ? kept : 0);
	if (!used)
		return;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_jm_strf(d, yyjson_mut_doc_get_root(d), "data.used", "%lld", (long long)used);
	if (td_session_record_set(g, record, d, &e))
		td_debug("session %s/%s: %s", record->ns, record->name, e.msg);
}

// The sessions of one person. True: there are some of several pods.
static bool look(struct td_gateway_door *door, const char *ns, const char *owner, const struct td_session_source *from)
{
	struct td_gateway *g = td_gateway_door_of(door);
	struct td_error e = TD_ERROR_INIT;
	bool some = false;
	td_auto_objects struct td_objects l = {0}, kept = {0};
	// Pods first: one whose record is not there then was stopped.
	if (td_session_list(g, ns, g->cancel, &l, &e) || td_session_record_list(g, ns, g->cancel, &kept, &e)) {
		td_debug("sessions in %s: %s", ns, e.msg);
		return false;
	}
	if (!l.n && !kept.n)
		td_session_looks_empty(g->looks, ns, td_mono_ms(&td_clock_system));
	for (size_t i = 0; i < kept.n; i++)
		tell(g, kept.v[i]);
	td_session_host_pods(g, &kept, &l);
	for (size_t i = 0; i < l.n; i++) {
		const struct td_object *record = record_in(&kept, l.v[i]);
		if (td_session_several(record))
			continue;
		if (!record && (td_object_annotation(l.v[i], TD_ANN_SESSION_REPLICA) ||
				td_object_annotation(l.v[i], TD_ANN_SESSION_NODE)))
			orphan(g, l.v[i]);
		else
			look_at(g, l.v[i], from);
		if (!record || !td_session_host(l.v[i]))
			continue;
		td_session_host_keep(g, record, l.v[i]);
		if (td_object_deleting(l.v[i]) && td_session_end_pod(g, l.v[i], g->cancel, &e)) // its end was lost
			td_debug("session %s/%s: %s", l.v[i]->ns, l.v[i]->name, e.msg);
	}
	for (size_t i = 0; i < kept.n; i++) {
		struct td_session_set s = {0};
		if (!owner || !td_session_several(kept.v[i]) ||
		    !td_streq(td_object_annotation(kept.v[i], TD_ANN_SESSION_OWNER), owner))
			continue;
		some = true;
		td_session_set_of(kept.v[i], &l, &s);
		td_session_set_look(door, &s, from);
	}
	return some;
}

void *td_session_thread(void *arg)
{
	struct td_gateway_door *door = arg;
	struct td_gateway *g = td_gateway_door_of(door);
	bool soon = true;
	td_session_scopes_look(g);
	while (!td_cancel_wait(g->cancel, soon ? LOOK_SOON_MS : LOOK_MS)) {
		soon = false;
		td_session_scopes_look(g);
		td_session_lines_sweep(g->lines);
		td_session_measures_sweep(g->measures);
		td_auto(td_object_unref) struct td_object *sc = td_informer_get(g->clusters, g->o.ns, g->o.cluster);
		struct td_error e = TD_ERROR_INIT;
		td_auto_buf struct td_buf usage = {0};
		struct td_session_source from = {
			.g = g, .agents = g->agents, .why = "this gateway was told of no agents (--agents)"};
		if (g->o.usage && td_session_usage(g, &usage, &e)) {
			td_debug("use of sessions: %s", e.msg);
			from.why = e.msg;
		} else if (g->o.usage) {
			from.text = td_buf_str(&usage);
		}
		from.at_ms = td_real_ms(&td_clock_system);
		size_t i, n;
		yyjson_val *v;
		yyjson_arr_foreach (sc ? td_jget(sc->root, "spec.scheduler.namespaces") : NULL, i, n, v) {
			const char *ns = td_jstr_or(v, "namespace", "*");
			if (!strcmp(ns, "*"))
				break;
			if (!td_session_looks_due(g->looks, ns, td_mono_ms(&td_clock_system)))
				continue;
			soon = look(door, ns, td_jstr(v, "user"), &from) || soon;
		}
	}
	return NULL;
}

const struct td_gateway_op td_gateway_session_ops[] = {
	{"listSessions", list},
	{"startSession", td_session_start},
	{"getSession", get},
	{"stopSession", stop},
	{"resumeSession", td_session_resume},
	{"sshSession", td_session_ssh},
	{"scaleSession", td_session_scale},
	{NULL, NULL},
};
