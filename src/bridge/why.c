// Answers why a pod or a job waits, or where it runs: GET /why?pod=NAMESPACE/NAME and GET
// /why?job=ID, also of an array's tasks (12_3, 12_[4-7]). The answer is JSON: {"text": "…", …}.
#include "bridge/again.h"
#include "bridge/allowed.h"
#include "bridge/cuts.h"
#include "bridge/policy/policies.h"
#include "bridge/quota.h"
#include "bridge/rollout.h"
#include "bridge/scheduler/ask.h"
#include "bridge/scheduler/blocks.h"
#include "bridge/scheduler/gang.h"
#include "bridge/scheduler/turns.h"
#include "bridge/syncer/aside.h"
#include "bridge/syncer/entrance.h"
#include "bridge/syncer/shadow.h"

#include "api/condition.h"
#include "api/grant.h"
#include "http/server.h"
#include "pool/notes.h"
#include "pool/said.h"
#include "pool/slice.h"
#include "slurm/history.h"

#include <string.h>

static void answer(struct td_http_x *x, int status, yyjson_mut_doc *d)
{
	size_t n;
	td_auto_free char *s = td_json_mut_text(yyjson_mut_doc_get_root(d), &n);
	td_http_send(x, status, "application/json", s, n);
}

static void say(struct td_http_x *x, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void say(struct td_http_x *x, int status, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	td_auto_free char *text = td_vasprintf(fmt, ap);
	va_end(ap);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	td_jm_str(d, yyjson_mut_doc_get_root(d), "text", text);
	answer(x, status, d);
}

// Adds ", nvidia.com/gpu 0-1" for every kind of device.
static void device_words(const char *devices, struct td_buf *out)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	yyjson_val *k, *v;
	size_t i, n;
	if (!devices || td_json_parse(devices, strlen(devices), &j, NULL))
		return;
	yyjson_obj_foreach (td_json_root(j), i, n, k, v)
		if (td_api_grant_is_share(k))
			td_buf_printf(out, " (%s/%d of it)", yyjson_get_str(v) ? yyjson_get_str(v) : "?", TD_GPU_UNITS);
		else
			td_buf_printf(out, ", %s %s", yyjson_get_str(k), yyjson_get_str(v) ? yyjson_get_str(v) : "");
}

static const char *decided(const struct td_ask *a)
{
	return a->why && *a->why ? a->why : "it was not looked at yet";
}

// Adds ", as member 3 of 8 of gang train" for a member of one.
static void gang_words(const struct td_object *pod, struct td_buf *out)
{
	const char *name = td_object_annotation(pod, TD_ANN_GANG_NAME),
		   *rank = td_object_annotation(pod, TD_ANN_GANG_RANK),
		   *world = td_object_annotation(pod, TD_ANN_GANG_WORLD);
	if (td_object_annotation(pod, TD_ANN_GANG_CORE) && name && world)
		td_buf_printf(out, ", beyond the minimum of %s of gang %s", world, name);
	const char *role = td_object_annotation(pod, TD_LABEL_GANG_ROLE),
		   *roles = td_object_annotation(pod, TD_ANN_GANG_ROLES);
	if (td_object_annotation(pod, TD_ANN_GANG_UID) && name && rank && world)
		td_buf_printf(out, ", as rank %s of %s in gang %s", rank, world, name);
	if (td_object_annotation(pod, TD_ANN_GANG_UID) && role && roles)
		td_buf_printf(out, " (%s of %s)", role, roles);
}

// What a container waits for that does not run: an image that is not there, or the next try after a crash.
static void container_words(const struct td_object *pod, struct td_buf *out)
{
	static const char *const lists[] = {"status.initContainerStatuses", "status.containerStatuses"};
	for (size_t k = 0; k < TD_LEN(lists); k++) {
		size_t i, n;
		yyjson_val *c;
		yyjson_arr_foreach (td_jget(pod->root, lists[k]), i, n, c) {
			const char *reason = td_jstr(c, "state.waiting.reason"),
				   *message = td_jstr(c, "state.waiting.message");
			if (!reason || td_streq(reason, "ContainerCreating") || td_streq(reason, "PodInitializing"))
				continue;
			td_buf_printf(out, " Container %s waits: %s%s%s.", td_jstr_or(c, "name", "?"), reason,
				      message ? ": " : "", message ? message : "");
		}
	}
}

