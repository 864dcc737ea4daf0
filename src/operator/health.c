// The controller of nodes' health: facts of a node, the decision of pool/health.h, and what follows.
#include "operator/health.h"

#include "api/condition.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

enum { POLICY_MS = 1000 };

// The key that writes the policy's status; no node has a name like that.
#define POLICY_KEY "/policy"
// The key of the tests of idle nodes.
#define PROBE_KEY "/probe"

// ---- handlers ----

static bool conditions_same(const struct td_object *a, const struct td_object *b)
{
	yyjson_val *x, *l = td_jget(a->root, "status.conditions"), *m = td_jget(b->root, "status.conditions");
	size_t i, n;
	if (yyjson_arr_size(l) != yyjson_arr_size(m))
		return false;
	yyjson_arr_foreach (l, i, n, x) {
		yyjson_val *y = td_jfind(m, "type", td_jstr_or(x, "type", ""));
		if (!td_streq(td_jstr(x, "status"), td_jstr(y, "status")))
			return false;
	}
	return true;
}

void td_op_health_on_node(struct td_op *op, struct td_object *old, struct td_object *now)
{
	// Heartbeats change nothing of interest.
	if (old && now &&
	    td_jequal(td_jget(old->root, "metadata.annotations"), td_jget(now->root, "metadata.annotations")) &&
	    td_streq(td_jstr(old->root, "status.nodeInfo.bootID"), td_jstr(now->root, "status.nodeInfo.bootID")) &&
	    conditions_same(old, now))
		return;
	td_queue_add(op->health, (now ? now : old)->name);
	td_op_upgrade_wake(op, NULL);
}

void td_op_health_on_pod(struct td_op *op, struct td_object *old, struct td_object *now)
{
	const struct td_object *o = now ? now : old;
	const char *node = td_object_label(o, TD_LABEL_ACTION_NODE);
	if (!node && td_streq(td_object_label(o, TD_LABEL_NAME), "slurmd"))
		node = td_op_pod_node(o);
	if (node)
		td_queue_add(op->health, node);
}

void td_op_health_on_action(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_op *op = ctx;
	if (!now)
		td_op_record_deleted(op, old);
	td_queue_add(op->health, td_jstr_or((now ? now : old)->root, "spec.node", ""));
	td_op_upgrade_wake(op, now ? now : old);
}

void td_op_health_on_policy(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_op *op = ctx;
	if (old && now && td_jint(old->root, "metadata.generation", 0) == td_jint(now->root, "metadata.generation", -1))
		return;
	td_auto_objects struct td_objects l = {0};
	td_informer_list(op->nodes, NULL, &l);
	for (size_t i = 0; i < l.n; i++)
		td_queue_add(op->health, l.v[i]->name);
	td_queue_add(op->health, POLICY_KEY);
	td_queue_add(op->health, PROBE_KEY);
	td_queue_add(op->health, TD_OP_RECORD_KEY);
}

void td_op_health_index(const struct td_object *action, struct td_strv *ret)
{
	td_strv_add(ret, td_jstr_or(action->root, "spec.node", ""));
}

// ---- what others use ----

bool td_op_act_over(const struct td_object *action)
{
	const char *p = td_jstr_or(action->root, "status.phase", "");
	return td_streq(p, "Succeeded") || td_streq(p, "Failed") || td_streq(p, "Unknown");
}

bool td_op_act_tells(const struct td_object *o)
{
	// One that never began changed nothing.
	if (!td_op_act_over(o) || !td_jstr(o->root, "status.startedAt"))
		return false;
	// What was done about one device says something of the node only where it did not help.
	bool failed = !td_streq(td_jstr(o->root, "status.phase"), "Succeeded");
	if (td_op_act_alone(o, NULL) &&
	    (!failed || !td_jstr(o->root, "spec.policy") || td_jbool(o->root, "status.superseded", false)))
		return false;
	// Nor does a cut, where it is known how it ended.
	return td_pool_act_parse(td_jstr(o->root, "spec.action")) != TD_ACT_CUT ||
	       td_streq(td_jstr(o->root, "status.step"), td_pool_act_name(TD_ACT_CUT));
}

struct td_object *td_op_health_slurmd(struct td_op *op, const char *node)
{
	td_auto_objects struct td_objects pods = {0};
	td_informer_by_index(op->pods, "node", node, &pods);
	for (size_t i = 0; i < pods.n; i++)
		if (td_streq(td_object_label(pods.v[i], TD_LABEL_NAME), "slurmd") && !td_object_deleting(pods.v[i]))
			return td_object_ref(pods.v[i]);
	return NULL;
}

