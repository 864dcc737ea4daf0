// Sessions on machines that have no kubelet (docs/host.md): Slurm jobs in their owners' names, because nothing there could
// run a pod (docs/design/0014). The rest of the gateway sees a pod: one that is made up here of the session's record and
// of its job, and that is in no API.
#include "gateway/sessions.h"

#include "api/condition.h"
#include "api/status.h"
#include "base/clock.h"
#include "base/embedded.h"
#include "base/log.h"
#include "base/names.h"
#include "gateway/batch.h"
#include "pool/pool.h"
#include "slurm/conf.h"
#include "slurm/containers.h"
#include "slurm/hosts.h"

#include <stdio.h>
#include <string.h>

extern const struct td_embedded td_gateway_files[];

enum { LATER_MIN = 2, NEW_S = 60, WORDS = 300 }; // NEW_S: until a job must have been seen

const char *td_session_host_asked(const yyjson_val *body)
{
	return td_jstr(body, "machines");
}

const char *td_session_host(const struct td_object *pod)
{
	return td_object_label(pod, TD_LABEL_HOST);
}

const char *td_session_host_record(const struct td_object *record)
{
	return td_jstr(record->root, "data.machines");
}

// Whether the program knows ports only. What listens there is everybody's on the machine, so it has a network of its own.
static bool own_net(const struct td_session_kind *kind, const yyjson_val *body)
{
	return kind->of_run ||
	       (kind->served && !kind->program && !strstr(td_jstr_or(body, "command", ""), "TANDEM_SESSION_SOCKET"));
}

int td_session_host_check(const yyjson_val *body, struct td_error *err)
{
	static const char *const without[] = {"replicas", "otherCluster", "diskMiB"};
	const struct td_session_kind *kind = td_session_kind(td_jstr_or(body, "kind", "endpoint"));
	for (size_t i = 0; i < TD_LEN(without); i++)
		if (td_jget(body, without[i]))
			return td_fail(err, TD_INVALID,
				       "%s: a session on machines of their own is one job on the machine itself; leave "
				       "%s or machines out",
				       without[i], without[i]);
	if (td_session_nodes_asked(body) && kind && own_net(kind, body))
		return td_fail(err, TD_INVALID,
			       "nodes: what listens at $PORT on a machine has a network of its own, without the other "
			       "nodes: have the command listen at the socket $TANDEM_SESSION_SOCKET, and name that in "
			       "it");
	return 0;
}

// ---- the job ----

static int set_check(struct td_gateway_ask *q, const char *name, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = td_session_nodeset(q, "machines", name, &o, err);
	if (r)
		return r;
	if (!o || !td_slurm_host_set(o->root))
		return td_fail(err, TD_INVALID,
			       "machines: \"%s\" is no NodeSet of machines that run slurmd themselves (spec.hosts); "
			       "without it the session is a pod",
			       name);
	return 0;
}

static long long number_in(const struct td_object *record, const char *path)
{
	const char *text = td_jstr(record->root, path);
	long long n = 0;
	return text && td_parse_i64(text, &n) ? n : 0;
}

// The job of a record's session: by its number, or, where that is not known, by its name: the last one that is newer
// than those of before. Only its owner's. False: Slurm has none (any more).
static bool job_of(struct td_gateway *g, const struct td_object *record, struct td_slurm_job *ret, bool *ret_known)
{
	const char *owner = td_object_annotation(record, TD_ANN_SESSION_OWNER);
	long long id = number_in(record, "data.job"), after = number_in(record, "data.after");
	td_auto(td_gateway_seen_unref) struct td_gateway_seen *s = td_gateway_look(g, NULL);
	td_auto(td_gateway_slurm_unref) struct td_gateway_slurm *l = s ? td_gateway_slurm(g, NULL) : NULL;
	*ret_known = l != NULL;
	const yyjson_val *found = NULL;
	struct td_gateway_cursor c = {0};
	if (l && id)
		found = td_gateway_records_next(&s->jobs, id, &c);
	for (size_t i = 0; l && !id && i < s->jobs.n; i++)
		if (s->jobs.v[i].id > after && td_streq(td_jstr(s->jobs.v[i].v, "name"), record->name) &&
		    td_streq(td_jstr(s->jobs.v[i].v, "user_name"), owner)) {
			found = s->jobs.v[i].v;
			after = s->jobs.v[i].id;
		}
	return found && td_streq(td_jstr(found, "name"), record->name) &&
	       !td_slurm_job_read(l->client, found, ret, NULL) && td_streq(ret->user, owner);
}