// A pod of this scheduler, with its ask; NULL: it has none yet.
static void why_pod(struct td_bridge *b, struct td_http_x *x, const struct td_object *pod, struct td_ask *a)
{
	td_auto_buf struct td_buf t = {0};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	const char *node = td_jstr(pod->root, "spec.nodeName"), *phase = td_jstr_or(pod->root, "status.phase", "");
	td_auto_free char *gang = NULL;
	int64_t job = 0;

	td_buf_printf(&t, "Pod %s/%s ", pod->ns, pod->name);

	if (a) {
		pthread_mutex_lock(&b->asks->lock);
		job = a->job;
		pthread_mutex_unlock(&b->asks->lock);
	}

	if (!strcmp(phase, "Succeeded") || !strcmp(phase, "Failed")) {
		td_buf_printf(&t, "has ended (%s).", phase);
	} else if (td_object_deleting(pod)) {
		td_buf_puts(&t, "is being deleted; Slurm gives its devices away when its last process is gone.");
	} else if (node) {
		const char *id = td_object_annotation(pod, TD_ANN_JOB);
		td_buf_printf(&t, "%s on %s", !strcmp(phase, "Running") ? "runs" : "is starting", node);
		if (id)
			td_buf_printf(&t, " as Slurm job %s", id);
		device_words(td_object_annotation(pod, TD_ANN_DEVICES), &t);
		gang_words(pod, &t);
		td_buf_putc(&t, '.');
		container_words(pod, &t);
		if (td_condition_true(pod->root, TD_COND_HANGS))
			td_buf_printf(&t, " It hangs: %s.",
				      td_jstr_or(td_condition(pod->root, TD_COND_HANGS), "message", "no progress"));
		if (td_condition_true(pod->root, TD_COND_SLOW))
			td_buf_printf(&t, " Its gang waits for it: %s.",
				      td_jstr_or(td_condition(pod->root, TD_COND_SLOW), "message", "it is slow"));
		long long n;
		if (id && td_parse_i64(id, &n))
			job = n;
	} else if (!a) {
		const char *says = td_jstr(td_condition(pod->root, "PodScheduled"), "message");
		if (says && (gang = td_gang_of(pod)))
			td_buf_printf(&t, "is in gang %s. %s", gang, says);
		else
			td_buf_puts(&t, "was not looked at yet.");
	} else {
		bool limited = false;
		int64_t ordered = 0;
		pthread_mutex_lock(&b->asks->lock);
		if (a->refused) {
			td_buf_printf(&t, "will not run: %s.", a->refused);
		} else if (a->know == TD_JOB_READ && a->job && td_job_phase(a->states) == TD_PHASE_WAITING) {
			td_auto_free char *w = td_ask_waits_text(a, td_real_ms(b->clock) / 1000);
			td_buf_printf(&t, "waits. %s", w);
			ordered = a->job;
			td_jm_str(d, root, "reason", a->reason);
			limited = a->reason && td_starts(a->reason, "AssocGrp");
		} else if (a->job) {
			td_buf_printf(&t, "waits: %s (Slurm job %lld).", decided(a), (long long)a->job);
		} else {
			td_buf_printf(&t, "waits: %s.", decided(a));
		}
		pthread_mutex_unlock(&b->asks->lock);
		td_policies_words(b, ordered, &t);
		td_cuts_words(b, ordered, NULL, &t); // of an ask without a job the decision says it
		struct td_error e = TD_ERROR_INIT;
		td_auto(td_link_unref) struct td_link *l = td_bridge_link(b, &e);
		td_auto_job struct td_slurm_job waits = {0};
		if (ordered && l && !td_slurm_job(l->slurm, ordered, td_http_cancel(x), &waits, NULL))
			td_allowed_say(b, &waits, td_http_cancel(x), d, &t);
		if (limited)
			td_bridge_quota_words(b, pod, td_http_cancel(x), &t);
		td_auto_objects struct td_objects beside = {0};
		td_informer_list(b->pods, pod->ns, &beside);
		td_rollout_words(pod, &beside, &t);
		if (!l)
			td_buf_printf(&t, " Slurm cannot be asked now: %s.", e.msg);
	}

	td_auto_free char *turns =
		strcmp(phase, "Succeeded") != 0 && strcmp(phase, "Failed") != 0 ? td_turns_words(b, pod) : NULL;
	if (turns)
		td_buf_printf(&t, " %s", turns);

	if (atomic_load(&b->lost))
		td_buf_puts(&t,
			    " Slurm seems to have lost its state; nothing is ended or started until that is settled.");

	td_jm_str(d, root, "text", td_buf_str(&t));
	td_jm_strf(d, root, "pod", "%s/%s", pod->ns, pod->name);
	td_jm_str(d, root, "phase", phase);
	td_jm_str(d, root, "node", node);
	if (job)
		td_jm_int(d, root, "job", job);

	answer(x, 200, d);
}

