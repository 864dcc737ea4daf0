// The Nodes here that stand for nodes there.
#include "far/link.h"

#include "api/condition.h"
#include "api/kinds.h"
#include "api/quantity.h"
#include "api/selector.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/names.h"
#include "base/together.h"
#include "kube/nodelease.h"

#include <arpa/inet.h>
#include <string.h>
#include <uthash.h>

#define NOT_OURS "node %s is there already, and is not of this NodeSet: give the NodeSet another name"
#define OUR_DRAIN "other cluster: "
enum { NAME_MAX_LEN = 63, RESOURCES = 16, LOOK_MS = 15000, ALL_MS = 60000, BEATS_EACH = 32, BEATS_MOST = 16 };

struct td_far_offers { // of one node there
	struct {
		char *key;
		struct td_pool_far_offered of;
	} v[RESOURCES];
	size_t n;
	char *problem; // of this node; guarded by the link's lock. NULL: none
	UT_hash_handle hh;
	char name[];
};

static void offers_drop(struct td_far_offers **all, struct td_far_offers *o)
{
	HASH_DEL(*all, o);
	for (size_t i = 0; i < o->n; i++)
		free(o->v[i].key);
	free(o->problem);
	free(o);
}

struct td_far_offers *td_far_offers_free(struct td_far_offers *all)
{
	struct td_far_offers *o, *tmp;
	HASH_ITER (hh, all, o, tmp)
		offers_drop(&all, o);
	return NULL;
}

static struct td_far_offers *offers_of(struct td_far_link *l, const char *name)
{
	struct td_far_offers *o = NULL;
	pthread_mutex_lock(&l->lock);
	HASH_FIND_STR(l->offers, name, o);
	if (!o) {
		size_t n = strlen(name) + 1;
		o = td_calloc(1, sizeof(*o) + n);
		memcpy(o->name, name, n);
		HASH_ADD_STR(l->offers, name, o);
	}
	pthread_mutex_unlock(&l->lock);
	return o;
}

// What is wrong with a node, NULL: nothing. Of those of all nodes the first is told.
static void tell(struct td_far_link *l, const char *name, const char *problem)
{
	struct td_far_offers *o = problem ? offers_of(l, name) : NULL;
	td_auto_free char *first = NULL;
	pthread_mutex_lock(&l->lock);
	if (!o)
		HASH_FIND_STR(l->offers, name, o);
	bool same = !o || td_streq(o->problem, problem);
	if (!same) {
		free(o->problem);
		o->problem = td_strdup(problem);
	}
	for (const struct td_far_offers *p = same ? NULL : l->offers; p && !first; p = p->hh.next)
		first = td_strdup(p->problem);
	pthread_mutex_unlock(&l->lock);
	if (!same)
		td_far_link_say(l, TD_FAR_OF_NODES, first);
}

// It is gone there. Its name may not come again, and there is no end of names.
static void forget(struct td_far_link *l, const char *name)
{
	struct td_far_offers *o = NULL;
	pthread_mutex_lock(&l->lock);
	HASH_FIND_STR(l->offers, name, o);
	if (o)
		offers_drop(&l->offers, o);
	pthread_mutex_unlock(&l->lock);
}

static char *name_here(const struct td_far_link *l, const char *there)
{
	return td_asprintf("%s-%s", l->set->name, there);
}

bool td_far_node_here(const struct td_far_link *l, const char *there)
{
	td_auto_free char *name = there ? name_here(l, there) : NULL;
	td_auto(td_object_unref) struct td_object *node = name ? td_informer_get(l->nodes, NULL, name) : NULL;
	return node;
}

int64_t td_far_amount(const yyjson_val *list, const char *key)
{
	int64_t v = 0;
	char num[24];
	const char *s = td_jkey_str(list, key);
	if (!s && td_jkey(list, key)) {
		snprintf(num, sizeof(num), "%lld", (long long)yyjson_get_sint(td_jkey(list, key)));
		s = num;
	}
	return s && !(strcmp(key, "cpu") ? td_quantity_ceil(s, &v, NULL) : td_quantity_milli(s, &v, NULL)) ? v : 0;
}

// What of a node's resources this pool is told of.
static bool told(const char *key)
{
	return !strcmp(key, "cpu") || !strcmp(key, "memory") || !strcmp(key, "pods") || strchr(key, '/');
}

// The most of it that a node is believed to have.
static int64_t believed(const char *key)
{
	return !strcmp(key, "cpu")      ? TD_FAR_CPUS * 1000LL
	       : !strcmp(key, "memory") ? (int64_t)1 << 46
	       : !strcmp(key, "pods")   ? TD_FAR_PODS
					: TD_FAR_DEVICES;
}

