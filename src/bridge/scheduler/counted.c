// What a kubelet has for a pod: CPUs, memory, and counted devices.
//
// Counted devices: spec.devices[0].source is Allocatable, and the node has a kubelet of its own.
// The kubelet's device plugin chooses the devices of a pod; Slurm's grant only says how many
// (docs/design/0011-dra.md). A grant that the kubelet cannot honour now, because a device is sick
// or the plugin is being replaced, must not be bound: the kubelet would fail the pod for good.
#include "bridge/scheduler/placeholder.h"

#include "bridge/scheduler/ask.h"

#include "api/quantity.h"
#include "api/selector.h"
#include "slurm/hostlist.h"

#include <string.h>

bool td_bridge_kubelet(const struct td_object *node)
{
	return !strstr(td_jstr_or(node->root, "status.nodeInfo.kubeletVersion", "-tandem."), "-tandem.");
}

int64_t td_counted_offer(const struct td_settings *s, const struct td_object *node)
{
	if (s->devices.dra || !td_bridge_kubelet(node))
		return -1;
	int64_t n = 0;
	return td_api_devices(td_jget(node->root, "status.allocatable"), td_settings_resource(s, node->root), &n, NULL)
		       ? 0
		       : n;
}

int64_t td_counted_gres(const struct td_settings *s, const char *gres)
{
	struct td_gres g[16];
	size_t n = 0;
	int64_t sum = 0;
	if (!gres || td_gres_parse(gres, g, TD_LEN(g), &n, NULL))
		return 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < s->n_gres; k++)
			if (!strcmp(s->gres[k].resource, s->devices.resource) && !strcmp(s->gres[k].name, g[i].name))
				sum += g[i].count;
	return sum;
}

enum { PLACE_S = 10 }; // so long a kubelet may take to make a placeholder smaller

struct room { // of one node: CPU in m, memory in bytes, pods
	int64_t milli, memory, pods;
};

static void room_add(struct room *r, const yyjson_val *pod)
{
	r->milli += td_api_pod_request(td_jget(pod, "spec"), "cpu");
	r->memory += td_api_pod_request(td_jget(pod, "spec"), "memory");
	r->pods++;
}

// What is there to give, and what is given: all pods of the node but its placeholder and `pod`, and the
// Bindings that the watch has not shown yet, but that of `a`. td_asks.lock is held.
static void room_of(struct td_bridge *b, const struct td_object *node, const struct td_ask *a, struct room *offer,
		    struct room *used)
{
	yyjson_val *alloc = td_jget(node->root, "status.allocatable");
	*offer = *used = (struct room){0};
	td_quantity_milli(td_jstr_or(alloc, "cpu", "0"), &offer->milli, NULL);
	td_quantity_ceil(td_jstr_or(alloc, "memory", "0"), &offer->memory, NULL);
	td_quantity_ceil(td_jstr_or(alloc, "pods", "0"), &offer->pods, NULL);

	td_auto_objects struct td_objects there = {0};
	td_informer_by_index(b->others, "node", node->name, &there);
	td_informer_by_index(b->pods, "node", node->name, &there);
	for (size_t i = 0; i < there.n; i++)
		if (td_place_is(b, there.v[i]))
			used->pods++; // what it asks for is Slurm's own
		else if ((!a || strcmp(there.v[i]->uid, a->uid) != 0) && !td_kube_pod_ended(there.v[i]->root))
			room_add(used, there.v[i]->root);

	struct td_ask *x, *tmp;
	HASH_ITER (hh, b->asks->by_uid, x, tmp) {
		bool seen = x == a || !x->taking_memory || !td_streq(x->nodes, node->name);
		for (size_t i = 0; i < there.n && !seen; i++)
			seen = !strcmp(there.v[i]->uid, x->uid);
		used->milli += seen ? 0 : x->taking_milli;
		used->memory += seen ? 0 : x->taking_memory;
		used->pods += !seen;
	}
}

struct td_pool_place td_place_left(struct td_bridge *b, const char *node)
{
	td_auto(td_object_unref) struct td_object *o = td_informer_get(b->nodes, NULL, node);
	struct room offer, used;
	if (!b->others || !o)
		return (struct td_pool_place){0};
	room_of(b, o, NULL, &offer, &used);
	return (struct td_pool_place){offer.milli - used.milli, offer.memory - used.memory};
}

