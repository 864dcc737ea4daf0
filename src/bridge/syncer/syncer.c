// One node on both sides: carries out what pool/node.c decides (docs/protocols.md 2). It writes
// only what differs, and reads Slurm's node again right before it writes there.
#include "bridge/scheduler/placeholder.h"
#include "bridge/syncer/aside.h"
#include "bridge/syncer/count.h"
#include "bridge/syncer/shadow.h"
#include "pool/steps.h"

#include "api/condition.h"
#include "api/taint.h"
#include "base/log.h"

#include <string.h>

enum { POD_LABEL_MS = 1000, LOOK_MS = 250, USE_MS = 2000 };

static void slurm_facts(const struct td_slurm_node *n, struct td_pool_node_facts *f)
{
	f->known = true;
	f->slurm = n;
	if (!n)
		return;
	f->drain = n->states & TD_NODE(DRAIN);
	f->reason = n->reason;
	f->words = td_slurm_node_words(n->states);
	f->busy = td_slurm_node_busy(n->states);
	f->down = n->states & TD_NODE(DOWN);
	// What Slurm sets down itself bears its user, but it keeps a reason that stood there.
	f->by_person = n->reason_by && !td_streq(n->reason_by, "slurm") && !(n->states & TD_NODE(NOT_RESPONDING));
	f->bad = td_slurm_node_bad(n->states);
	f->reboot = n->states & (TD_NODE(REBOOT_REQUESTED) | TD_NODE(REBOOT_ISSUED));
	f->off = n->states & TD_NODE_ABSENT;
}

struct pass { // one reconcile of one node
	struct td_bridge *b;
	const char *name;
	struct td_pool_node_facts f;
	struct td_pool_node_plan p;
	struct td_slurm_nodes fresh; // read right before and after a write; empty: no write
	struct td_cancel *c;
};

// Reads Slurm's node now and decides again. TD_NOT_FOUND: Slurm does not know the node.
static int read_again(struct pass *x, struct td_slurm *slurm, struct td_error *err)
{
	td_slurm_nodes_done(&x->fresh);
	int r = td_slurm_node(slurm, x->name, x->c, &x->fresh, err);
	if (r && r != TD_NOT_FOUND)
		return r;
	slurm_facts(r ? NULL : &x->fresh.v[0], &x->f);
	td_pool_node_causes(&x->f, &x->p);
	return r;
}

// Writes to Slurm's node what the plan says.
static int act(struct pass *x, struct td_error *err)
{
	td_auto(td_link_unref) struct td_link *l = td_bridge_link(x->b, err);
	if (!l)
		return TD_TRANSIENT;

	struct td_error e = TD_ERROR_INIT;
	int r = read_again(x, l->slurm, &e);
	if (r && r != TD_NOT_FOUND)
		return td_fail(err, r, "%.500s", e.msg);

	switch (x->p.slurm) {
	case TD_NODE_LEAVE:
		return 0;
	case TD_NODE_DRAIN:
		r = td_slurm_node_update(l->slurm, x->name, "DRAIN", *x->p.reason ? x->p.reason : NULL, x->c, err);
		break;
	case TD_NODE_REASON:
		r = td_slurm_node_update(l->slurm, x->name, NULL, x->p.reason, x->c, err);
		break;
	case TD_NODE_DOWN:
		r = td_slurm_node_update(l->slurm, x->name, "DOWN", x->p.reason, x->c, err);
		break;
	case TD_NODE_UNDRAIN:
		r = td_slurm_node_undrain(l->slurm, x->name, x->c, err);
		break;
	}

	if (r)
		return r;

	td_info("node %s: %s%s%s", x->name,
		x->p.slurm == TD_NODE_UNDRAIN ? "undrained"
		: x->p.slurm == TD_NODE_DOWN  ? "its jobs end"
					      : "drained",
		*x->p.reason ? ": " : "", x->p.reason);
	td_slurm_view_hint(x->b->view, x->name);
	return read_again(x, l->slurm, err); // so that both sides show the new state at once
}

// Adds an annotation to the patch when it differs. want NULL: it is removed.
static void note(yyjson_mut_doc *d, yyjson_mut_val *patch, const struct td_object *o, const char *key, const char *want,
		 bool *changed)
{
	const char *have = td_object_annotation(o, key);
	if (td_streq(have, want))
		return;

	*changed = true;
	yyjson_mut_val *m = td_jm_obj(d, patch, "metadata.annotations");
	if (want)
		td_jm_key_str(d, m, key, want);
	else
		td_jm_key_set(d, m, key, yyjson_mut_null(d));
}

// What is shown of native jobs: what they hold, and how many they are. NULL: nothing.
struct native {
	char *use, *jobs;
};

static void native_done(struct native *n)
{
	free(n->use);
	free(n->jobs);
	*n = (struct native){0};
}

