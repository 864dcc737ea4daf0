// Single devices of a node: which leave service for their health, and which act of each comes next.
#include "operator/health.h"

#include "base/log.h"
#include "pool/aside.h"

#include <string.h>

enum { TRIES = 5 };

#define BIT(device) ((uint64_t)1 << (device))

// "gpu3": 3; else -1.
static int index_of(const char *device)
{
	uint64_t mask;
	return device && td_pool_aside_read(device, &mask) && __builtin_popcountll(mask) == 1 ? __builtin_ctzll(mask)
											      : -1;
}

bool td_op_act_alone(const struct td_object *action, int *ret_device)
{
	bool alone = td_streq(td_jstr(action->root, "spec.scope"), "device");
	if (alone && ret_device)
		*ret_device = index_of(td_jstr(action->root, "spec.device"));
	return alone;
}

uint64_t td_op_devices_held(const struct td_object *node)
{
	uint64_t mask = 0;
	return node && td_pool_aside_read(td_object_annotation(node, TD_ANN_DEVICES_HOLD), &mask) ? mask : 0;
}

bool td_op_devices_able(struct td_op *op, const struct td_object *node)
{
	if (td_object_annotation(node, TD_ANN_HOLD) || !td_object_annotation(node, TD_ANN_SHARE))
		return false;
	if (td_streq(td_object_label(node, TD_LABEL_FAKE_GPUS), "true"))
		return true;
	td_auto(td_object_unref) struct td_object *slurmd = td_op_health_slurmd(op, node->name), *sc = NULL;
	if (slurmd)
		sc = td_informer_get(op->clusters, slurmd->ns, td_object_label(slurmd, TD_LABEL_CLUSTER));
	return sc && td_streq(td_jstr(sc->root, "spec.devices.[0].source"), "DRA");
}

bool td_op_faults_any(const struct td_op_faults *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].alone && f->v[i].remedy != TD_REMEDY_NONE)
			return true;
	return false;
}

char *td_op_device_faults(const struct td_op_faults *f, int device, enum td_remedy *ret_worst)
{
	td_auto_buf struct td_buf b = {0};
	*ret_worst = TD_REMEDY_NONE;
	for (size_t i = 0; i < f->n; i++) {
		if (f->v[i].remedy == TD_REMEDY_NONE || index_of(f->v[i].device) != device)
			continue;
		if (f->v[i].remedy > *ret_worst)
			*ret_worst = f->v[i].remedy;
		if (b.len < 150)
			td_buf_printf(&b, "%s%s: %.120s", b.len ? "; " : "", f->v[i].condition, f->said[i]);
	}
	return td_buf_take(&b);
}

// What was done about this device, from acts that are sorted by age.
static void past(const struct td_op_node *n, int device, struct td_pool_device_facts *f)
{
	int64_t now = td_real_ms(&td_clock_system), last_end = -1;
	f->last = TD_ACT_NONE;
	for (size_t i = 0; i < n->acts.n; i++) {
		const struct td_object *o = n->acts.v[i];
		int of = -1;
		if (!td_op_act_alone(o, &of) || of != device || td_jbool(o->root, "status.superseded", false))
			continue;
		if (!td_op_act_over(o)) {
			f->active = true;
			continue;
		}
		int64_t begun = 0, end = 0;
		if (td_time_parse(td_jstr_or(o->root, "status.startedAt", ""), &begun))
			continue;
		td_time_parse(td_jstr_or(o->root, "status.finishedAt", ""), &end);
		enum td_act act = td_pool_act_parse(td_jstr(o->root, "spec.action"));
		bool policy = td_jstr(o->root, "spec.policy") != NULL;
		f->resets += policy && act == TD_ACT_RESET && begun > now - n->policy.window_ms;
		if (end < last_end)
			continue;
		last_end = end;
		f->last = act;
		f->last_failed = !td_streq(td_jstr(o->root, "status.phase"), "Succeeded");
		f->last_policy = policy;
	}
}

void td_op_devices_decide(const struct td_op_node *n, bool breaker, size_t tries, struct td_op_devices *ret)
{
	*ret = (struct td_op_devices){0};
	uint64_t held = td_op_devices_held(n->node), known = held;
	for (size_t i = 0; i < n->faults.n; i++) {
		int k = n->faults.v[i].alone ? index_of(n->faults.v[i].device) : -1;
		known |= k >= 0 ? BIT(k) : 0;
	}
	for (int k = 0; known >> k; k++) {
		if (!(known >> k & 1))
			continue;
		struct td_pool_device_facts f = {.held = held >> k & 1,
						 .node_out = td_object_annotation(n->node, TD_ANN_HOLD),
						 .dry_run = n->policy.dry_run,
						 .breaker = breaker,
						 .tries = tries,
						 .attempts = n->policy.attempts};
		free(td_op_device_faults(&n->faults, k, &f.worst));
		past(n, k, &f);
		struct td_op_device *d = &ret->v[ret->n++];
		d->device = k;
		td_pool_device_decide(&f, &d->p);
		ret->hold |= d->p.hold ? BIT(k) : 0;
		if (d->p.node > ret->node)
			ret->node = d->p.node;
		if (k == 63)
			break;
	}
}