static void by_pod(struct td_bridge *b, struct td_http_x *x, const char *key)
{
	char *ns, *name;
	td_key_split(key, &ns, &name);
	td_auto_free char *own_ns = ns, *own_name = name;
	td_auto(td_object_unref) struct td_object *pod = td_informer_get(b->pods, ns, name);

	if (pod) {
		td_auto(td_ask_unref) struct td_ask *lone = td_ask_get(b->asks, pod->uid);
		td_auto(td_ask_unref) struct td_ask *of_gang = lone ? NULL : td_gang_ask(b, pod);
		why_pod(b, x, pod, lone ? lone : of_gang);
		return;
	}

	struct td_error e = TD_ERROR_INIT;
	int r = *ns ? td_kube_get(b->kube, &td_pods, ns, name, td_http_cancel(x), &pod, &e) : TD_NOT_FOUND;
	if (!r && td_entrance_waits(pod))
		say(x, 200, "Pod %s is not Slurm's, and waits at the gate " TD_GATE_SHADOW ": %s.", key,
		    td_jstr_or(td_condition(pod->root, "PodScheduled"), "message", "nobody has looked at it yet"));
	else if (!r)
		say(x, 200, "Pod %s is not Slurm's: its spec.schedulerName is \"%s\".%s%s", key,
		    td_jstr_or(pod->root, "spec.schedulerName", "default-scheduler"),
		    td_jstr(pod->root, "spec.nodeName") ? " It runs on " : " It waits for that scheduler.",
		    td_jstr_or(pod->root, "spec.nodeName", ""));
	else if (r == TD_NOT_FOUND)
		say(x, 404, "There is no pod %s.", key);
	else
		say(x, 503, "The API server did not answer: %s", e.msg);
}

enum { NODES_NAMED = 4, WAITING_NAMED = 3 };

// "waits: …", "runs on …" or "is over: …".
static void job_words(const struct td_slurm_job *j, struct td_buf *t)
{
	char states[128];
	const char *words = td_pool_reason_words(j->reason, j->want_nodes);
	switch (td_job_phase(j->states)) {
	case TD_PHASE_WAITING:
		td_buf_printf(t, "waits: %s (%s)", words ? words : j->reason, j->reason);
		break;
	case TD_PHASE_RUNNING:
	case TD_PHASE_STARTING:
		if (j->n_nodes > NODES_NAMED)
			td_buf_printf(t, "runs on %zu nodes, %s", j->n_nodes, j->nodes_text);
		else
			td_buf_puts(t, "runs on ");
		for (size_t i = 0; i < j->n_nodes && j->n_nodes <= NODES_NAMED; i++)
			td_buf_printf(t, "%s%s%s%s%s", i ? "; " : "", j->nodes[i].name, *j->nodes[i].gres ? " (" : "",
				      j->nodes[i].gres, *j->nodes[i].gres ? ")" : "");
		if (td_streq(j->reason, "Prolog"))
			td_buf_puts(t, "; its nodes are being prepared");
		break;
	default:
		td_slurm_job_states_text(j->states, states, sizeof(states));
		td_buf_printf(t, "is over: %s (%s)", td_slurm_job_end_words(j->states), states);
	}
}

