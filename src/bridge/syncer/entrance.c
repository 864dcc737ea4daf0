// Pods of other schedulers at the gate of spec.shadows (entrance.h).
#include "bridge/syncer/entrance.h"

#include "bridge/syncer/near.h"
#include "bridge/syncer/shadow_priv.h"
#include "pool/entrance.h"

#include "api/condition.h"
#include "api/quantity.h"
#include "api/selector.h"
#include "api/taint.h"
#include "base/log.h"

#include <string.h>

enum { LOOK = 256, SOON_MS = 50, AWAY_MS = 1000, TICK_MS = 5000, SHAPES = 1024, MOST_SHAPE = 16384 };
#define HOSTNAME "kubernetes.io/hostname"

struct gate_waiter { // a pod with the gate
	char *uid;
	char *node;           // promised; NULL: none yet
	int64_t since_ms;     // mono: when it was promised, or when the whole pool was looked at last
	int64_t pause_ms;     // from then on until the pool is looked at again
	size_t looked;        // nodes, in this round
	bool any;             // in this round: a node of the pool is for it
	bool lost;            // in this round: it cannot be where it was promised
	struct td_near *near; // where it may go by what was there when so many were promised
	uint64_t near_at;
	char *best;               // in this round: where it has room later
	struct td_pool_door door; // of best
	char *elsewhere;          // a node of another SlurmCluster that it is for; NULL: none is known
	char *said;
	UT_hash_handle hh;
};
// Pods that ask for the same: what one has looked for in vain the next ones need not look for at once.
struct gate_shape {
	char *text;
	int64_t vain_ms; // mono
	UT_hash_handle hh;
};
struct td_entrance {
	pthread_mutex_t lock;  // guards the next two
	struct td_strv gone;   // uids of pods that wait no more
	struct td_strv lifted; // uids of pods whose gate was taken off, until the cache shows that
	struct td_queue *queue;
	// Of the one worker.
	struct gate_waiter *by_uid;
	struct gate_shape *shapes;
	uint64_t promises;     // how often the places of pods have changed, as far as this worker knows
	size_t at;             // where the next look begins: room of one node is used up first
	char *last, *last_uid; // the pod that was promised a node last, until the cache shows it
};

static struct gate_waiter *forget(struct td_entrance *e, struct gate_waiter *w)
{
	if (!w)
		return NULL;
	HASH_DEL(e->by_uid, w);
	free(w->uid);
	free(w->node);
	free(w->best);
	free(w->elsewhere);
	free(w->said);
	td_near_free(w->near);
	free(w);
	return NULL;
}

struct td_entrance *td_entrance_new(const struct td_clock *clock)
{
	struct td_entrance *e = td_calloc(1, sizeof(*e));
	pthread_mutex_init(&e->lock, NULL);
	e->queue = td_queue_new(clock);
	return e;
}

static void forget_shapes(struct td_entrance *e)
{
	struct gate_shape *x, *tmp;
	HASH_ITER (hh, e->shapes, x, tmp) {
		HASH_DEL(e->shapes, x);
		free(x->text);
		free(x);
	}
}

struct td_entrance *td_entrance_free(struct td_entrance *e)
{
	struct gate_waiter *w, *tmp;
	if (!e)
		return NULL;
	forget_shapes(e);
	HASH_ITER (hh, e->by_uid, w, tmp)
		forget(e, w);
	td_queue_free(e->queue);
	td_strv_done(&e->gone);
	td_strv_done(&e->lifted);
	free(e->last);
	free(e->last_uid);
	pthread_mutex_destroy(&e->lock);
	free(e);
	return NULL;
}

struct td_queue *td_entrance_queue(struct td_bridge *b)
{
	return b->entrance->queue;
}

// Has it our gate? *ret_others: other gates besides, which their owners lift first.
static bool gated(const struct td_object *pod, bool *ret_others)
{
	size_t i, n;
	yyjson_val *gate;
	bool ours = false, others = false;
	yyjson_arr_foreach (td_jget(pod->root, "spec.schedulingGates"), i, n, gate) {
		bool is = td_streq(td_jstr(gate, "name"), TD_GATE_SHADOW);
		ours |= is;
		others |= !is;
	}
	if (ret_others)
		*ret_others = others;
	return ours;
}