int td_op_health_note(struct td_op_node *n, const char *const (*pairs)[2], struct td_error *err)
{
	bool differs = false;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *a = td_jm_obj(d, root, "metadata.annotations");
	for (; (*pairs)[0]; pairs++) {
		const char *key = (*pairs)[0], *want = (*pairs)[1];
		if (td_streq(td_object_annotation(n->node, key), want))
			continue;
		differs = true;
		if (want)
			td_jm_key_str(d, a, key, want);
		else
			td_jm_key_set(d, a, key, yyjson_mut_null(d));
	}
	if (!differs)
		return 0;

	td_jm_str(d, root, "metadata.uid", n->node->uid);
	struct td_object *got = NULL;
	int r = td_kube_patch(n->op->k, TD_AT(&td_nodes, NULL, n->name), TD_PATCH_MERGE, root, n->c, &got, err);
	if (r)
		return td_wrap(err, "node %s", n->name);
	td_object_unref(n->node);
	n->node = got;
	return 0;
}

// ---- facts ----

static int older(const void *a, const void *b)
{
	const struct td_object *x = *(struct td_object *const *)a, *y = *(struct td_object *const *)b;
	int64_t d = td_op_born(x) - td_op_born(y);
	return d ? (d < 0 ? -1 : 1) : strcmp(x->name, y->name);
}

static void sort(struct td_objects *l)
{
	if (l->n)
		qsort(l->v, l->n, sizeof(struct td_object *), older);
}

// What was done last and how often, from acts that are sorted by age.
static void past(const struct td_op_node *n, struct td_pool_health_facts *f)
{
	int64_t now = td_real_ms(&td_clock_system);
	f->last = TD_ACT_NONE;
	int64_t last_end = -1;
	for (size_t i = 0; i < n->acts.n; i++) {
		const struct td_object *o = n->acts.v[i];
		bool policy = td_jstr(o->root, "spec.policy") != NULL, alone = td_op_act_alone(o, NULL);
		enum td_act act = td_pool_act_parse(td_jstr(o->root, "spec.action"));
		if (!td_op_act_over(o)) {
			f->active |= !alone;
			continue;
		}

		int64_t begun = 0, end = 0;
		if (td_time_parse(td_jstr_or(o->root, "status.startedAt", ""), &begun))
			continue;
		td_time_parse(td_jstr_or(o->root, "status.finishedAt", ""), &end);
		if (policy && begun > now - n->policy.window_ms) {
			f->resets += act == TD_ACT_RESET && !alone;
			f->alone += act == TD_ACT_RESET && alone && !td_jbool(o->root, "status.superseded", false);
			f->reboots += act == TD_ACT_REBOOT;
		}
		if (td_op_act_tells(o) && end >= last_end) {
			last_end = end;
			f->last = act;
			f->last_failed = !td_streq(td_jstr(o->root, "status.phase"), "Succeeded");
			f->last_policy = policy;
		}
	}
}

char *td_op_health_print(const struct td_object *node)
{
	td_auto_buf struct td_buf b = {0};
	td_buf_printf(&b, "%s/%s", td_jstr_or(node->root, "status.nodeInfo.machineID", ""),
		      td_jstr_or(node->root, "status.nodeInfo.systemUUID", ""));
	yyjson_obj_iter it = yyjson_obj_iter_with(td_jget(node->root, "status.capacity"));
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));)
		if (strchr(yyjson_get_str(k), '/'))
			td_buf_printf(&b, " %s=%s", yyjson_get_str(k), yyjson_get_str(yyjson_obj_iter_get_val(k)));
	return td_op_hash(td_buf_str(&b), b.len);
}

bool td_op_health_new(const struct td_op_policy *p, const struct td_object *node)
{
	if (!p->test_new)
		return false;
	td_auto_free char *print = td_op_health_print(node);
	return !td_streq(td_object_annotation(node, TD_ANN_TESTED), print);
}

