#include "gateway/sessions.h"

#include "api/condition.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/names.h"
#include "gateway/path.h"

#include <stdio.h>
#include <string.h>

enum { LOOK_MS = 5000, TRACKED = 1024 };

const struct td_idle_rules td_session_rules = {.max_age_s = 12 * 3600, .no_traffic_s = 3600};

// ---- traffic ----

struct td_session_traffic {
	pthread_mutex_t lock; // guards v, n
	int64_t began;        // what was before is not known
	struct {
		char id[64];
		int64_t at;
	} v[TRACKED];
	size_t n;
};

static int64_t now_s(void)
{
	return td_real_ms(&td_clock_system) / 1000;
}

struct td_session_traffic *td_session_traffic_new(void)
{
	struct td_session_traffic *t = td_calloc(1, sizeof(*t));
	pthread_mutex_init(&t->lock, NULL);
	t->began = now_s();
	return t;
}

struct td_session_traffic *td_session_traffic_free(struct td_session_traffic *t)
{
	if (t)
		pthread_mutex_destroy(&t->lock);
	free(t);
	return NULL;
}

void td_session_touch(struct td_session_traffic *t, const char *id)
{
	pthread_mutex_lock(&t->lock);
	size_t i = 0, oldest = 0;
	while (i < t->n && strcmp(t->v[i].id, id) != 0) {
		oldest = t->v[i].at < t->v[oldest].at ? i : oldest;
		i++;
	}
	if (i == t->n)
		i = t->n < TRACKED ? t->n++ : oldest;
	snprintf(t->v[i].id, sizeof(t->v[i].id), "%s", id);
	t->v[i].at = now_s();
	pthread_mutex_unlock(&t->lock);
}

// What this gateway did not see counts from its own start.
static int64_t last_traffic(struct td_session_traffic *t, const char *id)
{
	int64_t at = t->began;
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < t->n; i++)
		if (!strcmp(t->v[i].id, id))
			at = t->v[i].at;
	pthread_mutex_unlock(&t->lock);
	return at;
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
	td_auto(td_object_unref) struct td_object *o = NULL;
	if (!r)
		r = td_kube_get(q->g->kube, &td_pods, ns, name, td_http_cancel(q->x), &o, err);
	if (r == TD_NOT_FOUND || (!r && !td_streq(td_object_label(o, TD_LABEL_SESSION), id)) ||
	    (!r && !td_streq(td_object_annotation(o, TD_ANN_SESSION_OWNER), q->user.name)))
		return td_fail(err, TD_NOT_FOUND, "there is no session %.40s", id);
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

static enum td_idle_why end_of(struct td_gateway *g, const struct td_object *o, int64_t *ret_at)
{
	int64_t started;
	struct td_idle_rules r = td_session_rules;
	if (!td_session_kind_of(o)->served)
		r.no_traffic_s = 0; // nobody is expected to come
	const struct td_idle_rules own = {.max_age_s = td_session_number(o, TD_ANN_SESSION_MAX_AGE),
					  .no_traffic_s = td_session_number(o, TD_ANN_SESSION_IDLE)};
	td_idle_merge(&r, &own);
	struct td_idle_seen s = {.started = -1, .low_cpu_since = -1};
	const char *at = td_jstr(o->root, "status.startTime");
	if (at && !td_time_parse(at, &started))
		s.started = started / 1000;
	const char *id = td_object_label(o, TD_LABEL_SESSION);
	s.traffic = id ? last_traffic(g->traffic, id) : -1;
	return td_idle_end(&r, &s, ret_at);
}

void td_session_write(struct td_gateway *g, const struct td_object *o, yyjson_mut_doc *d, yyjson_mut_val *w)
{
	const char *phase = td_jstr_or(o->root, "status.phase", "Pending"), *id = td_object_label(o, TD_LABEL_SESSION);
	bool placed = td_jstr(o->root, "spec.nodeName") != NULL, over = td_kube_pod_ended(o->root);
	yyjson_val *scheduled = td_condition(o->root, "PodScheduled");
	int64_t at;
	td_jm_str(d, w, "id", id);
	td_jm_str(d, w, "state",
		  td_object_deleting(o)                  ? "stopping"
		  : over                                 ? !strcmp(phase, "Succeeded") ? "done" : "failed"
		  : !placed                              ? "waiting"
		  : !td_condition_true(o->root, "Ready") ? "starting"
		  : td_session_kind_of(o)->served        ? "ready"
							 : "running");
	td_jm_str(d, w, "kind", td_session_kind_of(o)->name);
	if (!placed && scheduled)
		td_jm_str(d, w, "words", td_jstr(scheduled, "message"));
	if (over) {
		yyjson_val *end = td_jget(o->root, "status.containerStatuses.[0].state.terminated");
		const char *last = td_jstr_or(end, "message", "");
		td_jm_str(d, w, "words", *last ? last : td_jstr(o->root, "status.message"));
	}
	td_jm_str(d, w, "node", td_jstr(o->root, "spec.nodeName"));
	td_jm_str(d, w, "command", td_object_annotation(o, TD_ANN_SESSION_COMMAND));
	td_jm_str(d, w, "job", td_object_annotation(o, TD_ANN_JOB));
	td_jm_str(d, w, "devices", td_object_annotation(o, TD_ANN_DEVICES));
	if (td_session_kind_of(o)->served)
		td_jm_strf(d, w, "path", "/s/%s/", id);
	enum td_idle_why why = over ? TD_IDLE_NEVER : end_of(g, o, &at);
	if (why != TD_IDLE_NEVER) {
		td_jm_int(d, w, "ends", at);
		td_jm_str(d, w, "endsBecause", td_idle_words(why));
	}
}