const char *td_session_host_partition(const yyjson_val *sc, const char *set, const char *account)
{
	const char *open = NULL, *first = NULL;
	yyjson_val *p;
	size_t i, n;
	yyjson_arr_foreach (td_jget(sc, "spec.resourceGroups"), i, n, p)
		if (td_jhas(td_jget(p, "nodeSets"), set))
			return NULL;
	yyjson_arr_foreach (td_jget(sc, "spec.partitions"), i, n, p) {
		yyjson_val *sets = td_jget(p, "nodeSets"), *allowed = td_jget(p, "allowAccounts");
		if (sets && !td_jhas(sets, set))
			continue;
		if (td_jbool(p, "default", false))
			return NULL;
		first = first ? first : td_jstr(p, "name");
		if (!open && (!yyjson_arr_size(allowed) || (account && td_jhas(allowed, account))))
			open = td_jstr(p, "name");
	}
	return open ? open : first;
}

// What is drawn anew for each job, in one write, which fails where somebody else starts it, too: where its terminal is, and
// what it is asked with.
static int draw(struct td_gateway_ask *q, const struct td_object *record, char **ret_place, char **ret_token,
		struct td_error *err)
{
	td_auto_free char *place = td_session_secret(), *token = td_session_secret();
	td_auto_job struct td_slurm_job last = {0};
	bool known;
	long long after = number_in(record, "data.job"), before = number_in(record, "data.after");
	if (!after && job_of(q->g, record, &last, &known))
		after = last.id;
	after = after > before ? after : before;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "metadata.resourceVersion", record->rv);
	td_jm_str(d, o, "data.place", place);
	td_jm_str(d, o, "data.token", token);
	td_jm_strf(d, o, "data.made", "%lld", (long long)(td_real_ms(&td_clock_system) / 1000));
	td_jm_strf(d, o, "data.after", "%lld", after);
	static const char *const past[] = {"data.job",   "data.over",  "data.overWords",
					   "data.ended", "data.began", "data.why"};
	for (size_t i = 0; i < TD_LEN(past); i++)
		td_jm_set(d, o, past[i], yyjson_mut_null(d));
	int r = td_session_record_set(q->g, record, d, err);
	if (r == TD_CONFLICT)
		return td_fail(err, TD_TRANSIENT,
			       "session %s was started or changed at this moment: look, and try again",
			       td_object_label(record, TD_LABEL_SESSION));
	if (!r) {
		*ret_place = td_steal(place);
		*ret_token = td_steal(token);
	}
	return r;
}