// What its admin comment says of how it goes; false: nothing of the run that it is in now.
static bool said_words(const struct td_slurm_job *j, yyjson_mut_doc *d, struct td_buf *t)
{
	static const struct {
		const char *key, *now, *before;
	} of[] = {[TD_SAID_HANGS] = {"hangs", "It hangs", "Its run before hung"},
		  [TD_SAID_SLOW] = {"straggler", "It has a straggler", "Its run before had a straggler"},
		  [TD_SAID_AGAIN] = {"again", "It began again", "It began again"}};
	bool any = false;
	for (size_t i = 0; i < TD_LEN(of); i++) { // but the fault, below
		struct td_pool_said s;
		char when[TD_TIME_LEN] = "";
		if (!td_pool_said(j->admin_comment, (enum td_pool_said_what)i, &s))
			continue;
		bool now = i != TD_SAID_AGAIN && td_job_phase(j->states) != TD_PHASE_WAITING &&
			   td_pool_said_now(&s, j->start);
		any |= now;
		if (s.seen_s)
			td_time_format(s.seen_s * 1000, when);
		yyjson_mut_val *o = td_jm_obj(d, yyjson_mut_doc_get_root(d), of[i].key);
		td_jm_str(d, o, "words", s.words);
		td_jm_str(d, o, "node", *s.node ? s.node : NULL);
		td_jm_str(d, o, "stacks", *s.stacks ? s.stacks : NULL);
		td_jm_str(d, o, "seen", *when ? when : NULL);
		if (i != TD_SAID_AGAIN)
			td_jm_bool(d, o, "now", now);
		td_buf_printf(t, " %s%s%s: %s%s%s%s%s%s.", now ? of[i].now : of[i].before,
			      i == TD_SAID_SLOW    ? ""
			      : i == TD_SAID_HANGS ? " on "
						   : " because of ",
			      i == TD_SAID_SLOW ? "" : s.node, s.words, *s.stacks ? "; stacks: " : "", s.stacks,
			      *when ? " (" : "", when, *when ? ")" : "");
	}
	return any;
}

// Was it this job that met the fault?
static bool met(const yyjson_val *fault, int64_t job)
{
	yyjson_val *x;
	size_t i, n;
	if (td_jint(fault, "met.job", 0) == job)
		return true;
	yyjson_arr_foreach (td_jget(fault, "met.jobs"), i, n, x)
		if (yyjson_get_sint(x) == job)
			return true;
	return false;
}

// What is wrong now with the nodes of a job. own: only of what ran when it began, also when it has ended.
static void fault_words(struct td_bridge *b, const struct td_slurm_job *j, bool own, struct td_buf *t)
{
	for (size_t i = 0; i < j->n_nodes; i++) {
		td_auto(td_object_unref) struct td_object *node = td_informer_get(b->nodes, NULL, j->nodes[i].name);
		const char *faults = node ? td_object_annotation(node, TD_ANN_FAULTS) : NULL;
		td_auto(td_json_unref) struct td_json *f = NULL;
		size_t k, n;
		yyjson_val *x;
		if (!faults || td_json_parse(faults, strlen(faults), &f, NULL))
			continue;
		yyjson_arr_foreach (td_json_root(f), k, n, x)
			if (!own || met(x, j->id))
				td_buf_printf(t, own ? " It met a fault of %s: %s." : " The checks of %s find: %s.",
					      node->name, td_jstr_or(x, "message", "a fault"));
	}
}