static void native_said(const struct td_object *node, struct native *ret)
{
	const char *use = td_object_annotation(node, TD_ANN_SLURM_USE),
		   *jobs = td_object_annotation(node, TD_ANN_SLURM_JOBS);
	native_done(ret);
	*ret = (struct native){use ? td_strdup(use) : NULL, jobs ? td_strdup(jobs) : NULL};
}

// What to show now. *ret_again_ms: when to look again; 0: when something changes.
static void native_now(struct td_bridge *b, const struct td_object *node, const struct td_slurm_node *sn,
		       struct native *ret, int64_t *ret_again_ms)
{
	struct native said = {0};
	*ret_again_ms = 0;
	native_said(node, &said);
	native_done(ret);
	// Before the asks know their jobs nobody can tell which are native. What has just changed may be
	// half of a change: Slurm's sums and the asks are not read at one time.
	bool known = atomic_load(&b->listed);
	if (known)
		*ret = (struct native){td_syncer_use(b, sn), sn ? td_counts_text(b, node->name) : NULL};
	bool same = known && td_streq(ret->use, said.use) && td_streq(ret->jobs, said.jobs);
	if (!same)
		*ret_again_ms = USE_MS;
	int64_t in = known && !same ? td_counts_write_in(b, node->name) : 0;
	if (in || !known) {
		native_done(ret);
		*ret = said;
		said = (struct native){0};
	}
	if (in > USE_MS)
		*ret_again_ms = in;
	native_done(&said);
}

// Writes the annotations and the taints of a Node, in one patch on the version that was read.
static int show_node(struct td_bridge *b, const struct td_object *node, const struct td_pool_node_plan *p,
		     const struct native *native, struct td_cancel *c, struct td_error *err)
{
	bool changed = false;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);

	note(d, root, node, TD_ANN_SLURM_STATE, p->state, &changed);
	note(d, root, node, TD_ANN_SLURM_REASON, p->text, &changed);
	note(d, root, node, TD_ANN_SLURM_USE, native->use, &changed);
	note(d, root, node, TD_ANN_SLURM_JOBS, native->jobs, &changed);
	if (atomic_load(&b->listed)) { // before that nobody knows which shadows there are
		td_auto_free char *shadow = td_shadow_text(b, node->name);
		note(d, root, node, TD_ANN_SHADOW, shadow, &changed);
		td_auto_free char *out = td_aside_text(b, node->name);
		note(d, root, node, TD_ANN_DEVICES_HELD, out, &changed);
		td_auto_free char *wish = td_aside_wish(b, node->name);
		note(d, root, node, TD_ANN_REQUEUE_DEVICES, wish, &changed);
	}

	changed |= td_taints_set(d, root, node->root, p->taint, p->down);
	if (!changed)
		return 0;
	td_jm_str(d, root, "metadata.uid", node->uid);
	td_jm_str(d, root, "metadata.resourceVersion", node->rv);
	return td_kube_patch(b->kube, TD_AT(&td_nodes, NULL, node->name), TD_PATCH_MERGE, root, c, NULL, err);
}

// Writes or removes the conditions SlurmDrain and SlurmDown of a Node.
static int show_conditions(struct td_bridge *b, const struct td_object *node, const struct td_pool_node_plan *p,
			   struct td_cancel *c, struct td_error *err)
{
	const struct {
		bool on;
		struct td_condition_want want;
	} v[] = {
		{p->foreign,
		 {TD_COND_DRAIN, .reason = "DrainedInSlurm", .message = "drained in Slurm, no reason given"}},
		{p->down, {TD_COND_DOWN, .reason = "DownInSlurm", .message = "down in Slurm, no reason given"}},
	};
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *list = td_jm_arr(d, root, "status.conditions");
	td_jm_str(d, root, "metadata.uid", node->uid);

	for (size_t i = 0; i < TD_LEN(v); i++) {
		struct td_condition_want w = v[i].want;
		yyjson_val *cond = td_condition(node->root, w.type);
		w.status = "True";
		w.heartbeat = true;
		w.message = p->text ? p->text : w.message;
		bool said = cond && td_streq(td_jstr(cond, "message"), w.message) &&
			    td_streq(td_jstr(cond, "status"), w.status);
		if (v[i].on && !said) {
			td_condition_add(d, list, td_jget(node->root, "status.conditions"), &w, td_real_ms(b->clock));
		} else if (!v[i].on && cond) {
			yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
			td_jm_str(d, o, "type", w.type);
			td_jm_str(d, o, "$patch", "delete");
		}
	}
	if (!yyjson_mut_arr_size(list))
		return 0;

	return td_kube_patch(b->kube, TD_AT(&td_nodes, NULL, node->name, "status"), TD_PATCH_STRATEGIC, root, c, NULL,
			     err);
}

