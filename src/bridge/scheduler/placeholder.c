#include "bridge/scheduler/placeholder.h"

#include "bridge/scheduler/ask.h"

#include "api/quantity.h"
#include "api/selector.h"

#include <stdio.h>
#include <string.h>

struct written {
	char *node;
	char rv[24]; // resourceVersion on which it was written: once another is seen, it has landed or failed
	struct td_pool_place v;
	UT_hash_handle hh;
};
struct td_places {
	struct written *by_node;
};

struct td_places *td_places_new(void)
{
	return td_calloc(1, sizeof(struct td_places));
}

static void forget(struct td_places *p, struct written *w)
{
	HASH_DEL(p->by_node, w);
	free(w->node);
	free(w);
}

struct td_places *td_places_free(struct td_places *p)
{
	struct written *w, *tmp;
	if (p)
		HASH_ITER (hh, p->by_node, w, tmp)
			forget(p, w);
	free(p);
	return NULL;
}

bool td_place_is(const struct td_bridge *b, const struct td_object *pod)
{
	return td_streq(pod->ns, b->o.ns) && td_streq(td_object_label(pod, TD_LABEL_NAME), TD_PLACEHOLDER) &&
	       td_streq(td_object_label(pod, TD_LABEL_CLUSTER), b->o.cluster);
}

// The node's placeholder. Caller unrefs it.
static struct td_object *of_node(struct td_bridge *b, const char *node)
{
	td_auto_objects struct td_objects l = {0};
	td_informer_by_index(b->placeholders, "node", node, &l);
	for (size_t i = 0; i < l.n; i++)
		if (!td_kube_pod_ended(l.v[i]->root) && !td_object_deleting(l.v[i]))
			return td_object_ref(l.v[i]);
	return NULL;
}

static struct td_pool_place asks_for(const struct td_object *pod)
{
	yyjson_val *spec = td_jget(pod->root, "spec");
	return (struct td_pool_place){td_api_pod_request(spec, "cpu"), td_api_pod_request(spec, "memory")};
}

static void at_least(struct td_pool_place *p, int64_t milli, int64_t memory)
{
	p->milli = milli > p->milli ? milli : p->milli;
	p->memory = memory > p->memory ? memory : p->memory;
}

// What was written and may land yet; NULL: nothing. td_asks.lock is held.
static struct written *under_way(struct td_bridge *b, const char *node, const struct td_object *pod)
{
	struct written *w = NULL;
	HASH_FIND_STR(b->places->by_node, node, w);
	return w && td_streq(w->rv, pod->rv) ? w : NULL;
}

struct td_pool_place td_place_counts(struct td_bridge *b, const char *node)
{
	td_auto_objects struct td_objects l = {0};
	struct td_pool_place most = {0};
	td_informer_by_index(b->placeholders, "node", node, &l);
	for (size_t i = 0; i < l.n; i++) { // one that is going is still counted
		if (td_kube_pod_ended(l.v[i]->root))
			continue;
		struct td_pool_place p = asks_for(l.v[i]);
		// A kubelet and kube-scheduler count what it has set aside, and what the container still has.
		static const char *const has[] = {"status.containerStatuses.[0].allocatedResources",
						  "status.containerStatuses.[0].resources.requests"};
		for (size_t k = 0; k < TD_LEN(has); k++) {
			yyjson_val *v = td_jget(l.v[i]->root, has[k]);
			int64_t milli = 0, memory = 0;
			td_quantity_milli(td_jstr_or(v, "cpu", "0"), &milli, NULL);
			td_quantity_ceil(td_jstr_or(v, "memory", "0"), &memory, NULL);
			at_least(&p, milli, memory);
		}

		const struct written *w = under_way(b, node, l.v[i]);
		if (w)
			at_least(&p, w->v.milli, w->v.memory);
		most.milli += p.milli;
		most.memory += p.memory;
	}
	return most;
}

// Notes what is about to be written. td_asks.lock is held.
static void note(struct td_bridge *b, const char *node, const char *rv, struct td_pool_place v)
{
	struct written *w = NULL;
	HASH_FIND_STR(b->places->by_node, node, w);
	if (!w) {
		w = td_calloc(1, sizeof(*w));
		w->node = td_strdup(node);
		HASH_ADD_KEYPTR(hh, b->places->by_node, w->node, strlen(w->node), w);
	}
	snprintf(w->rv, sizeof(w->rv), "%s", rv);
	w->v = v;
}