static void environment(const struct td_gateway_ask *q, const struct td_session_kind *kind, const char *id,
			struct td_strv *env)
{
	const char *program =
		kind->program ? td_embedded(td_gateway_files, kind->program)->text : td_jstr_or(q->body, "command", "");
	td_strv_addf(env, "PATH=/usr/local/bin:/usr/bin:/bin");
	td_strv_addf(env, "HOME=%s", q->user.home);
	td_strv_addf(env, "USER=%s", q->user.name);
	td_strv_addf(env, "LOGNAME=%s", q->user.name);
	td_strv_addf(env, "TANDEM_SESSION=%s", id);
	td_strv_addf(env, "TANDEM_SESSION_PROGRAM=%s", program);
	if (td_jstr(q->body, "env"))
		td_strv_addf(env, "TANDEM_SESSION_ENV=%s", td_jstr(q->body, "env"));
	if (td_jstr(q->body, "run"))
		td_strv_addf(env, "TANDEM_SESSION_RUN=%s", td_jstr(q->body, "run"));
	if (kind->served)
		td_strv_addf(env, "TANDEM_SESSION_PATH=/s/%s/", id);
	if (kind->guard)
		td_strv_addf(env, "TANDEM_SESSION_GUARD=%s", td_embedded(td_gateway_files, kind->guard)->text);
	if (own_net(kind, q->body)) {
		td_strv_addf(env, "TANDEM_SESSION_OWN_NET=yes");
		td_strv_addf(env, "PORT=%d", TD_SESSION_PORT);
	}
	if (!td_session_nodes_asked(q->body))
		return;
	td_strv_addf(env, "TANDEM_SESSION_NODES=%d", td_session_nodes_asked(q->body));
	td_strv_addf(env, "TANDEM_NODE_GPUS=%lld", td_jint(q->body, "gpus", 0));
	td_strv_addf(env, "SRUN_CPUS_PER_TASK=%lld",
		     td_jint(q->body, "cpus", 1)); // srun does not take the job's by itself
	if (!kind->program)
		td_strv_addf(env, "TANDEM_SESSION_ALL=yes");
}

int td_session_host_image(const yyjson_val *sc, const char *image, const char *home, bool several, struct td_strv *env,
			  struct td_error *err)
{
	if (!image)
		return 0;
	if (!sc || !td_slurm_containers(sc))
		return td_fail(
			err, TD_INVALID,
			"image: jobs of this pool have no containers (spec.containers.enabled of the SlurmCluster), so "
			"a session on a machine has none; leave image or machines out");
	if (!*image || strpbrk(image, " \t\r\n"))
		return td_fail(err, TD_INVALID, "image: \"%s\" is no name of an image and no path", image);
	if (strpbrk(home, ",:"))
		return td_fail(err, TD_UNSUPPORTED, "image: your home %s cannot be mounted in a container", home);
	// Over several machines the script stays outside, where srun is, and makes the containers by steps.
	td_strv_addf(env, "%s=%s", several ? "TANDEM_SESSION_IMAGE" : "PYXIS_CONTAINER_IMAGE", image);
	td_strv_addf(env, "%s=" TD_SESSION_CONTAINER, // ssh goes on in it; it ends with the job
		     several ? "TANDEM_SESSION_CONTAINER" : "PYXIS_CONTAINER_NAME");
	td_strv_addf(env, "PYXIS_CONTAINER_WORKDIR=%s", home);
	td_strv_addf(env, "PYXIS_CONTAINER_ENV=HOME,USER,LOGNAME,PORT");
	// The way in (session-machine.sh) is a socket in /tmp.
	td_strv_addf(env, "PYXIS_CONTAINER_MOUNTS=%s:%s,/opt/tandem:/opt/tandem:ro,/tmp:/tmp%s", home, home,
		     several ? ",/opt/tandem/tandem-standin:/usr/local/bin/tandem-run:ro" : "");
	return 0;
}

// Slurm has the job: writes down its number. Who has stopped the session meanwhile has no job either.
static int submitted(struct td_gateway_ask *q, const struct td_object *record, int64_t job, struct td_object **ret,
		     struct td_error *err)
{
	const char *id = td_object_label(record, TD_LABEL_SESSION);
	struct td_error e = TD_ERROR_INIT;
	td_auto(td_object_unref) struct td_object *now = NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_jm_strf(d, yyjson_mut_doc_get_root(d), "data.job", "%lld", (long long)job);
	int r = td_session_record_set(q->g, record, d, &e);
	if (r && r != TD_NOT_FOUND) // it is found by its name then
		td_warn("session %s/%s: %s", record->ns, record->name, e.msg);
	if (r != TD_NOT_FOUND)
		r = td_session_record_get(q, record->ns, id, &now, err);
	if (r == TD_NOT_FOUND && td_gateway_job_end(q->g, q->user.name, job, q->g->cancel, &e) &&
	    e.code != TD_NOT_FOUND)
		td_warn("job %lld of session %s/%s, which was stopped: %s", (long long)job, record->ns, record->name,
			e.msg);
	if (r == TD_NOT_FOUND)
		return td_fail(err, TD_NOT_FOUND, "session %s was stopped while it was started", id);
	*ret = r ? NULL : td_session_host_pod(q->g, now);
	return *ret ? 0
		    : td_fail(err, TD_UNCERTAIN, "session %s was started as job %lld, and is not seen yet", id,
			      (long long)job);
}