bool td_op_devices_settled(const struct td_op_node *n, const struct td_op_devices *d)
{
	bool all = d->hold == td_op_devices_held(n->node);
	for (size_t i = 0; i < d->n; i++)
		all &= d->v[i].p.act == TD_ACT_NONE && !d->v[i].p.waiting;
	return all;
}

// A list of devices, as somebody else may have changed it meanwhile, so it is read and written as one.
static int change(struct td_op_node *n, const char *key, uint64_t add, uint64_t drop, const char *why,
		  struct td_error *err)
{
	bool holds = td_streq(key, TD_ANN_DEVICES_HOLD);
	int r = TD_CONFLICT;
	for (int i = 0; i < TRIES && r == TD_CONFLICT; i++) {
		struct td_object *now = NULL;
		if ((r = td_kube_get(n->op->k, &td_nodes, NULL, n->name, n->c, &now, err)))
			break;
		td_object_unref(n->node);
		n->node = now;
		const char *had = td_object_annotation(now, key);
		uint64_t was = 0, is;
		bool good = td_pool_aside_read(had, &was);
		is = ((good ? was : 0) | add) & ~drop;
		if (good && is == was)
			return 0;
		td_auto_free char *text = td_pool_aside_write(is);
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *a = td_jm_obj(d, root, "metadata.annotations");
		td_jm_str(d, root, "metadata.uid", now->uid);
		td_jm_str(d, root, "metadata.resourceVersion", now->rv);
		td_jm_key_set(d, a, key, text ? yyjson_mut_strcpy(d, text) : yyjson_mut_null(d));
		// Where a policy and a person both keep devices out, the policy's words stand: its breaker counts them.
		const char *said = td_object_annotation(now, TD_ANN_DEVICES_HOLD_WHY);
		if (holds && !text)
			td_jm_key_set(d, a, TD_ANN_DEVICES_HOLD_WHY, yyjson_mut_null(d));
		else if (holds && add && why && (!said || !td_starts(said, "condition")))
			td_jm_key_str(d, a, TD_ANN_DEVICES_HOLD_WHY, why);
		struct td_object *got = NULL;
		r = td_kube_patch(n->op->k, TD_AT(&td_nodes, NULL, n->name), TD_PATCH_MERGE, root, n->c, &got, err);
		if (!r) {
			td_object_unref(n->node);
			n->node = got;
		}
	}
	return r ? td_wrap(err, "node %s", n->name) : 0;
}

int td_op_devices_change(struct td_op_node *n, uint64_t add, uint64_t drop, const char *why, struct td_error *err)
{
	return change(n, TD_ANN_DEVICES_HOLD, add, drop, why, err);
}

int td_op_devices_end(struct td_op_node *n, int device, bool end, struct td_error *err)
{
	uint64_t has = 0;
	if (!td_pool_aside_read(td_object_annotation(n->node, TD_ANN_END_DEVICES), &has))
		has = 0;
	if (!end && !(has & BIT(device)))
		return 0;
	return change(n, TD_ANN_END_DEVICES, end ? BIT(device) : 0, end ? 0 : BIT(device), NULL, err);
}

static int one(struct td_op_node *n, const struct td_op_device *d, struct td_error *err)
{
	enum td_remedy worst;
	td_auto_free char *text = td_op_device_faults(&n->faults, d->device, &worst);
	const char *why = *text ? text : d->p.why ? d->p.why : "";
	if (d->p.waiting)
		td_kube_record(n->op->events, TD_ABOUT(n->node, &td_nodes), "Warning", "HealthWaits",
			       "%s: %s of gpu%d alone would be done, but %s", why, td_pool_remedy_name(d->p.as),
			       d->device, d->p.why);
	if (d->p.hold && !(td_op_devices_held(n->node) >> d->device & 1)) {
		td_auto_free char *said = td_asprintf("condition %s", why);
		int r = td_op_devices_change(n, BIT(d->device), 0, said, err);
		if (r)
			return r;
		td_info("node %s: gpu%d: out of service, the others work on: %s", n->name, d->device, said);
		td_kube_record(n->op->events, TD_ABOUT(n->node, &td_nodes), "Warning", "DeviceOutOfService",
			       "gpu%d: %s", d->device, said);
	}
	return d->p.act == TD_ACT_NONE ? 0 : td_op_health_begin(n, d->p.act, d->device, why, err);
}

int td_op_devices_carry_out(struct td_op_node *n, const struct td_op_devices *d, struct td_error *err)
{
	uint64_t held = td_op_devices_held(n->node);
	int r = held & ~d->hold ? td_op_devices_change(n, 0, held & ~d->hold, NULL, err) : 0;
	for (size_t i = 0; i < d->n && !r; i++)
		r = one(n, &d->v[i], err);
	return r;
}
