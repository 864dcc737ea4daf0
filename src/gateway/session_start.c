// Starts a session: makes its pod from templates/session.yaml, what the kind is, and what was asked for.
#include "gateway/hub.h"
#include "gateway/sessions.h"

#include "base/clock.h"
#include "base/embedded.h"
#include "base/log.h"
#include "base/names.h"
#include "base/rand.h"
#include "gateway/home.h"
#include "gateway/path.h"
#include "gateway/scope.h"

#include <stdio.h>
#include <string.h>

extern const struct td_embedded td_gateway_files[];

enum {
	MOST = 20,
	SECRET_BYTES = 24,
	LATER_S = 120, // the kubelet ends what nobody has ended by the rules
	ENDS_MS = 200,
	ENDS_TRIES = 100
};

#define DISK "20Gi" // what a session's pod may hold of its node's disk

yyjson_mut_doc *td_session_template(const char *file, const struct td_json_word *words, size_t n)
{
	const struct td_embedded *f = td_embedded(td_gateway_files, file);
	td_auto_json_list struct td_json_list t = {0};
	if (td_yaml_parse(f->text, f->len, &t, NULL))
		abort(); // it is our own
	return td_json_fill(td_json_root(t.v[0]), words, n);
}

char *td_session_secret(void)
{
	uint8_t random[SECRET_BYTES];
	struct td_buf hex = {0};
	td_random(random, sizeof(random));
	for (size_t i = 0; i < sizeof(random); i++)
		td_buf_printf(&hex, "%02x", random[i]);
	return td_buf_take(&hex);
}

static void add_env(yyjson_mut_doc *d, yyjson_mut_val *c, const char *name, const char *value)
{
	yyjson_mut_val *v = yyjson_mut_arr_add_obj(d, td_jm_get(c, "env"));
	td_jm_str(d, v, "name", name);
	td_jm_str(d, v, "value", value);
}

// A terminal's program: nodes of `tandem up` have it, elsewhere an init container brings it.
// image: Tandem's; NULL: its nodes have it.
static void add_standin(const char *image, yyjson_mut_doc *d)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *c = td_jm_get(o, "spec.containers.[0]"),
		       *v = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "spec.volumes")),
		       *m = yyjson_mut_arr_add_obj(d, td_jm_get(c, "volumeMounts"));
	td_jm_str(d, m, "name", "tandem-bin");
	td_jm_str(d, m, "mountPath", "/opt/tandem");
	td_jm_set(d, m, "readOnly", yyjson_mut_true(d));
	td_jm_str(d, v, "name", "tandem-bin");
	if (!image) {
		td_jm_str(d, v, "hostPath.path", "/opt/tandem");
		return;
	}
	const struct td_json_word words[] = {{"image", image, 0}};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *init =
		td_session_template("session-standin.yaml", words, TD_LEN(words));
	yyjson_mut_arr_append(td_jm_arr(d, o, "spec.initContainers"),
			      yyjson_mut_val_mut_copy(d, yyjson_mut_doc_get_root(init)));
	td_jm_obj(d, v, "emptyDir");
}

