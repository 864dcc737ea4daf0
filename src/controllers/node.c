// Node lifecycle. A node without a sign of life for 40 s (--node-grace) has an unknown state;
// taints follow the Ready condition.
//
// Signs of life are a renewed Lease and a status with a new heartbeat, as in Kubernetes. A node
// that comes back writes both, and their two watches keep no order. So with the Lease alone a fresh
// "Ready" could be overruled, and nobody would say it again. The age of a sign is how long this
// process has seen it unchanged: after a start of this process every node gets its full time again,
// and clocks are not compared.
#include "controllers/ctl.h"

#include "api/condition.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <uthash.h>

#define LOOK_MS 5000
#define LEASE_NS "kube-node-lease"
#define NOT_READY "node.kubernetes.io/not-ready"
#define UNREACHABLE "node.kubernetes.io/unreachable"
#define UNSCHEDULABLE "node.kubernetes.io/unschedulable"

struct age {
	char *name, *signs; // the Lease's spec.renewTime and the Ready condition's heartbeat
	// When this process first saw them, in monotonic ms.
	int64_t at;
	UT_hash_handle hh;
};
struct ctl_nodes {
	pthread_mutex_t lock; // guards ages
	struct age *ages;
};

void ctl_nodes_free(struct ctl_nodes *n)
{
	if (!n)
		return;
	struct age *a, *tmp;
	HASH_ITER (hh, n->ages, a, tmp) {
		HASH_DEL(n->ages, a);
		free(a->name);
		free(a->signs);
		free(a);
	}
	pthread_mutex_destroy(&n->lock);
	free(n);
}

// Milliseconds since the last sign of life that this process saw.
static int64_t silent_for(struct ctl *c, const struct td_object *node)
{
	const char *name = node->name;
	td_auto(td_object_unref) struct td_object *lease = td_informer_get(c->leases, LEASE_NS, name);
	yyjson_val *ready = td_condition(node->root, "Ready");
	td_auto_free char *signs = td_asprintf("%s %s", lease ? td_jstr_or(lease->root, "spec.renewTime", "") : "",
					       td_jstr_or(ready, "lastHeartbeatTime", ""));

	int64_t now = td_mono_ms(c->clock);
	struct ctl_nodes *n = c->node_ages;

	pthread_mutex_lock(&n->lock);
	struct age *a = NULL;
	HASH_FIND_STR(n->ages, name, a);
	if (!a) {
		a = td_calloc(1, sizeof(*a));
		a->name = td_strdup(name);
		a->at = now;
		a->signs = td_steal(signs);
		HASH_ADD_KEYPTR(hh, n->ages, a->name, strlen(a->name), a);
	} else if (strcmp(a->signs, signs) != 0) {
		free(a->signs);
		a->signs = td_steal(signs);
		a->at = now;
	}

	int64_t age = now - a->at;
	pthread_mutex_unlock(&n->lock);
	return age;
}

static void forget(struct ctl *c, const char *name)
{
	struct ctl_nodes *n = c->node_ages;
	pthread_mutex_lock(&n->lock);
	struct age *a = NULL;
	HASH_FIND_STR(n->ages, name, a);
	if (a) {
		HASH_DEL(n->ages, a);
		free(a->name);
		free(a->signs);
		free(a);
	}
	pthread_mutex_unlock(&n->lock);
}