// How many nodes are out of service for a fault or by an act of a policy, and how many there are.
static void count(struct td_op *op, size_t *ret_out, size_t *ret_all, struct td_strv *waiting)
{
	td_auto_objects struct td_objects l = {0};
	td_informer_list(op->nodes, NULL, &l);
	*ret_out = 0;
	*ret_all = l.n;
	td_auto_policy struct td_op_policy p;
	if (waiting)
		td_op_policy_load(op, &p);
	else
		p = (struct td_op_policy){0};
	for (size_t i = 0; i < l.n; i++) {
		const char *hold = td_object_annotation(l.v[i], TD_ANN_HOLD),
			   *devices = td_object_annotation(l.v[i], TD_ANN_DEVICES_HOLD_WHY);
		*ret_out += td_starts(hold ? hold : devices ? devices : "", "condition");
		if (!waiting || hold || waiting->n >= 100)
			continue;
		td_auto_faults struct td_op_faults f;
		td_op_faults_read(op, l.v[i], &p, &f);
		if (f.worst != TD_REMEDY_NONE || (!devices && td_op_faults_any(&f)))
			td_strv_add(waiting, l.v[i]->name);
	}
}

bool td_op_health_breaker(struct td_op *op, const struct td_op_policy *p)
{
	size_t out, all;
	count(op, &out, &all, NULL);
	return td_pool_health_breaker(out, all, p->percent, p->least);
}

static bool breaker(const struct td_op_node *n)
{
	return td_op_health_breaker(n->op, &n->policy);
}

// ---- what follows ----

// Creates the NodeAction that a policy wants. Its name follows from the last act of the node, so two
// leaders, or one before and after a crash, make one.
int td_op_health_begin(struct td_op_node *n, enum td_act act, int device, const char *why, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	td_buf_puts(&b, n->node->uid);
	for (size_t i = 0; i < n->acts.n; i++)
		td_buf_puts(&b, n->acts.v[i]->uid);
	td_buf_printf(&b, " %d", device);
	td_auto_free char *hash = td_op_hash(td_buf_str(&b), b.len);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "apiVersion", "tandem.dev/v1alpha1");
	td_jm_str(d, root, "kind", "NodeAction");
	td_jm_strf(d, root, "metadata.name", "%.200s-%s-%.8s", n->name, td_pool_act_name(act), hash);
	td_jm_str(d, root, "spec.node", n->name);
	td_jm_str(d, root, "spec.action", td_pool_act_name(act));
	td_jm_str(d, root, "spec.requestedBy", "policy " TD_OP_POLICY);
	td_jm_str(d, root, "spec.policy", TD_OP_POLICY);
	td_jm_strf(d, root, "spec.reason", "%.199s", why);
	if (device >= 0) {
		td_jm_strf(d, root, "spec.device", "gpu%d", device);
		td_jm_str(d, root, "spec.scope", "device");
	}
	for (size_t i = 0; device < 0 && act == TD_ACT_RESET && i < n->faults.n; i++)
		if (n->faults.v[i].remedy == TD_REMEDY_RESET && n->faults.v[i].device) {
			td_jm_str(d, root, "spec.device", n->faults.v[i].device);
			break;
		}
	if (n->policy.jobs_end_s >= 0 && (act == TD_ACT_RESET || act == TD_ACT_REBOOT))
		td_jm_int(d, root, "spec.jobsEndAfterSeconds", n->policy.jobs_end_s);
	if (!n->policy.test_return && act != TD_ACT_TEST)
		td_jm_bool(d, root, "spec.skipTest", true);
	int r = td_kube_create(n->op->k, &td_nodeactions, NULL, root, n->c, NULL, err);
	if (r == TD_EXISTS)
		return 0;
	if (!r)
		td_info("node %s: %s: %s", n->name, td_pool_act_name(act), why);
	return r ? td_wrap(err, "creating a NodeAction for node %s", n->name) : 0;
}

static void decide(struct td_op_node *n, bool sure, struct td_pool_health_plan *ret, struct td_op_devices *devices)
{
	struct td_pool_health_facts f = {.worst = n->faults.worst,
					 .dry_run = n->policy.dry_run,
					 .attempts = n->policy.attempts,
					 .held = td_object_annotation(n->node, TD_ANN_HOLD)};
	past(n, &f);
	// A node that no NodeSet has has no slurmd to be tested with: its turn comes when one takes it, before slurmd starts.
	f.testing_new = td_object_annotation(n->node, TD_ANN_SHARE) && td_op_health_new(&n->policy, n->node);
	f.breaker = sure && breaker(n);
	td_op_devices_decide(n, f.breaker, f.resets + f.reboots + f.alone, devices);
	if (devices->node > f.worst)
		f.worst = devices->node;
	td_pool_health_decide(&f, ret);
	if (ret->hold) // the whole node is out of service, and with it all its devices
		*devices = (struct td_op_devices){0};
}