bool td_entrance_waits(const struct td_object *pod)
{
	return gated(pod, NULL);
}

void td_entrance_index(const struct td_object *o, struct td_strv *ret)
{
	const char *node = td_object_annotation(o, TD_ANN_SHADOW_NODE);
	if (node)
		td_strv_add(ret, node);
}

static void drop(struct td_strv *l, const char *s)
{
	for (size_t i = 0; i < l->n; i++)
		if (td_streq(l->v[i], s)) {
			free(l->v[i]);
			l->v[i] = l->v[--l->n];
			return;
		}
}

void td_entrance_on_pod(void *bridge, struct td_object *old, struct td_object *now)
{
	struct td_bridge *b = bridge;
	const char *was = old ? td_object_annotation(old, TD_ANN_SHADOW_NODE) : NULL,
		   *is = now ? td_object_annotation(now, TD_ANN_SHADOW_NODE) : NULL;
	bool open = now && !gated(now, NULL);
	if (was && (!now || !td_streq(was, is)))
		td_queue_add(b->node_queue, was);
	if (is && (!old || !td_streq(was, is) || td_object_deleting(now)))
		td_queue_add(b->node_queue, is);
	if (old && (!now || open) && gated(old, NULL)) {
		pthread_mutex_lock(&b->entrance->lock);
		td_strv_add(&b->entrance->gone, old->uid);
		drop(&b->entrance->lifted, old->uid);
		pthread_mutex_unlock(&b->entrance->lock);
	}
	// Its status changes while it waits, by us too.
	if (now && !open &&
	    (!old || !td_streq(was, is) || td_object_deleting(now) ||
	     !td_jequal(td_jget(old->root, "spec"), td_jget(now->root, "spec")))) {
		td_auto_free char *key = td_key_of(now);
		td_queue_add(b->entrance->queue, key);
	}
}

// Adds those that are not among the first `n` of io.
static void add_new(struct td_objects *io, size_t n, const struct td_objects *from)
{
	for (size_t i = 0; i < from->n; i++) {
		bool known = false;
		for (size_t k = 0; k < n && !known; k++)
			known = td_streq(io->v[k]->uid, from->v[i]->uid);
		if (!known)
			td_objects_add(io, td_object_ref(from->v[i]));
	}
}

void td_entrance_promised(struct td_bridge *b, const char *node, bool lifted, struct td_objects *io)
{
	td_auto_objects struct td_objects all = {0}, open = {0};
	td_informer_by_index(b->unplaced, "shadow-node", node, &all);
	for (size_t i = 0; lifted && i < all.n; i++)
		if (!gated(all.v[i], NULL))
			td_objects_add(&open, td_object_ref(all.v[i]));
	add_new(io, io->n, lifted ? &open : &all);
}

// ---- which node ----
static bool closed(const struct td_slurm_node *n)
{
	return td_slurm_node_bad(n->states) ||
	       n->states & (TD_NODE(DRAIN) | TD_NODE(DOWN) | TD_NODE(NOT_RESPONDING) | TD_NODE_ABSENT);
}

// Taints that come and go with what a node is doing.
static bool passes_by(const char *taint)
{
	return td_starts(taint, "node.kubernetes.io/") || td_starts(taint, "node.cloudprovider.kubernetes.io/") ||
	       td_taint_ours(taint);
}

// May the pod use the node some day, when what it is doing now is over?
static bool some_day(const struct td_object *pod, const struct td_object *node)
{
	const yyjson_val *spec = td_jget(pod->root, "spec");
	bool any = false;
	yyjson_val *t;
	size_t i, n;
	if (td_api_pod_fits_node(spec, node->root, true, NULL))
		return true;
	yyjson_arr_foreach (td_jget(node->root, "spec.taints"), i, n, t)
		any |= passes_by(td_jstr_or(t, "key", ""));
	if (!any)
		return false;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *taints = td_jm_arr(d, root, "spec.taints");
	td_jm_copyval(d, root, "metadata.labels", td_jget(node->root, "metadata.labels"));
	td_jm_str(d, root, "metadata.name", node->name);
	yyjson_arr_foreach (td_jget(node->root, "spec.taints"), i, n, t)
		if (!passes_by(td_jstr_or(t, "key", "")))
			yyjson_mut_arr_append(taints, yyjson_val_mut_copy(d, t));
	td_auto(td_json_unref) struct td_json *copy = td_jm_done(td_steal(d));
	return td_api_pod_fits_node(spec, td_json_root(copy), true, NULL);
}

