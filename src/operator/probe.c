// Tests of idle nodes: the operator asks for them, as the policy's budget allows, and the agents do them (gate/probe.h,
// pool/probe.h). All is on the Nodes. One pass reads the cached Nodes and writes those whose test begins.
#include "operator/health.h"

#include "base/log.h"
#include "pool/probe.h"

#include <string.h>

enum { MORE_MS = 2000, GONE_MS = 120000 };

// What the Node says of its test; root NULL: nothing that can be read.
struct probe_said {
	struct td_json *json;
	const yyjson_val *root;
	int64_t at_ms;
};

static void read_said(const struct td_object *node, const char *key, struct probe_said *ret)
{
	const char *text = td_object_annotation(node, key);
	*ret = (struct probe_said){0};
	if (!text || td_json_parse(text, strlen(text), &ret->json, NULL))
		return;
	ret->root = td_json_root(ret->json);
	td_time_parse(td_jstr_or(ret->root, "at", ""), &ret->at_ms);
}

static bool well(struct td_op *op, const struct td_object *node)
{
	static const char *const not[] = {TD_ANN_HOLD,      TD_ANN_FAULTS,     TD_ANN_SLURM_STATE,
					  TD_ANN_SLURM_USE, TD_ANN_SLURM_JOBS, TD_ANN_SHADOW};
	td_auto_objects struct td_objects acts = {0};
	for (size_t i = 0; i < TD_LEN(not); i++)
		if (td_object_annotation(node, not[i]))
			return false;
	td_auto(td_object_unref) struct td_object *slurmd = td_op_health_slurmd(op, node->name);
	if (!slurmd || !td_streq(td_object_label(slurmd, TD_LABEL_NODE_STATE), "idle") || !td_op_ready(node))
		return false;
	td_informer_by_index(op->actions, "node", node->name, &acts);
	for (size_t i = 0; i < acts.n; i++)
		if (!td_op_act_over(acts.v[i]))
			return false;
	return true;
}

// *ret_ms: of the test that has been asked for and has not ended; 0: there is none.
static void facts(struct td_op *op, const struct td_object *node, int64_t now_ms, struct td_pool_probe_node *ret,
		  int64_t *ret_ms)
{
	struct probe_said asked, done;
	read_said(node, TD_ANN_PROBE, &asked);
	read_said(node, TD_ANN_PROBED, &done);
	bool over = !asked.root || td_streq(td_jstr(asked.root, "id"), td_jstr(done.root, "id")),
	     given_up = now_ms - asked.at_ms > td_jint(asked.root, "milliseconds", 0) + GONE_MS;
	ret->last_ms = td_op_born(node);
	if (asked.root && asked.at_ms > ret->last_ms)
		ret->last_ms = asked.at_ms;
	if (over && done.at_ms > ret->last_ms)
		ret->last_ms = done.at_ms;
	ret->took_ms = over ? td_jint(done.root, "milliseconds", 0) : 0;
	ret->running = !over && !given_up; // an agent that is gone does it no more
	*ret_ms = ret->running ? td_jint(asked.root, "milliseconds", 0) : 0;
	ret->able = well(op, node);
	td_json_unref(asked.json);
	td_json_unref(done.json);
}

static int ask(struct td_op *op, const struct td_object *node, long long ms, struct td_cancel *c, struct td_error *err)
{
	char when[TD_TIME_LEN];
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new(), *patch = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *root = yyjson_mut_doc_get_root(patch);
	td_auto_free char *id = td_op_hash(node->rv, strlen(node->rv));
	td_jm_str(d, o, "id", id);
	td_jm_str(d, o, "at", td_time_format(td_real_ms(&td_clock_system), when));
	td_jm_int(d, o, "milliseconds", ms);
	td_auto_free char *text = td_json_mut_text(o, NULL);
	td_jm_str(patch, root, "metadata.uid", node->uid);
	td_jm_str(patch, root, "metadata.resourceVersion", node->rv); // what was seen of it still holds
	td_jm_key_str(patch, td_jm_obj(patch, root, "metadata.annotations"), TD_ANN_PROBE, text);
	int r = td_kube_patch(op->k, TD_AT(&td_nodes, NULL, node->name), TD_PATCH_MERGE, root, c, NULL, err);
	if (!r)
		td_info("node %s: it is idle, and is tested", node->name);
	return r == TD_CONFLICT || r == TD_NOT_FOUND ? 0 : r;
}

// A test that goes on is not wanted any more, or is to be another one.
static int withdraw(struct td_op *op, const struct td_object *node, struct td_cancel *c, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *patch = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(patch);
	td_jm_str(patch, root, "metadata.uid", node->uid);
	td_jm_key_set(patch, td_jm_obj(patch, root, "metadata.annotations"), TD_ANN_PROBE, yyjson_mut_null(patch));
	int r = td_kube_patch(op->k, TD_AT(&td_nodes, NULL, node->name), TD_PATCH_MERGE, root, c, NULL, err);
	return r == TD_CONFLICT || r == TD_NOT_FOUND ? 0 : r;
}

int td_op_probe_run(struct td_op *op, int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	td_auto_policy struct td_op_policy p;
	td_op_policy_load(op, &p);
	*again_ms = 0; // a policy that changes wakes this
	td_auto_objects struct td_objects l = {0};
	td_informer_list(op->nodes, NULL, &l);
	td_auto_free struct td_pool_probe_node *v = td_calloc(l.n + 1, sizeof(*v));
	td_auto_free size_t *which = td_calloc(l.n + 1, sizeof(*which));
	int64_t now = td_real_ms(&td_clock_system);
	int e = 0;
	for (size_t i = 0; i < l.n && !e; i++) {
		int64_t ms;
		facts(op, l.v[i], now, &v[i], &ms);
		if (ms && (!p.idle_ms || ms != p.test_ms))
			e = withdraw(op, l.v[i], c, err);
	}
	if (e || !p.idle_ms)
		return e;
	const struct td_pool_probe_rule r = {.every_ms = p.idle_ms,
					     .each_ms = p.test_ms + MORE_MS,
					     .budget_ms = p.idle_budget_ms,
					     .percent = p.percent};
	size_t n = td_pool_probe_next(&r, v, l.n, now, which, again_ms);
	for (size_t i = 0; i < n && !e; i++)
		e = ask(op, l.v[which[i]], p.test_ms, c, err);
	return e;
}
