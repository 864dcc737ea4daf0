// What Kubernetes users are told of Slurm beside a node's state: what native jobs hold there, and which
// scheduler gives out the devices that a pod waits for.
#include "bridge/scheduler/ask.h"
#include "bridge/syncer/aside.h"
#include "bridge/syncer/shadow.h"

#include "api/condition.h"
#include "api/selector.h"

#include <string.h>

enum { KINDS = 33 }; // CPUs, and each entry of gresMap

// Slurm's sums, less what the stand-ins of pods and shadows hold. Both lag by a moment (S-T8). td_asks.lock is held.
static void native(struct td_bridge *b, const struct td_settings *s, const struct td_slurm_node *n, int64_t use[KINDS],
		   int64_t *ret_memory_mb)
{
	td_auto(td_object_unref) struct td_object *node = td_informer_get(b->nodes, NULL, n->name);
	const yyjson_val *on = node ? node->root : NULL;
	use[0] = n->alloc_cpus;
	*ret_memory_mb = n->alloc_memory_mb;
	for (size_t i = 0; i < s->n_gres; i++) {
		const struct td_bridge_gres_map *m = &s->gres[i];
		if (td_settings_key_on(s, m->name, on) != m->resource)
			continue; // what is of a type is in the sum of the GRES
		use[i + 1] = td_devices_of_gres(n->gres_used, m->name);
	}

	int64_t out, out_cpus;
	td_aside_holds(b, n->name, &out, &out_cpus);
	for (size_t i = 0; i < s->n_gres; i++)
		use[i + 1] -= td_settings_key_on(s, s->gres[i].name, on) == s->gres[i].resource &&
					      !strcmp(s->gres[i].name, "gpu")
				      ? out
				      : 0;

	const struct td_pool_size shadows = td_shadow_holds(b, n->name);
	use[0] -= shadows.cpus + out_cpus;
	*ret_memory_mb -= shadows.memory_mb + out; // 1 MiB each

	for (const struct td_ask_at *x = td_asks_at_locked(b->asks, n->name); x; x = x->next) {
		bool lone;
		const struct td_ask *a = x->ask;
		const struct td_ask_part *part = td_ask_at_node(x, n->name, &lone); // of a gang
		enum td_job_is is = td_ask_is(a->states);
		if ((is != TD_IS_RUNNING && is != TD_IS_STARTING) || (!part && !lone))
			continue;
		use[0] -= part ? part->cpus : a->got_cpus;
		*ret_memory_mb -= part ? part->memory_mb : a->has_memory_mb;
		for (size_t i = 0; i < s->n_gres; i++)
			use[i + 1] -= td_devices_count(part ? part->devices : a->devices, s->gres[i].resource);
	}
}

void td_syncer_native(struct td_bridge *b, const struct td_settings *s, const struct td_slurm_node *n,
		      int64_t *ret_cpus, int64_t *ret_memory_mb)
{
	int64_t use[KINDS] = {0};
	native(b, s, n, use, ret_memory_mb);
	*ret_cpus = use[0];
}

char *td_syncer_use(struct td_bridge *b, const struct td_slurm_node *n)
{
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	int64_t use[KINDS] = {0};
	if (!s || !n)
		return NULL;

	int64_t memory_mb;
	pthread_mutex_lock(&b->asks->lock);
	native(b, s, n, use, &memory_mb);
	pthread_mutex_unlock(&b->asks->lock);
	td_auto_buf struct td_buf text = {0};
	for (size_t i = 0; i <= s->n_gres; i++)
		if (use[i] > 0)
			td_buf_printf(&text, "%s\"%s\":%lld", text.len ? "," : "{", i ? s->gres[i - 1].resource : "cpu",
				      (long long)use[i]);
	if (!text.len)
		return NULL;
	td_buf_putc(&text, '}');
	return td_buf_take(&text);
}

static bool unschedulable(const struct td_object *pod)
{
	return pod && td_streq(td_jstr(td_condition(pod->root, "PodScheduled"), "status"), "False");
}

void td_syncer_unplaced(void *bridge, struct td_object *old, struct td_object *now)
{
	struct td_bridge *b = bridge;
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	if (!s || !unschedulable(now) || unschedulable(old) || td_object_deleting(now) ||
	    !td_streq(td_jstr(now->root, "spec.schedulerName"), "default-scheduler"))
		return;

	for (size_t i = 0; i < s->n_gres; i++)
		if (td_api_pod_request(td_jget(now->root, "spec"), s->gres[i].resource) > 0) {
			td_kube_record(
				b->recorder, TD_ABOUT(now, &td_pods), "Warning", "NotThroughSlurm",
				"it asks for %s, and Slurm gives that out in this pool: set spec.schedulerName to %s",
				s->gres[i].resource, s->scheduler);
			return;
		}
}
