// Fragmentation of each partition, for /metrics (pool/fragment.h).
#include "bridge/policy/policies.h"
#include "bridge/scheduler/waits.h"
#include "bridge/scheduler/want.h"

#include "metrics/metrics.h"
#include "pool/fragment.h"

#include <string.h>

enum { PARTITIONS_MAX = 64 };

// want: the largest that anybody waits for.
static void one(struct td_metric *m, const struct td_slurm_nodes *l, const char *partition, int64_t want)
{
	td_auto_free struct td_pool_fragment_node *v = td_calloc(l->n + 1, sizeof(*v));
	size_t n = 0;
	for (size_t i = 0; i < l->n; i++) {
		const struct td_slurm_node *x = &l->v[i];
		int64_t total = td_devices_of_gres(x->gres, "gpu");
		if (total > 0 && td_bridge_lists(x->partitions, partition))
			v[n++] = (struct td_pool_fragment_node){td_slurm_node_usable(x->states), total,
								total - td_devices_of_gres(x->gres_used, "gpu")};
	}
	td_metric_set(m, (double)td_pool_fragmented(v, n, 0), TD_LABELS(partition, "gpu", "node"));
	td_metric_set(m, want ? (double)td_pool_fragmented(v, n, want) : 0, TD_LABELS(partition, "gpu", "largest"));
}

void td_bridge_measure_fragments(struct td_bridge *b, struct td_metric *m, const struct td_slurm_snapshot *snap)
{
	td_auto_strv struct td_strv names = {0};
	for (size_t i = 0; i < snap->nodes.n; i++) {
		td_auto_strv struct td_strv l = {0};
		td_strv_split(&l, snap->nodes.v[i].partitions ? snap->nodes.v[i].partitions : "", ',');
		for (size_t k = 0; k < l.n && names.n < PARTITIONS_MAX; k++)
			if (!td_strv_has(&names, l.v[k]))
				td_strv_add(&names, l.v[k]);
	}
	int64_t want[PARTITIONS_MAX] = {0};
	td_ask_waits_largest(b->asks, &names, want);
	td_policies_largest(b, &names, want);
	for (size_t i = 0; i < names.n; i++)
		one(m, &snap->nodes, names.v[i], want[i]);
}
