#include "gateway/jobs.h"
#include "gateway/progress.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/names.h"
#include "pool/notes.h"
#include "pool/pool.h"
#include "slurm/batch.h"
#include "slurm/hostlist.h"

#include <stdio.h>
#include <string.h>

enum { LOOK_MS = 400, PACE = 4 };

// ---- looking ----

struct td_gateway_seen *td_gateway_seen_unref(struct td_gateway_seen *s)
{
	if (s && __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) == 0) {
		td_gateway_records_done(&s->jobs);
		td_slurm_snapshot_unref(s->nodes);
		free(s);
	}
	return NULL;
}

struct td_gateway_seen *td_gateway_last_look(struct td_gateway *g)
{
	pthread_mutex_lock(&g->lock);
	struct td_gateway_seen *s = g->seen;
	if (s)
		__atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&g->lock);
	return s;
}

static bool fresh(const struct td_gateway_seen *s)
{
	return s && td_mono_ms(&td_clock_system) < s->good_until_ms;
}

// Reads the jobs whose states have changed. *ret_many: they are too many, and nothing was read.
static int look_at_states(struct td_gateway *g, struct td_slurm *c, const struct td_gateway_seen *old,
			  struct td_gateway_seen *s, bool *ret_many, struct td_error *err)
{
	td_auto_states struct td_slurm_states now = {0};
	td_auto_records struct td_gateway_records read = {0};
	int r = td_slurm_job_states_all(c, g->cancel, &now, err);
	if (r)
		return r;
	td_auto_free int64_t *ids = td_calloc(now.n + 1, sizeof(*ids));
	size_t n = td_gateway_records_news(&old->jobs, &now, ids);
	*ret_many = n > td_gateway_jobs_few(&old->pace);
	for (size_t i = 0; i < n && !*ret_many; i++) {
		td_auto(td_json_unref) struct td_json *j = NULL;
		// One that Slurm forgets just now is missed at the next look.
		if ((r = td_slurm_job_raw(c, NULL, ids[i], g->cancel, &j, err)) && r != TD_NOT_FOUND)
			return r;
		if (!r)
			td_gateway_records_add(&read, j);
	}
	td_gateway_records_index(&read);
	if (!*ret_many)
		td_gateway_records_merge(&old->jobs, &now, &read, &s->jobs);
	s->since = old->since;
	s->pace = old->pace;
	return 0;
}

// old: NULL: there was no look yet.
static int look_at_jobs(struct td_gateway *g, struct td_slurm *c, const struct td_gateway_seen *old,
			struct td_gateway_seen *s, struct td_error *err)
{
	int64_t began = td_mono_ms(&td_clock_system);
	static const struct td_gateway_pace never = {0};
	enum td_gateway_jobs_do what = td_gateway_jobs_next(old ? &old->pace : &never, began);
	bool many = false;
	int r;
	if (what == TD_JOBS_STATES && ((r = look_at_states(g, c, old, s, &many, err)) || !many))
		return r;
	// A list costs much: a part of the looks asks only whether there is news.
	td_auto(td_json_unref) struct td_json *all = NULL;
	r = td_slurm_jobs_raw(c, NULL, what == TD_JOBS_ASK ? old->since : 0, g->cancel, &all, err);
	if (r)
		return r;
	int64_t took = td_mono_ms(&td_clock_system) - began;
	if (!all) {
		td_gateway_records_copy(&old->jobs, &s->jobs);
		s->since = old->since;
		s->pace = old->pace;
		s->pace.asked_ms = began;
		return 0;
	}
	td_gateway_records_add(&s->jobs, all);
	td_gateway_records_index(&s->jobs);
	s->since = td_jint(td_json_root(all), "last_update.number", 0) - 1;
	s->since = s->since > 0 ? s->since : 0;
	s->pace = (struct td_gateway_pace){began, began, took};
	return 0;
}

