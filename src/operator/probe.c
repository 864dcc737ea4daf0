// Tests of idle nodes: the operator asks for them, as the policy's budget allows, and the agents do them (gate/probe.h,
// pool/probe.h), and of several together (gate/rings.h). All is on the Nodes. One pass reads the cached Nodes and writes those
// whose test begins.
#include "operator/health.h"

#include "base/log.h"
#include "pool/probe.h"
#include "slurm/topology.h"

#include <stdio.h>
#include <string.h>

enum { MORE_MS = 2000, GONE_MS = 120000, GROUP_MS = 10000, GROUPS_KEPT = 8 };

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

// Another change of the Node came first, or it is gone: the next pass sees that.
static int unless_changed(int r)
{
	return r == TD_CONFLICT || r == TD_NOT_FOUND ? 0 : r;
}

// Writes an annotation, if what was seen of the Node still holds; otherwise see unless_changed().
static int note(struct td_op *op, const struct td_object *node, const char *key, const char *text, struct td_cancel *c,
		struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *patch = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(patch);
	td_jm_str(patch, root, "metadata.uid", node->uid);
	td_jm_str(patch, root, "metadata.resourceVersion", node->rv);
	td_jm_key_str(patch, td_jm_obj(patch, root, "metadata.annotations"), key, text);
	return td_kube_patch(op->k, TD_AT(&td_nodes, NULL, node->name), TD_PATCH_MERGE, root, c, NULL, err);
}

static int ask(struct td_op *op, const struct td_object *node, long long ms, struct td_cancel *c, struct td_error *err)
{
	char when[TD_TIME_LEN];
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_auto_free char *id = td_op_hash(node->rv, strlen(node->rv));
	td_jm_str(d, o, "id", id);
	td_jm_str(d, o, "at", td_time_format(td_real_ms(&td_clock_system), when));
	td_jm_int(d, o, "milliseconds", ms);
	td_auto_free char *text = td_json_mut_text(o, NULL);
	int r = note(op, node, TD_ANN_PROBE, text, c, err);
	if (!r)
		td_info("node %s: it is idle, and is tested", node->name);
	return unless_changed(r);
}

// A test that goes on is not wanted any more, or is to be another one.
static int withdraw(struct td_op *op, const struct td_object *node, struct td_cancel *c, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *patch = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(patch);
	td_jm_str(patch, root, "metadata.uid", node->uid);
	td_jm_key_set(patch, td_jm_obj(patch, root, "metadata.annotations"), TD_ANN_PROBE, yyjson_mut_null(patch));
	return unless_changed(
		td_kube_patch(op->k, TD_AT(&td_nodes, NULL, node->name), TD_PATCH_MERGE, root, c, NULL, err));
}

// ---- several together ----

// Where the node is, "namespace/cluster/rack"; NULL: that is not known. The caller frees it.
static char *place_of(struct td_op *op, const struct td_object *node)
{
	td_auto(td_object_unref) struct td_object *slurmd = td_op_health_slurmd(op, node->name);
	const char *name = slurmd ? td_object_label(slurmd, TD_LABEL_CLUSTER) : NULL, *rack = "";
	td_auto(td_object_unref) struct td_object *sc = name ? td_informer_get(op->clusters, slurmd->ns, name) : NULL;
	if (!sc)
		return NULL;
	if (td_slurm_topology(sc->root)) {
		td_auto_strv struct td_strv labels = {0}, none = {0};
		struct td_slurm_place at;
		td_slurm_topology_labels(sc->root, &labels, &none);
		td_slurm_place_read(node->root, &labels, &at);
		for (size_t i = 0; i < TD_SLURM_LEVELS && at.at[i]; i++)
			rack = at.at[i];
	}
	return td_asprintf("%s/%s/%s", slurmd->ns, name, rack);
}