// Words as a label value: "not responding" becomes "not-responding". Caller frees.
static char *label_of(const char *words)
{
	char *s = td_strdup(words);
	for (char *p = s; *p; p++)
		if (*p == ' ')
			*p = '-';
	return s;
}

// Writes label and annotations of the slurmd pods on a node.
static int show_pod(struct td_bridge *b, const char *name, const struct td_slurm_node *sn,
		    const struct td_pool_node_plan *p, struct td_cancel *c, struct td_error *err)
{
	td_auto_objects struct td_objects pods = {0};

	td_informer_by_index(b->slurmds, "node", name, &pods);
	for (size_t i = 0; i < pods.n; i++) {
		const struct td_object *o = pods.v[i];
		bool changed = false;
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
		td_auto_free char *label = sn ? label_of(td_slurm_node_words(sn->states)) : NULL;

		if (td_object_deleting(o) || !sn)
			continue;

		if (!td_streq(td_object_label(o, TD_LABEL_NODE_STATE), label)) {
			changed = true;
			td_jm_key_str(d, td_jm_obj(d, root, "metadata.labels"), TD_LABEL_NODE_STATE, label);
		}

		note(d, root, o, TD_ANN_NODE, name, &changed);
		note(d, root, o, TD_ANN_SLURM_STATE, p->state, &changed);
		note(d, root, o, TD_ANN_SLURM_REASON, p->text, &changed);

		if (!changed)
			continue;
		td_jm_str(d, root, "metadata.uid", o->uid);

		struct td_error e = TD_ERROR_INIT;
		int r = td_kube_patch(b->kube, TD_AT(&td_pods, o->ns, o->name), TD_PATCH_MERGE, root, c, NULL, &e);
		if (r && r != TD_NOT_FOUND && r != TD_CONFLICT)
			return td_fail(err, r, "pod %s/%s: %.400s", o->ns, o->name, e.msg);
	}
	return 0;
}

// Are so many gates held that something else must be wrong? Slow ends of pods come one by one. When
// many gates are stuck at once, draining all these nodes would only stop the pool.
static bool gate_alarm(struct td_bridge *b)
{
	td_auto_objects struct td_objects all = {0};
	size_t held = 0;

	td_informer_list(b->nodes, NULL, &all);
	for (size_t i = 0; i < all.n; i++)
		held += td_object_annotation(all.v[i], TD_ANN_GATE_HELD) != NULL;

	bool alarm = td_pool_gate_alarm(held, all.n);
	if (alarm && !atomic_exchange(&b->gate_alarm, true))
		td_err("%zu of %zu nodes wait for devices that nobody lets go: no more of them are drained for it",
		       held, all.n);
	else if (!alarm)
		atomic_store(&b->gate_alarm, false);

	return alarm;
}

// The cause of a drain when somebody whom Slurm did not place holds a device of the node, or when
// its kubelet offers fewer devices than Slurm counts; NULL: neither. Some devices are sick, or the
// device plugin is being replaced. The kubelet does not say which, so nothing new may start there: a
// pod might find no device, a native job a sick one. Caller frees. An error: not known, so a drain must
// stay as it is.
static int devices_missing(struct td_bridge *b, const struct td_object *node, const struct td_slurm_node *sn,
			   struct td_cancel *c, char **ret, struct td_error *err)
{
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	if (s && s->devices.dra)
		return sn ? td_claims_intruder(b, s, node->name, c, ret, err) : 0;
	int64_t offer = s ? td_counted_offer(s, node) : -1, gres = s && sn ? td_counted_gres(s, sn->gres) : 0;
	gres -= td_aside_unmissed(b, node, gres);
	if (offer >= 0 && offer < gres)
		*ret = td_asprintf("its kubelet offers %lld of %lld %s", (long long)offer, (long long)gres,
				   td_settings_resource(s, node->root));
	return 0;
}

static void pass_done(struct pass *x)
{
	td_slurm_nodes_done(&x->fresh);
}