// A fault that it met is said when the node does not say it any more.
static void past_fault(const char *admin_comment, yyjson_mut_doc *d, struct td_buf *t)
{
	struct td_pool_said s;
	char when[TD_TIME_LEN] = "";
	if (!td_pool_said(admin_comment, TD_SAID_FAULT, &s))
		return;
	if (s.seen_s)
		td_time_format(s.seen_s * 1000, when);
	yyjson_mut_val *o = td_jm_obj(d, yyjson_mut_doc_get_root(d), "fault");
	td_jm_str(d, o, "words", s.words);
	td_jm_str(d, o, "node", *s.node ? s.node : NULL);
	td_jm_str(d, o, "seen", *when ? when : NULL);
	td_buf_printf(t, " It met a fault of %s: %s%s%s%s.", s.node, s.words, *when ? " (" : "", when,
		      *when ? ")" : "");
}

// What is known of a job that hangs or has a slow rank, and what the checks find of its nodes: that may be why.
static void slow_words(struct td_bridge *b, const struct td_slurm_job *j, yyjson_mut_doc *d, struct td_buf *t)
{
	const char *held = td_notes_scratch(j->admin_comment);
	if (held)
		td_buf_printf(t, " On its node's disk: %s", held);
	bool own = !said_words(j, d, t);
	size_t before = t->len;
	fault_words(b, j, own, t);
	if (t->len == before)
		past_fault(j->admin_comment, d, t);
}

// Slurm says Resources of a job that no block can hold any more.
static void block_words(struct td_bridge *b, const struct td_settings *s, const struct td_slurm_job *j,
			struct td_buf *t)
{
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *snap = td_slurm_view_nodes(b->view);
	if (!s || !snap || !td_blocks_known(s) || j->want_nodes < 2 || td_job_phase(j->states) != TD_PHASE_WAITING)
		return;
	static const char *const no_kinds[TD_POOL_KINDS];
	td_auto_free bool *any = td_calloc(snap->nodes.n + 1, sizeof(*any));
	td_auto_free struct td_pool_node *nodes = NULL;
	char why[300];
	memset(any, true, snap->nodes.n);
	td_bridge_pool_nodes(&snap->nodes, any, no_kinds, j->partition && *j->partition ? j->partition : NULL, &nodes);
	const struct td_blocks_ask in = {nodes, snap->nodes.n, j->want_nodes, 0};
	if (!td_blocks_hold(b, s, &in, why, sizeof(why)))
		td_buf_printf(t, " Unless it has segments: %s.", why);
}

// One job, or one record of an array: label is how a person calls it.
static void say_job(struct td_bridge *b, struct td_http_x *x, const char *label, const struct td_slurm_job *j)
{
	td_auto_buf struct td_buf t = {0}, order = {0};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	if (td_job_phase(j->states) == TD_PHASE_WAITING) {
		td_policies_words(b, j->id, &order);
		size_t before = order.len;
		td_cuts_words(b, j->id, NULL, &order);
		// Slurm's own reason, that it is held or can be met by no node, is how it waits for that.
		if (order.len > before && !j->priority)
			td_buf_puts(&t, "waits");
		else
			td_allowed_say(b, j, td_http_cancel(x), d, &order);
		if (td_streq(j->reason, "AssocGrpGRES") || td_streq(j->reason, "QOSGrpGRES"))
			td_bridge_federation_words(b, j, &order);
	}
	if (!t.len)
		job_words(j, &t);
	td_agains_words(b, j, &order);
	td_auto_free char *used = td_pool_slice_words(j->admin_comment);
	if (used)
		td_buf_printf(&order, " %s", used);
	slow_words(b, j, d, &order);
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	block_words(b, s, j, &order);
	const char *node = s ? td_shadow_node(s, j) : NULL;
	if (node)
		td_buf_printf(&order,
			      " It is a shadow: it holds in Slurm what pods of other schedulers hold on %s, so that "
			      "nobody else is given that, and ends with them.",
			      node);
	if (s && (node = td_aside_node(s, j)))
		td_buf_printf(&order,
			      " It keeps a device of %s out of service, as that Node's annotations " TD_ANN_DEVICES_OUT
			      " and " TD_ANN_DEVICES_HOLD
			      " say, or holds one that a pod of another scheduler has, and ends with that.",
			      node);
	td_jm_strf(d, yyjson_mut_doc_get_root(d), "text", "Job %s (%s, user %s) %s.%s", label, j->name, j->user,
		   td_buf_str(&t), td_buf_str(&order));
	answer(x, 200, d);
}