// Asks Slurm, as its administrator: what of it a person is shown is decided later.
static struct td_gateway_seen *ask(struct td_gateway *g, const struct td_gateway_seen *old, struct td_error *err)
{
	td_auto(td_gateway_slurm_unref) struct td_gateway_slurm *l = td_gateway_slurm(g, err);
	if (!l)
		return NULL;
	int64_t began = td_mono_ms(&td_clock_system), ours = td_real_ms(&td_clock_system) / 1000;
	struct td_gateway_seen *s = td_calloc(1, sizeof(*s));
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *before = td_slurm_view_nodes(g->view);
	bool changed;
	s->refs = 1;
	int r = td_slurm_view_poll_nodes(g->view, l->client, began, g->cancel, &changed, err);
	s->nodes = td_slurm_view_nodes(g->view);
	if (!r)
		r = look_at_jobs(g, l->client, old, s, err);
	if (r) {
		td_gateway_seen_unref(s);
		return NULL;
	}
	if (s->nodes != before)
		g->ahead_s = s->nodes->nodes.at ? s->nodes->nodes.at - ours : 0;
	s->at = ours + g->ahead_s;
	int64_t took = td_mono_ms(&td_clock_system) - began;
	s->good_until_ms = began + took + (took * PACE > LOOK_MS ? took * PACE : LOOK_MS);
	return s;
}

struct td_gateway_seen *td_gateway_look(struct td_gateway *g, struct td_error *err)
{
	struct td_gateway_seen *s = td_gateway_last_look(g), *old;
	if (fresh(s))
		return s;
	pthread_mutex_lock(&g->looking);
	td_gateway_seen_unref(s);
	s = td_gateway_last_look(g); // somebody may have looked meanwhile
	if (!fresh(s)) {
		old = s;
		s = ask(g, old, err);
		td_gateway_seen_unref(old);
		if (s) {
			__atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
			pthread_mutex_lock(&g->lock);
			old = g->seen;
			g->seen = s;
			pthread_mutex_unlock(&g->lock);
			td_gateway_seen_unref(old);
		}
	}
	pthread_mutex_unlock(&g->looking);
	return s;
}

// ---- words ----

const char *td_gateway_job_state(const struct td_slurm_job *j)
{
	switch (td_job_phase(j->states)) {
	case TD_PHASE_WAITING:
		return "waiting";
	case TD_PHASE_STARTING:
		return "starting";
	case TD_PHASE_RUNNING:
		return "running";
	case TD_PHASE_LOST:
		return "suspended"; // or stopped: it has its nodes, and has not ended
	default:
		break;
	}
	return j->states & TD_JOB(COMPLETED)       ? "done"
	       : j->states & TD_JOB(CANCELLED)     ? "cancelled"
	       : j->states & TD_JOB(TIMEOUT)       ? "timeout"
	       : j->states & TD_JOB(OUT_OF_MEMORY) ? "out-of-memory"
	       : j->states & TD_JOB(NODE_FAIL)     ? "node-failed"
	       : j->states & TD_JOB(PREEMPTED)     ? "preempted"
						   : "failed";
}

void td_gateway_job_write(yyjson_mut_doc *d, yyjson_mut_val *o, const struct td_slurm_job *j, int64_t now)
{
	bool waits = td_job_phase(j->states) == TD_PHASE_WAITING;
	td_jm_int(d, o, "id", j->id);
	if (j->array) {
		td_jm_int(d, o, "array", j->array);
		if (j->task >= 0)
			td_jm_int(d, o, "task", j->task);
		else
			td_jm_str(d, o, "tasks", j->tasks);
	}
	td_jm_str(d, o, "name", j->name);
	td_jm_str(d, o, "user", j->user);
	td_jm_str(d, o, "partition", j->partition);
	if (*j->account)
		td_jm_str(d, o, "account", j->account);
	td_jm_str(d, o, "state", td_gateway_job_state(j));
	td_jm_int(d, o, "submitted", j->submit);
	if (waits) {
		const char *words = td_pool_reason_words(j->reason, j->want_nodes);
		td_jm_str(d, o, "reason", j->reason);
		td_jm_str(d, o, "words", words ? words : j->reason);
		if (j->start > now)
			td_jm_int(d, o, "expected", j->start);
	} else if (j->start) {
		td_jm_int(d, o, "started", j->start);
	}
	if (td_slurm_job_ended(j->states)) {
		td_jm_int(d, o, "ended", j->end);
		td_jm_int(d, o, "exit", j->exit_code);
		td_jm_str(d, o, "words", td_slurm_job_end_words(j->states));
	}
	td_jm_int(d, o, "cpus", j->want_cpus);
	td_jm_int(d, o, "nodes", j->want_nodes);
	if (j->time_limit_min)
		td_jm_int(d, o, "minutes", j->time_limit_min);
	td_gateway_progress_write(d, o, j);
	if (j->n_nodes && !waits) {
		yyjson_mut_val *l = td_jm_arr(d, o, "on");
		for (size_t i = 0; i < j->n_nodes; i++) {
			yyjson_mut_val *n = yyjson_mut_arr_add_obj(d, l);
			td_jm_str(d, n, "node", j->nodes[i].name);
			if (*j->nodes[i].gres)
				td_jm_str(d, n, "gres", j->nodes[i].gres);
		}
	}
}

