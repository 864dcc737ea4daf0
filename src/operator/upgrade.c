// NodeUpgrade: which nodes are begun, which are rolled back, and how the whole of it stands, as pool/upgrade.h
// decides. Each node's upgrade is a NodeAction. Its name is written into the status before it is created and
// follows from the upgrade and the node, so whatever dies in between, one NodeAction comes of it.
#include "operator/upgrade.h"

#include "api/condition.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

enum {
	LOOK_MS = 2000,
	// Agents say which programs they have every 10 s; so long one may be on its way.
	PROGRAM_MS = 12000,
};

// ---- events ----

static void enqueue(struct td_op *op, const char *name)
{
	td_auto_free char *key = td_asprintf(TD_OP_UPGRADE_KEY "%s", name);
	td_queue_add(op->health, key);
}

static bool over(const struct td_object *o)
{
	return td_jstr(o->root, "status.finishedAt") != NULL;
}

void td_op_upgrade_on_change(void *ctx, struct td_object *old, struct td_object *now)
{
	if (now)
		enqueue(ctx, now->name);
}

void td_op_upgrade_wake(struct td_op *op, const struct td_object *action)
{
	const char *of = action ? td_jstr(action->root, "spec.upgrade") : NULL;
	if (action) {
		if (of)
			enqueue(op, of);
		return;
	}
	td_auto_objects struct td_objects l = {0};
	td_informer_list(op->upgrades, NULL, &l);
	for (size_t i = 0; i < l.n; i++)
		if (!over(l.v[i]))
			enqueue(op, l.v[i]->name);
}

// ---- the status ----

int td_op_upgrade_write(struct td_op_upgrade *x, struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *now = td_json_from_mut(x->status);
	if (td_jequal(td_jget(x->o->root, "status"), td_json_root(now)))
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "metadata.uid", x->o->uid);
	td_jm_str(d, root, "metadata.resourceVersion", x->o->rv);
	td_jm_copyval(d, root, "status", td_json_root(now));
	int r = td_kube_patch(x->op->k, TD_AT(&td_nodeupgrades, NULL, x->o->name, "status"), TD_PATCH_MERGE, root, x->c,
			      NULL, err);
	return r ? td_wrap(err, "writing the status of NodeUpgrade %s", x->o->name) : 0;
}

static void set_time(struct td_op_upgrade *x, yyjson_mut_val *o, const char *field)
{
	char buf[TD_TIME_LEN];
	td_jm_str(x->d, o, field, td_time_format(x->now, buf));
}

static void say(struct td_op_upgrade *x, enum td_upgrade_phase phase, const char *message)
{
	const char *name = td_pool_upgrade_phase_name(phase);
	const struct td_pool_condition c = {"Complete", phase == TD_UPGRADE_SUCCEEDED ? "True" : "False", name,
					    message};
	td_jm_str(x->d, x->status, "phase", name);
	td_jm_strf(x->d, x->status, "message", "%.1000s", message);
	td_jm_del(x->status, "conditions");
	td_op_conditions(x->d, td_jm_arr(x->d, x->status, "conditions"), td_jget(x->o->root, "status"), &c, 1,
			 td_jint(x->o->root, "metadata.generation", 0));
}

static int end(struct td_op_upgrade *x, enum td_upgrade_phase phase, const char *message, struct td_error *err)
{
	say(x, phase, message);
	set_time(x, x->status, "finishedAt");
	int r = td_op_upgrade_write(x, err);
	if (r)
		return r;
	bool good = phase == TD_UPGRADE_SUCCEEDED;
	td_info("upgrade %s: %s: %s", x->o->name, td_pool_upgrade_phase_name(phase), message);
	td_kube_record(x->op->events, TD_ABOUT(x->o, &td_nodeupgrades), good ? "Normal" : "Warning",
		       good ? "UpgradeSucceeded" : "UpgradeEnded", "%s: %s", td_pool_upgrade_phase_name(phase),
		       message);
	return 0;
}

// ---- its beginning ----

// Of what may not change while it runs. The caller frees it.
static char *print_of(const struct td_object *o)
{
	static const char *const fields[] = {"nodes",      "selector",  "what",    "test", "jobsEndAfterSeconds",
					     "checkpoint", "onFailure", "rollback"};
	td_auto_buf struct td_buf b = {0};
	for (size_t i = 0; i < TD_LEN(fields); i++) {
		yyjson_val *v = td_jget(td_jget(o->root, "spec"), fields[i]);
		td_auto_free char *text = v ? td_json_text(v, NULL) : td_strdup("-");
		td_buf_printf(&b, "%s;", text);
	}
	return td_op_hash(td_buf_str(&b), b.len);
}

