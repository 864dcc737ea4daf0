#include "gateway/sessions.h"

#include "api/condition.h"
#include "base/clock.h"
#include "base/embedded.h"
#include "base/log.h"
#include "base/names.h"
#include "base/rand.h"
#include "gateway/path.h"
#include "pool/idle.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

extern const struct td_embedded td_gateway_files[];

enum { PORT = 8888, LOOK_MS = 5000, MOST = 20, TRACKED = 1024 };

// The rules for all. A person may ask for stricter ones as he starts a session.
static const struct td_idle_rules for_all = {.max_age_s = 12 * 3600, .no_traffic_s = 3600};

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

static void touch(struct td_session_traffic *t, const char *id)
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

// The namespace whose pods are this person's jobs. The caller frees it; NULL: he has none.
static char *namespace_of(struct td_gateway *g, const char *user, struct td_error *err)
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

static int find(struct td_gateway_ask *q, const char *id, struct td_object **ret, struct td_error *err)
{
	td_auto_free char *ns = namespace_of(q->g, q->user.name, err), *name = td_asprintf("session-%s", id);
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

static int64_t seconds(const struct td_object *o, const char *key)
{
	long long n;
	const char *s = td_object_annotation(o, key);
	return s && td_parse_i64(s, &n) ? n : 0;
}

static enum td_idle_why end_of(struct td_gateway *g, const struct td_object *o, int64_t *ret_at)
{
	int64_t started;
	struct td_idle_rules r = for_all;
	const struct td_idle_rules own = {.max_age_s = seconds(o, TD_ANN_SESSION_MAX_AGE),
					  .no_traffic_s = seconds(o, TD_ANN_SESSION_IDLE)};
	td_idle_merge(&r, &own);
	struct td_idle_seen s = {.started = -1, .low_cpu_since = -1};
	const char *at = td_jstr(o->root, "status.startTime");
	if (at && !td_time_parse(at, &started))
		s.started = started / 1000;
	const char *id = td_object_label(o, TD_LABEL_SESSION);
	s.traffic = id ? last_traffic(g->traffic, id) : -1;
	return td_idle_end(&r, &s, ret_at);
}

static void write_one(struct td_gateway *g, const struct td_object *o, yyjson_mut_doc *d, yyjson_mut_val *w)
{
	const char *phase = td_jstr_or(o->root, "status.phase", "Pending"), *id = td_object_label(o, TD_LABEL_SESSION);
	bool placed = td_jstr(o->root, "spec.nodeName") != NULL, over = td_kube_pod_ended(o->root);
	yyjson_val *scheduled = td_condition(o->root, "PodScheduled");
	int64_t at;
	td_jm_str(d, w, "id", id);
	td_jm_str(d, w, "state",
		  td_object_deleting(o)                 ? "stopping"
		  : over                                ? !strcmp(phase, "Succeeded") ? "done" : "failed"
		  : !placed                             ? "waiting"
		  : td_condition_true(o->root, "Ready") ? "ready"
							: "starting");
	if (!placed && scheduled)
		td_jm_str(d, w, "words", td_jstr(scheduled, "message"));
	if (over)
		td_jm_str(d, w, "words", td_jstr(o->root, "status.message"));
	td_jm_str(d, w, "node", td_jstr(o->root, "spec.nodeName"));
	td_jm_str(d, w, "command", td_object_annotation(o, TD_ANN_SESSION_COMMAND));
	td_jm_str(d, w, "job", td_object_annotation(o, TD_ANN_JOB));
	td_jm_str(d, w, "devices", td_object_annotation(o, TD_ANN_DEVICES));
	td_jm_strf(d, w, "path", "/s/%s/", id);
	enum td_idle_why why = over ? TD_IDLE_NEVER : end_of(g, o, &at);
	if (why != TD_IDLE_NEVER) {
		td_jm_int(d, w, "ends", at);
		td_jm_str(d, w, "endsBecause", td_idle_words(why));
	}
}

static int list_of(struct td_gateway *g, const char *ns, struct td_cancel *c, struct td_objects *ret,
		   struct td_error *err)
{
	return td_kube_list(g->kube, &td_pods, ns, TD_LABEL_SESSION, NULL, c, ret, err);
}

static int list(struct td_gateway_ask *q, struct td_error *err)
{
	struct td_error none = TD_ERROR_INIT;
	td_auto_free char *ns = namespace_of(q->g, q->user.name, &none);
	td_auto_objects struct td_objects l = {0};
	int r = ns ? list_of(q->g, ns, td_http_cancel(q->x), &l, err) : 0;
	if (r)
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *v = td_jm_arr(d, yyjson_mut_doc_get_root(d), "sessions");
	for (size_t i = 0; i < l.n; i++)
		if (td_streq(td_object_annotation(l.v[i], TD_ANN_SESSION_OWNER), q->user.name))
			write_one(q->g, l.v[i], d, yyjson_mut_arr_add_obj(d, v));
	if (!ns)
		td_jm_str(d, yyjson_mut_doc_get_root(d), "problem", none.msg);
	td_gateway_send(q, 200, d);
	return 0;
}

// ---- start ----

static void finish(struct td_gateway_ask *q, const yyjson_val *sc, yyjson_mut_doc *d)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *c = td_jm_get(o, "spec.containers.[0]");
	yyjson_mut_val *words = td_jm_arr(d, c, "command"), *notes = td_jm_get(o, "metadata.annotations");
	const char *command = td_jstr(q->body, "command"), *below = q->user.home + strlen(q->g->o.homes_as) + 1;
	yyjson_mut_arr_append(words, yyjson_mut_strcpy(d, "/bin/sh"));
	yyjson_mut_arr_append(words, yyjson_mut_strcpy(d, "-c"));
	yyjson_mut_arr_append(words, yyjson_mut_strcpy(d, command));
	td_jm_key_str(d, notes, TD_ANN_SESSION_COMMAND, command);
	static const struct {
		const char *field, *key;
	} own[] = {{"idle", TD_ANN_SESSION_IDLE}, {"maxAge", TD_ANN_SESSION_MAX_AGE}};
	for (size_t i = 0; i < TD_LEN(own); i++) {
		td_auto_free char *n = td_asprintf("%lld", td_jint(q->body, own[i].field, 0));
		if (strcmp(n, "0") != 0)
			td_jm_key_str(d, notes, own[i].key, n);
	}

	yyjson_mut_val *limits = td_jm_obj(d, c, "resources.limits");
	td_auto_free char *cpu = td_asprintf("%lld", td_jint(q->body, "cpus", 1)),
			  *memory = td_asprintf("%lldMi", td_jint(q->body, "memoryMiB", 1024)),
			  *gpus = td_asprintf("%lld", td_jint(q->body, "gpus", 0));
	td_jm_key_str(d, limits, "cpu", cpu);
	td_jm_key_str(d, limits, "memory", memory);
	if (strcmp(gpus, "0") != 0)
		td_jm_key_str(d, limits, td_jstr_or(td_jget(sc, "spec.devices.[0]"), "resource", "nvidia.com/gpu"),
			      gpus);

	yyjson_mut_val *v = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "spec.volumes"));
	td_jm_str(d, v, "name", "home");
	if (q->g->o.homes_claim) {
		td_jm_str(d, v, "persistentVolumeClaim.claimName", q->g->o.homes_claim);
		td_jm_str(d, td_jm_get(c, "volumeMounts.[0]"), "subPath", below);
	} else {
		td_jm_strf(d, v, "hostPath.path", "%s/%s", q->g->o.homes_path, below);
	}
}