// Whether a person may see a job of somebody else.
static bool shown(struct td_gateway_ask *q, const struct td_slurm_job *j)
{
	return td_streq(j->user, q->user.name) || !td_gateway_private(q->g);
}

static int list_jobs(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto(td_gateway_seen_unref) struct td_gateway_seen *s = td_gateway_look(q->g, err);
	td_auto(td_gateway_slurm_unref) struct td_gateway_slurm *l = s ? td_gateway_slurm(q->g, err) : NULL;
	if (!l)
		return err->code;
	int64_t now = td_real_ms(&td_clock_system) / 1000;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *list = td_jm_arr(d, yyjson_mut_doc_get_root(d), "jobs");
	for (size_t i = 0; i < s->jobs.n; i++) {
		td_auto_job struct td_slurm_job j = {0};
		if (!td_slurm_job_read(l->client, s->jobs.v[i].v, &j, NULL) && shown(q, &j))
			td_gateway_job_write(d, yyjson_mut_arr_add_obj(d, list), &j, now);
	}
	td_gateway_send(q, 200, d);
	return 0;
}

static int job_id(const char *text, long long *ret, struct td_error *err)
{
	return td_parse_i64(text, ret) && *ret > 0 ? 0 : td_fail(err, TD_INVALID, "\"%.40s\" is no job id", text);
}

static int get_job(struct td_gateway_ask *q, struct td_error *err)
{
	long long id;
	int r = job_id(q->args[0], &id, err);
	td_auto(td_gateway_slurm_unref) struct td_gateway_slurm *l = r ? NULL : td_gateway_slurm(q->g, err);
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!l)
		return err->code;
	if ((r = td_slurm_job_raw(l->client, q->user.name, id, td_http_cancel(q->x), &j, err)))
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *list = td_jm_arr(d, yyjson_mut_doc_get_root(d), "records");
	size_t i, n;
	yyjson_val *v;
	yyjson_arr_foreach (td_jget(td_json_root(j), "jobs"), i, n, v) {
		td_auto_job struct td_slurm_job job = {0};
		if (!td_slurm_job_read(l->client, v, &job, NULL))
			td_gateway_job_write(d, yyjson_mut_arr_add_obj(d, list), &job,
					     td_real_ms(&td_clock_system) / 1000);
	}
	td_gateway_send(q, 200, d);
	return 0;
}

// Slurm is asked as the person what the job is. It is ended as SlurmUser, by id and name, only when it
// is the person's: a DELETE that Slurm refuses would freeze slurmctld (S-T1).
int td_gateway_job_end(struct td_gateway *g, const char *user, int64_t id, struct td_cancel *c, struct td_error *err)
{
	td_auto(td_gateway_slurm_unref) struct td_gateway_slurm *l = td_gateway_slurm(g, err);
	td_auto(td_json_unref) struct td_json *j = NULL;
	if (!l)
		return err->code;
	int r = td_slurm_job_raw(l->client, user, id, c, &j, err);
	if (r == TD_NOT_FOUND)
		return td_fail(err, r,
			       "there is no job %lld: it never was, or ended a while ago; `tandem queue` lists those "
			       "that run and wait",
			       (long long)id);
	if (r)
		return r;
	size_t i, n, live = 0;
	yyjson_val *v;
	td_auto_free char *name = NULL;
	yyjson_arr_foreach (td_jget(td_json_root(j), "jobs"), i, n, v) {
		td_auto_job struct td_slurm_job job = {0};
		if (td_slurm_job_read(l->client, v, &job, NULL) || (job.id != id && job.array != id))
			continue;
		if (!td_streq(job.user, user))
			return td_fail(err, TD_DENIED, "job %lld is not yours", (long long)id);
		live += !td_slurm_job_ended(job.states);
		free(name);
		name = td_strdup(job.name);
	}
	if (!live)
		return td_fail(err, TD_NOT_FOUND, "job %lld has ended already", (long long)id);
	return td_slurm_job_end(l->client, id, name, c, err);
}