// What is done and undone: a program, a reboot, or both.
static bool says_what(const struct td_object *o, const char *at)
{
	yyjson_val *v = td_jget(o->root, at);
	return td_jstr(v, "program") || td_jbool(v, "reboot", false);
}

static bool can_go_back(const struct td_object *o)
{
	return td_op_upgrade_of_slurm(o) || says_what(o, "spec.rollback");
}

// What is wrong with the spec itself; NULL: nothing.
static const char *problem(const struct td_object *o)
{
	bool names = yyjson_arr_size(td_jget(o->root, "spec.nodes")), selector = td_jget(o->root, "spec.selector");
	if (names == selector)
		return "spec.nodes or spec.selector: give one of them, the names of nodes or their labels";
	if (!says_what(o, "spec.what") && !td_op_upgrade_of_slurm(o))
		return "spec.what: name a program of the site's, or reboot, or both, or slurmImage";
	if (td_streq(td_jstr(o->root, "spec.onFailure"), "rollback") && !can_go_back(o))
		return "spec.rollback: onFailure is rollback, so name the program that undoes the change, or reboot, "
		       "or both";
	return NULL;
}

static bool has_word(const char *list, const char *word)
{
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, list ? list : "", ',');
	return td_strv_has(&l, word);
}

// Of an upgrade of Slurm: leaves those that have a slurmd of its cluster, or says what is wrong.
static char *only_slurm(struct td_op_upgrade *x, const yyjson_val *selector, struct td_objects *l)
{
	size_t n = 0, i;
	char *problem = NULL;
	for (i = 0; i < l->n && !problem; i++) {
		struct td_object *node = l->v[i];
		bool has = td_op_upgrade_slurm_has(x, node, &problem);
		if (!has && !selector)
			problem = td_asprintf("spec.nodes: node %s has no slurmd pod of SlurmCluster %s", node->name,
					      td_jm_getstr(x->status, "slurm.cluster"));
		if (problem)
			break;
		l->v[i] = NULL;
		if (has)
			l->v[n++] = node;
		else
			td_object_unref(node);
	}
	if (problem)
		return problem;
	l->n = n;
	return n ? NULL
		 : td_asprintf("spec.selector: no node with these labels has a slurmd pod of SlurmCluster %s",
			       td_jm_getstr(x->status, "slurm.cluster"));
}

// Adds the nodes, or says what is wrong. *ret_wait: it may become right by itself.
static char *find_nodes(struct td_op_upgrade *x, struct td_objects *ret, bool *ret_wait)
{
	yyjson_val *names = td_jget(x->o->root, "spec.nodes"), *v;
	yyjson_val *labels = td_jget(x->o->root, "spec.selector"), *k;
	size_t i, n;
	yyjson_arr_foreach (names, i, n, v) {
		struct td_object *node = td_informer_get(x->op->nodes, NULL, yyjson_get_str(v));
		if (!node)
			return td_asprintf("spec.nodes[%zu]: there is no node \"%s\": `tandem nodes` lists them", i,
					   yyjson_get_str(v));
		td_objects_add(ret, node);
	}
	td_auto_objects struct td_objects all = {0};
	if (labels)
		td_informer_list(x->op->nodes, NULL, &all);
	td_op_sort(&all);
	for (i = 0; i < all.n; i++) {
		bool fits = true;
		yyjson_obj_iter it = yyjson_obj_iter_with(labels);
		while ((k = yyjson_obj_iter_next(&it)))
			fits &= td_streq(td_object_label(all.v[i], yyjson_get_str(k)),
					 yyjson_get_str(yyjson_obj_iter_get_val(k)));
		if (fits)
			td_objects_add(ret, td_object_ref(all.v[i]));
	}
	char *problem = td_op_upgrade_of_slurm(x->o) && ret->n ? only_slurm(x, labels, ret) : NULL;
	if (problem)
		return problem;
	if (!ret->n)
		return td_strdup("spec.selector: no node has these labels: `kubectl get nodes --show-labels`");

	static const char *const programs[] = {"spec.what.program", "spec.rollback.program"};
	for (size_t p = 0; p < TD_LEN(programs); p++) {
		const char *want = td_jstr(x->o->root, programs[p]);
		for (i = 0; want && i < ret->n; i++) {
			const char *has = td_object_annotation(ret->v[i], TD_ANN_PROGRAMS);
			if (has_word(has, want))
				continue;
			*ret_wait = true;
			return td_asprintf(
				"%s: the agent of node %s has no program \"%s\" in its directory of actions; "
				"it has %s",
				programs[p], ret->v[i]->name, want, has ? has : "none");
		}
	}
	return NULL;
}