// Slurm takes no such job: not one that waits to be seen.
static void refused(struct td_gateway_ask *q, const struct td_object *record, const char *why)
{
	struct td_error e = TD_ERROR_INIT;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_jm_str(d, yyjson_mut_doc_get_root(d), "data.over", "Failed");
	td_jm_strf(d, yyjson_mut_doc_get_root(d), "data.overWords", "%.*s", WORDS, why);
	if (td_session_record_set(q->g, record, d, &e))
		td_debug("session %s/%s: %s", record->ns, record->name, e.msg);
}

int td_session_host_make(struct td_gateway_ask *q, const struct td_object *record, struct td_object **ret,
			 struct td_error *err)
{
	const char *id = td_object_label(record, TD_LABEL_SESSION), *set = td_session_host_asked(q->body);
	const struct td_session_kind *kind = td_session_kind(td_jstr_or(q->body, "kind", "endpoint"));
	td_auto_free char *name = td_asprintf("session-%s", id), *feature = td_slurm_set_feature(set), *place = NULL,
			  *token = NULL, *output = td_asprintf("%s/.tandem-session-%s.log", q->user.home, id);
	if (!set)
		return td_fail(err, TD_INVALID, "ConfigMap %s/%s, data.request: it has no machines", record->ns,
			       record->name);
	td_auto(td_gateway_slurm_unref) struct td_gateway_slurm *l = td_gateway_slurm(q->g, err);
	if (!l)
		return err->code;
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(q->g->clusters, q->g->o.ns, q->g->o.cluster);
	td_auto_strv struct td_strv image = {0};
	int r = set_check(q, set, err);
	if (!r)
		r = td_session_host_image(sc ? sc->root : NULL, td_jstr(q->body, "image"), q->user.home,
					  td_session_nodes_asked(q->body) > 0, &image, err);
	if (!r)
		r = draw(q, record, &place, &token, err);
	if (r)
		return r;
	struct td_slurm_batch b = {
		.name = name,
		.script = td_embedded(td_gateway_files, "session-machine.sh")->text,
		.cwd = q->user.home,
		.output = output,
		.account = td_jstr(q->body, "account"),
		.partition = sc ? td_session_host_partition(sc->root, set, td_jstr(q->body, "account")) : NULL,
		.constraints = feature,
		.nodes = td_session_nodes_asked(q->body), // 0: one
		.comment = name,
		.cpus = td_jint(q->body, "cpus", 1),
		.memory_mb = td_jint(q->body, "memoryMiB", 1024),
		.gpus = td_jint(q->body, "gpus", 0),
		.time_limit_min = (td_session_age(q->body) + 59) / 60 + LATER_MIN,
		.begin = td_jint(q->body, "begin", 0)};
	environment(q, kind, id, &b.env);
	for (size_t i = 0; i < image.n; i++)
		td_strv_add(&b.env, image.v[i]);
	td_strv_addf(&b.env, "TANDEM_SESSION_PLACE=%s", place);
	if (kind->token)
		td_strv_addf(&b.env, "TANDEM_SESSION_TOKEN=%s", token);
	int64_t job = 0;
	r = td_gateway_batch(q, l->client, &b, &job, err);
	td_slurm_batch_done(&b);
	if (r == TD_CANCELLED) // it may have been sent
		return td_fail(err, TD_UNCERTAIN, "the session's job: nobody waited for Slurm's answer");
	if (r && r != TD_UNCERTAIN)
		refused(q, record, err->msg);
	if (r)
		return td_wrap(err, "the session's job");
	td_session_fresh(q->g->traffic, id);
	return submitted(q, record, job, ret, err);
}

// ---- as a pod ----