static int end_job(struct td_gateway_ask *q, struct td_error *err)
{
	long long id;
	int r = job_id(q->args[0], &id, err);
	if (!r)
		r = td_gateway_job_end(q->g, q->user.name, id, td_http_cancel(q->x), err);
	return r ? r : td_gateway_done(q);
}

// ---- the pool ----

// The number of devices in "gpu:8", "gpu:h100:8(S:0-1)", "gpu:a:2,gpu:b:2": the sum.
static long long count_gpus(const char *gres)
{
	long long sum = 0;
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, gres, ',');
	for (size_t i = 0; i < l.n; i++) {
		if (!td_starts(l.v[i], "gpu:"))
			continue;
		l.v[i][strcspn(l.v[i], "(")] = '\0';
		long long n;
		const char *last = strrchr(l.v[i], ':');
		if (td_parse_i64(last + 1, &n) && n > 0)
			sum += n;
	}
	return sum;
}

// Adds what a job has of each device, in hundredths, in "shard:30(0/100,30/100)".
static void take_parts(const char *gres, long long *v, size_t n)
{
	const char *p = gres ? strstr(gres, TD_GPU_SHARE ":") : NULL;
	for (; p; p = strstr(p, TD_GPU_SHARE ":")) {
		p += strcspn(p, "(");
		for (size_t i = 0; (*p == '(' || *p == ',') && i < n; i++) {
			char *end;
			const long has = strtol(p + 1, &end, 10);
			if (end == p + 1 || *end != '/')
				break;
			strtol(end + 1, &end, 10);
			p = end;
			v[i] += has > 0 ? has : 0;
		}
	}
}

// Writes the type of the device i in "gpu:h100:1,gpu:1g.10gb:2"; nothing where it has none.
static void write_type(const char *gres, size_t i, yyjson_mut_doc *d, yyjson_mut_val *o)
{
	struct td_gres g[16];
	size_t n = 0;
	if (td_gres_parse(gres, g, TD_LEN(g), &n, NULL))
		return;
	for (size_t k = 0; k < n; k++) {
		if (strcmp(g[k].name, "gpu") != 0 || g[k].count < 0)
			continue;
		if (i < (size_t)g[k].count) {
			td_jm_str(d, o, "type", *g[k].type ? g[k].type : NULL);
			return;
		}
		i -= (size_t)g[k].count;
	}
}

// Sets owner[k] for each index in "gpu:2(IDX:0-1,5)".
static void take(const char *gres, const struct td_slurm_job **owner, size_t n, const struct td_slurm_job *j)
{
	for (const char *p = gres; p && (p = strstr(p, "IDX:"));) {
		p += strlen("IDX:");
		while (*p >= '0' && *p <= '9') {
			char *end;
			unsigned long a = strtoul(p, &end, 10), b = a;
			if (*end == '-')
				b = strtoul(end + 1, &end, 10);
			for (; a <= b && a < n; a++)
				owner[a] = j;
			p = *end == ',' ? end + 1 : end;
		}
	}
}

struct on_node { // what a job has on a node
	const char *node, *gres;
	const struct td_slurm_job *job;
};

// By node, then as the jobs come: where two seem to have a device, the later one is shown.
static int by_node(const void *a, const void *b)
{
	const struct on_node *x = a, *y = b;
	int k = strcmp(x->node, y->node);
	return k ? k : x->job < y->job ? -1 : x->job > y->job;
}

// What all jobs have on all nodes, sorted. Caller frees; the strings are the jobs'.
static struct on_node *on_nodes(const struct td_slurm_job_list *jobs, size_t *ret_n)
{
	size_t n = 0;
	for (size_t i = 0; i < jobs->n; i++)
		n += jobs->v[i].n_nodes;
	struct on_node *v = td_calloc(n + 1, sizeof(*v));
	n = 0;
	for (size_t i = 0; i < jobs->n; i++)
		for (size_t k = 0; k < jobs->v[i].n_nodes; k++)
			v[n++] = (struct on_node){jobs->v[i].nodes[k].name, jobs->v[i].nodes[k].gres, &jobs->v[i]};
	if (n)
		qsort(v, n, sizeof(*v), by_node);
	*ret_n = n;
	return v;
}

