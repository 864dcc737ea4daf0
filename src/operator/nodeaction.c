// One NodeAction: its step is found again from its status, the Node, the slurmd pod and the test's pod,
// and carried on as pool/health.h decides.
#include "operator/health.h"

#include "api/condition.h"
#include "base/log.h"
#include "pool/aside.h"

#include <stdio.h>
#include <string.h>

enum { STEP_S = 1800, ALONE_S = 300, SOON_S = 60, LOOK_MS = 5000, ANEW_MS = 500, TEST_MOST_MS = 20000 };

struct run {
	struct td_op_node *n;
	struct td_object *o;
	enum td_act act, step;
	bool test;
	bool alone; // it is about one device, this one
	int device;
	struct td_object *slurmd, *pod; // pod: of its test
	const char *said;               // result of the test
	char *agent_said;
	struct td_json *result;
	yyjson_mut_doc *d; // the status that is to be
	yyjson_mut_val *status;
	int64_t now;
	int64_t *again_ms;
};

static void run_done(struct run *x)
{
	td_object_unref(x->slurmd);
	td_object_unref(x->pod);
	td_json_unref(x->result);
	free(x->agent_said);
	yyjson_mut_doc_free(x->d);
}

static const char *now_text(const struct run *x, char buf[TD_TIME_LEN])
{
	return td_time_format(x->now, buf);
}

static int write_status(struct run *x, struct td_error *err)
{
	return td_op_status_write(x->n->op, &td_nodeactions, x->o, x->d, x->n->c, err);
}

static yyjson_mut_val *step_entry(struct run *x, enum td_act step)
{
	char buf[TD_TIME_LEN];
	yyjson_mut_val *l = td_jm_arr(x->d, x->status, "steps"), *e;
	size_t i, n;
	yyjson_mut_arr_foreach (l, i, n, e)
		if (td_streq(td_jm_getstr(e, "name"), td_pool_act_name(step)))
			return e;
	e = yyjson_mut_arr_add_obj(x->d, l);
	td_jm_str(x->d, e, "name", td_pool_act_name(step));
	td_jm_str(x->d, e, "startedAt", now_text(x, buf));
	return e;
}

static void enter(struct run *x, enum td_act step)
{
	x->step = step;
	td_jm_str(x->d, x->status, "step", td_pool_act_name(step));
	step_entry(x, step);
}

static void finish_step(struct run *x, const char *message)
{
	char buf[TD_TIME_LEN];
	yyjson_mut_val *e = step_entry(x, x->step);
	td_jm_str(x->d, e, "finishedAt", now_text(x, buf));
	if (message && *message)
		td_jm_strf(x->d, e, "message", "%.500s", message);
}

static int over(struct run *x, const char *phase, const char *message, struct td_error *err)
{
	char buf[TD_TIME_LEN];
	const char *const notes[][2] = {{TD_ANN_END_JOBS, NULL}, {TD_ANN_SIGNAL_JOBS, NULL}, {0}};
	int r = !x->n->node                  ? 0
		: !x->alone || x->device < 0 ? td_op_health_note(x->n, notes, err)
					     : td_op_devices_end(x->n, x->device, false, err);
	if (r)
		return r;
	finish_step(x, message);
	td_jm_str(x->d, x->status, "phase", phase);
	td_jm_str(x->d, x->status, "finishedAt", now_text(x, buf));
	td_jm_strf(x->d, x->status, "message", "%.1000s", message);
	if ((r = write_status(x, err)))
		return r;
	bool good = !strcmp(phase, "Succeeded");
	td_info("node %s: %s %s: %s", x->n->name, td_pool_act_name(x->act), phase, message);
	if (x->n->node)
		td_kube_record(x->n->op->events, TD_ABOUT(x->n->node, &td_nodes), good ? "Normal" : "Warning",
			       good ? "ActionSucceeded" : "ActionFailed", "%s (NodeAction %s): %s",
			       td_pool_act_name(x->act), x->o->name, message);
	return 0;
}

// ---- facts ----