// What the kind adds: the program, the token, and tandem-standin for a terminal. worker: it is a further node of
// several, which waits for what the first one says.
static void add_kind(const struct td_gateway_ask *q, const struct td_session_kind *kind, bool worker, const char *image,
		     yyjson_mut_doc *d)
{
	const yyjson_val *body = q->body;
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *c = td_jm_get(o, "spec.containers.[0]");
	yyjson_mut_val *words = td_jm_arr(d, c, "command"), *notes = td_jm_get(o, "metadata.annotations");
	const char *env = td_jstr(body, "env"), *run = td_jstr(body, "run");
	td_auto_free char *command = kind->program ? td_asprintf("%s%s%s%s%s", kind->name, run ? " of " : "",
								 run ? run : "", env ? " in " : "", env ? env : "")
						   : td_strdup(td_jstr(body, "command"));
	const struct td_embedded *f =
		kind->program ? td_embedded(td_gateway_files, worker ? "session-worker.sh" : kind->program) : NULL;
	yyjson_mut_arr_append(words, yyjson_mut_strcpy(d, "/bin/sh"));
	yyjson_mut_arr_append(words, yyjson_mut_strcpy(d, "-c"));
	yyjson_mut_arr_append(words, yyjson_mut_strcpy(d, f ? f->text : command));
	td_jm_key_str(d, notes, TD_ANN_SESSION_COMMAND, command);
	td_jm_key_str(d, notes, TD_ANN_SESSION_KIND, kind->name);
	if (!kind->served || (worker && !kind->program))
		yyjson_mut_obj_remove_key(c, "readinessProbe");
	if (env)
		add_env(d, c, "TANDEM_SESSION_ENV", env);
	if (run)
		add_env(d, c, "TANDEM_SESSION_RUN", run);
	if (kind->guard && !worker)
		add_env(d, c, "TANDEM_SESSION_GUARD", td_embedded(td_gateway_files, kind->guard)->text);
	if (kind->token && !worker) {
		td_auto_free char *token = td_session_secret();
		add_env(d, c, "TANDEM_SESSION_TOKEN", token);
	}
	if (kind->terminal || td_session_nodes_asked(q->body))
		add_standin(image, d);
}

long long td_session_age(const yyjson_val *body)
{
	long long age = td_jint(body, "maxAge", td_session_rules.max_age_s);
	return age < td_session_rules.max_age_s ? age : td_session_rules.max_age_s;
}

void td_session_notes(const yyjson_val *body, yyjson_mut_doc *d, yyjson_mut_val *notes)
{
	static const struct {
		const char *field, *key;
	} own[] = {{"idle", TD_ANN_SESSION_IDLE}, {"maxAge", TD_ANN_SESSION_MAX_AGE}, {"lowUse", TD_ANN_SESSION_LOW}};
	for (size_t i = 0; i < TD_LEN(own); i++) {
		td_auto_free char *n = td_asprintf("%lld", td_jint(body, own[i].field, 0));
		if (strcmp(n, "0") != 0)
			td_jm_key_str(d, notes, own[i].key, n);
	}

	char when[TD_TIME_LEN];
	long long begin = td_jint(body, "begin", 0);
	if (begin * 1000 > td_real_ms(&td_clock_system))
		td_jm_key_str(d, notes, TD_ANN_ASK_PREFIX "begin", td_time_format(begin * 1000, when));

	if (td_jstr(body, "account"))
		td_jm_key_str(d, notes, TD_ANN_ASK_PREFIX "account", td_jstr(body, "account"));
}

static void finish(struct td_gateway_ask *q, yyjson_mut_doc *d)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *c = td_jm_get(o, "spec.containers.[0]");
	td_session_notes(q->body, d, td_jm_get(o, "metadata.annotations"));

	yyjson_mut_val *limits = td_jm_obj(d, c, "resources.limits");
	td_auto_free char *cpu = td_asprintf("%lld", td_jint(q->body, "cpus", 1)),
			  *memory = td_asprintf("%lldMi", td_jint(q->body, "memoryMiB", 1024));
	td_jm_key_str(d, limits, "cpu", cpu);
	td_jm_key_str(d, limits, "memory", memory);
	// A kubelet ends the pod whose container holds more of its node's disk. Slurm knows nothing of it, so nothing is
	// asked for.
	td_auto_free char *disk = td_asprintf("%lldMi", td_jint(q->body, "diskMiB", 0)),
			  *shm = td_asprintf("%lldMi", (td_jint(q->body, "memoryMiB", 1024) + 1) / 2);
	if (td_jint(q->body, "diskMiB", 0))
		td_jm_key_str(d, limits, "ephemeral-storage", disk);
	td_jm_key_str(d, td_jm_obj(d, c, "resources.requests"), "ephemeral-storage", "0");
	// Programs of several processes meet in memory; a runtime gives them 64 MiB. It counts as the pod's memory.
	td_jm_str(d, td_jm_get(o, "spec.volumes.[1]"), "emptyDir.sizeLimit", shm);
}