// Reads what decides anew, because caches lag, each by itself.
static int read_again(struct td_op_node *n, struct td_error *err)
{
	struct td_object *node = NULL;
	td_auto_objects struct td_objects all = {0};
	int r = td_kube_get(n->op->k, &td_nodes, NULL, n->name, n->c, &node, err);
	if (!r) {
		td_object_unref(n->node);
		n->node = node;
		r = td_kube_list(n->op->k, &td_nodeactions, NULL, NULL, NULL, n->c, &all, err);
	}
	if (r)
		return r;
	td_objects_done(&n->acts);
	n->acts = (struct td_objects){0};
	for (size_t i = 0; i < all.n; i++)
		if (td_streq(td_jstr(all.v[i]->root, "spec.node"), n->name))
			td_objects_add(&n->acts, td_object_ref(all.v[i]));
	sort(&n->acts);
	td_op_faults_done(&n->faults);
	td_op_faults_read(n->op, n->node, &n->policy, &n->faults);
	return 0;
}

static bool settled(const struct td_op_node *n, const struct td_pool_health_plan *p, const struct td_op_devices *d)
{
	return td_op_devices_settled(n, d) && p->act == TD_ACT_NONE &&
	       p->hold == (td_object_annotation(n->node, TD_ANN_HOLD) != NULL) &&
	       p->person == (td_object_annotation(n->node, TD_ANN_PERSON) != NULL) && !p->waiting;
}

// What the last act that failed said; NULL: the last one did not fail. The caller frees it.
static char *failure(const struct td_op_node *n)
{
	const struct td_object *last = NULL;
	for (size_t i = 0; i < n->acts.n; i++)
		if (td_op_act_over(n->acts.v[i]) && td_jstr(n->acts.v[i]->root, "status.startedAt"))
			last = n->acts.v[i];
	if (!last || td_streq(td_jstr(last->root, "status.phase"), "Succeeded"))
		return NULL;
	return td_asprintf("%s failed: %.150s", td_jstr_or(last->root, "spec.action", "?"),
			   td_jstr_or(last->root, "status.message", "?"));
}

static int carry_out(struct td_op_node *n, const struct td_pool_health_plan *p, const struct td_op_devices *devices,
		     struct td_error *err)
{
	td_auto_free char *text = td_op_faults_text(&n->faults), *last = failure(n);
	const char *was = td_object_annotation(n->node, TD_ANN_HOLD), *why = *text    ? text
									     : last   ? last
									     : p->why ? p->why
										      : "";
	td_auto_free char *hold = NULL, *person = NULL;
	if (p->hold)
		hold = was && !*text ? td_strdup(was)
				     : td_asprintf("%s %s", !*text && last ? "action" : "condition", why);
	if (p->person)
		person = td_asprintf("%s (%s)", why, p->why);
	if (p->waiting)
		td_kube_record(n->op->events, TD_ABOUT(n->node, &td_nodes), "Warning", "HealthWaits",
			       "%s: %s would be done, but %s", why, td_pool_remedy_name(p->as), p->why);
	const char *const notes[][2] = {{TD_ANN_HOLD, hold}, {TD_ANN_PERSON, person}, {0}};
	int r = td_op_health_note(n, notes, err);
	if (!r) // after the hold of the node, so that nobody is given them in between
		r = td_op_devices_carry_out(n, devices, err);
	if (!r && hold && !was) {
		td_info("node %s: out of service: %s", n->name, hold);
		td_kube_record(n->op->events, TD_ABOUT(n->node, &td_nodes), "Warning", "OutOfService", "%s", hold);
	}
	if (!r && p->act != TD_ACT_NONE)
		r = td_op_health_begin(n, p->act, -1, why, err);
	return r;
}