// When the present step is late: the act's own deadline counts from its start.
static bool late(struct run *x)
{
	int64_t begun = x->now, step = x->now;
	td_time_parse(td_jstr_or(x->o->root, "status.startedAt", ""), &begun);
	yyjson_mut_val *e = step_entry(x, x->step);
	td_time_parse(td_jm_getstr(e, "startedAt"), &step);
	long long own = td_jint(x->o->root, "spec.deadlineSeconds", 0);
	int64_t end = own                       ? begun + own * 1000
		      : x->step == TD_ACT_DRAIN ? (td_op_cutting_soon(x->o) ? step + SOON_S * 1000 : INT64_MAX)
						: step + (x->alone ? ALONE_S : STEP_S) * 1000;
	if (end == INT64_MAX)
		return false;
	if (end > x->now && (!*x->again_ms || end - x->now < *x->again_ms))
		*x->again_ms = end - x->now + 10;
	return x->now >= end;
}

// Whether so long has passed since then. Not known when that was: no.
static bool passed(struct run *x, const char *since, long long s)
{
	int64_t begun;
	if (!since || td_time_parse(since, &begun))
		return false;
	int64_t left = begun + s * 1000 - x->now;
	if (left > 0 && (!*x->again_ms || left < *x->again_ms))
		*x->again_ms = left + 10;
	return left <= 0;
}

// Whether the node's jobs had as long as they may have: before they are told to save themselves, or at all.
static bool jobs_over(struct run *x, bool *ret_signal)
{
	yyjson_val *save = td_jget(x->o->root, "spec.checkpoint");
	long long s = td_jint(x->o->root, "spec.jobsEndAfterSeconds", save ? 0 : -1);
	bool over = s >= 0 && passed(x, td_jstr(x->o->root, "status.startedAt"), s);
	const char *told = td_jm_getstr(x->status, "signalledAt");
	*ret_signal = save && over && !told;
	return save ? passed(x, told, td_jint(save, "graceSeconds", 0)) : over;
}

// "ACTION SIGNAL", for the bridge. The caller frees it.
static char *signal_wish(const struct run *x)
{
	return td_asprintf("%s %s", x->o->name, td_jstr_or(x->o->root, "spec.checkpoint.signal", "USR1"));
}

// The bridge has told the jobs: their time begins now.
static void note_signalled(struct run *x)
{
	char buf[TD_TIME_LEN];
	td_auto_free char *wish = signal_wish(x);
	if (td_jget(x->o->root, "spec.checkpoint") && !td_jm_getstr(x->status, "signalledAt") &&
	    td_streq(td_object_annotation(x->n->node, TD_ANN_JOBS_SIGNALLED), wish))
		td_jm_str(x->d, x->status, "signalledAt", now_text(x, buf));
}

// The operation of the present step: an agent does none twice, so each of an act has an id of its own. The caller frees
// it.
static char *operation_id(const struct run *x)
{
	bool second = x->act == TD_ACT_RUN && x->step == TD_ACT_REBOOT;
	return td_asprintf("%s%s", x->o->uid, second ? "-reboot" : x->alone && x->step == TD_ACT_TEST ? "-test" : "");
}

// The annotation that tells the agent.
static char *operation(const struct run *x)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_auto_free char *id = operation_id(x);
	td_jm_str(d, root, "id", id);
	td_jm_str(d, root, "action", td_pool_act_name(x->step));
	td_jm_str(d, root, "device", td_jstr(x->o->root, "spec.device"));
	td_jm_str(d, root, "program", td_jstr(x->o->root, "spec.program"));
	if (x->alone)
		td_jm_str(d, root, "scope", "device");
	if (x->step == TD_ACT_REBOOT) // of which it is to boot: an agent without a disk has no other memory of it
		td_jm_str(d, root, "boot", td_jstr(x->o->root, "status.bootID"));
	if (x->step == TD_ACT_CUT)
		td_op_cut_operation(d, root, td_jget(x->o->root, "spec"));
	if (x->alone && x->step == TD_ACT_TEST) {
		const struct td_op_policy *p = &x->n->policy;
		td_jm_int(d, root, "milliseconds", p->test_ms < TEST_MOST_MS ? p->test_ms : TEST_MOST_MS);
		td_jm_str(d, root, "program", td_jstr(p->preflight, "program"));
	}
	return td_json_mut_text(root, NULL);
}