// What the node has for the pod. False: what Slurm gives out there is not known.
static bool look(struct td_bridge *b, const struct td_settings *s, const struct td_object *pod,
		 const struct td_object *node, const struct td_slurm_node *n, struct td_pool_door *ret)
{
	td_auto_objects struct td_objects there = {0}, all = {0};
	struct td_shadow_wants wants = {0};
	td_informer_by_index(b->others, "node", node->name, &there);
	td_entrance_promised(b, node->name, false, &there);
	bool in = false;
	for (size_t i = 0; i < there.n; i++)
		in |= td_streq(there.v[i]->uid, pod->uid);
	td_informer_by_index(b->pods, "node", node->name, &all);
	for (size_t i = 0; i < there.n; i++)
		td_objects_add(&all, td_object_ref(there.v[i]));
	if (!in)
		td_objects_add(&there, td_object_ref((struct td_object *)(uintptr_t)pod));
	bool known = td_shadow_want_of(b, s, node, &there, &wants);
	td_buf_done(&wants.pods);

	int64_t most = 0;
	td_quantity_ceil(td_jstr_or(td_jget(node->root, "status.allocatable"), "pods", "0"), &most, NULL);
	const struct td_pool_size held = td_shadow_holds(b, node->name);
	const int64_t cpus = n->alloc_cpus > held.cpus ? n->alloc_cpus : held.cpus,
		      memory = n->alloc_memory_mb > held.memory_mb ? n->alloc_memory_mb : held.memory_mb;
	*ret = (struct td_pool_door){.lacks = td_pool_shadow_missing(wants.want, held),
				     .room = {n->cpus - cpus, n->memory_mb - memory},
				     .over = wants.over,
				     .closed = closed(n) || (int64_t)all.n >= most};
	return known;
}

// Looks at up to LOOK nodes of `nodes`. The one with room now; NULL: none among these. Of the whole round, w knows what
// was seen.
static const struct td_slurm_node *choose(struct td_bridge *b, const struct td_settings *s, const struct td_object *pod,
					  struct gate_waiter *w, const struct td_slurm_nodes *nodes)
{
	const char *at = td_object_annotation(pod, TD_ANN_SHADOW_NODE);
	struct td_entrance *e = b->entrance;
	for (size_t i = 0; i < LOOK && w->looked < nodes->n; i++, w->looked++, e->at++) {
		const struct td_slurm_node *n = &nodes->v[e->at % nodes->n];
		td_auto(td_object_unref) struct td_object *node = td_informer_get(b->nodes, NULL, n->name);
		struct td_pool_door door;
		if (!node)
			continue;
		const bool fits = td_api_pod_fits_node(td_jget(pod->root, "spec"), node->root, false, NULL);
		w->any = w->any || fits || some_day(pod, node);
		const bool mine = td_streq(n->name, at);
		w->lost = w->lost || (mine && !fits);
		if (!fits || !td_object_label(node, HOSTNAME) || !look(b, s, pod, node, n, &door))
			continue;
		door.apart = !td_near_fits(w->near, node, NULL);
		enum td_pool_door_is is = td_pool_door(&door);
		w->lost = w->lost || (mine && is == TD_DOOR_SHUT);
		if (is == TD_DOOR_NOW)
			return n;
		if (is == TD_DOOR_LATER && (!w->best || td_pool_door_better(&door, &w->door))) {
			free(w->best);
			w->best = td_strdup(n->name);
			w->door = door;
		}
	}
	return NULL;
}

static void next_round(struct gate_waiter *w)
{
	w->looked = 0;
	w->any = w->lost = false;
	free(w->best);
	w->best = NULL;
}

// ---- what is written on the pod ----
// Starts a patch of this version of the pod.
static yyjson_mut_val *patch_of(yyjson_mut_doc *d, const struct td_object *pod)
{
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "metadata.uid", pod->uid);
	td_jm_str(d, root, "metadata.resourceVersion", pod->rv);
	return root;
}