static void notes(const struct td_object *record, const yyjson_val *body, yyjson_mut_doc *d, yyjson_mut_val *o)
{
	yyjson_mut_val *m = td_jm_obj(d, o, "metadata.annotations"), *labels = td_jm_obj(d, o, "metadata.labels");
	const struct td_session_kind *kind = td_session_kind(td_jstr_or(body, "kind", "endpoint"));
	const char *env = td_jstr(body, "env");
	td_jm_key_str(d, labels, TD_LABEL_SESSION, td_object_label(record, TD_LABEL_SESSION));
	td_jm_key_str(d, labels, TD_LABEL_HOST, td_session_host_record(record));
	td_jm_key_str(d, m, TD_ANN_SESSION_OWNER, td_object_annotation(record, TD_ANN_SESSION_OWNER));
	td_jm_key_str(d, m, TD_ANN_SESSION_KIND, kind ? kind->name : "batch");
	td_auto_free char *command = env ? td_asprintf("%s in %s", kind ? kind->name : "", env) : NULL;
	td_jm_key_str(d, m, TD_ANN_SESSION_COMMAND,
		      command ? command : td_jstr_or(body, "command", kind ? kind->name : ""));
	td_session_notes(body, d, m);
	if (kind && kind->token && td_jstr(record->root, "data.token")) {
		yyjson_mut_val *c = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "spec.containers")),
			       *e = yyjson_mut_arr_add_obj(d, td_jm_arr(d, c, "env"));
		td_jm_str(d, e, "name", "TANDEM_SESSION_TOKEN");
		td_jm_str(d, e, "value", td_jstr(record->root, "data.token"));
	}
}

static void condition(yyjson_mut_doc *d, yyjson_mut_val *o, const char *type, bool on, const char *message)
{
	yyjson_mut_val *c = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "status.conditions"));
	td_jm_str(d, c, "type", type);
	td_jm_str(d, c, "status", on ? "True" : "False");
	td_jm_str(d, c, "message", message);
}

// How it ended, in words. The caller frees them.
static char *end_words(const struct td_object *record, const char *image, const struct td_slurm_job *j)
{
	const char *words = td_slurm_job_end_words(j->states);
	if (j->states & TD_JOB(COMPLETED))
		return td_strdup("");
	if (j->states & TD_JOB(NODE_FAIL))
		return j->n_nodes > 1 ? td_asprintf("one of its %zu machines was lost (the first one is %s)",
						    j->n_nodes, j->nodes[0].name)
				      : td_asprintf("its machine %s was lost", j->n_nodes ? j->nodes[0].name : "");
	// The script says which machine has no container and why (session-machine.sh).
	if (image && j->comment && *j->comment && strcmp(j->comment, record->name) != 0) {
		td_auto_free char *said = td_text_clean(j->comment);
		return td_asprintf("%.*s", WORDS, said);
	}
	// What the container's plug-in says of a batch job stands in the machine's slurmd's log only.
	if (image && j->n_nodes == 1)
		return td_asprintf(
			"%s (exit code %lld): what it said is in ~/.tandem-%s.log; if that is not there, `srun "
			"-w %s --container-image=IMAGE true` says why there is no container of its image",
			words ? words : "it failed", (long long)j->exit_code, record->name, j->nodes[0].name);
	return td_asprintf("%s (exit code %lld): what it said is in ~/.tandem-%s.log", words ? words : "it failed",
			   (long long)j->exit_code, record->name);
}

// "0-1" of "gpu:2(IDX:0-1)". The caller frees it; NULL: there are none.
static char *indexes(const char *gres)
{
	const char *at = gres ? strstr(gres, "IDX:") : NULL;
	return at ? td_strndup(at + 4, strcspn(at + 4, ")")) : NULL;
}