static enum td_act_did result_of(struct run *x)
{
	const char *text = td_object_annotation(x->n->node, TD_ANN_OPERATION_RESULT);
	if (!text || td_json_parse(text, strlen(text), &x->result, NULL))
		return TD_DID_NOTHING;
	yyjson_val *r = td_json_root(x->result);
	const char *is = td_jstr_or(r, "result", "");
	td_auto_free char *id = operation_id(x);
	if (!td_streq(td_jstr(r, "id"), id))
		return TD_DID_NOTHING;
	x->agent_said = td_strdup(td_jstr_or(r, "message", ""));
	return td_streq(is, "done") ? TD_DID_DONE : td_streq(is, "failed") ? TD_DID_FAILED : TD_DID_UNKNOWN;
}

// What of the facts is about the device, and not about its node.
static void device_facts(struct run *x, struct td_pool_act_facts *f)
{
	const struct td_object *node = x->n->node;
	uint64_t out, bit = (uint64_t)1 << x->device;
	enum td_remedy worst;
	f->alone = true;
	f->held = td_op_devices_held(node) & bit;
	// On a drained node nobody holds it.
	f->drained |= td_pool_aside_read(td_object_annotation(node, TD_ANN_DEVICES_HELD), &out) && out & bit;
	f->ending = td_pool_aside_read(td_object_annotation(node, TD_ANN_END_DEVICES), &out) && out & bit;
	free(td_op_device_faults(&x->n->faults, x->device, &worst));
	f->faulty = worst != TD_REMEDY_NONE;
}

static void facts(struct run *x, struct td_pool_act_facts *f)
{
	struct td_op_node *n = x->n;
	const char *state = td_object_annotation(n->node, TD_ANN_SLURM_STATE);
	td_object_unref(x->slurmd);
	x->slurmd = td_op_health_slurmd(n->op, n->name);
	*f = (struct td_pool_act_facts){
		.step = x->step,
		.late = late(x),
		.slurm = x->slurmd || td_object_annotation(n->node, TD_ANN_SHARE),
		.drained = state && (td_streq(state, "drained") || td_streq(state, "down")),
		.booted = td_pool_act_booted(td_jstr(x->o->root, "status.bootID"),
					     td_jstr(n->node->root, "status.nodeInfo.bootID")),
		.ready = td_op_ready(n->node) && (!x->slurmd || td_op_pod_ready(x->slurmd)),
		.ending = td_object_annotation(n->node, TD_ANN_END_JOBS),
		.faulty = n->faults.worst != TD_REMEDY_NONE,
		.alone = false,
		.held = td_object_annotation(n->node, TD_ANN_HOLD),
	};
	if (x->step == TD_ACT_DRAIN) {
		note_signalled(x);
		f->end_jobs = jobs_over(x, &f->signal);
		f->telling = td_object_annotation(n->node, TD_ANN_SIGNAL_JOBS);
	}
	if (x->alone)
		device_facts(x, f);
	if (x->step == TD_ACT_CUT) {
		f->anew = !f->slurm || td_op_cut_anew(n, x->slurmd);
		if (!f->anew) // what it waits for shows in no Node and no pod
			*x->again_ms = ANEW_MS;
	}
	if (x->step == TD_ACT_SLURMD) {
		const char *image = td_jstr_or(x->o->root, "spec.slurmImage", "");
		f->told = td_streq(td_object_annotation(n->node, TD_ANN_SLURMD_IMAGE), image);
		f->anew = f->told && td_op_slurmd_anew(n, x->slurmd, image);
		*x->again_ms = ANEW_MS;
	}
	if (x->step == TD_ACT_RESET || x->step == TD_ACT_REBOOT || x->step == TD_ACT_RUN || x->step == TD_ACT_CUT ||
	    (x->alone && x->step == TD_ACT_TEST)) {
		td_auto_free char *want = operation(x);
		f->told = td_streq(td_object_annotation(n->node, TD_ANN_OPERATION), want);
		f->did = result_of(x);
	}
	if (x->step == TD_ACT_TEST && !x->alone) {
		const char *pod = td_jm_getstr(x->status, "testPod");
		f->begun = pod;
		if (pod) {
			td_auto_free char *ns = NULL, *name = NULL;
			td_key_split(pod, &ns, &name);
			td_object_unref(x->pod);
			x->pod = td_informer_get(n->op->pods, ns, name);
			// The cache may not have it yet.
			if (!x->pod)
				td_kube_get(n->op->k, &td_pods, ns, name, n->c, &x->pod, NULL);
		}
		if (x->pod)
			f->test = td_op_test_state(x->pod, &x->said);
	}
}