static int start(struct td_op_upgrade *x, struct td_error *err)
{
	const char *wrong = problem(x->o);
	if (wrong)
		return end(x, TD_UPGRADE_GIVEN_UP, wrong, err);
	td_auto_free char *slurm = td_op_upgrade_of_slurm(x->o) ? td_op_upgrade_slurm_begin(x) : NULL;
	if (slurm)
		return end(x, TD_UPGRADE_GIVEN_UP, slurm, err);
	td_auto_objects struct td_objects nodes = {0};
	bool wait = false;
	td_auto_free char *missing = find_nodes(x, &nodes, &wait);
	if (missing && wait && x->now - td_op_born(x->o) < PROGRAM_MS) {
		*x->again_ms = LOOK_MS / 4;
		td_jm_str(x->d, x->status, "phase", "Pending");
		td_jm_strf(x->d, x->status, "message", "%.1000s", missing);
		return td_op_upgrade_write(x, err);
	}
	if (missing)
		return end(x, TD_UPGRADE_GIVEN_UP, missing, err);

	td_auto_free char *print = print_of(x->o);
	yyjson_mut_val *list = td_jm_arr(x->d, x->status, "nodes");
	for (size_t i = 0; i < nodes.n; i++) {
		yyjson_mut_val *e = yyjson_mut_arr_add_obj(x->d, list);
		td_jm_str(x->d, e, "name", nodes.v[i]->name);
		td_jm_str(x->d, e, "phase", td_pool_upgrade_node_name(TD_UPGRADE_PENDING));
	}
	td_jm_str(x->d, x->status, "print", print);
	set_time(x, x->status, "startedAt");
	say(x, TD_UPGRADE_PROGRESSING, "it begins");
	td_info("upgrade %s: %zu nodes", x->o->name, nodes.n);
	return td_op_upgrade_write(x, err);
}

// ---- one node ----

// The fields of an entry of status.nodes about an act.
struct fields {
	const char *action, *id, *began, *ended, *what;
	enum td_upgrade_node done, failed;
};
static const struct fields forwards = {"action",    "operationId",       "startedAt",      "finishedAt",
				       "spec.what", TD_UPGRADE_UPGRADED, TD_UPGRADE_FAILED},
			   backwards = {"rollbackAction",          "rollbackOperationId", "rollbackStartedAt",
					"rollbackFinishedAt",      "spec.rollback",       TD_UPGRADE_ROLLED_BACK,
					TD_UPGRADE_ROLLBACK_FAILED};

static enum td_upgrade_node phase_of(const yyjson_mut_val *e)
{
	return td_pool_upgrade_node_parse(td_jm_getstr(e, "phase"));
}

static void set_phase(struct td_op_upgrade *x, yyjson_mut_val *e, enum td_upgrade_node is)
{
	td_jm_str(x->d, e, "phase", td_pool_upgrade_node_name(is));
}

// Reserves the act: it is created when this is in the status.
static void reserve(struct td_op_upgrade *x, yyjson_mut_val *e, bool back)
{
	const struct fields *f = back ? &backwards : &forwards;
	const char *node = td_jm_getstr(e, "name");
	td_auto_free char *of = td_asprintf("%s %s %s", x->o->uid, node, f->action), *hash = td_op_hash(of, strlen(of));
	set_phase(x, e, back ? TD_UPGRADE_ROLLING_BACK : TD_UPGRADE_UPGRADING);
	td_jm_strf(x->d, e, f->action, "%.200s-%s-%.8s", node, back ? "rollback" : "upgrade", hash);
	set_time(x, e, f->began);
}