// An annotation asks for an act. It is first moved aside with an id, in one write, so that whatever
// happens one NodeAction comes of it.
static int take_request(struct td_op_node *n, struct td_error *err)
{
	const char *want = td_object_annotation(n->node, TD_ANN_ACTION),
		   *taken = td_object_annotation(n->node, TD_ANN_ACTION_TAKEN);
	int r;
	if (want && !taken) {
		const char *by = td_object_annotation(n->node, TD_ANN_ACTION_BY);
		td_auto_free char *id = td_op_hash(n->node->rv, strlen(n->node->rv)),
				  *word = td_asprintf("%.60s", want);
		for (char *p = word; (p = strchr(p, ' '));) // what follows a blank is who asked
			*p = '_';
		td_auto_free char *text = td_asprintf("%.8s %s%s%.80s", id, word, by ? " " : "", by ? by : "");
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *a = td_jm_obj(d, root, "metadata.annotations");
		td_jm_str(d, root, "metadata.uid", n->node->uid);
		td_jm_str(d, root, "metadata.resourceVersion", n->node->rv);
		td_jm_key_set(d, a, TD_ANN_ACTION, yyjson_mut_null(d));
		td_jm_key_set(d, a, TD_ANN_ACTION_BY, yyjson_mut_null(d));
		td_jm_key_str(d, a, TD_ANN_ACTION_TAKEN, text);
		struct td_object *got = NULL;
		r = td_kube_patch(n->op->k, TD_AT(&td_nodes, NULL, n->name), TD_PATCH_MERGE, root, n->c, &got, err);
		if (r)
			return r;
		td_object_unref(n->node);
		n->node = got;
		taken = td_object_annotation(n->node, TD_ANN_ACTION_TAKEN);
	}
	if (!taken)
		return 0;

	const char *blank = strchr(taken, ' ');
	td_auto_free char *act = td_strdup(blank ? blank + 1 : "");
	char *by = strchr(act, ' ');
	if (by)
		*by++ = '\0';
	if (td_pool_act_parse(act) >= TD_ACT_NONE || td_pool_act_parse(act) == TD_ACT_RUN ||
	    td_pool_act_parse(act) == TD_ACT_RESET || td_pool_act_parse(act) == TD_ACT_CUT ||
	    td_pool_act_parse(act) == TD_ACT_SLURMD)
		td_kube_record(n->op->events, TD_ABOUT(n->node, &td_nodes), "Warning", "UnknownAction",
			       "annotation " TD_ANN_ACTION ": \"%.60s\" is no action: give drain, reboot, test or "
			       "return; for others create a NodeAction",
			       act);
	else {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
		td_jm_str(d, root, "apiVersion", "tandem.dev/v1alpha1");
		td_jm_str(d, root, "kind", "NodeAction");
		td_jm_strf(d, root, "metadata.name", "%.200s-%s-%.8s", n->name, act, taken);
		td_jm_str(d, root, "spec.node", n->name);
		td_jm_str(d, root, "spec.action", act);
		td_jm_strf(d, root, "spec.requestedBy", "annotation " TD_ANN_ACTION "%s%s", by ? " of " : "",
			   by ? by : "");
		r = td_kube_create(n->op->k, &td_nodeactions, NULL, root, n->c, NULL, err);
		if (r && r != TD_EXISTS)
			return td_wrap(err, "creating the NodeAction that node %s asks for", n->name);
	}
	const char *const notes[][2] = {{TD_ANN_ACTION_TAKEN, NULL}, {0}};
	return td_op_health_note(n, notes, err);
}

// Tells the node's agent which jobs it tests before they start, when one hangs, and when one of its ranks is slow. While too many nodes are out of
// service a test that fails is only said: a test that is wrong itself must not drain the whole pool, and Slurm drains
// each node whose Prolog fails.
static int show_preflight(struct td_op_node *n, struct td_error *err)
{
	td_auto_free char *text = NULL, *hang = NULL, *straggler = NULL;
	bool slurm = td_object_annotation(n->node, TD_ANN_SHARE);
	if (n->policy.preflight && slurm)
		text = td_op_policy_preflight(&n->policy, n->policy.dry_run || breaker(n));
	if (n->policy.hang && slurm)
		hang = td_op_policy_hang(&n->policy);
	if (n->policy.straggler && slurm)
		straggler = td_op_policy_straggler(&n->policy, n->policy.dry_run || breaker(n));
	const char *const notes[][2] = {
		{TD_ANN_PREFLIGHT, text}, {TD_ANN_HANG, hang}, {TD_ANN_STRAGGLER, straggler}, {0}};
	return td_op_health_note(n, notes, err);
}

// ---- the reconciler ----

static int policy_status(struct td_op *op, int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = td_informer_get(op->policies, NULL, TD_OP_POLICY);
	if (!o)
		return 0;
	td_auto_policy struct td_op_policy p;
	td_op_policy_load(op, &p);
	td_auto_strv struct td_strv waiting = {0};
	size_t out, all;
	count(op, &out, &all, &waiting);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_int(d, root, "out", (long long)out);
	td_jm_int(d, root, "nodes", (long long)all);
	td_jm_bool(d, root, "breakerOpen", td_pool_health_breaker(out, all, p.percent, p.least));
	if (waiting.n) {
		yyjson_mut_val *l = td_jm_arr(d, root, "waiting");
		for (size_t i = 0; i < waiting.n; i++)
			yyjson_mut_arr_append(l, yyjson_mut_strcpy(d, waiting.v[i]));
	}
	*again_ms = 0;
	return td_op_status_write(op, &td_healthpolicies, o, d, c, err);
}