static int want(struct td_op *op, const struct td_objects *l, const size_t *who, size_t n, const yyjson_val *rule,
		struct td_cancel *c, struct td_error *err)
{
	const struct td_object *first = l->v[who[0]];
	char when[TD_TIME_LEN];
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d), *nodes;
	td_auto_free char *id = td_op_hash(first->rv, strlen(first->rv));
	td_jm_str(d, o, "id", id);
	td_jm_str(d, o, "at", td_time_format(td_real_ms(&td_clock_system), when));
	nodes = td_jm_arr(d, o, "nodes");
	for (size_t i = 0; i < n; i++)
		yyjson_mut_arr_add_strcpy(d, nodes, l->v[who[i]]->name);
	td_jm_int(d, o, "kib", td_jint(rule, "megabytes", 16) * 1024);
	td_jm_int(d, o, "leastMBps", td_jint(rule, "leastMBps", 0));
	td_jm_int(d, o, "percent", td_jint(rule, "percent", 0));
	td_auto_free char *text = td_json_mut_text(o, NULL);
	td_info("node %s: it is idle, and is tested with %zu others", first->name, n - 1);
	return unless_changed(note(op, first, TD_ANN_PROBE_TOGETHER, text, c, err));
}

// It is not wanted any more.
static int forget(struct td_op *op, const struct td_object *node, struct td_cancel *c, struct td_error *err)
{
	char when[TD_TIME_LEN], text[TD_TIME_LEN + 16];
	snprintf(text, sizeof(text), "{\"at\":\"%s\"}", td_time_format(td_real_ms(&td_clock_system), when));
	return unless_changed(note(op, node, TD_ANN_PROBE_TOGETHER, text, c, err));
}

// Keeps on a node what came of a test that it took part in. *ret_wrote: that was not there yet.
static int keep(struct td_op *op, const struct td_object *node, const yyjson_val *asked, const yyjson_val *done,
		bool *ret_wrote, struct td_cancel *c, struct td_error *err)
{
	struct probe_said had;
	yyjson_val *x;
	size_t i, n;
	read_said(node, TD_ANN_TESTED_TOGETHER, &had);
	td_auto(td_json_unref) struct td_json *own = had.json;
	bool list = yyjson_is_arr((yyjson_val *)had.root);
	if (list && td_streq(td_jstr(yyjson_arr_get_first((yyjson_val *)had.root), "id"), td_jstr(done, "id")))
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *l = yyjson_mut_arr(d), *o;
	yyjson_mut_doc_set_root(d, l);
	o = yyjson_val_mut_copy(d, (yyjson_val *)done);
	yyjson_mut_arr_append(l, o);
	td_jm_copyval(d, o, "nodes", td_jget(asked, "nodes"));
	yyjson_arr_foreach (list ? (yyjson_val *)had.root : NULL, i, n, x)
		if (i + 1 < GROUPS_KEPT)
			yyjson_mut_arr_append(l, yyjson_val_mut_copy(d, x));
	td_auto_free char *text = td_json_mut_text(l, NULL);
	*ret_wrote = true;
	return unless_changed(note(op, node, TD_ANN_TESTED_TOGETHER, text, c, err));
}

static size_t index_of(const struct td_objects *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (td_streq(l->v[i]->name, name))
			return i;
	return l->n;
}

struct group_pass { // of one look
	const struct td_objects *l;
	struct td_pool_probe_node *single;
	struct td_pool_group_node *v;
	int64_t now_ms, asked_ms; // asked_ms: when one was asked for last
	bool running, wanted;     // wanted: the policy has such tests
};