// What the pods with these specs hold of it.
static int64_t held(yyjson_val *const *specs, size_t n, const char *key)
{
	int64_t sum = 0;
	for (size_t i = 0; i < n; i++)
		sum = td_pool_far_add(sum, strcmp(key, "pods") ? td_api_pod_request(specs[i], key) : 1);
	return sum;
}

// Adds what the node offers, as capacity and allocatable. False: that settles with time.
static bool offer(struct td_far_link *l, const struct td_object *far, yyjson_mut_doc *d, yyjson_mut_val *status)
{
	td_auto_objects struct td_objects pods = {0};
	td_informer_by_index(l->far_pods, "node", far->name, &pods);
	td_auto_free yyjson_val **others = td_calloc(pods.n + 1, sizeof(*others));
	size_t n_others = 0;
	for (size_t p = 0; p < pods.n; p++)
		if (!td_far_pod_ours(l, pods.v[p]) && td_far_pod_holds(l, pods.v[p]))
			others[n_others++] = td_jget(pods.v[p]->root, "spec");
	struct td_far_offers *o = offers_of(l, far->name);
	yyjson_mut_val *out = td_jm_obj(d, status, "allocatable");
	yyjson_val *list = td_jget(far->root, "status.allocatable"), *k, *v;
	size_t i, n, at;
	bool settled = true;
	yyjson_obj_foreach (list, i, n, k, v) {
		const char *key = yyjson_get_str(k);
		if (!told(key))
			continue;
		for (at = 0; at < o->n && strcmp(o->v[at].key, key) != 0; at++)
			;
		if (at == RESOURCES)
			continue;
		int64_t reserve = !strcmp(key, "cpu")      ? l->reserve_milli
				  : !strcmp(key, "memory") ? l->reserve_memory
							   : 0;
		int64_t want = td_pool_far_offer(td_far_amount(list, key), reserve, held(others, n_others, key),
						 believed(key));
		if (at == o->n) {
			o->v[o->n].key = td_strdup(key);
			o->v[o->n++].of = (struct td_pool_far_offered){.now = want};
		}
		td_pool_far_settle(&o->v[at].of, want, td_mono_ms(&td_clock_system));
		settled &= o->v[at].of.now == want;
		char text[32];
		int64_t now = o->v[at].of.now;
		if (!strcmp(key, "cpu"))
			td_quantity_format_milli(now, text, sizeof(text));
		else if (!strcmp(key, "memory"))
			td_quantity_format_bytes(now, text, sizeof(text));
		else
			snprintf(text, sizeof(text), "%lld", (long long)now);
		td_jm_key_str(d, out, key, text);
	}
	td_jm_set(d, status, "capacity", yyjson_mut_val_mut_copy(d, out));
	return settled;
}

// Labels that say what a node is. All others are that cluster's own business.
static bool label_goes(const char *key)
{
	static const char *const begins[] = {"nvidia.com/", "amd.com/", "feature.node.kubernetes.io/",
					     "topology.kubernetes.io/"};
	static const char *const whole[] = {"kubernetes.io/arch", "kubernetes.io/os",
					    "node.kubernetes.io/instance-type"};
	for (size_t i = 0; i < TD_LEN(begins); i++)
		if (td_starts(key, begins[i]))
			return true;
	for (size_t i = 0; i < TD_LEN(whole); i++)
		if (!strcmp(key, whole[i]))
			return true;
	return false;
}

static void labels_of(const struct td_far_link *l, const struct td_object *far, const char *name, yyjson_mut_doc *d,
		      yyjson_mut_val *node)
{
	yyjson_mut_val *labels = td_jm_obj(d, node, "metadata.labels");
	yyjson_val *k, *v;
	size_t i, n;
	yyjson_obj_foreach (td_jget(far->root, "metadata.labels"), i, n, k, v)
		if (label_goes(yyjson_get_str(k)) && yyjson_is_str(v))
			td_jm_key_str(d, labels, yyjson_get_str(k), yyjson_get_str(v));
	td_jm_key_str(d, labels, "kubernetes.io/hostname", name);
	td_jm_key_str(d, labels, TD_LABEL_OTHER, l->set->name);
}