// Who has parts of the device i, as far as the caller may know.
static void write_shares(struct td_gateway_ask *q, const struct on_node *here, size_t n, size_t i, yyjson_mut_doc *d,
			 yyjson_mut_val *o)
{
	yyjson_mut_val *l = td_jm_arr(d, o, "shares");
	td_auto_free long long *its = td_calloc(i + 1, sizeof(*its));
	for (size_t k = 0; k < n; k++) {
		const struct td_slurm_job *j = here[k].job;
		memset(its, 0, (i + 1) * sizeof(*its));
		take_parts(here[k].gres, its, i + 1);
		if (!its[i] || !shown(q, j))
			continue;
		yyjson_mut_val *x = yyjson_mut_arr_add_obj(d, l);
		td_jm_int(d, x, "job", j->id);
		td_jm_str(d, x, "user", j->user);
		td_jm_str(d, x, "name", j->name);
		td_jm_int(d, x, "share", its[i]);
	}
}

// here: what jobs have on this node.
static void write_node(struct td_gateway_ask *q, const struct td_slurm_node *node, const struct on_node *here, size_t n,
		       yyjson_mut_doc *d, yyjson_mut_val *o)
{
	size_t gpus = (size_t)count_gpus(node->gres);
	td_auto_free const struct td_slurm_job **owner = td_calloc(gpus + 1, sizeof(*owner));
	td_auto_free long long *parts = td_calloc(gpus + 1, sizeof(*parts));
	for (size_t i = 0; i < n; i++) {
		take(here[i].gres, owner, gpus, here[i].job);
		take_parts(here[i].gres, parts, gpus);
	}

	td_jm_str(d, o, "name", node->name);
	td_jm_str(d, o, "state", td_slurm_node_words(node->states));
	td_jm_bool(d, o, "healthy", !td_slurm_node_bad(node->states));
	td_jm_bool(d, o, "usable", td_slurm_node_usable(node->states));
	if (*node->reason && strcmp(node->reason, TD_REASON_NONE) != 0)
		td_jm_str(d, o, "reason", node->reason);
	td_jm_int(d, o, "cpus", node->cpus);
	td_jm_int(d, o, "cpusUsed", node->alloc_cpus);
	td_jm_int(d, o, "memoryMiB", node->memory_mb);
	td_jm_int(d, o, "memoryUsedMiB", node->alloc_memory_mb);
	yyjson_mut_val *l = td_jm_arr(d, o, "gpus");
	for (size_t i = 0; i < gpus; i++) {
		yyjson_mut_val *g = yyjson_mut_arr_add_obj(d, l);
		td_jm_int(d, g, "index", (long long)i);
		write_type(node->gres, i, d, g);
		if (parts[i]) {
			td_jm_int(d, g, "share", parts[i]);
			td_jm_bool(d, g, "used", true);
			write_shares(q, here, n, i, d, g);
			continue;
		}
		if (!owner[i])
			continue;
		td_jm_bool(d, g, "used", true);
		if (!shown(q, owner[i]))
			continue;
		td_jm_int(d, g, "job", owner[i]->id);
		td_jm_str(d, g, "user", owner[i]->user);
		td_jm_str(d, g, "name", owner[i]->name);
		if (owner[i]->account && *owner[i]->account)
			td_jm_str(d, g, "account", owner[i]->account);
		struct td_notes notes;
		if (td_notes_read(owner[i]->admin_comment, &notes)) {
			td_jm_strf(d, g, notes.gang ? "gang" : "pod", "%s/%s", notes.ns, notes.pod);
			if (*notes.user)
				td_jm_str(d, g, "person", notes.user);
			if (*notes.service)
				td_jm_str(d, g, "service", notes.service);
		}
		td_jm_int(d, g, "since", owner[i]->start);
	}
	td_gateway_faults_write(q->g, node->name, d, o);
}