// set: the NodeSet of the other cluster that it is in, NULL: none.
static void add_home(const struct td_gateway_ask *q, const struct td_object *set, const char *ns, yyjson_mut_doc *d)
{
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *v = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "spec.volumes"));
	const char *below = td_home_below(q->g, q->user.home),
		   *claim = set ? td_session_other_home(q->g, set, ns) : q->g->o.homes_claim;
	td_jm_str(d, v, "name", "home");
	if (claim) {
		td_jm_str(d, v, "persistentVolumeClaim.claimName", claim);
		// A kubelet would give all that is in the claim, other people's homes too, to the group.
		yyjson_mut_obj_remove_key(td_jm_get(o, "spec.securityContext"), "fsGroup");
		td_jm_str(d, td_jm_get(o, "spec.containers.[0].volumeMounts.[0]"), "subPath", below);
	} else if (set) {
		td_jm_obj(d, v, "emptyDir");
	} else {
		td_jm_strf(d, v, "hostPath.path", "%s/%s", q->g->o.homes_path, below);
	}
}

void td_session_disk(const struct td_object *space, yyjson_mut_doc *pod)
{
	const char *most = space ? td_object_annotation(space, TD_ANN_DISK) : NULL;
	yyjson_mut_val *limits =
		td_jm_obj(pod, td_jm_get(yyjson_mut_doc_get_root(pod), "spec.containers.[0]"), "resources.limits");
	if (!yyjson_mut_obj_get(limits, "ephemeral-storage"))
		td_jm_key_str(pod, limits, "ephemeral-storage", most ? most : DISK);
}

void td_session_users(const struct td_object *space, yyjson_mut_doc *pod)
{
	if (td_object_annotation(space, TD_ANN_USERS))
		td_jm_bool(pod, yyjson_mut_doc_get_root(pod), "spec.hostUsers", false);
	// A policy refuses a pod that names another filter than its namespace's. RuntimeDefault it has anyhow.
	static const char local[] = "localhost/";
	const char *filter = td_object_annotation(space, TD_ANN_SECCOMP);
	yyjson_mut_val *profile = filter && td_starts(filter, local) ? td_jm_obj(pod, yyjson_mut_doc_get_root(pod),
										 "spec.securityContext.seccompProfile")
								     : NULL;
	if (!profile)
		return;
	td_jm_str(pod, profile, "type", "Localhost");
	td_jm_str(pod, profile, "localhostProfile", filter + strlen(local));
}

// Asks whether pods of the namespace must have user namespaces. A gateway whose Role is older than that question may not
// know; then the policy says what is missing.
static int add_users(struct td_gateway_ask *q, const char *ns, yyjson_mut_doc *d, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *space = NULL;
	struct td_error e = TD_ERROR_INIT;
	int r = td_kube_get(q->g->kube, &td_namespaces, NULL, ns, td_gateway_cancel(q), &space, &e);
	td_session_disk(r ? NULL : space, d);
	if (!r)
		td_session_users(space, d);
	return !r || r == TD_DENIED ? 0 : td_fail(err, r, "namespace %s of the session: %s", ns, e.msg);
}

// Whether what was asked for fits together.
static int check(const struct td_session_kind *kind, const yyjson_val *body, struct td_error *err)
{
	const char *command = td_jstr(body, "command"), *env = td_jstr(body, "env");
	if (!kind->program && !command)
		return td_fail(err, TD_INVALID,
			       "command: give a line of shell%s, or a kind that brings its own program: shell, "
			       "jupyter, vscode, tensorboard",
			       kind->served ? " that serves HTTP at port $PORT" : "");
	if (kind->program && command)
		return td_fail(err, TD_INVALID, "command: a session \"%s\" brings its own program; leave it out",
			       kind->name);
	if (!kind->program && env)
		return td_fail(err, TD_INVALID,
			       "env: only for sessions that bring their own program; a command names "
			       "the environment itself");
	if (td_jint(body, "replicas", 0) && !kind->measured)
		return td_fail(err, TD_INVALID, "replicas: only for sessions \"endpoint\", whose requests are spread");
	if (td_session_nodes_asked(body) && kind->of_run)
		return td_fail(err, TD_INVALID, "nodes: a session \"%s\" has one node", kind->name);
	if (td_session_nodes_asked(body) && td_jint(body, "replicas", 0))
		return td_fail(
			err, TD_INVALID,
			"nodes, replicas: give one of them. Replicas of several nodes each are several sessions");
	if (td_jstr(body, "run") && !kind->of_run)
		return td_fail(err, TD_INVALID,
			       "run: only for sessions \"tensorboard\", which show what a run has written");
	int r = td_session_other_asked(body)  ? td_session_other_check(body, err)
		: td_session_host_asked(body) ? td_session_host_check(body, err)
					      : 0;
	return !r && td_jstr(body, "run") ? td_gateway_name_check("run", td_jstr(body, "run"), err) : r;
}