static int make(struct td_far_link *l, const struct td_object *far, const char *name, struct td_cancel *c,
		struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "apiVersion", "v1");
	td_jm_str(d, root, "kind", "Node");
	td_jm_str(d, root, "metadata.name", name);
	labels_of(l, far, name, d, root);
	yyjson_mut_val *notes = td_jm_obj(d, root, "metadata.annotations"),
		       *taint = yyjson_mut_arr_add_obj(d, td_jm_arr(d, root, "spec.taints"));
	td_jm_key_str(d, notes, TD_ANN_OTHER_SET, l->own);
	td_jm_key_str(d, notes, TD_ANN_OTHER_NODE, far->name);
	if (l->id)
		td_jm_key_str(d, notes, TD_ANN_OTHER_ID, l->id);
	td_jm_str(d, taint, "key", TD_LABEL_OTHER);
	td_jm_str(d, taint, "value", l->set->name);
	td_jm_str(d, taint, "effect", "NoSchedule");
	int r = td_kube_create(l->here, &td_nodes, NULL, root, c, NULL, err);
	if (r == TD_EXISTS) { // the cache is behind, or it is somebody else's
		td_auto(td_object_unref) struct td_object *there = NULL;
		r = td_kube_get(l->here, &td_nodes, NULL, name, c, &there, err);
		if (!r && !td_far_node_ours(l, there))
			return td_fail(err, TD_INVALID, NOT_OURS, name);
		return r == TD_NOT_FOUND ? 0 : r;
	}
	if (!r)
		td_info("NodeSet %s: node %s stands for %s there", l->own, name, far->name);
	return r ? td_wrap(err, "node %s", name) : 0;
}

// Why nothing new may go there; NULL: it may.
static const char *drains(const struct td_far_link *l, const struct td_object *far)
{
	yyjson_val *t;
	size_t i, n;
	if (!td_selector_matches(l->selector, td_jget(far->root, "metadata.labels")))
		return "spec.otherCluster.nodeSelector does not select it any more";
	if (td_jbool(far->root, "spec.unschedulable", false))
		return "it is cordoned there";
	yyjson_arr_foreach (td_jget(far->root, "spec.taints"), i, n, t)
		if (td_streq(td_jstr(t, "effect"), "NoSchedule") || td_streq(td_jstr(t, "effect"), "NoExecute"))
			return "it has a taint there";
	return NULL;
}

// Writes labels and the wish for a drain where they differ. far NULL: it is not known how it is there.
static int show_meta(struct td_far_link *l, const struct td_object *far, const struct td_object *node,
		     const char *drain, struct td_cancel *c, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_auto_free char *text = drain ? td_asprintf(OUR_DRAIN "%s", drain) : NULL;
	const char *said = td_object_annotation(node, TD_ANN_DRAIN);
	bool changed = false;
	// What somebody else has said there stays.
	if (!td_streq(said, text) && (!said || td_starts(said, OUR_DRAIN))) {
		changed = true;
		yyjson_mut_val *notes = td_jm_obj(d, root, "metadata.annotations");
		td_jm_key_set(d, notes, TD_ANN_DRAIN, text ? yyjson_mut_strcpy(d, text) : yyjson_mut_null(d));
	}
	// One on which pods run in another cluster is not looked at (td_far_nodes_astray()).
	if (far && l->id && !td_streq(td_object_annotation(node, TD_ANN_OTHER_ID), l->id)) {
		changed = true;
		td_jm_key_str(d, td_jm_obj(d, root, "metadata.annotations"), TD_ANN_OTHER_ID, l->id);
	}
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *want = td_jm_new();
	if (far)
		labels_of(l, far, node->name, want, yyjson_mut_doc_get_root(want));
	td_auto(td_json_unref) struct td_json *labels =
		td_json_from_mut(td_jm_obj(want, yyjson_mut_doc_get_root(want), "metadata.labels"));
	yyjson_val *k, *v;
	size_t i, n;
	yyjson_obj_foreach (td_json_root(labels), i, n, k, v)
		if (!td_streq(td_object_label(node, yyjson_get_str(k)), yyjson_get_str(v))) {
			changed = true;
			td_jm_key_str(d, td_jm_obj(d, root, "metadata.labels"), yyjson_get_str(k), yyjson_get_str(v));
		}
	if (!changed)
		return 0;
	td_jm_str(d, root, "metadata.uid", node->uid);
	return td_kube_patch(l->here, TD_AT(&td_nodes, NULL, node->name), TD_PATCH_MERGE, root, c, NULL, err);
}

