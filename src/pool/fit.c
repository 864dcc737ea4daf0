// Where an ask fits now, and why it fits nowhere ever.
#include "pool/pool.h"

#include <inttypes.h>
#include <stdio.h>

static bool room(int64_t all, int64_t used, int64_t want)
{
	return want <= 0 || all - used >= want;
}

int td_pool_fits_now(const struct td_pool_node *nodes, size_t n, const struct td_pool_want *w)
{
	for (size_t i = 0; i < n; i++) {
		const struct td_pool_node *x = &nodes[i];
		if (!x->feasible || !x->usable || !room(x->cpus, x->used_cpus, w->cpus) ||
		    !room(x->memory_mb, x->used_memory_mb, w->memory_mb))
			continue;
		if (w->exclusive && (x->used_cpus || x->used_memory_mb))
			continue;

		bool ok = true;
		for (int k = 0; k < TD_POOL_KINDS && ok; k++)
			ok = room(x->gres[k], x->used_gres[k], w->gres[k]);
		if (ok)
			return (int)i;
	}
	return -1;
}

enum td_pool_fit td_pool_fits_ever(const struct td_pool_node *nodes, size_t n, const struct td_pool_want *w,
				   const char *const *kinds, char *why, size_t len)
{
	int64_t cpus = 0, memory = 0, gres[TD_POOL_KINDS] = {0};
	size_t feasible = 0;
	for (size_t i = 0; i < n; i++) {
		const struct td_pool_node *x = &nodes[i];
		if (!x->feasible)
			continue;
		feasible++;

		bool ok = x->cpus >= w->cpus && x->memory_mb >= w->memory_mb;
		cpus = x->cpus > cpus ? x->cpus : cpus;
		memory = x->memory_mb > memory ? x->memory_mb : memory;
		for (int k = 0; k < TD_POOL_KINDS; k++) {
			ok = ok && x->gres[k] >= w->gres[k];
			gres[k] = x->gres[k] > gres[k] ? x->gres[k] : gres[k];
		}
		if (ok)
			return TD_FIT_SOME_DAY;
	}

	if (!n) {

		snprintf(why, len, "Slurm has no nodes");
		return TD_FIT_NO_NODES;
	}
	if (!feasible)
		snprintf(why, len,
			 "none of Slurm's %zu nodes matches the pod's node selector, affinity and tolerations", n);
	else if (cpus < w->cpus)
		snprintf(why, len, "it asks for %" PRId64 " CPUs; no node that it may use has more than %" PRId64,
			 w->cpus, cpus);
	else if (memory < w->memory_mb)
		snprintf(why, len,
			 "it asks for %" PRId64 " MB of memory; no node that it may use has more than %" PRId64,
			 w->memory_mb, memory);
	else {
		for (int k = 0; k < TD_POOL_KINDS; k++)
			if (gres[k] < w->gres[k]) {
				snprintf(why, len,
					 "it asks for %" PRId64 " %s; no node that it may use has more than %" PRId64,
					 w->gres[k], kinds[k], gres[k]);
				return TD_FIT_NEVER;
			}
		snprintf(why, len, "no single node that it may use has all of what it asks for together");
	}

	return TD_FIT_NEVER;
}