static void say_array(struct td_bridge *b, struct td_http_x *x, int64_t id, const struct td_slurm_job_list *l)
{
	size_t run = 0, over = 0, waits = 0;
	td_auto_buf struct td_buf t = {0};
	for (size_t i = 0; i < l->n; i++) {
		const struct td_slurm_job *j = &l->v[i];
		enum td_job_phase phase = td_job_phase(j->states);
		run += phase == TD_PHASE_RUNNING || phase == TD_PHASE_STARTING;
		over += phase == TD_PHASE_ENDED || phase == TD_PHASE_ENDING;
		if (phase != TD_PHASE_WAITING || ++waits > WAITING_NAMED)
			continue;
		if (j->task < 0)
			td_buf_printf(&t, "%s tasks [%s]: it ", t.len ? ";" : "", j->tasks);
		else
			td_buf_printf(&t, "%s task %lld ", t.len ? ";" : "", (long long)j->task);
		job_words(j, &t);
	}
	if (waits > WAITING_NAMED)
		td_buf_printf(&t, "; %zu more tasks wait", waits - WAITING_NAMED);
	if (run)
		td_buf_printf(&t, "%s %zu task%s", t.len ? ";" : "", run, run > 1 ? "s run" : " runs");
	if (over)
		td_buf_printf(&t, "%s %zu %s over", t.len ? ";" : "", over, over > 1 ? "are" : "is");
	td_auto_buf struct td_buf order = {0};
	if (waits) {
		td_policies_words(b, id, &order);
		td_cuts_words(b, id, NULL, &order);
	}
	say(x, 200, "Job %lld (%s, user %s) is an array:%s.%s", (long long)id, l->v[0].name, l->v[0].user,
	    td_buf_str(&t), td_buf_str(&order));
}

// Tasks of an array: one by its number, or with "[…]" those that wait.
static void say_task(struct td_bridge *b, struct td_http_x *x, const char *label, const char *task,
		     const struct td_slurm_job_list *l)
{
	const struct td_slurm_job *j = NULL;
	long long n = -1;
	if (*task != '[')
		td_parse_i64(task, &n);
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].array && l->v[i].task == n)
			j = &l->v[i];
	for (size_t i = 0; i < l->n && !j; i++)
		if (l->v[i].array && l->v[i].task < 0 && td_slurm_tasks_has(l->v[i].tasks, n))
			j = &l->v[i];

	if (j)
		say_job(b, x, label, j);
	else if (!l->v[0].array)
		say(x, 404, "Job %lld is not an array: ask for it without \"_%s\".", (long long)l->v[0].id, task);
	else if (*task == '[')
		say(x, 404, "No task of job %lld waits any more: ask for one of them, such as %lld_%lld.",
		    (long long)l->v[0].array, (long long)l->v[0].array, (long long)l->v[0].task);
	else
		say(x, 404, "Job %lld has no task %s, or it ended a while ago.", (long long)l->v[0].array, task);
}

// One that slurmctld has forgotten: what slurmdbd has kept of its last run, or that it did not answer. False: nothing.
static bool say_past(struct td_bridge *b, struct td_http_x *x, struct td_slurm *slurm, int64_t id)
{
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	td_auto_runs struct td_slurm_runs runs = {0};
	struct td_error e = TD_ERROR_INIT;
	char when[TD_TIME_LEN] = "";
	if (!s || !s->accounting)
		return false;
	if (td_slurm_history_job(slurm, b->o.cluster, id, td_http_cancel(x), &runs, &e)) {
		say(x, 503, "slurmctld does not know job %lld, and slurmdbd did not answer: %s", (long long)id, e.msg);
		return true;
	}
	const struct td_slurm_run *last = td_slurm_runs_last(&runs, id);
	if (!last)
		return false;
	td_auto_buf struct td_buf t = {0};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	past_fault(last->admin_comment, d, &t);
	td_jm_strf(d, yyjson_mut_doc_get_root(d), "text", "Job %lld (user %s) is over: %s (%s). It ended at %s%s%s.%s",
		   (long long)id, last->user, td_slurm_job_end_words(td_slurm_job_state_parse(last->state)),
		   last->state, td_time_format(last->end * 1000, when), *last->nodes ? " on " : "", last->nodes,
		   td_buf_str(&t));
	answer(x, 200, d);
	return true;
}