static void state_of(const struct td_object *record, const char *image, const struct td_slurm_job *j, yyjson_mut_doc *d,
		     yyjson_mut_val *o)
{
	char t[TD_TIME_LEN];
	yyjson_mut_val *m = td_jm_obj(d, o, "metadata.annotations");
	td_auto_free char *number = td_asprintf("%lld", (long long)j->id);
	bool ended = td_slurm_job_ended(j->states), waits = td_job_phase(j->states) == TD_PHASE_WAITING;
	td_jm_key_str(d, m, TD_ANN_JOB, number);
	if (waits && !ended) {
		const char *words = td_pool_reason_words(j->reason, j->want_nodes);
		td_jm_str(d, o, "status.phase", "Pending");
		condition(d, o, "PodScheduled", false, words ? words : j->reason);
		return;
	}
	if (j->n_nodes)
		td_jm_str(d, o, "spec.nodeName", j->nodes[0].name);
	if (j->start)
		td_jm_str(d, o, "status.startTime", td_time_format(j->start * 1000, t));
	for (size_t i = 0; i < j->n_nodes; i++) {
		td_auto_free char *devices = indexes(j->nodes[i].gres);
		yyjson_mut_val *v = yyjson_mut_arr_add_obj(d, td_jm_arr(d, o, "spec.nodes"));
		td_jm_str(d, v, "name", j->nodes[i].name);
		td_jm_str(d, v, "devices", devices);
		if (!i && devices)
			td_jm_key_str(d, m, TD_ANN_DEVICES, devices);
	}
	td_jm_str(d, o, "status.phase", !ended ? "Running" : j->states & TD_JOB(COMPLETED) ? "Succeeded" : "Failed");
	if (ended) {
		td_auto_free char *words = end_words(record, image, j);
		td_jm_str(d, o, "status.message", words);
	}
	condition(d, o, "Ready", !ended && td_job_phase(j->states) == TD_PHASE_RUNNING, NULL);
}

struct td_object *td_session_host_pod(struct td_gateway *g, const struct td_object *record)
{
	char t[TD_TIME_LEN];
	const char *request = td_jstr_or(record->root, "data.request", ""), *over = td_jstr(record->root, "data.over");
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_job struct td_slurm_job job = {0};
	bool known = true, there = !over && job_of(g, record, &job, &known);
	bool ends = td_jstr(record->root, "data.ended"); // by the rules: it stands there until its job is over
	if (td_json_parse(request, strlen(request), &j, NULL) ||
	    (ends && known && (!there || td_slurm_job_ended(job.states))))
		return NULL;
	// Slurm forgets jobs minutes after their end, and says what is new a moment late.
	bool new = td_real_ms(&td_clock_system) / 1000 - number_in(record, "data.made") < NEW_S;
	if (!over && !there && known && !new)
		over = "Failed";
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "metadata.name", record->name);
	td_jm_str(d, o, "metadata.namespace", record->ns);
	td_jm_str(d, o, "metadata.uid", record->uid);
	if (ends)
		td_jm_str(d, o, "metadata.deletionTimestamp",
			  td_time_format(number_in(record, "data.ended") * 1000, t));
	notes(record, td_json_root(j), d, o);
	td_jm_str(d, o, "spec.place", td_jstr(record->root, "data.place")); // pods have no such fields
	td_jm_str(d, o, "spec.env", td_jstr(td_json_root(j), "env"));
	td_jm_str(d, o, "spec.image", td_jstr(td_json_root(j), "image"));
	if (td_session_nodes_asked(td_json_root(j)))
		td_jm_int(d, o, "spec.nodesAsked", td_session_nodes_asked(td_json_root(j)));
	if (there) {
		state_of(record, td_jstr(td_json_root(j), "image"), &job, d, o);
	} else if (over) {
		td_jm_str(d, o, "status.phase", over);
		td_jm_str(d, o, "status.message",
			  td_jstr_or(record->root, "data.overWords", "Slurm knows its job no more"));
	} else {
		td_jm_str(d, o, "status.phase", "Pending");
		td_jm_key_str(d, td_jm_obj(d, o, "metadata.annotations"), TD_ANN_JOB,
			      td_jstr_or(record->root, "data.job", "0"));
		condition(d, o, "PodScheduled", false, known ? "it was just submitted" : "Slurm does not answer");
	}
	return td_object_new(td_jm_done(td_steal(d)));
}