// TD_NOT_FOUND, TD_CONFLICT: it has changed; its change queues it again.
static int write(struct td_bridge *b, const struct td_object *pod, const yyjson_mut_val *patch, struct td_cancel *c,
		 struct td_error *err)
{
	if (!td_lease_holds())
		return td_fail(err, TD_CANCELLED, "another leads now");
	return td_kube_patch(b->kube, TD_AT(&td_pods, pod->ns, pod->name), TD_PATCH_MERGE, patch, c, NULL, err);
}

static int promise(struct td_bridge *b, const struct td_object *pod, struct gate_waiter *w, const char *node,
		   struct td_cancel *c, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = patch_of(d, pod);
	td_jm_key_str(d, td_jm_obj(d, root, "metadata.annotations"), TD_ANN_SHADOW_NODE, node);
	int r = write(b, pod, root, c, err);
	if (r)
		return r;
	struct td_entrance *e = b->entrance;
	free(e->last);
	free(e->last_uid);
	e->last = td_key_of(pod);
	e->last_uid = td_strdup(pod->uid);
	e->promises++;
	free(w->node);
	w->node = td_strdup(node);
	w->since_ms = td_now(b);
	return 0;
}

// Takes the gate off. node NULL: the pod is for no node of the pool.
static int lift(struct td_bridge *b, const struct td_object *pod, const struct td_object *node, struct td_cancel *c,
		struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = patch_of(d, pod);
	td_jm_arr(d, root, "spec.schedulingGates");
	if (node)
		td_jm_key_str(d, td_jm_obj(d, root, "spec.nodeSelector"), HOSTNAME, td_object_label(node, HOSTNAME));
	int r = write(b, pod, root, c, err);
	if (!r)
		td_info("pod %s/%s of another scheduler may start%s%s", pod->ns, pod->name, node ? " on " : "",
			node ? node->name : ", on no node of the pool");
	return r;
}

// Says on the pod why it waits.
static void say(struct td_bridge *b, const struct td_object *pod, struct gate_waiter *w, struct td_cancel *c,
		const char *text)
{
	if (td_streq(w->said, text))
		return;
	struct td_error e = TD_ERROR_INIT;
	const struct td_condition_want want = {
		.type = "PodScheduled", .status = "False", .reason = "SchedulingGated", .message = text};
	if (td_kube_pod_condition(b->kube, pod, &want, b->clock, c, &e))
		return; // it is said the next time
	free(w->said);
	w->said = td_strdup(text);
}

// ---- reconcile ----
static bool is_for(const struct td_object *pod, const struct td_object *node)
{
	return td_object_annotation(node, TD_ANN_SHADOW) && some_day(pod, node);
}

// Is the pod for a node where anybody has shadows? Asked only where none of ours is for it. All nodes are looked at until
// one is found, and again when that one is for it no more.
static bool shadowed(struct td_bridge *b, const struct td_object *pod, struct gate_waiter *w)
{
	td_auto(td_object_unref) struct td_object *last =
		w->elsewhere ? td_informer_get(b->nodes, NULL, w->elsewhere) : NULL;
	if (last && is_for(pod, last))
		return true;
	td_auto_objects struct td_objects nodes = {0};
	td_informer_list(b->nodes, NULL, &nodes);
	for (size_t i = 0; i < nodes.n; i++)
		if (is_for(pod, nodes.v[i])) {
			free(w->elsewhere);
			w->elsewhere = td_strdup(nodes.v[i]->name);
			return true;
		}
	return false;
}

static struct gate_waiter *waiter_of(struct td_entrance *e, const struct td_object *pod)
{
	struct gate_waiter *w;
	HASH_FIND_STR(e->by_uid, pod->uid, w);
	if (!w) {
		w = td_calloc(1, sizeof(*w));
		w->uid = td_strdup(pod->uid);
		HASH_ADD_KEYPTR(hh, e->by_uid, w->uid, strlen(w->uid), w);
	}
	return w;
}

static void tidy(struct td_entrance *e)
{
	pthread_mutex_lock(&e->lock);
	struct td_strv gone = e->gone;
	e->gone = (struct td_strv){0};
	pthread_mutex_unlock(&e->lock);
	for (size_t i = 0; i < gone.n; i++) {
		struct gate_waiter *w;
		HASH_FIND_STR(e->by_uid, gone.v[i], w);
		forget(e, w);
	}
	td_strv_done(&gone);
}