// label: as it was asked for; task: what stands behind "_" in it, or NULL.
static void by_job(struct td_bridge *b, struct td_http_x *x, int64_t id, const char *label, const char *task)
{
	struct td_error e = TD_ERROR_INIT;
	td_auto(td_ask_unref) struct td_ask *a = td_ask_by_job(b->asks, id);

	if (a && !task) {
		td_auto_objects struct td_objects pods = {0};
		td_informer_by_index(b->pods, "uid", a->uid, &pods);
		if (!pods.n && td_starts(a->key, TD_GANG_KEY)) // any member tells
			td_informer_by_index(b->pods, "gang", a->key + strlen(TD_GANG_KEY), &pods);
		if (pods.n) {
			why_pod(b, x, pods.v[0], a);
			return;
		}
	}

	td_auto(td_link_unref) struct td_link *l = td_bridge_link(b, &e);
	td_auto_job_list struct td_slurm_job_list all = {0};
	int r = l ? td_slurm_job_records(l->slurm, id, td_http_cancel(x), &all, &e) : e.code;
	if (r == TD_NOT_FOUND && !task && say_past(b, x, l->slurm, id))
		return;
	if (r == TD_NOT_FOUND)
		say(x, 404, "Slurm does not know job %s: it never was, or ended a while ago.", label);
	else if (r)
		say(x, 503, "Slurm did not answer: %s", e.msg);
	else if (task)
		say_task(b, x, label, task, &all);
	else if (all.v[0].array == id)
		say_array(b, x, id, &all);
	else
		say_job(b, x, label, &all.v[0]);
}

// Splits "12", "12_3" and "12_[4-7%2]". *ret_task: NULL, or what stands behind the "_".
static bool read_job_id(const char *text, long long *ret_id, const char **ret_task)
{
	size_t digits = strspn(text, "0123456789");
	td_auto_free char *id = td_strndup(text, digits);
	const char *task = text[digits] == '_' ? text + digits + 1 : NULL;
	size_t n = task ? strlen(task) : 0;
	long long number;
	if (!td_parse_i64(id, ret_id) || *ret_id <= 0 || (text[digits] && !task))
		return false;
	*ret_task = task;
	return !task || (n && strspn(task, "0123456789") == n && td_parse_i64(task, &number)) ||
	       (n > 2 && task[0] == '[' && task[n - 1] == ']');
}

static void handle(struct td_http_x *x, void *ctx)
{
	struct td_bridge *b = ctx;
	const char *path = td_http_path(x), *pod = td_http_query(x, "pod"), *job = td_http_query(x, "job"), *task;
	long long id;
	if (strcmp(td_http_method(x), "GET") != 0)
		say(x, 405, "only GET");
	else if (strcmp(path, "/why") != 0)
		say(x, 404, "GET /why?pod=NAMESPACE/NAME or /why?job=ID");
	else if (pod && *pod)
		by_pod(b, x, pod);
	else if (job && read_job_id(job, &id, &task))
		by_job(b, x, id, job, task);
	else if (job)
		say(x, 400, "\"%s\" is no job: give its id, such as 12, or of an array 12_3 or 12_[4-7]", job);
	else
		say(x, 400, "name a pod (?pod=NAMESPACE/NAME) or a job (?job=ID)");
}

int td_why_run(struct td_bridge *b, struct td_cancel *c, struct td_error *err)
{
	const char *const listen[] = {b->o.why, NULL};
	if (!b->o.why)
		return 0;

	const struct td_http_server_opts o = {.listen = listen, .handler = handle, .ctx = b, .max_conns = 32};
	struct td_http_server *s;
	int r = td_http_server_new(&o, &s, err);
	if (r)
		return r;

	r = td_http_server_run(s, c, err);
	td_http_server_free(s);
	return r;
}