// Where logs and exec of its pods are served; false: the Node says so.
static bool reach(const struct td_far_link *l, const struct td_object *node, yyjson_mut_doc *d, yyjson_mut_val *status)
{
	struct in6_addr six;
	struct in_addr four;
	bool ip = inet_pton(AF_INET, l->address, &four) == 1 || inet_pton(AF_INET6, l->address, &six) == 1;
	yyjson_mut_val *a = yyjson_mut_arr_add_obj(d, td_jm_arr(d, status, "addresses"));
	td_jm_str(d, a, "type", ip ? "InternalIP" : "InternalDNS");
	td_jm_str(d, a, "address", l->address);
	td_jm_int(d, status, "daemonEndpoints.kubeletEndpoint.Port", l->port);
	td_auto(td_json_unref) struct td_json *want = td_json_from_mut(td_jm_get(status, "addresses"));
	return !td_jequal(td_json_root(want), td_jget(node->root, "status.addresses")) ||
	       td_jint(node->root, "status.daemonEndpoints.kubeletEndpoint.Port", 0) != l->port;
}

// far NULL: it is not known how it is there.
static int show_status(struct td_far_link *l, const struct td_object *far, const struct td_object *node,
		       int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *status = td_jm_obj(d, root, "status");
	yyjson_val *was = td_jget(node->root, "status.conditions"), *x;
	bool ready = far && td_condition_true(far->root, "Ready");
	if (far && !offer(l, far, d, status))
		*again_ms = LOOK_MS;
	yyjson_mut_val *list = td_jm_arr(d, status, "conditions");
	size_t i, n;
	yyjson_arr_foreach (was, i, n, x)
		if (!td_streq(td_jstr(x, "type"), "Ready"))
			yyjson_mut_arr_append(list, yyjson_val_mut_copy(d, x));
	const struct td_condition_want w = {.type = "Ready",
					    .status = ready ? "True" : "False",
					    .reason = ready ? "ReadyThere"
						      : far ? "NotReadyThere"
							    : "NoAnswer",
					    .message = ready ? "it is ready in the other cluster"
						       : far ? "it is not ready in the other cluster"
							     : "the other cluster does not answer",
					    .heartbeat = true};
	yyjson_val *cond = td_condition(node->root, "Ready");
	bool same = td_streq(td_jstr(cond, "status"), w.status) && td_streq(td_jstr(cond, "reason"), w.reason);
	if (same && far) {
		td_auto(td_json_unref) struct td_json *now = td_json_from_mut(td_jm_get(status, "allocatable"));
		same = td_jequal(td_json_root(now), td_jget(node->root, "status.allocatable"));
	}
	if (l->address && reach(l, node, d, status))
		same = false;
	if (same)
		return 0;
	td_condition_add(d, list, was, &w, td_real_ms(&td_clock_system));
	td_jm_str(d, root, "metadata.uid", node->uid);
	td_jm_str(d, root, "metadata.resourceVersion", node->rv);
	return td_kube_patch(l->here, TD_AT(&td_nodes, NULL, node->name, "status"), TD_PATCH_MERGE, root, c, NULL, err);
}

static bool used(const struct td_far_link *l, const char *node)
{
	td_auto_objects struct td_objects pods = {0};
	td_informer_by_index(l->pods, "node", node, &pods);
	for (size_t i = 0; i < pods.n; i++)
		if (!td_kube_pod_ended(pods.v[i]->root))
			return true;
	return false;
}

size_t td_far_nodes_astray(const struct td_far_link *l)
{
	td_auto_objects struct td_objects own = {0};
	size_t n = 0;
	td_informer_list(l->nodes, NULL, &own);
	for (size_t i = 0; i < own.n; i++) {
		const char *id = td_object_annotation(own.v[i], TD_ANN_OTHER_ID);
		n += td_far_node_ours(l, own.v[i]) && id && !td_streq(id, l->id) && used(l, own.v[i]->name);
	}
	return n;
}

// A Node whose node there is gone or not wanted. What is bound to it ends: its node is gone.
static int drop(struct td_far_link *l, const struct td_object *node, const char *why, struct td_cancel *c,
		struct td_error *err)
{
	const struct td_kube_delete_opts del = {.uid = node->uid, .grace_s = -1};
	td_info("NodeSet %s: node %s goes: %s", l->own, node->name, why);
	int r = td_kube_delete(l->here, &td_nodes, NULL, node->name, &del, c, err);
	return r == TD_NOT_FOUND ? 0 : r;
}