int td_session_make(struct td_gateway_ask *q, const char *ns, const char *id, int number, struct td_object **ret,
		    struct td_error *err)
{
	struct td_gateway *g = q->g;
	const struct td_session_kind *kind = td_session_kind(td_jstr_or(q->body, "kind", "endpoint"));
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(g->clusters, g->o.ns, g->o.cluster);
	if (!sc || (!g->o.homes_claim && !g->o.homes_path))
		return td_fail(err, TD_UNSUPPORTED,
			       "this gateway was not told how pods see homes (--homes-claim or --homes-path)");
	if (!td_home_below(g, q->user.home))
		return td_fail(err, TD_UNSUPPORTED, "your home %s is not below %s", q->user.home, g->o.homes_as);
	td_auto(td_object_unref) struct td_object *set = NULL;
	int r = td_session_other_asked(q->body) ? td_session_other_set(q, &set, err) : 0;
	if (r)
		return r;

	td_auto_free char *record = td_asprintf("session-%s", id), *port = td_asprintf("%d", TD_SESSION_PORT),
			  *name = number > 0 ? td_asprintf("%s-%d", record, number) : td_strdup(record);
	const struct td_json_word words[] = {
		{"name", name, 0},
		{"record", record, 0},
		{"namespace", ns, 0},
		{"id", id, 0},
		{"user", q->user.name, 0},
		{"home", q->user.home, 0},
		{"port-text", port, 0},
		{"port", NULL, TD_SESSION_PORT},
		{"user-id", NULL, q->user.uid},
		{"group-id", NULL, q->user.gid},
		{"seconds", NULL, td_session_age(q->body) + LATER_S},
		{"scheduler", td_jstr_or(sc->root, "spec.scheduler.schedulerName", "tandem"), 0},
		{"image", td_jstr_or(q->body, "image", td_jstr_or(sc->root, "spec.slurm.image", "tandem/slurm:24.11")),
		 0},
	};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_session_template("session.yaml", words, TD_LEN(words));
	add_kind(q, kind, number > 0 && td_session_nodes_asked(q->body),
		 set ? td_session_other_image(g, set) : g->o.image, d);
	finish(q, d);
	add_home(q, set, ns, d);
	if (!set)
		td_session_files(q, sc->root, ns, d);
	if (set && (r = td_session_other_pod(q, kind, set, sc->root, d, err)))
		return r;
	if (td_session_nodes_asked(q->body)) {
		td_session_nodes_pod(q->body, id, number, d);
		if (number > 0 && (r = td_session_nodes_owned(q, ns, record, d, err)))
			return r;
	}
	if ((r = add_users(q, ns, d, err)) || (r = td_session_devices(q, sc->root, record, d, err)))
		return r;
	if (number < 0) {
		td_session_fresh(g->traffic, id);
	} else if (!td_session_nodes_asked(q->body)) {
		td_auto_free char *which = td_asprintf("%d", number);
		td_jm_key_str(d, td_jm_get(yyjson_mut_doc_get_root(d), "metadata.annotations"), TD_ANN_SESSION_REPLICA,
			      which);
	}
	r = td_kube_create(g->kube, &td_pods, ns, yyjson_mut_doc_get_root(d), td_gateway_cancel(q), ret, err);
	return r ? td_wrap(err, "the session's pod in namespace %s", ns) : 0;
}

static void answer(struct td_gateway_ask *q, int status, const struct td_object *pod)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_session_write(q->g, pod, d, yyjson_mut_doc_get_root(d));
	td_gateway_send(q, status, d);
}