// ---- what is done ----

static int hold(struct run *x, struct td_error *err)
{
	const char *reason = td_jstr_or(x->o->root, "spec.reason", ""), *by = td_jstr(x->o->root, "spec.requestedBy");
	// "devices …" says that the record's are not right, so that it may be made anew while the node is drained for this.
	td_auto_free char *text =
		td_asprintf("%s %s%s%.60s%s%.120s", x->act == TD_ACT_CUT ? "devices change: action" : "action",
			    td_pool_act_name(x->act), by ? " by " : "", by ? by : "", *reason ? ": " : "", reason);
	const char *const notes[][2] = {{TD_ANN_HOLD, text}, {0}};
	if (x->alone)
		return td_op_devices_change(x->n, (uint64_t)1 << x->device, 0, text, err);
	int r = td_op_health_note(x->n, notes, err);
	// What mends the node mends, tests and returns its devices, too.
	return r ? r : td_op_devices_change(x->n, 0, td_op_devices_held(x->n->node), NULL, err);
}

static int release(struct run *x, struct td_error *err)
{
	if (x->alone)
		return td_op_devices_change(x->n, 0, (uint64_t)1 << x->device, NULL, err);
	const char *const notes[][2] = {
		{TD_ANN_HOLD, NULL}, {TD_ANN_PERSON, NULL}, {TD_ANN_END_JOBS, NULL}, {TD_ANN_SIGNAL_JOBS, NULL}, {0}};
	return td_op_health_note(x->n, notes, err);
}

static int tell(struct run *x, struct td_error *err)
{
	// The status already has the operation's id and the boot before it.
	td_auto_free char *text = operation(x);
	const char *const notes[][2] = {{TD_ANN_OPERATION, text}, {0}},
			  *const image[][2] = {{TD_ANN_SLURMD_IMAGE, td_jstr(x->o->root, "spec.slurmImage")}, {0}};
	return td_op_health_note(x->n, x->step == TD_ACT_SLURMD ? image : notes, err);
}

static int end_jobs(struct run *x, struct td_error *err)
{
	if (x->alone)
		return td_op_devices_end(x->n, x->device, true, err);
	const char *const notes[][2] = {{TD_ANN_END_JOBS, x->o->name}, {0}};
	return td_op_health_note(x->n, notes, err);
}

static int signal_jobs(struct run *x, struct td_error *err)
{
	td_auto_free char *wish = signal_wish(x);
	const char *const notes[][2] = {{TD_ANN_SIGNAL_JOBS, wish}, {0}};
	return td_op_health_note(x->n, notes, err);
}

static int begin_test(struct run *x, struct td_error *err)
{
	if (!x->slurmd)
		return td_fail(err, TD_TRANSIENT, "node %s has no slurmd pod yet", x->n->name);
	td_auto_free char *name = td_op_test_name(x->slurmd, x->o->uid);
	int r = td_op_test_begin(x->n, x->slurmd, x->o->uid, err);
	if (!r)
		td_jm_strf(x->d, x->status, "testPod", "%s/%s", x->slurmd->ns, name);
	return r;
}

static const char *words(const struct run *x, const struct td_pool_act_step_plan *p, char *buf, size_t n)
{
	const char *more = x->step == TD_ACT_TEST && !x->alone ? x->said : x->agent_said;
	enum td_remedy worst;
	td_auto_free char *faults =
		x->alone ? td_op_device_faults(&x->n->faults, x->device, &worst) : td_op_faults_text(&x->n->faults);
	if (more && *more)
		snprintf(buf, n, "%s: %.300s", p->why, more);
	else if (*faults && x->step != TD_ACT_DRAIN)
		snprintf(buf, n, "%s: %.300s", p->why, faults);
	else
		snprintf(buf, n, "%s", p->why);
	return buf;
}