static int create(struct td_op_upgrade *x, const yyjson_mut_val *e, const struct fields *f, struct td_error *err)
{
	const char *name = td_jm_getstr(e, f->action), *node = td_jm_getstr(e, "name"),
		   *why = td_jstr(x->o->root, "spec.reason"), *by = td_jstr(x->o->root, "spec.requestedBy");
	yyjson_val *what = td_jget(x->o->root, f->what);
	const char *program = td_jstr(what, "program");
	bool reboot = td_jbool(what, "reboot", false), back = f == &backwards;
	long long jobs = td_jint(x->o->root, "spec.jobsEndAfterSeconds", -1);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "apiVersion", "tandem.dev/v1alpha1");
	td_jm_str(d, root, "kind", "NodeAction");
	td_jm_str(d, root, "metadata.name", name);
	td_jm_str(d, root, "spec.node", node);
	bool slurm = td_op_upgrade_of_slurm(x->o);
	td_jm_str(d, root, "spec.action",
		  td_pool_act_name(slurm     ? TD_ACT_SLURMD
				   : program ? TD_ACT_RUN
					     : TD_ACT_REBOOT));
	td_jm_str(d, root, "spec.slurmImage", slurm ? td_op_upgrade_slurm_image(x, back) : NULL);
	td_jm_str(d, root, "spec.program", program);
	if (program && reboot)
		td_jm_bool(d, root, "spec.thenReboot", true);
	td_jm_strf(d, root, "spec.reason", "%s %.60s%s%.120s", back ? "rollback of upgrade" : "upgrade", x->o->name,
		   why ? ": " : "", why ? why : "");
	td_jm_strf(d, root, "spec.requestedBy", "%.128s", by ? by : "an upgrade");
	td_jm_str(d, root, "spec.upgrade", x->o->name);
	if (!td_jbool(x->o->root, "spec.test", true))
		td_jm_bool(d, root, "spec.skipTest", true);
	if (jobs >= 0)
		td_jm_int(d, root, "spec.jobsEndAfterSeconds", jobs);
	if (td_jget(x->o->root, "spec.checkpoint"))
		td_jm_copyval(d, root, "spec.checkpoint", td_jget(x->o->root, "spec.checkpoint"));
	int r = td_kube_create(x->op->k, &td_nodeactions, NULL, root, x->c, NULL, err);
	if (!r)
		td_info("upgrade %s: NodeAction %s begins", x->o->name, name);
	return r && r != TD_EXISTS ? td_wrap(err, "creating NodeAction %s of node %s", name, node) : 0;
}

// Looks at the act of a node that is worked on, and creates it when it is reserved only.
static int follow(struct td_op_upgrade *x, yyjson_mut_val *e, struct td_error *err)
{
	enum td_upgrade_node is = phase_of(e);
	if (is != TD_UPGRADE_UPGRADING && is != TD_UPGRADE_ROLLING_BACK)
		return 0;
	const struct fields *f = is == TD_UPGRADE_ROLLING_BACK ? &backwards : &forwards;
	const char *name = td_jm_getstr(e, f->action), *id = td_jm_getstr(e, f->id);
	td_auto(td_object_unref) struct td_object *a = td_informer_get(x->op->actions, NULL, name);
	if (!a && !id)
		return create(x, e, f, err);
	// Only what was seen in this cache is written as seen, so it was deleted.
	const char *message = "its NodeAction was deleted", *phase = "";
	if (a) {
		td_jm_str(x->d, e, f->id, a->uid);
		message = td_jstr_or(a->root, "status.message", "");
		phase = td_jstr_or(a->root, "status.phase", "");
		if (!td_op_act_over(a))
			return 0;
	}
	set_phase(x, e, td_streq(phase, "Succeeded") ? f->done : f->failed);
	set_time(x, e, f->ended);
	td_jm_strf(x->d, e, "message", "%.290s", message);
	return 0;
}

static bool busy(struct td_op_upgrade *x, const char *node)
{
	td_auto_objects struct td_objects l = {0};
	bool any = false;
	td_informer_by_index(x->op->actions, "node", node, &l);
	for (size_t i = 0; i < l.n; i++)
		any |= !td_op_act_over(l.v[i]);
	return any;
}