// Does the cache not show yet what was promised last?
static bool behind(struct td_bridge *b)
{
	struct td_entrance *e = b->entrance;
	if (!e->last)
		return false;
	td_auto_free char *ns = NULL, *name = NULL;
	td_key_split(e->last, &ns, &name);
	td_auto(td_object_unref) struct td_object *pod = td_informer_get(b->unplaced, ns, name);
	struct gate_waiter *w;
	HASH_FIND_STR(e->by_uid, e->last_uid, w);
	if (pod && w && td_streq(pod->uid, e->last_uid) && gated(pod, NULL) &&
	    !td_streq(td_object_annotation(pod, TD_ANN_SHADOW_NODE), w->node))
		return true;
	free(e->last);
	free(e->last_uid);
	e->last = e->last_uid = NULL;
	return false;
}

// A whole round has found no room. Says so; a pod without a promise is promised the node where it lacks least.
static int wait_for_room(struct td_bridge *b, const struct td_object *pod, struct gate_waiter *w, const char *at,
			 struct td_cancel *c, struct td_error *err)
{
	td_auto_free char *text = NULL, *node = NULL;
	// Where it cannot be it does not stay: its room there would be held for nobody, and before all that came later.
	const bool moves = w->best && (!at || w->lost);
	if (at || moves)
		node = td_strdup(moves ? w->best : at);
	int r = moves ? promise(b, pod, w, node, c, err) : 0;
	if (r)
		return r;
	if (node)
		text = td_asprintf("it waits until Slurm holds its CPUs and memory on %s, before every job that "
				   "waits (spec.shadows); then its own scheduler places it there",
				   node);
	else
		text = td_strdup(
			"no node of the pool that it may use has room for it now (spec.shadows): each is "
			"full, drained or down, or has not what it must be near to, or apart from: other pods, "
			"its volumes, its spread constraints");
	say(b, pod, w, c, text);
	return 0;
}

// What the choice of a node depends on. Pods of one owner have the same. NULL: it is too long to be remembered, as whoever
// makes a pod says how long it is. Caller frees.
static char *shape_of(const struct td_object *pod)
{
	static const char *const parts[] = {"spec.nodeSelector", "spec.affinity", "spec.tolerations",
					    "spec.topologySpreadConstraints", "metadata.labels"};
	const yyjson_val *spec = td_jget(pod->root, "spec");
	td_auto_buf struct td_buf t = {0};
	td_buf_printf(&t, "%s %lld %lld", pod->ns, (long long)td_api_pod_request(spec, "cpu"),
		      (long long)td_api_pod_request(spec, "memory"));
	for (size_t i = 0; i < TD_LEN(parts); i++) {
		yyjson_val *v = td_jget(pod->root, parts[i]);
		td_auto_free char *text = v ? td_json_text(v, NULL) : NULL;
		td_buf_printf(&t, " %s", text ? text : "");
	}
	size_t i, n;
	yyjson_val *v;
	yyjson_arr_foreach (td_jget(pod->root, "spec.volumes"), i, n, v)
		if (td_jget(v, "persistentVolumeClaim") || td_jget(v, "ephemeral"))
			td_buf_printf(&t, " %s", pod->uid); // its volumes are its own
	return t.len <= MOST_SHAPE ? td_buf_take(&t) : NULL;
}

// Has a pod of the same shape looked at the whole pool in vain a moment ago?
static bool in_vain(struct td_bridge *b, const struct td_object *pod)
{
	td_auto_free char *text = shape_of(pod);
	struct gate_shape *x = NULL;
	if (text)
		HASH_FIND_STR(b->entrance->shapes, text, x);
	return x && td_now(b) - x->vain_ms < TICK_MS;
}

static void note_vain(struct td_bridge *b, const struct td_object *pod)
{
	struct td_entrance *e = b->entrance;
	td_auto_free char *text = shape_of(pod);
	struct gate_shape *x;
	if (!text)
		return;
	if (HASH_COUNT(e->shapes) >= SHAPES)
		forget_shapes(e);
	HASH_FIND_STR(e->shapes, text, x);
	if (!x) {
		x = td_calloc(1, sizeof(*x));
		x->text = td_steal(text);
		HASH_ADD_KEYPTR(hh, e->shapes, x->text, strlen(x->text), x);
	}
	x->vain_ms = td_now(b);
}