// Goes to the step after this one, or ends the act. True: it is over. message: NULL: nothing was said.
static bool next(struct run *x, const char *message)
{
	finish_step(x, message);
	enum td_act step = td_pool_act_step(x->act, x->step, x->test, td_jbool(x->o->root, "spec.thenReboot", false));
	if (x->step == TD_ACT_TEST && x->said)
		td_jm_strf(x->d, x->status, "measured", "%.1000s", x->said);
	if (step == TD_ACT_NONE)
		return true;
	// A program may have rebooted the node itself, so the boot before a reboot is that of now.
	if (step == TD_ACT_REBOOT)
		td_jm_str(x->d, x->status, "bootID", td_jstr(x->n->node->root, "status.nodeInfo.bootID"));
	enter(x, step);
	return false;
}

static int begin(struct run *x, struct td_error *err)
{
	char buf[TD_TIME_LEN];
	td_jm_str(x->d, x->status, "phase", "Running");
	td_jm_str(x->d, x->status, "operationId", x->o->uid);
	td_jm_str(x->d, x->status, "startedAt", now_text(x, buf));
	td_jm_str(x->d, x->status, "bootID", td_jstr(x->n->node->root, "status.nodeInfo.bootID"));
	enter(x, TD_ACT_DRAIN);
	return write_status(x, err);
}

static int ended_well(struct run *x, struct td_error *err)
{
	// A node whose GPUs were cut is no new one; else it passed a test, so it is not new any more.
	if (td_jm_getstr(x->status, "measured") ||
	    (x->act == TD_ACT_CUT && td_object_annotation(x->n->node, TD_ANN_TESTED))) {
		td_auto_free char *print = td_op_health_print(x->n->node);
		const char *const notes[][2] = {{TD_ANN_TESTED, print}, {0}};
		int r = td_op_health_note(x->n, notes, err);
		if (r)
			return r;
	}
	if (x->act == TD_ACT_CUT && result_of(x) == TD_DID_FAILED) {
		td_auto_free char *text =
			td_asprintf("%.600s; the node is back in service with what it has now", x->agent_said);
		return over(x, "Failed", text, err);
	}
	if (x->alone)
		return over(x, "Succeeded",
			    x->act == TD_ACT_DRAIN ? "nobody is given the device" : "the device is back in service",
			    err);
	return over(x, "Succeeded",
		    x->act == TD_ACT_DRAIN ? "the node takes no work and has none" : "the node is back in service",
		    err);
}

bool td_op_act_beyond_drain(const struct td_object *action)
{
	enum td_act step = td_pool_act_parse(td_jstr(action->root, "status.step"));
	return step != TD_ACT_NONE && step != TD_ACT_DRAIN;
}

// What of the spec cannot be done about one device alone.
static int wrong_alone(const struct run *x, const char **ret_why)
{
	if (x->device < 0)
		*ret_why = "spec.device: with scope device, name the device, such as gpu3";
	else if (x->act == TD_ACT_REBOOT || x->act == TD_ACT_RUN || x->act == TD_ACT_CUT || x->act == TD_ACT_SLURMD)
		*ret_why = "spec.scope: a reboot, a program, a cut and a slurmd are the whole node's: leave scope out";
	else if (td_jget(x->o->root, "spec.checkpoint"))
		*ret_why = "spec.checkpoint: jobs of single devices are not told to save themselves: leave it out";
	else if (!td_op_act_beyond_drain(x->o) && !td_object_annotation(x->n->node, TD_ANN_HOLD) &&
		 !td_op_devices_able(x->n->op, x->n->node))
		*ret_why = "spec.scope: this node's kubelet chooses the devices of pods (spec.devices source is not "
			   "DRA), or it is no Slurm node: leave scope out";
	else
		return 0;
	return TD_INVALID;
}

