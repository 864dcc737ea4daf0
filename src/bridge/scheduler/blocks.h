// The blocks of the network (spec.topology.type block), as labels of nodes tell of them.
#pragma once

#include "bridge/settings.h"
#include "pool/pool.h"

struct td_bridge;
struct td_strv;
// Are there blocks, and do labels say which node is in which? Where the fabric says it (spec.topology.fabric) the bridge
// does not know.
bool td_blocks_known(const struct td_settings *s);
// Could the blocks ever hold a job of so many of these nodes (of the feasible ones)? segment 0: it has none. False: the
// reason in words goes to `why`. Asked for jobs with segments, and by who asks why a job waits: it takes a look at
// every node.
struct td_blocks_ask {
	const struct td_pool_node *nodes;
	size_t n;
	int64_t want, segment;
};
bool td_blocks_hold(struct td_bridge *b, const struct td_settings *s, const struct td_blocks_ask *a, char *why,
		    size_t len);
// The name of the block of a node, as Slurm has it. NULL: it is in none. The caller frees it.
char *td_blocks_of(const struct td_settings *s, const yyjson_val *node);