int td_entrance_reconcile(void *bridge, const char *key, int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	struct td_bridge *b = bridge;
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *snap = td_slurm_view_nodes(b->view);
	td_auto_free char *ns = NULL, *name = NULL;
	td_key_split(key, &ns, &name);
	td_auto(td_object_unref) struct td_object *pod = td_informer_get(b->unplaced, ns, name);
	bool others = false;
	tidy(b->entrance);
	if (!pod || td_object_deleting(pod) || !gated(pod, &others) || others)
		return 0;
	struct gate_waiter *w = waiter_of(b->entrance, pod);
	if (!s || !td_bridge_sees(b, snap) || !atomic_load(&b->listed)) {
		*again_ms = AWAY_MS;
		if (s && s->shadows)
			say(b, pod, w, c,
			    "it waits until Slurm, which does not answer now, holds its CPUs and memory "
			    "(spec.shadows)");
		return 0;
	}
	if (behind(b)) {
		*again_ms = SOON_MS;
		return 0;
	}

	const char *at = td_object_annotation(pod, TD_ANN_SHADOW_NODE);
	const struct td_slurm_node *there = at ? td_slurm_node_find(&snap->nodes, at) : NULL;
	*again_ms = TICK_MS;
	if (at && !there) {
		td_auto(td_object_unref) struct td_object *node = td_informer_get(b->nodes, NULL, at);
		if (node && td_object_annotation(node, TD_ANN_SHADOW))
			return 0; // another SlurmCluster's
		at = NULL;
	}
	if (!s->shadows || !snap->nodes.n) // it was turned off while pods waited
		return shadowed(b, pod, w) ? 0 : lift(b, pod, NULL, c, err);

	if (there && !td_streq(w->node, at)) {
		free(w->node);
		w->node = td_strdup(at);
		w->since_ms = td_now(b);
		w->pause_ms = td_pool_door_pause(0);
		next_round(w);
		td_queue_add(b->node_queue, at);
		return 0;
	}
	int64_t left = w->since_ms + w->pause_ms - td_now(b);
	if (w->since_ms && left > 0) { // the round goes on when it is time
		*again_ms = left < TICK_MS ? left : TICK_MS;
		return 0;
	}

	// Who has a promise, and only waits for a better one, does not look where another one like it has just found none.
	if (there && !w->looked && in_vain(b, pod)) {
		w->since_ms = td_now(b);
		w->pause_ms = td_pool_door_pause(w->pause_ms);
		return 0;
	}
	if (!w->near || w->near_at != b->entrance->promises || !w->looked) {
		w->near = td_near_free(w->near);
		w->near_at = b->entrance->promises;
		int k = td_near_read(b, pod, true, c, &w->near, err);
		if (k)
			return k;
	}
	const struct td_slurm_node *n = choose(b, s, pod, w, &snap->nodes);
	if (!n && w->looked < snap->nodes.n) {
		*again_ms = 1;
		return 0;
	}
	int r = 0;
	if (n && at && td_streq(n->name, at))
		td_queue_add(b->node_queue, at);
	else if (n)
		r = promise(b, pod, w, n->name, c, err);
	else if (!w->any && !shadowed(b, pod, w))
		r = lift(b, pod, NULL, c, err);
	else
		r = wait_for_room(b, pod, w, at, c, err);
	if (!n && !r && !w->lost)
		note_vain(b, pod);
	next_round(w);
	w->near = td_near_free(w->near);
	w->since_ms = r ? 0 : td_now(b);
	w->pause_ms = td_pool_door_pause(n || r ? 0 : w->pause_ms);
	return r;
}

// ---- the gate goes ----
static int by_age(const void *a, const void *b)
{
	const struct td_object *x = *(struct td_object *const *)a, *y = *(struct td_object *const *)b;
	int r = strcmp(td_jstr_or(x->root, "metadata.creationTimestamp", ""),
		       td_jstr_or(y->root, "metadata.creationTimestamp", ""));
	return r ? r : strcmp(x->uid, y->uid);
}