// What the leader says of its test: a test that goes on keeps its nodes from others, one that is over is kept on them.
static int leader(struct td_op *op, struct group_pass *p, size_t i, struct td_cancel *c, struct td_error *err)
{
	const struct td_object *node = p->l->v[i];
	struct probe_said asked, done;
	yyjson_val *x;
	size_t k, n;
	int e = 0;
	read_said(node, TD_ANN_PROBE_TOGETHER, &asked);
	read_said(node, TD_ANN_PROBED_TOGETHER, &done);
	td_auto(td_json_unref) struct td_json *j = asked.json, *said = done.json;
	const char *id = td_jstr(asked.root, "id");
	bool over = id && td_streq(id, td_jstr(done.root, "id")), left = false, busy = false;
	if (asked.at_ms > p->v[i].last_ms)
		p->v[i].last_ms = asked.at_ms;
	if (asked.at_ms > p->asked_ms)
		p->asked_ms = asked.at_ms;
	if (!id)
		return 0;
	if (!over && p->now_ms - asked.at_ms > GONE_MS) // an agent that comes back does not do it
		return forget(op, node, c, err);
	yyjson_arr_foreach (td_jget(asked.root, "nodes"), k, n, x) {
		size_t at = index_of(p->l, yyjson_get_str(x));
		bool wrote = false;
		if (at == p->l->n)
			continue;
		if (over && !e)
			e = keep(op, p->l->v[at], asked.root, done.root, &wrote, c, err);
		left |= wrote;
		busy |= !p->single[at].able && !p->single[at].running;
		if (!over)
			p->single[at].able = p->v[at].able = false;
	}
	if (e)
		return e;
	p->running |= !over || left;
	if (over ? !left : busy || !p->wanted)
		return forget(op, node, c, err);
	return 0;
}

static int together(struct td_op *op, struct group_pass *p, const struct td_op_policy *policy, int64_t *again_ms,
		    struct td_cancel *c, struct td_error *err)
{
	size_t n = p->l->n, most = (size_t)td_jint(policy->together, "nodes", 8);
	// Each look goes through all nodes.
	const int64_t look = MORE_MS + (int64_t)(n / 1000) * 500;
	const int64_t soon = policy->idle_ms < GROUP_MS ? policy->idle_ms : GROUP_MS;
	if (p->running || p->now_ms - p->asked_ms < soon) {
		*again_ms = *again_ms < look ? *again_ms : look;
		return 0;
	}
	td_auto_strv struct td_strv places = {0};
	for (size_t i = 0; i < n; i++) {
		struct probe_said had = {0};
		td_auto_free char *place = p->v[i].able ? place_of(op, p->l->v[i]) : NULL;
		if (place)
			read_said(p->l->v[i], TD_ANN_TESTED_TOGETHER, &had);
		td_time_parse(td_jstr_or(yyjson_arr_get_first((yyjson_val *)had.root), "at", ""), &had.at_ms);
		td_json_unref(had.json);
		if (had.at_ms > p->v[i].last_ms)
			p->v[i].last_ms = had.at_ms;
		td_strv_add(&places, place ? place : "");
	}
	for (size_t i = 0; i < n; i++)
		p->v[i].place = *places.v[i] ? places.v[i] : NULL;
	td_auto_free size_t *who = td_calloc(most + 1, sizeof(*who));
	const struct td_pool_group_rule r = {.every_ms = policy->idle_ms, .most = most};
	size_t k = td_pool_probe_group(&r, p->v, n, p->now_ms, who, again_ms);
	if (!k)
		return 0;
	*again_ms = *again_ms < look ? *again_ms : look;
	return want(op, p->l, who, k, policy->together, c, err);
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
	td_auto_free struct td_pool_group_node *groups = td_calloc(l.n + 1, sizeof(*groups));
	struct group_pass g = {.l = &l, .single = v, .v = groups, .now_ms = now, .wanted = p.idle_ms && p.together};
	for (size_t i = 0; i < l.n; i++)
		groups[i] =
			(struct td_pool_group_node){.able = v[i].able && !v[i].running, .last_ms = td_op_born(l.v[i])};
	for (size_t i = 0; i < l.n && !e; i++)
		if (td_object_annotation(l.v[i], TD_ANN_PROBE_TOGETHER))
			e = leader(op, &g, i, c, err);
	if (e || !p.idle_ms)
		return e;
	const struct td_pool_probe_rule r = {.every_ms = p.idle_ms,
					     .each_ms = p.test_ms + MORE_MS,
					     .budget_ms = p.idle_budget_ms,
					     .percent = p.percent};
	size_t n = td_pool_probe_next(&r, v, l.n, now, which, again_ms);
	for (size_t i = 0; i < n && !e; i++)
		e = ask(op, l.v[which[i]], p.test_ms, c, err);
	for (size_t i = 0; i < n; i++)
		groups[which[i]].able = false;
	return e || !p.together ? e : together(op, &g, &p, again_ms, c, err);
}