// Sets Ready and the pressure conditions to Unknown; the others stay.
static int set_unknown(struct ctl *c, const struct td_object *node, struct td_cancel *cancel, struct td_error *err)
{
	static const char *const types[] = {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"};
	yyjson_val *old = td_jget(node->root, "status.conditions"), *e;
	int64_t now = td_real_ms(c->clock);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *p = yyjson_mut_doc_get_root(d), *conds = td_jm_arr(d, p, "status.conditions");

	bool differs = false;
	for (size_t i = 0; i < TD_LEN(types); i++) {
		yyjson_val *was = td_jfind(old, "type", types[i]);
		if (!was && i)
			continue;
		differs |= !td_streq(td_jstr(was, "status"), "Unknown");
		if (was && td_streq(td_jstr(was, "status"), "Unknown"))
			yyjson_mut_arr_append(conds, yyjson_val_mut_copy(d, was));
		else
			td_condition_add(d, conds, old,
					 TD_CONDITION(types[i], "Unknown",
						      was ? "NodeStatusUnknown" : "NodeStatusNeverUpdated",
						      was ? "Kubelet stopped posting node status."
							  : "Kubelet never posted node status."),
					 now);
		if (was && td_jstr(was, "lastHeartbeatTime"))
			td_jm_str(d, yyjson_mut_arr_get_last(conds), "lastHeartbeatTime",
				  td_jstr(was, "lastHeartbeatTime"));
	}

	if (!differs)
		return 0;

	size_t i, n;
	yyjson_arr_foreach (old, i, n, e) {
		bool ours = false;
		for (size_t k = 0; k < TD_LEN(types); k++)
			ours |= td_streq(td_jstr(e, "type"), types[k]);
		if (!ours)
			yyjson_mut_arr_append(conds, yyjson_val_mut_copy(d, e));
	}

	td_jm_str(d, p, "metadata.uid", node->uid);
	// The node agent may have come back; then its word counts.
	td_jm_str(d, p, "metadata.resourceVersion", node->rv);
	int r = td_kube_patch(c->kube, TD_AT(&td_nodes, NULL, node->name, "status"), TD_PATCH_MERGE, p, cancel, NULL,
			      err);
	if (!r)
		td_record(c->rec, TD_ABOUT(node, &td_nodes), "Normal", "NodeNotReady",
			  "Node %s status is now: NodeNotReady", node->name);
	return r;
}

static bool is_taint(const yyjson_val *t, const char *key, const char *effect)
{
	return td_streq(td_jstr(t, "key"), key) && td_streq(td_jstr(t, "effect"), effect);
}

// Sets the taints that follow from the status of the Ready condition, and from spec.unschedulable.
static int sync_taints(struct ctl *c, const struct td_object *node, const char *ready, struct td_cancel *cancel,
		       struct td_error *err)
{
	const char *key = !strcmp(ready, "True") ? NULL : !strcmp(ready, "False") ? NOT_READY : UNREACHABLE;
	const struct {
		const char *key, *effect;
		bool want;
	} rules[] = {
		{NOT_READY, "NoSchedule", td_streq(key, NOT_READY)},
		{NOT_READY, "NoExecute", td_streq(key, NOT_READY)},
		{UNREACHABLE, "NoSchedule", td_streq(key, UNREACHABLE)},
		{UNREACHABLE, "NoExecute", td_streq(key, UNREACHABLE)},
		{UNSCHEDULABLE, "NoSchedule", td_jbool(node->root, "spec.unschedulable", false)},
	};

	bool have[TD_LEN(rules)] = {0}, differs = false;
	char now[TD_TIME_LEN];
	td_time_format(td_real_ms(c->clock), now);

	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *p = yyjson_mut_doc_get_root(d), *arr = td_jm_arr(d, p, "spec.taints");
	size_t i, n;
	yyjson_val *t, *taints = td_jget(node->root, "spec.taints");

	yyjson_arr_foreach (taints, i, n, t) {
		bool drop = false;
		for (size_t k = 0; k < TD_LEN(rules); k++)
			if (is_taint(t, rules[k].key, rules[k].effect)) {
				have[k] = true;
				drop = !rules[k].want;
			}
		if (!drop)
			yyjson_mut_arr_append(arr, yyjson_val_mut_copy(d, t));
		differs |= drop;
	}

	for (size_t k = 0; k < TD_LEN(rules); k++)
		if (rules[k].want && !have[k]) {
			yyjson_mut_val *e = yyjson_mut_arr_add_obj(d, arr);
			td_jm_str(d, e, "key", rules[k].key);
			td_jm_str(d, e, "effect", rules[k].effect);
			td_jm_str(d, e, "timeAdded", now);
			differs = true;
		}

	if (!differs)
		return 0;

	td_jm_str(d, p, "metadata.uid", node->uid);
	td_jm_str(d, p, "metadata.resourceVersion", node->rv);
	return td_kube_patch(c->kube, TD_AT(&td_nodes, NULL, node->name), TD_PATCH_MERGE, p, cancel, NULL, err);
}

static int reconcile(void *ctx, const char *key, int64_t *again, struct td_cancel *cancel, struct td_error *err)
{
	struct ctl *c = ctx;
	td_auto(td_object_unref) struct td_object *node = td_informer_get(c->nodes, NULL, key);
	if (!node) {
		forget(c, key);
		return 0;
	}

	*again = LOOK_MS;

	int64_t age = silent_for(c, node);
	if (age >= c->node_grace_ms) {
		int r = set_unknown(c, node, cancel, err);
		return r ? r : sync_taints(c, node, "Unknown", cancel, err);
	}

	if (c->node_grace_ms - age < *again)
		*again = c->node_grace_ms - age;

	const char *ready = td_jstr_or(td_condition(node->root, "Ready"), "status", "");
	// A node that has no Ready condition yet starts as not ready, as in Kubernetes.
	return sync_taints(c, node, *ready ? ready : "False", cancel, err);
}

static void on_node(void *queue, struct td_object *old, struct td_object *now)
{
	bool same = old && now && td_jequal(td_jget(old->root, "spec"), td_jget(now->root, "spec")) &&
		    td_jequal(td_jget(old->root, "status.conditions"), td_jget(now->root, "status.conditions"));
	if (!same)
		td_enqueue_self(queue, old, now);
}

void ctl_node(struct ctl *c, struct td_controller *ret)
{
	c->node_ages = td_calloc(1, sizeof(*c->node_ages));
	pthread_mutex_init(&c->node_ages->lock, NULL);
	*ret = (struct td_controller){"node", 1, td_queue_new(c->clock), reconcile, c};
	td_informer_on_change(c->nodes, on_node, ret->queue);
}