int td_session_host_nodes(const struct td_object *pod)
{
	long long n = td_jint(pod->root, "spec.nodesAsked", 1);
	return n > 1 ? (int)n : 1;
}

void td_session_host_nodes_write(const struct td_object *pod, yyjson_mut_doc *d, yyjson_mut_val *w)
{
	int asked = td_session_host_nodes(pod), ready = 0;
	bool is = td_session_lives(pod) && td_condition_true(pod->root, "Ready");
	size_t i, n;
	yyjson_val *v;
	if (asked < 2)
		return;
	yyjson_mut_val *each = td_jm_arr(d, w, "nodes.each");
	yyjson_arr_foreach (td_jget(pod->root, "spec.nodes"), i, n, v) {
		yyjson_mut_val *one = yyjson_mut_arr_add_obj(d, each);
		td_jm_int(d, one, "number", (int64_t)i);
		td_jm_str(d, one, "state", td_session_state(pod));
		td_jm_str(d, one, "node", td_jstr(v, "name"));
		td_jm_str(d, one, "devices", td_jstr(v, "devices"));
		ready += is;
	}
	td_jm_int(d, w, "nodes.asked", asked);
	td_jm_int(d, w, "nodes.ready", ready);
}

void td_session_host_record_write(const yyjson_val *body, yyjson_mut_doc *d)
{
	td_jm_str(d, yyjson_mut_doc_get_root(d), "data.machines", td_session_host_asked(body));
	td_jm_strf(d, yyjson_mut_doc_get_root(d), "data.made", "%lld",
		   (long long)(td_real_ms(&td_clock_system) / 1000));
}

void td_session_host_pods(struct td_gateway *g, const struct td_objects *records, struct td_objects *into)
{
	for (size_t i = 0; i < records->n; i++) {
		const struct td_object *o = records->v[i];
		const char *owner = td_object_annotation(o, TD_ANN_SESSION_OWNER);
		struct td_error none = TD_ERROR_INIT;
		if (!td_session_host_record(o) || !owner)
			continue;
		// Whoever writes records in his namespace has no jobs of others by it.
		td_auto_free char *ns = td_session_namespace(g, owner, &none);
		struct td_object *pod = td_streq(ns, o->ns) ? td_session_host_pod(g, o) : NULL;
		if (pod)
			td_objects_add(into, pod);
	}
}

void td_session_host_keep(struct td_gateway *g, const struct td_object *record, const struct td_object *pod)
{
	const char *phase = td_jstr_or(pod->root, "status.phase", "");
	struct td_error e = TD_ERROR_INIT;
	if (!td_kube_pod_ended(pod->root) || td_jstr(record->root, "data.over"))
		return;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	// Not into one that was started again meanwhile.
	td_jm_str(d, yyjson_mut_doc_get_root(d), "metadata.resourceVersion", record->rv);
	td_jm_str(d, yyjson_mut_doc_get_root(d), "data.over", phase);
	td_jm_strf(d, yyjson_mut_doc_get_root(d), "data.overWords", "%.*s", WORDS,
		   td_jstr_or(pod->root, "status.message", ""));
	if (td_session_record_set(g, record, d, &e))
		td_debug("session %s/%s: %s", record->ns, record->name, e.msg);
}

int td_session_end_pod(struct td_gateway *g, const struct td_object *pod, struct td_cancel *c, struct td_error *err)
{
	const struct td_kube_delete_opts how = {.uid = pod->uid, .grace_s = -1};
	if (!td_session_host(pod))
		return td_kube_delete(g->kube, &td_pods, pod->ns, pod->name, &how, c, err);
	const char *owner = td_object_annotation(pod, TD_ANN_SESSION_OWNER);
	int64_t job = td_session_number(pod, TD_ANN_JOB);
	if (td_kube_pod_ended(pod->root))
		return 0;
	if (!job)
		return td_fail(err, TD_TRANSIENT, "Slurm does not show the session's job yet: try again");
	int r = td_gateway_job_end(g, owner, job, c, err);
	return r == TD_NOT_FOUND ? 0 : r;
}