static int one(struct td_far_link *l, const struct td_object *far, const struct td_object *node, int64_t *again_ms,
	       struct td_cancel *c, struct td_error *err)
{
	td_auto_free char *name = name_here(l, far->name);
	const char *drain = drains(l, far);
	if (!node && (drain || !td_condition_true(far->root, "Ready")))
		return 0;
	if (strlen(name) > NAME_MAX_LEN)
		return td_fail(err, TD_INVALID,
			       "\"%s\" is longer than the %d characters of a node's name here: give the "
			       "NodeSet a shorter name",
			       name, NAME_MAX_LEN);
	if (!node && atomic_fetch_add(&l->made_nodes, 1) >= TD_FAR_NODES)
		return td_fail(err, TD_INVALID,
			       "the other cluster has more than %d nodes for this pool: choose among them by "
			       "spec.otherCluster.nodeSelector",
			       TD_FAR_NODES);
	if (!node)
		return make(l, far, name, c, err);
	if (!td_far_node_ours(l, node))
		return td_fail(err, TD_INVALID, NOT_OURS, name);
	if (drain && !td_selector_matches(l->selector, td_jget(far->root, "metadata.labels")) && !used(l, name))
		return drop(l, node, drain, c, err);
	int r = show_meta(l, far, node, drain, c, err);
	return r ? r : show_status(l, far, node, again_ms, c, err);
}

void td_far_node_add(struct td_far_link *l, const char *there, int64_t ms)
{
	td_auto_free char *key = there ? td_asprintf("n/%s", there) : NULL;
	if (key)
		td_queue_add_after(l->q, key, ms);
}

void td_far_nodes_look(struct td_far_link *l, int64_t *again_ms)
{
	td_auto_objects struct td_objects far = {0}, own = {0};
	bool answers = atomic_load(&l->answers);
	if (!answers && td_mono_ms(&td_clock_system) - atomic_load(&l->answered_ms) < TD_FAR_LOST_MS) {
		*again_ms = 1000; // it has not been asked yet, or it is a moment
		return;
	}
	*again_ms = ALL_MS;
	td_informer_list(l->nodes, NULL, &own);
	atomic_store(&l->made_nodes, own.n);
	for (size_t i = 0; i < own.n; i++)
		if (td_far_node_ours(l, own.v[i]))
			td_far_node_add(l, td_object_annotation(own.v[i], TD_ANN_OTHER_NODE), 0);
	if (!answers)
		return;
	td_informer_list(l->far_nodes, NULL, &far);
	for (size_t i = 0; i < far.n; i++)
		td_far_node_add(l, far.v[i]->name, 0);
}

int td_far_node_sync(struct td_far_link *l, const char *key, int64_t *again_ms, struct td_cancel *c,
		     struct td_error *err)
{
	const char *there = key + 2;
	td_auto_free char *name = name_here(l, there);
	bool answers = atomic_load(&l->answers);
	td_auto(td_object_unref) struct td_object *far = td_informer_get(l->far_nodes, NULL, there),
						  *node = td_informer_get(l->nodes, NULL, name);
	bool ours = node && td_far_node_ours(l, node);
	if (!answers && td_mono_ms(&td_clock_system) - atomic_load(&l->answered_ms) < TD_FAR_LOST_MS) {
		*again_ms = 1000;
		return 0;
	}
	int r = 0;
	struct td_error e = TD_ERROR_INIT;
	if (answers && far)
		r = one(l, far, node, again_ms, c, &e);
	else if (answers && ours)
		r = drop(l, node, "it is gone there", c, &e);
	else if (ours) {
		r = show_meta(l, NULL, node, "it does not answer", c, &e);
		if (!r)
			r = show_status(l, NULL, node, again_ms, c, &e);
	}
	if (r != TD_CANCELLED)
		tell(l, there, r == TD_INVALID ? e.msg : NULL);
	if (answers && !far && !r)
		forget(l, there);
	if (r && err)
		*err = e;
	return r == TD_INVALID ? 0 : r;
}

struct beats {
	struct td_far_link *l;
	const struct td_objects *own;
	atomic_size_t next;
};

static int beat_some(void *ctx, size_t i, struct td_cancel *stop)
{
	struct beats *b = ctx;
	for (size_t k; (k = atomic_fetch_add(&b->next, 1)) < b->own->n && !td_cancelled(stop) && td_lease_holds();) {
		const struct td_object *node = b->own->v[k];
		struct td_error e = TD_ERROR_INIT;
		int r = td_far_node_ours(b->l, node)
				? td_kube_node_beat(b->l->here, node, TD_LABEL_OTHER, b->l->set->name, stop, &e)
				: 0;
		if (r && r != TD_CANCELLED)
			td_warn("the Lease of node %s: %s", node->name, e.msg);
	}
	return 0;
}

void td_far_nodes_beat(struct td_far_link *l, struct td_cancel *c)
{
	td_auto_objects struct td_objects own = {0};
	td_informer_list(l->nodes, NULL, &own);
	struct beats b = {.l = l, .own = &own};
	size_t threads = own.n / BEATS_EACH + 1;
	const struct td_together t = {.call = beat_some, .ctx = &b, .n = threads > BEATS_MOST ? BEATS_MOST : threads};
	td_together(&t, c);
}