int td_session_list(struct td_gateway *g, const char *ns, struct td_cancel *c, struct td_objects *ret,
		    struct td_error *err)
{
	return td_kube_list(g->kube, &td_pods, ns, TD_LABEL_SESSION, NULL, c, ret, err);
}

static int list(struct td_gateway_ask *q, struct td_error *err)
{
	struct td_error none = TD_ERROR_INIT;
	td_auto_free char *ns = td_session_namespace(q->g, q->user.name, &none);
	td_auto_objects struct td_objects l = {0};
	int r = ns ? td_session_list(q->g, ns, td_http_cancel(q->x), &l, err) : 0;
	if (r)
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *v = td_jm_arr(d, yyjson_mut_doc_get_root(d), "sessions");
	for (size_t i = 0; i < l.n; i++)
		if (td_streq(td_object_annotation(l.v[i], TD_ANN_SESSION_OWNER), q->user.name))
			td_session_write(q->g, l.v[i], d, yyjson_mut_arr_add_obj(d, v));
	if (!ns)
		td_jm_str(d, yyjson_mut_doc_get_root(d), "problem", none.msg);
	td_gateway_send(q, 200, d);
	return 0;
}

// ---- one ----

static int get(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = td_session_find(q, q->args[0], &o, err);
	if (r)
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_session_write(q->g, o, d, yyjson_mut_doc_get_root(d));
	td_gateway_send(q, 200, d);
	return 0;
}

static int stop(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = td_session_find(q, q->args[0], &o, err);
	const struct td_kube_delete_opts how = {.uid = o ? o->uid : NULL, .grace_s = -1};
	if (!r)
		r = td_kube_delete(q->g->kube, &td_pods, o->ns, o->name, &how, td_http_cancel(q->x), err);
	return r ? r : td_gateway_done(q);
}

// ---- the end ----

static void look(struct td_gateway *g, const char *ns)
{
	struct td_error e = TD_ERROR_INIT;
	td_auto_objects struct td_objects l = {0};
	if (td_session_list(g, ns, g->cancel, &l, &e)) {
		td_debug("sessions in %s: %s", ns, e.msg);
		return;
	}
	for (size_t i = 0; i < l.n; i++) {
		int64_t at = 0;
		if (td_object_deleting(l.v[i]) || td_kube_pod_ended(l.v[i]->root))
			continue;
		enum td_idle_why why = end_of(g, l.v[i], &at);
		if (why == TD_IDLE_NEVER || at > now_s())
			continue;
		const struct td_kube_delete_opts how = {.uid = l.v[i]->uid, .grace_s = -1};
		int r = td_kube_delete(g->kube, &td_pods, ns, l.v[i]->name, &how, g->cancel, &e);
		td_info("session %s of %s ends: %s%s%s", td_object_label(l.v[i], TD_LABEL_SESSION),
			td_object_annotation(l.v[i], TD_ANN_SESSION_OWNER), td_idle_words(why), r ? ": " : "",
			r ? e.msg : "");
	}
}

void *td_session_thread(void *gateway)
{
	struct td_gateway *g = gateway;
	while (!td_cancel_wait(g->cancel, LOOK_MS)) {
		td_auto(td_object_unref) struct td_object *sc = td_informer_get(g->clusters, g->o.ns, g->o.cluster);
		size_t i, n;
		yyjson_val *v;
		yyjson_arr_foreach (sc ? td_jget(sc->root, "spec.scheduler.namespaces") : NULL, i, n, v) {
			const char *ns = td_jstr_or(v, "namespace", "*");
			if (!strcmp(ns, "*"))
				break;
			look(g, ns);
		}
	}
	return NULL;
}

const struct td_gateway_op td_gateway_session_ops[] = {
	{"listSessions", list}, {"startSession", td_session_start}, {"getSession", get}, {"stopSession", stop},
	{NULL, NULL},
};