// *ret_same: nothing of it was to be changed.
static int resize(struct td_bridge *b, const struct td_object *pod, struct td_pool_place to, bool *ret_same,
		  struct td_cancel *c, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d),
		       *o = yyjson_mut_arr_add_obj(d, td_jm_arr(d, root, "spec.containers"));
	td_jm_str(d, root, "metadata.uid", pod->uid);
	td_jm_str(d, root, "metadata.resourceVersion", pod->rv);
	td_jm_str(d, o, "name", TD_PLACEHOLDER);
	td_jm_strf(d, o, "resources.requests.cpu", "%lldm", (long long)to.milli);
	td_jm_strf(d, o, "resources.requests.memory", "%lldMi", (long long)(to.memory >> 20));
	td_auto(td_object_unref) struct td_object *fresh = NULL;
	int r = td_kube_patch(b->kube, TD_AT(&td_pods, pod->ns, pod->name, "resize"), TD_PATCH_STRATEGIC, root, c,
			      &fresh, err);
	*ret_same = !r && td_streq(fresh->rv, pod->rv);
	return r;
}

int td_place_shrink(struct td_bridge *b, const char *node, struct td_pool_place to, struct td_cancel *c,
		    struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *pod = of_node(b, node);
	if (!pod) // it is going
		return td_fail(err, TD_EXPIRED, "the placeholder of %s ends", node);

	struct td_pool_place now = asks_for(pod);
	to = td_pool_place_shrunk(now, to);
	if (to.milli != now.milli || to.memory != now.memory) {
		struct td_error e = TD_ERROR_INIT;
		bool same;
		int r = resize(b, pod, to, &same, c, &e);
		if (r && r != TD_CONFLICT && r != TD_NOT_FOUND)
			// The pod is not refused for it: it waits.
			return td_fail(err,
				       r == TD_TRANSIENT || r == TD_UNCERTAIN || r == TD_CANCELLED ? r : TD_THROTTLED,
				       "resizing pod %s/%s: %.400s", pod->ns, pod->name, e.msg);
	}
	return td_fail(err, TD_EXPIRED, "the kubelet of %s has not let go yet of what native jobs held", node);
}

int td_place_show(struct td_bridge *b, const struct td_slurm_node *n, bool *ret_again, struct td_cancel *c,
		  struct td_error *err)
{
	*ret_again = false;
	td_auto(td_object_unref) struct td_object *pod = n ? of_node(b, n->name) : NULL;
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	if (!pod || !s || !td_streq(td_jstr(pod->root, "status.phase"), "Running"))
		return 0;

	struct td_pool_place now = asks_for(pod);
	// The note is made at the very look at the asks: a pod that is checked afterwards sees it.
	pthread_mutex_lock(&b->asks->lock);
	int64_t cpus, memory_mb;
	td_syncer_native(b, s, n, &cpus, &memory_mb);
	struct td_pool_place want = td_pool_place_for((struct td_pool_place){cpus * 1000, memory_mb * (1 << 20)}, now,
						      td_place_left(b, n->name), ret_again);
	bool same = want.milli == now.milli && want.memory == now.memory && !under_way(b, n->name, pod);
	if (!same)
		note(b, n->name, pod->rv, want);
	pthread_mutex_unlock(&b->asks->lock);
	if (same)
		return 0;
	struct td_error e = TD_ERROR_INIT;
	int r = resize(b, pod, want, &same, c, &e);
	*ret_again = true;
	if (r != TD_UNCERTAIN && r != TD_TRANSIENT && r != TD_CANCELLED && (r || same)) {
		pthread_mutex_lock(&b->asks->lock);
		struct written *w = under_way(b, n->name, pod); // it has not landed, and will not
		if (w)
			forget(b->places, w);
		pthread_mutex_unlock(&b->asks->lock);
	}
	return !r || r == TD_CONFLICT || r == TD_NOT_FOUND
		       ? 0
		       : td_fail(err, r, "resizing pod %s/%s: %.400s", pod->ns, pod->name, e.msg);
}