static void member(struct td_op_upgrade *x, const yyjson_mut_val *e, struct td_pool_upgrade_member *m)
{
	const char *name = td_jm_getstr(e, "name");
	td_auto(td_object_unref) struct td_object *node = td_informer_get(x->op->nodes, NULL, name),
						  *slurmd = td_op_health_slurmd(x->op, name);
	*m = (struct td_pool_upgrade_member){.is = phase_of(e), .gone = !node, .busy = busy(x, name)};
	if (!node)
		return;
	td_auto_faults struct td_op_faults faults;
	td_op_faults_read(x->op, node, &x->policy, &faults);
	const char *hold = td_object_annotation(node, TD_ANN_HOLD),
		   *state = td_object_annotation(node, TD_ANN_SLURM_STATE);
	bool fault = hold && td_starts(hold, "condition");
	m->sick = fault || faults.worst != TD_REMEDY_NONE || !td_op_ready(node) || (slurmd && !td_op_pod_ready(slurmd));
	m->out = (hold && !fault) || td_object_annotation(node, TD_ANN_DRAIN) ||
		 td_jbool(node->root, "spec.unschedulable", false) ||
		 (!hold && (td_streq(state, "draining") || td_streq(state, "drained") || td_streq(state, "down")));
}

// ---- the whole ----

// Returns how many are upgraded.
static size_t counts(struct td_op_upgrade *x, const struct td_pool_upgrade_member *v, size_t n)
{
	size_t k[TD_UPGRADE_ROLLBACK_FAILED + 1] = {0};
	for (size_t i = 0; i < n; i++)
		k[v[i].is]++;
	td_jm_int(x->d, x->status, "nodesTotal", (long long)n);
	td_jm_int(x->d, x->status, "nodesUpgraded", (long long)k[TD_UPGRADE_UPGRADED]);
	td_jm_int(x->d, x->status, "nodesAtWork", (long long)(k[TD_UPGRADE_UPGRADING] + k[TD_UPGRADE_ROLLING_BACK]));
	td_jm_int(x->d, x->status, "nodesFailed", (long long)(k[TD_UPGRADE_FAILED] + k[TD_UPGRADE_ROLLBACK_FAILED]));
	td_jm_int(x->d, x->status, "nodesRolledBack", (long long)k[TD_UPGRADE_ROLLED_BACK]);
	return k[TD_UPGRADE_UPGRADED];
}

static size_t at_once(const struct td_object *o, size_t n)
{
	const char *s = td_jstr(o->root, "spec.maxUnavailable");
	td_auto_free char *text =
		s ? td_strdup(s) : td_asprintf("%lld", (long long)td_jint(o->root, "spec.maxUnavailable", 1));
	return td_pool_upgrade_at_once(text, n);
}

static bool late(struct td_op_upgrade *x)
{
	long long s = td_jint(x->o->root, "spec.deadlineSeconds", 0);
	int64_t begun = x->now;
	td_time_parse(td_jstr_or(x->o->root, "status.startedAt", ""), &begun);
	int64_t left = begun + s * 1000 - x->now;
	if (s && left > 0 && left < *x->again_ms)
		*x->again_ms = left + 10;
	return s && left <= 0;
}