static void node_done(struct td_op_node *n)
{
	td_object_unref(n->node);
	td_objects_done(&n->acts);
	td_op_policy_done(&n->policy);
	td_op_faults_done(&n->faults);
}

// Carries the acts on: those of the whole node one after the other, in the order of their creation. Those of single
// devices wait side by side until their devices are free, where one of the whole node overtakes them; what comes after
// that is one at a time, as the agent does it. *ret_whole: one of the whole node is not over.
static int run_acts(struct td_op_node *n, bool *ret_whole, int64_t *again_ms, struct td_error *err)
{
	struct td_object *whole = NULL;
	int r = 0;
	for (size_t i = 0; i < n->acts.n; i++)
		if (!td_op_act_over(n->acts.v[i]) && td_op_act_alone(n->acts.v[i], NULL) &&
		    td_op_act_beyond_drain(n->acts.v[i]))
			n->working = n->acts.v[i];
	for (size_t i = 0; i < n->acts.n && !r; i++) {
		struct td_object *o = n->acts.v[i], *before = whole;
		bool alone = td_op_act_alone(o, NULL), begun = td_jstr(o->root, "status.step");
		if (td_op_act_over(o))
			continue;
		if (!alone) {
			before = before ? before : n->working;
			whole = whole ? whole : o;
		}
		if (before && !begun)
			r = td_op_act_wait(n, o, before, err);
		else if (!before || alone)
			r = td_op_act_run(n, o, again_ms, err);
	}
	*ret_whole = whole;
	return r;
}

static int reconcile(void *ctx, const char *name, int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	struct td_op *op = ctx;
	if (td_streq(name, POLICY_KEY))
		return policy_status(op, again_ms, c, err);
	if (td_streq(name, PROBE_KEY))
		return td_op_probe_run(op, again_ms, c, err);
	if (td_streq(name, TD_OP_RECORD_KEY))
		return td_op_record_sweep(op, again_ms, c, err);
	if (td_starts(name, TD_OP_UPGRADE_KEY))
		return td_op_upgrade_run(op, name + strlen(TD_OP_UPGRADE_KEY), again_ms, c, err);
	if (!*name)
		return 0;
	__attribute__((cleanup(node_done))) struct td_op_node n = {
		.op = op, .name = name, .node = td_informer_get(op->nodes, NULL, name), .c = c};
	td_informer_by_index(op->actions, "node", name, &n.acts);
	sort(&n.acts);
	td_op_policy_load(op, &n.policy);
	td_op_faults_read(op, n.node, &n.policy, &n.faults);

	int r = n.node ? take_request(&n, err) : 0;
	if (!r && n.node)
		r = td_op_cutting_take(&n, err);
	bool whole = false;
	if (!r)
		r = run_acts(&n, &whole, again_ms, err);
	if (!r && n.node)
		r = show_preflight(&n, err);
	if (!r && n.node)
		r = td_op_slow_take(&n, whole, err);
	if (r || !n.node)
		return r ? r : td_op_record_fold(&n, again_ms, err);

	struct td_pool_health_plan p;
	struct td_op_devices devices;
	decide(&n, false, &p, &devices);
	if (!whole && !settled(&n, &p, &devices)) {
		if ((r = read_again(&n, err)))
			return r == TD_NOT_FOUND ? 0 : r;
		decide(&n, true, &p, &devices);
		if (!settled(&n, &p, &devices))
			r = carry_out(&n, &p, &devices, err);
		if (!r && p.waiting)
			*again_ms = POLICY_MS * 5;
		td_queue_add_after(op->health, POLICY_KEY, POLICY_MS);
	}
	if (!r)
		r = td_op_test_sweep(&n, err);
	return r ? r : td_op_record_fold(&n, again_ms, err);
}

int td_op_health_run(struct td_op *op, struct td_cancel *c, struct td_error *err)
{
	td_queue_add(op->health, TD_OP_RECORD_KEY);
	const struct td_controller ctl = {"health", 2, op->health, reconcile, op};
	return td_controller_run(&ctl, c, err);
}