// Adds what the API server has on the node now. A pod that is being placed leaves one cache before or after it comes into
// the other: were it in neither, its room would be another's.
static int there_now(struct td_bridge *b, const char *node, struct td_objects *io, struct td_cancel *c,
		     struct td_error *err)
{
	td_auto_free char *fields = td_asprintf("spec.nodeName=%s", node);
	td_auto_objects struct td_objects live = {0};
	int r = td_kube_list(b->kube, &td_pods, NULL, NULL, fields, c, &live, err);
	if (!r)
		add_new(io, io->n, &live);
	return r;
}

// Does Slurm hold the room of all these? *ret_over: the node is too small for them, so it never will.
static bool held(struct td_bridge *b, const struct td_settings *s, const struct td_object *node,
		 const struct td_objects *there, bool *ret_over)
{
	struct td_shadow_wants wants = {0};
	bool known = td_shadow_want_of(b, s, node, there, &wants);
	td_buf_done(&wants.pods);
	const struct td_pool_size lacks = td_pool_shadow_missing(wants.want, td_shadow_holds(b, node->name));
	*ret_over = known && wants.over;
	return known && !wants.over && !lacks.cpus && !lacks.memory_mb;
}

static bool was_lifted(struct td_entrance *e, const struct td_object *pod)
{
	pthread_mutex_lock(&e->lock);
	bool is = td_strv_has(&e->lifted, pod->uid);
	pthread_mutex_unlock(&e->lock);
	return is;
}

static void note_lifted(struct td_entrance *e, const struct td_object *pod)
{
	pthread_mutex_lock(&e->lock);
	if (!td_strv_has(&e->lifted, pod->uid))
		td_strv_add(&e->lifted, pod->uid);
	pthread_mutex_unlock(&e->lock);
}

// May the pod be on the node, as things are now? Its volumes have not moved since it was promised.
static bool may_be(struct td_bridge *b, const struct td_object *pod, const struct td_object *node, struct td_cancel *c)
{
	td_auto(td_near_free) struct td_near *near = NULL;
	struct td_error e = TD_ERROR_INIT;
	return td_api_pod_fits_node(td_jget(pod->root, "spec"), node->root, false, NULL) &&
	       !td_near_read(b, pod, false, c, &near, &e) && td_near_fits(near, node, NULL);
}

int td_entrance_open(struct td_bridge *b, const struct td_settings *s, const struct td_object *node,
		     const struct td_slurm_node *n, struct td_cancel *c, struct td_error *err)
{
	td_auto_objects struct td_objects all = {0}, there = {0};
	td_informer_by_index(b->unplaced, "shadow-node", node->name, &all);
	if (!all.n || !s->shadows || closed(n) || !td_object_label(node, HOSTNAME))
		return 0;
	qsort(all.v, all.n, sizeof(struct td_object *), by_age);
	td_informer_by_index(b->others, "node", node->name, &there);
	td_entrance_promised(b, node->name, true, &there);
	bool sure = false;
	// First those whose gate is off though the cache does not show it yet: they have their room, and writing it
	// again does nothing.
	for (size_t k = 0; k < 2 * all.n; k++) {
		const struct td_object *pod = all.v[k % all.n];
		bool others;
		if (td_object_deleting(pod) || !gated(pod, &others) || others ||
		    was_lifted(b->entrance, pod) != (k < all.n))
			continue;
		bool over;
		td_objects_add(&there, td_object_ref(all.v[k % all.n]));
		const bool has = held(b, s, node, &there, &over);
		// Who cannot be here holds nobody up: he is promised another node, or waits for one.
		if (k >= all.n && ((!has && over) || !may_be(b, pod, node, c))) {
			td_object_unref(there.v[--there.n]);
			continue;
		}
		if (!has)
			return 0; // his turn, when more is held
		int r = sure ? 0 : there_now(b, node->name, &there, c, err);
		if (r)
			return r;
		if (!sure && !held(b, s, node, &there, &over))
			return 0;
		sure = true;
		note_lifted(b->entrance, pod); // before: a lost reply may mean that it is off
		r = lift(b, pod, node, c, err);
		if (r && r != TD_NOT_FOUND && r != TD_CONFLICT)
			return r;
	}
	return 0;
}