static int start(struct td_gateway_ask *q, struct td_error *err)
{
	struct td_gateway *g = q->g;
	td_auto_free char *ns = namespace_of(g, q->user.name, err);
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(g->clusters, g->o.ns, g->o.cluster),
						  *made = NULL;
	td_auto_objects struct td_objects have = {0};
	if (!ns)
		return err->code;
	if (!sc || (!g->o.homes_claim && !g->o.homes_path))
		return td_fail(err, TD_UNSUPPORTED,
			       "this gateway was not told how pods see homes (--homes-claim or --homes-path)");
	int r = td_gateway_name_check("name", td_jstr_or(q->body, "name", "session"), err);
	if (!r && !td_starts(q->user.home, g->o.homes_as))
		r = td_fail(err, TD_UNSUPPORTED, "your home %s is not below %s", q->user.home, g->o.homes_as);
	if (!r)
		r = list_of(g, ns, td_http_cancel(q->x), &have, err);
	if (!r && have.n >= MOST)
		r = td_fail(err, TD_THROTTLED, "you have %d sessions already: stop some first", MOST);
	if (r)
		return r;

	char end[7];
	td_random_name(end, sizeof(end) - 1);
	td_auto_free char *id = td_asprintf("%.24s-%s", td_jstr_or(q->body, "name", "session"), end);
	for (char *p = id; *p; p++) // a pod's name has no others
		*p = *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p == '_' || *p == '.' ? '-' : *p;
	td_auto_free char *name = td_asprintf("session-%s", id), *port = td_asprintf("%d", PORT);
	long long age = td_jint(q->body, "maxAge", for_all.max_age_s);
	const struct td_json_word words[] = {
		{"name", name, 0},
		{"namespace", ns, 0},
		{"id", id, 0},
		{"user", q->user.name, 0},
		{"home", q->user.home, 0},
		{"port-text", port, 0},
		{"port", NULL, PORT},
		{"user-id", NULL, q->user.uid},
		{"group-id", NULL, q->user.gid},
		{"seconds", NULL, age < for_all.max_age_s ? age : for_all.max_age_s},
		{"scheduler", td_jstr_or(sc->root, "spec.scheduler.schedulerName", "tandem"), 0},
		{"image", td_jstr_or(q->body, "image", td_jstr_or(sc->root, "spec.slurm.image", "tandem/slurm:24.11")),
		 0},
	};
	const struct td_embedded *f = td_embedded(td_gateway_files, "session.yaml");
	td_auto_json_list struct td_json_list t = {0};
	if ((r = td_yaml_parse(f->text, f->len, &t, err)))
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_json_fill(td_json_root(t.v[0]), words, TD_LEN(words));
	finish(q, sc->root, d);
	r = td_kube_create(g->kube, &td_pods, ns, yyjson_mut_doc_get_root(d), td_http_cancel(q->x), &made, err);
	if (r)
		return td_wrap(err, "the session's pod in namespace %s", ns);
	touch(g->traffic, id);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *out = td_jm_new();
	write_one(g, made, out, yyjson_mut_doc_get_root(out));
	td_gateway_send(q, 201, out);
	return 0;
}