// Starts what is missing of one with replicas. What fails here is tried again by the next look.
static void even(struct td_gateway_ask *q, const struct td_object *record)
{
	td_auto_set struct td_session_set s = {0};
	struct td_error e = TD_ERROR_INIT;
	if (td_session_set_find(q->g, record, td_gateway_cancel(q), &s, &e) || td_session_set_even(q, &s, &e))
		td_warn("session %s/%s: %s", record->ns, record->name, e.msg);
}

int td_session_start(struct td_gateway_ask *q, struct td_error *err)
{
	struct td_gateway *g = q->g;
	td_auto(td_json_unref) struct td_json *scoped = NULL;
	int r = td_gateway_scope_body(q, NULL, &scoped, err);
	if (r)
		return r;
	const struct td_session_kind *kind = td_session_kind(td_jstr_or(q->body, "kind", "endpoint"));
	const char *called = td_jstr_or(q->body, "name", kind->program ? kind->name : "session");
	td_auto_free char *ns = td_session_namespace(g, q->user.name, err);
	td_auto(td_object_unref) struct td_object *made = NULL, *kept = NULL;
	td_auto_objects struct td_objects have = {0};
	if (td_hub_session_starts(q, &r, err))
		return r;
	if (!ns)
		return err->code;
	r = check(kind, q->body, err);
	if (!r && td_jstr(q->body, "account"))
		r = td_gateway_scope_is(q, td_jstr(q->body, "account"), err);
	if (!r)
		r = td_gateway_name_check("name", called, err);
	if (!r)
		r = td_session_record_list(g, ns, td_http_cancel(q->x), &have, err);
	if (!r && have.n >= MOST)
		r = td_fail(err, TD_THROTTLED, "you have %d sessions already: stop some first", MOST);
	if (r)
		return r;

	// Who has no home yet has one now: a kubelet would make it root's.
	const struct td_home_call home = {.user = &q->user, .verb = "missing"};
	if (g->o.homes && (r = td_home_do(g, &home, td_gateway_cancel(q), NULL, err)))
		return r;
	char end[7];
	td_random_name(end, sizeof(end) - 1);
	td_auto_free char *id = td_asprintf("%.24s-%s", called, end);
	for (char *p = id; *p; p++) // a pod's name has no others
		*p = *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p == '_' || *p == '.' ? '-' : *p;
	td_session_looks_wake(g->looks, ns);
	if ((r = td_session_record_make(q, ns, id, &kept, err)))
		return td_wrap(err, "the session's record in namespace %s", ns);
	bool host = td_session_host_asked(q->body),
	     several = !host && (td_jint(q->body, "replicas", 0) || td_session_nodes_asked(q->body));
	if (several && td_session_nodes_asked(q->body))
		r = td_session_nodes_service(q, kept, err);
	if (!r && host)
		r = td_session_host_make(q, kept, &made, err);
	else if (!r)
		r = td_session_make(q, ns, id, several ? 0 : -1, &made, err);
	if (r == TD_EXISTS && several)
		r = 0; // a gateway's look found the record first (session_set.c)
	if (r) {
		struct td_error none = TD_ERROR_INIT;
		if (r != TD_UNCERTAIN)
			td_session_record_remove(q, kept, &none);
		return r;
	}
	if (!several) {
		answer(q, 201, made);
		return 0;
	}
	td_session_fresh(g->traffic, id);
	even(q, kept);
	return td_session_set_answer(q, 201, kept, err);
}

int td_session_request(struct td_gateway_ask *q, const struct td_object *record, struct td_json **ret,
		       struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *request = NULL;
	const char *text = td_jstr_or(record->root, "data.request", "");
	int r = td_json_parse(text, strlen(text), &request, err);
	if (r || (r = td_gateway_body_check(q, "startSession", td_json_root(request), err)))
		return td_wrap(err, "ConfigMap %s/%s, data.request", record->ns, record->name);
	q->body = td_json_root(request);
	*ret = td_steal(request);
	return check(td_session_kind(td_jstr_or(q->body, "kind", "endpoint")), q->body, err);
}