int td_ask_kubelet_room(struct td_bridge *b, struct td_ask *a, const struct td_object *pod, struct td_cancel *c,
			struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *node = a->nodes ? td_informer_get(b->nodes, NULL, a->nodes) : NULL;
	if (!b->others || !node || !td_bridge_kubelet(node))
		return 0;

	struct room offer, used, want = {0};
	room_add(&want, pod->root);

	pthread_mutex_lock(&b->asks->lock);
	room_of(b, node, a, &offer, &used);

	int64_t age = td_real_ms(b->clock) / 1000 - a->start;
	const struct td_pool_counted kinds[] = {{offer.milli, used.milli, want.milli, age},
						{offer.memory, used.memory, want.memory, age},
						{offer.pods, used.pods, want.pods, age}};
	int r = 0;
	for (size_t i = 0; i < TD_LEN(kinds) && !r; i++)
		r = td_pool_counted(&kinds[i]);
	const struct td_pool_place held = td_place_counts(b, a->nodes),
				   left = {offer.milli - used.milli - want.milli,
					   offer.memory - used.memory - want.memory};
	bool first = !r && !td_pool_place_fits(held, left);
	if (first && age > PLACE_S)
		r = td_pool_counted(&(struct td_pool_counted){0, 1, 0, age});
	a->taking_milli = r || first ? 0 : want.milli;
	a->taking_memory = r || first ? 0 : want.memory + 1; // never 0: it says that the ask takes something
	pthread_mutex_unlock(&b->asks->lock);

	if (first && !r)
		return td_place_shrink(b, a->nodes, left, c, err);
	if (first)
		return td_fail(err, r, "the kubelet of %s does not let go of what native jobs held", a->nodes);
	if (!r)
		return 0;
	return td_fail(err, r,
		       "the kubelet of %s has %lldm CPUs, %lld MiB and room for %lld pods left, and %lldm and %lld MiB "
		       "are asked for: pods that Slurm did not place there request more than spec.reserve of the "
		       "SlurmCluster; raise it, or move them",
		       a->nodes, (long long)(offer.milli - used.milli), (long long)((offer.memory - used.memory) >> 20),
		       (long long)(offer.pods - used.pods), (long long)want.milli, (long long)(want.memory >> 20));
}

int td_ask_counted_room(struct td_bridge *b, const struct td_settings *s, struct td_ask *a, const struct td_object *pod,
			struct td_error *err)
{
	const char *resource = td_want_counted(s, pod->root);
	if (!resource || !a->nodes)
		return 0;

	td_auto(td_object_unref) struct td_object *node = td_informer_get(b->nodes, NULL, a->nodes);
	if (!node || !td_bridge_kubelet(node))
		return 0;
	// A kubelet counts each kind of parts (MIG) on its own.
	const char *has = td_jkey_str(td_jget(node->root, "status.allocatable"), resource);
	int64_t offer = 0, used = 0, want = td_api_pod_request(td_jget(pod->root, "spec"), resource);
	if (has && td_quantity_ceil(has, &offer, NULL))
		offer = 0;

	td_auto_objects struct td_objects there = {0};
	td_informer_by_index(b->pods, "node", a->nodes, &there);
	for (size_t i = 0; i < there.n; i++)
		if (strcmp(there.v[i]->uid, a->uid) != 0 && !td_kube_pod_ended(there.v[i]->root))
			used += td_api_pod_request(td_jget(there.v[i]->root, "spec"), resource);

	struct td_ask *x, *tmp;
	pthread_mutex_lock(&b->asks->lock);
	// Add the Bindings that the watch has not shown yet.
	HASH_ITER (hh, b->asks->by_uid, x, tmp) {
		bool seen = x == a || !x->taking || !td_streq(x->nodes, a->nodes);
		for (size_t i = 0; i < there.n && !seen; i++)
			seen = !strcmp(there.v[i]->uid, x->uid);
		used += seen ? 0 : x->taking;
	}

	const struct td_pool_counted counted = {offer, used, want, td_real_ms(b->clock) / 1000 - a->start};
	int r = td_pool_counted(&counted);
	a->taking = r ? 0 : want;
	pthread_mutex_unlock(&b->asks->lock);

	if (!r)
		return 0;

	return td_fail(err, r,
		       "the kubelet of %s offers %lld of %s, other pods there hold %lld, and %lld are asked for: a "
		       "device is sick, or its device plugin does not run",
		       a->nodes, (long long)offer, resource, (long long)used, (long long)want);
}