static int get(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = find(q, q->args[0], &o, err);
	if (r)
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	write_one(q->g, o, d, yyjson_mut_doc_get_root(d));
	td_gateway_send(q, 200, d);
	return 0;
}

static int stop(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = find(q, q->args[0], &o, err);
	const struct td_kube_delete_opts how = {.uid = o ? o->uid : NULL, .grace_s = -1};
	if (!r)
		r = td_kube_delete(q->g->kube, &td_pods, o->ns, o->name, &how, td_http_cancel(q->x), err);
	return r ? r : td_gateway_done(q);
}

// ---- the proxy ----

int td_session_pass(struct td_gateway_ask *q, struct td_error *err)
{
	const char *target = td_http_target(q->x), *id = target + strlen("/s/");
	size_t n = strcspn(id, "/?");
	td_auto_free char *name = td_strndup(id, n);
	td_auto(td_object_unref) struct td_object *o = NULL;
	if (!td_starts(target, "/s/"))
		return td_fail(err, TD_NOT_FOUND, "there is no such session");
	int r = find(q, name, &o, err);
	if (r)
		return r;
	if (id[n] != '/') { // links of a page are relative to its directory
		td_auto_free char *to = td_asprintf("/s/%s/%s", name, id + n);
		td_http_add_header(q->x, "Location", to);
		td_http_send(q->x, 302, "text/plain", "", 0);
		return 0;
	}
	const char *ip = td_jstr(o->root, "status.podIP");
	struct in_addr a;
	if (td_object_deleting(o) || !ip || inet_pton(AF_INET, ip, &a) != 1 || !td_condition_true(o->root, "Ready"))
		return td_fail(err, TD_TRANSIENT, "session %s does not answer yet, or no more: `tandem session list`",
			       name);
	touch(q->g->traffic, name);
	td_http_relay_to(q->x, ip, (int)seconds(o, TD_ANN_SESSION_PORT), id + n, "tandem");
	touch(q->g->traffic, name);
	return 0;
}

// ---- the end ----

static void look(struct td_gateway *g, const char *ns)
{
	struct td_error e = TD_ERROR_INIT;
	td_auto_objects struct td_objects l = {0};
	if (list_of(g, ns, g->cancel, &l, &e)) {
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
	{"listSessions", list}, {"startSession", start}, {"getSession", get}, {"stopSession", stop}, {NULL, NULL},
};
