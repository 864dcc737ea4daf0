#include "bridge/scheduler/blocks.h"

#include "bridge/scheduler/ask.h"
#include "pool/block.h"
#include "slurm/topology.h"

#define ELSEWHERE "elsewhere"

bool td_blocks_known(const struct td_settings *s)
{
	const yyjson_val *o = s->topology ? td_json_root(s->topology) : NULL;
	return o && td_slurm_topology_blocks(o) && !td_jget(o, "spec.topology.fabric");
}

static void place(const struct td_settings *s, const yyjson_val *node, struct td_strv *labels,
		  struct td_slurm_place *ret)
{
	td_auto_strv struct td_strv none = {0};
	if (!labels->n)
		td_slurm_topology_labels(td_json_root(s->topology), labels, &none);
	td_slurm_place_read(node, labels, ret);
}

char *td_blocks_of(const struct td_settings *s, const yyjson_val *node)
{
	td_auto_strv struct td_strv labels = {0};
	struct td_slurm_place p;
	if (!td_blocks_known(s) || !node)
		return NULL;
	place(s, node, &labels, &p);
	return td_slurm_block_of(&p, labels.n);
}

bool td_blocks_hold(struct td_bridge *b, const struct td_settings *s, const struct td_blocks_ask *a, char *why,
		    size_t len)
{
	if (!td_blocks_known(s))
		return true;
	td_auto_strv struct td_strv labels = {0}, owned = {0};
	td_auto_objects struct td_objects held = {0}; // their labels are borrowed
	td_auto_free struct td_slurm_place *places = td_calloc(a->n + 1, sizeof(*places));
	td_auto_free const char **name = td_calloc(a->n + 1, sizeof(*name));
	td_auto_free struct td_pool_netblock *blocks = td_calloc(a->n + 1, sizeof(*blocks));
	for (size_t i = 0; i < a->n; i++) {
		struct td_object *node = td_informer_get(b->nodes, NULL, a->nodes[i].name);
		place(s, node ? node->root : NULL, &labels, &places[i]);
		if (node)
			td_objects_add(&held, node);
		char *its = td_slurm_block_of(&places[i], labels.n);
		if (its)
			td_strv_steal(&owned, its);
		if (a->nodes[i].feasible)
			name[i] = its ? its : ELSEWHERE;
	}
	const struct td_pool_netblock_want w = {
		.nodes = a->want,
		.segment = a->segment,
		.base = (int64_t)td_slurm_block_size(td_json_root(s->topology), places, a->n, labels.n)};
	size_t n = td_pool_blocks_count(name, a->n, blocks);
	return td_pool_blocks_hold(blocks, n, &w, why, len);
}