int td_syncer_reconcile(void *bridge, const char *name, int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	struct td_bridge *b = bridge;
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *snap = td_slurm_view_nodes(b->view);
	td_auto(td_object_unref) struct td_object *node = td_informer_get(b->nodes, NULL, name);

	if (!td_bridge_sees(b, snap)) {
		// Slurm's side is unknown: decide nothing. A poll queues the node again only when
		// Slurm's side has changed, so look again without one.
		*again_ms = LOOK_MS;
		return 0;
	}

	const struct td_slurm_node *sn = td_slurm_node_find(&snap->nodes, name);
	__attribute__((cleanup(pass_done))) struct pass x = {
		.b = b, .name = name, .f = {.k8s = node, .lost_state = atomic_load(&b->lost)}, .c = c};

	if (node) {
		x.f.cordoned = td_jbool(node->root, "spec.unschedulable", false);
		x.f.request = td_object_annotation(node, TD_ANN_DRAIN);
		x.f.hold = td_object_annotation(node, TD_ANN_HOLD);
		x.f.end_jobs = td_object_annotation(node, TD_ANN_END_JOBS);
		x.f.gate = td_object_annotation(node, TD_ANN_GATE_HELD);
		x.f.gate_alarm = x.f.gate && gate_alarm(b);
	}

	td_auto_free char *devices = NULL;
	int r = node ? devices_missing(b, node, sn, c, &devices, err) : 0;
	if (r)
		return td_wrap(err, "node %s", name);
	x.f.devices = devices;
	slurm_facts(sn, &x.f);
	td_pool_node_causes(&x.f, &x.p);

	if (x.p.slurm != TD_NODE_LEAVE) {
		r = act(&x, err);
		if (r)
			return td_wrap(err, "node %s", name);
		if (x.fresh.n)
			sn = &x.fresh.v[0];
	}

	if (!node && atomic_load(&b->listed)) {
		td_shadow_gone(b, name);
		r = td_aside_gone(b, name, c, err);
		return r ? td_wrap(err, "node %s, which is gone", name) : 0;
	}
	if (!node || !x.p.decided)
		return 0;

	struct td_error e = TD_ERROR_INIT;
	bool look = false;
	int shadows = atomic_load(&b->listed) ? td_shadow_sync(b, node, sn, &look, c, &e) : 0;
	if (!shadows && atomic_load(&b->listed))
		shadows = td_aside_sync(b, node, sn, &look, c, &e);
	// What it could not do is said at the end: the rest of the node is shown all the same.
	struct td_error shadow_err = e;
	__attribute__((cleanup(native_done))) struct native native = {0};
	native_now(b, node, sn, &native, again_ms);
	r = show_node(b, node, &x.p, &native, c, &e);
	if (!r || r == TD_CONFLICT)
		r = show_conditions(b, node, &x.p, c, &e);
	if (!r)
		r = show_pod(b, name, sn, &x.p, c, &e);
	if (!r && atomic_load(&b->listed)) // no stand-in gets the signal
		r = td_syncer_signal(b, node, x.f.drain, c, &e);
	if (!r)
		r = td_syncer_leave(b, name, sn, again_ms, c, &e);
	bool place = false;
	if (!r && atomic_load(&b->listed))
		r = td_place_show(b, sn, &place, c, &e);
	if ((look || place) && (!*again_ms || *again_ms > USE_MS))
		*again_ms = USE_MS;

	if (r == TD_NOT_FOUND)
		r = 0;
	if (!r && shadows)
		return td_fail(err, shadows, "what is held on node %s for nobody: %.400s", name, shadow_err.msg);
	return r ? td_fail(err, r, "showing Slurm's state of node %s: %.400s", name, e.msg) : 0;
}

// In how many ms the Kubernetes side must show a change of Slurm's record. -1: nothing that is
// shown has changed.
static int64_t show_in(const struct td_slurm_node *old, const struct td_slurm_node *now)
{
	// The soft states pass by themselves after a restart of slurmctld, so they are shown a
	// little later. So are idle, mixed and the like, which are only a label.
	const uint64_t soft = TD_NODE(NOT_RESPONDING) | TD_NODE(UNKNOWN), hard = (TD_NODE_BAD & ~soft) | TD_NODE(DRAIN);

	if (!old || ((old->states ^ now->states) & hard) || !td_streq(old->reason, now->reason))
		return 0;
	if (strcmp(td_slurm_node_words(old->states), td_slurm_node_words(now->states)) != 0)
		return now->states & TD_NODE(DRAIN) ? 0 : POD_LABEL_MS;
	// What pods and native jobs hold is told apart when both sides of it are known.
	if (old->alloc_cpus != now->alloc_cpus || old->alloc_memory_mb != now->alloc_memory_mb ||
	    !td_streq(old->gres_used, now->gres_used))
		return POD_LABEL_MS;
	return (old->states ^ now->states) & soft ? POD_LABEL_MS : -1;
}

void td_syncer_nodes_changed(struct td_bridge *b, const struct td_slurm_snapshot *old,
			     const struct td_slurm_snapshot *now)
{
	for (size_t i = 0; i < now->nodes.n; i++) {
		const struct td_slurm_node *n = &now->nodes.v[i],
					   *o = old ? td_slurm_node_find(&old->nodes, n->name) : NULL;
		int64_t in = show_in(o, n);
		if (!in)
			td_queue_add(b->node_queue, n->name);
		else if (in > 0)
			td_queue_add_after(b->node_queue, n->name, in);
	}

	for (size_t i = 0; old && i < old->nodes.n; i++)
		if (!td_slurm_node_find(&now->nodes, old->nodes.v[i].name))
			td_queue_add(b->node_queue, old->nodes.v[i].name);
}