static int pool(struct td_gateway_ask *q, struct td_error *err)
{
	td_auto(td_gateway_seen_unref) struct td_gateway_seen *s = td_gateway_look(q->g, err);
	td_auto(td_gateway_slurm_unref) struct td_gateway_slurm *l = s ? td_gateway_slurm(q->g, err) : NULL;
	if (!l)
		return err->code;
	td_auto_job_list struct td_slurm_job_list live = {.v = td_calloc(s->jobs.n + 1, sizeof(*live.v))};
	size_t i;
	for (i = 0; i < s->jobs.n; i++) {
		td_auto_job struct td_slurm_job j = {0};
		if (td_slurm_job_read(l->client, s->jobs.v[i].v, &j, NULL) || !j.n_nodes ||
		    td_job_phase(j.states) == TD_PHASE_ENDED)
			continue;
		live.v[live.n++] = j;
		j = (struct td_slurm_job){0};
	}
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *list = td_jm_arr(d, yyjson_mut_doc_get_root(d), "nodes");
	size_t n_on, at = 0;
	td_auto_free struct on_node *on = on_nodes(&live, &n_on);
	for (i = 0; i < s->nodes->nodes.n; i++) { // sorted by name, too
		while (at < n_on && strcmp(on[at].node, s->nodes->nodes.v[i].name) < 0)
			at++;
		size_t end = at;
		while (end < n_on && !strcmp(on[end].node, s->nodes->nodes.v[i].name))
			end++;
		write_node(q, &s->nodes->nodes.v[i], &on[at], end - at, d, yyjson_mut_arr_add_obj(d, list));
	}
	td_gateway_send(q, 200, d);
	return 0;
}

// ---- news ----

// What is shown of a look, as a number: it changes when a person would see a change.
static uint64_t print_of(struct td_gateway *g, const struct td_gateway_seen *s)
{
	uint64_t h = TD_HASH;
	size_t i, k, m;
	yyjson_val *w;
	for (i = 0; i < s->jobs.n; i++) {
		const yyjson_val *v = s->jobs.v[i].v;
		int64_t number[] = {td_jint(v, "job_id", 0), td_jint(v, "start_time.number", 0)};
		h = td_hash(h, number, sizeof(number));
		yyjson_arr_foreach (td_jget(v, "job_state"), k, m, w)
			h = td_hash_str(h, yyjson_get_str(w));
		h = td_hash_str(h, td_jstr(v, "state_reason"));
		h = td_gateway_progress_print(h, td_jstr(v, "admin_comment"));
	}
	for (i = 0; i < s->nodes->nodes.n; i++) {
		h = td_hash(h, &s->nodes->nodes.v[i].states, sizeof(s->nodes->nodes.v[i].states));
		h = td_hash_str(h, s->nodes->nodes.v[i].reason);
		h = td_gateway_faults_print(g, h, s->nodes->nodes.v[i].name);
	}
	return h;
}

static int events(struct td_gateway_ask *q, struct td_error *err)
{
	enum { EACH_MS = 500, LIFE_MS = 3600 * 1000, BEAT_MS = 15000 };
	static const char beat[] = ": still here\n\n";
	int r = td_http_stream_begin(q->x, 200, "text/event-stream", err);
	uint64_t last = 0;
	int64_t began = td_mono_ms(&td_clock_system), said = began;
	for (; !r && td_mono_ms(&td_clock_system) - began < LIFE_MS;
	     r = td_cancel_wait(td_http_cancel(q->x), EACH_MS)) {
		struct td_error e = TD_ERROR_INIT;
		td_auto(td_gateway_seen_unref) struct td_gateway_seen *s = td_gateway_look(q->g, &e);
		uint64_t now = s ? print_of(q->g, s) : 1;
		td_auto_free char *text = NULL;
		if (now != last)
			text = td_asprintf("event: change\ndata: {\"print\":\"%016llx\"}\n\n", (unsigned long long)now);
		else if (td_mono_ms(&td_clock_system) - said > BEAT_MS)
			text = td_strdup(beat);
		last = now;
		if (!text)
			continue;
		said = td_mono_ms(&td_clock_system);
		if (td_http_stream_write(q->x, text, strlen(text), NULL))
			break;
	}
	return 0;
}

const struct td_gateway_op td_gateway_job_ops[] = {
	{"listJobs", list_jobs}, {"getJob", get_job}, {"endJob", end_job},
	{"pool", pool},          {"events", events},  {NULL, NULL},
};