int td_op_act_run(struct td_op_node *n, struct td_object *o, int64_t *again_ms, struct td_error *err)
{
	__attribute__((cleanup(run_done))) struct run x = {.n = n,
							   .o = o,
							   .act = td_pool_act_parse(td_jstr(o->root, "spec.action")),
							   .step = td_pool_act_parse(td_jstr(o->root, "status.step")),
							   .test = !td_jbool(o->root, "spec.skipTest", false),
							   .now = td_real_ms(&td_clock_system),
							   .again_ms = again_ms};
	yyjson_val *was = td_jget(o->root, "status");
	x.d = was ? td_jm_copy(was) : td_jm_new();
	x.status = yyjson_mut_doc_get_root(x.d);
	const char *why = NULL;
	int r = 0;
	x.alone = td_op_act_alone(o, &x.device);
	if (!n->node)
		return over(&x, "Failed", "there is no such node", err);
	if (td_jint(o->root, "metadata.generation", 1) != 1)
		return over(&x, "Failed", "its spec was changed: make another NodeAction", err);
	if (x.act == TD_ACT_RUN && !td_jstr(o->root, "spec.program"))
		return over(&x, "Failed", "spec.program: name the program of the site's that is to run", err);
	if (x.alone && (r = wrong_alone(&x, &why)))
		return over(&x, "Failed", why, err);
	if (x.alone && td_object_annotation(n->node, TD_ANN_HOLD) && !td_op_act_beyond_drain(o)) {
		td_jm_bool(x.d, x.status, "superseded", true);
		return over(&x, "Failed", "the whole node has left service: it is mended with the node", err);
	}
	struct td_error e = TD_ERROR_INIT;
	if (x.act == TD_ACT_CUT && !td_op_act_beyond_drain(o) && td_op_cut_check(n->node, td_jget(o->root, "spec"), &e))
		return over(&x, "Failed", e.msg, err);
	if (x.act == TD_ACT_SLURMD && !td_jstr(o->root, "spec.slurmImage"))
		return over(&x, "Failed", "spec.slurmImage: name the image that its slurmd is to have", err);
	if (x.act == TD_ACT_SLURMD && !td_op_act_beyond_drain(o) &&
	    td_op_slurmd_check(n->op, n->node, td_jstr(o->root, "spec.slurmImage"), &e))
		return over(&x, "Failed", e.msg, err);
	// The write comes back as an event, and the first step follows then: it is reserved now.
	if (x.step == TD_ACT_NONE)
		return begin(&x, err);

	char text[700] = "";
	struct td_pool_act_facts f;
	facts(&x, &f);
	struct td_pool_act_step_plan p = td_pool_act_decide(&f);
	if (x.alone && x.step == TD_ACT_DRAIN && p.what == TD_ACT_NEXT && n->working && n->working != o)
		p = (struct td_pool_act_step_plan){TD_ACT_WAIT, "another device of the node is being mended"};
	switch (p.what) {
	case TD_ACT_WAIT:
		td_jm_str(x.d, x.status, "message", words(&x, &p, text, sizeof(text)));
		break;
	case TD_ACT_NEXT:
		if (next(&x, x.step == TD_ACT_TEST ? x.said ? x.said : p.why : x.agent_said))
			return ended_well(&x, err);
		if (x.alone)
			n->working = o;
		break;
	case TD_ACT_FAIL:
		return over(&x, "Failed", words(&x, &p, text, sizeof(text)), err);
	case TD_ACT_UNKNOWN:
		return over(&x, "Unknown", words(&x, &p, text, sizeof(text)), err);
	case TD_ACT_HOLD:
		r = hold(&x, err);
		break;
	case TD_ACT_RELEASE:
		r = release(&x, err);
		break;
	case TD_ACT_TELL:
		r = tell(&x, err);
		break;
	case TD_ACT_END_JOBS:
		r = end_jobs(&x, err);
		break;
	case TD_ACT_SIGNAL_JOBS:
		r = signal_jobs(&x, err);
		break;
	case TD_ACT_BEGIN_TEST:
		r = begin_test(&x, err);
		break;
	}
	if (!*again_ms || *again_ms > LOOK_MS)
		*again_ms = LOOK_MS;
	// What was done shows in the Node or a pod; their events bring the next step.
	return r ? r : write_status(&x, err);
}

int td_op_act_wait(struct td_op_node *n, struct td_object *o, const struct td_object *first, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "phase", "Pending");
	td_jm_strf(d, root, "message", "after NodeAction %s", first->name);
	return td_op_status_write(n->op, &td_nodeactions, o, d, n->c, err);
}