// The last ones have to be gone: the gang is formed of those that are there. Without the first node none of the others
// is started.
static int start_nodes(struct td_gateway_ask *q, const struct td_object *record, struct td_error *err)
{
	const char *id = td_object_label(record, TD_LABEL_SESSION);
	int r = td_session_nodes_service(q, record, err);
	bool left = true;
	for (int i = 0; !r && left && i < ENDS_TRIES; i++) {
		td_auto_set struct td_session_set s = {0};
		r = td_session_set_find(q->g, record, td_gateway_cancel(q), &s, err);
		left = false;
		for (int k = 0; k < TD_REPLICAS_MOST; k++)
			left = left || s.pods[k];
		if (!r && left && td_cancel_wait(td_http_cancel(q->x), ENDS_MS))
			return td_fail(err, TD_CANCELLED, "nobody waits any more");
	}
	if (!r)
		r = left ? TD_EXISTS : td_session_make(q, record->ns, id, 0, NULL, err);
	return r == TD_EXISTS ? td_fail(err, TD_TRANSIENT, "the last pods of session %s still end: resume it again", id)
			      : r;
}

// One of several pods: those that have ended go, and then all are started. While some of the last replicas still end,
// the next look starts theirs.
static int resume_set(struct td_gateway_ask *q, const struct td_object *kept, struct td_error *err)
{
	td_auto_set struct td_session_set s = {0};
	td_auto(td_object_unref) struct td_object *now = NULL;
	const char *id = q->args[0];
	int r = td_session_set_find(q->g, kept, td_gateway_cancel(q), &s, err);
	const struct td_object *first = s.pods[0];
	if (!r && s.nodes && s.asked && !td_session_lives(first))
		s.asked = 0; // it has ended by itself
	if (r || s.asked)    // it runs
		return r ? r : td_session_set_answer(q, 200, kept, err);
	if ((r = td_session_set_remove(q->g, &s, td_gateway_cancel(q), err)))
		return r;
	td_session_fresh(q->g->traffic, id);
	if ((r = td_session_record_end(q->g, kept->ns, id, &(const struct td_session_end){0}, err)) ||
	    (r = td_session_record_get(q, kept->ns, id, &now, err)))
		return r;
	if (s.nodes && (r = start_nodes(q, now, err)))
		return r;
	even(q, now);
	return td_session_set_answer(q, 200, now, err);
}

int td_session_resume(struct td_gateway_ask *q, struct td_error *err)
{
	const char *id = q->args[0];
	td_auto(td_object_unref) struct td_object *kept = NULL, *was = NULL, *made = NULL;
	td_auto(td_json_unref) struct td_json *request = NULL;
	int r;
	if (td_hub_session(q, "/resume", &r, err))
		return r;
	r = td_session_record_of(q, id, &kept, err);
	if (r)
		return r;
	if ((r = td_session_request(q, kept, &request, err)))
		return r;
	if (td_session_several(kept))
		return resume_set(q, kept, err);

	r = td_session_find(q, id, &was, err);
	if (!r && td_session_lives(was)) {
		answer(q, 200, was);
		return 0;
	}
	if (r && r != TD_NOT_FOUND)
		return r;
	if (td_session_host_record(kept)) {
		if (td_object_deleting(was))
			return td_fail(err, TD_TRANSIENT, "the last job of session %s still ends: resume it again", id);
		if (!(r = td_session_host_make(q, kept, &made, err)))
			answer(q, 200, made);
		return r;
	}
	const struct td_kube_delete_opts how = {.uid = was ? was->uid : NULL, .grace_s = -1};
	if (!r && !td_object_deleting(was) &&
	    (r = td_kube_delete(q->g->kube, &td_pods, was->ns, was->name, &how, td_http_cancel(q->x), err)) &&
	    r != TD_NOT_FOUND)
		return r;
	// Its last pod may still be ending.
	for (int i = 0; (r = td_session_make(q, kept->ns, id, -1, &made, err)) == TD_EXISTS && i < ENDS_TRIES; i++)
		if (td_cancel_wait(td_http_cancel(q->x), ENDS_MS))
			return td_fail(err, TD_CANCELLED, "nobody waits any more");
	if (r)
		return r;
	struct td_error none = TD_ERROR_INIT;
	td_session_record_end(q->g, kept->ns, id, &(const struct td_session_end){0}, &none); // the pod counts more
	answer(q, 200, made);
	return 0;
}