static int go_on(struct td_op_upgrade *x, struct td_error *err)
{
	yyjson_mut_val *list = td_jm_arr(x->d, x->status, "nodes"), *e;
	size_t i, n = yyjson_mut_arr_size(list), m;
	int r = 0;
	*x->again_ms = LOOK_MS;
	td_auto_free struct td_pool_upgrade_member *v = td_calloc(n + 1, sizeof(*v));
	td_auto_free bool *begin = td_calloc(n + 1, sizeof(*begin));
	yyjson_mut_arr_foreach (list, i, m, e) {
		if ((r = follow(x, e, err)))
			return r;
		member(x, e, &v[i]);
	}

	td_auto_free char *print = print_of(x->o), *lost = NULL;
	bool slurm = td_op_upgrade_of_slurm(x->o);
	enum td_upgrade_daemons daemons = slurm ? td_op_upgrade_slurm_look(x, &lost) : TD_DAEMONS_NEW;
	const char *abort = td_jstr(x->o->root, "spec.abort");
	const struct td_pool_upgrade_facts f = {.v = v,
						.n = n,
						.at_once = at_once(x->o, n),
						.paused = td_jbool(x->o->root, "spec.paused", false),
						.late = late(x),
						.lost = lost,
						.daemons = daemons,
						.changed = !td_streq(print, td_jstr(x->o->root, "status.print")),
						.breaker = td_op_health_breaker(x->op, &x->policy),
						.rollback = td_streq(td_jstr(x->o->root, "spec.onFailure"), "rollback"),
						.abort = !abort ? TD_ABORT_NOT
							 : td_streq(abort, "rollback") && can_go_back(x->o)
								 ? TD_ABORT_ROLLBACK
								 : TD_ABORT_STOP};
	struct td_pool_upgrade_plan p;
	td_pool_upgrade_decide(&f, begin, &p);
	if (daemons != TD_DAEMONS_NEW && p.phase == TD_UPGRADE_PROGRESSING && (r = td_op_upgrade_slurm_ask(x, err))) {
		say(x, TD_UPGRADE_WAITING, err->msg);
		td_op_upgrade_write(x, NULL);
		return r;
	}
	yyjson_mut_arr_foreach (list, i, m, e)
		if (begin[i]) {
			reserve(x, e, p.phase == TD_UPGRADE_BACKWARDS);
			v[i].is = phase_of(e);
		}
	size_t upgraded = counts(x, v, n);

	const yyjson_mut_val *of = p.of < n ? yyjson_mut_arr_get(list, p.of) : NULL;
	// How it failed; what is just not in service has no such words.
	bool failed = of && (v[p.of].is == TD_UPGRADE_FAILED || v[p.of].is == TD_UPGRADE_ROLLBACK_FAILED);
	const char *said = failed ? td_jm_getstr(of, "message") : NULL;
	td_auto_free char *text = td_asprintf("%zu of %zu nodes are upgraded%s%s%s%s%s%.400s", upgraded, n,
					      p.why ? ": " : "", p.why ? p.why : "", of ? ": " : "",
					      of ? td_jm_getstr(of, "name") : "", said ? ": " : "", said ? said : "");
	bool done = true;
	td_auto_free char *more = NULL;
	if (slurm && td_pool_upgrade_over(p.phase) && (r = td_op_upgrade_slurm_end(x, p.phase, &done, &more, err)))
		return r;
	if (td_pool_upgrade_over(p.phase) && done) {
		td_auto_free char *all = td_asprintf("%s%s%s", text, more ? "; " : "", more ? more : "");
		return end(x, p.phase, all, err);
	}
	if (!done) { // only of an upgrade of Slurm that was rolled back
		td_auto_free char *all =
			td_asprintf("%s; slurmdbd, slurmctld and what is beside them get the image back", text);
		say(x, TD_UPGRADE_BACKWARDS, all);
		return td_op_upgrade_write(x, err);
	}
	say(x, p.phase, text);
	return td_op_upgrade_write(x, err);
}

// The record of one that ended goes when records of acts do.
static int prune(struct td_op_upgrade *x, struct td_error *err)
{
	int64_t ended = x->now;
	td_time_parse(td_jstr_or(x->o->root, "status.finishedAt", ""), &ended);
	*x->again_ms = 0;
	if (ended + x->policy.keep_ms > x->now) {
		*x->again_ms = ended + x->policy.keep_ms - x->now + 10;
		return 0;
	}
	const struct td_kube_delete_opts del = {.uid = x->o->uid, .grace_s = -1};
	int r = td_kube_delete(x->op->k, &td_nodeupgrades, NULL, x->o->name, &del, x->c, err);
	return r == TD_NOT_FOUND || r == TD_CONFLICT ? 0 : r;
}

static void done(struct td_op_upgrade *x)
{
	td_object_unref(x->o);
	td_op_policy_done(&x->policy);
	yyjson_mut_doc_free(x->d);
}

int td_op_upgrade_run(struct td_op *op, const char *name, int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	__attribute__((cleanup(done))) struct td_op_upgrade x = {.op = op,
								 .o = td_informer_get(op->upgrades, NULL, name),
								 .now = td_real_ms(&td_clock_system),
								 .again_ms = again_ms,
								 .c = c};
	if (!x.o || td_object_deleting(x.o))
		return 0;
	td_op_policy_load(op, &x.policy);
	if (over(x.o))
		return prune(&x, err);
	yyjson_val *was = td_jget(x.o->root, "status");
	x.d = was ? td_jm_copy(was) : td_jm_new();
	x.status = yyjson_mut_doc_get_root(x.d);
	return td_jstr(x.o->root, "status.print") ? go_on(&x, err) : start(&x, err);
}
