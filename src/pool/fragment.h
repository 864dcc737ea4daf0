// Fragmentation: devices that are free, and of no use to who waits, because each node has too few of
// them. Pure, as pool.h.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct td_pool_fragment_node {
	bool usable;         // Slurm could start a job there now
	int64_t total, free; // of its devices
};
// Devices that are free on nodes which have fewer free than `want`, and are large enough for it. want 0: a
// whole node.
int64_t td_pool_fragmented(const struct td_pool_fragment_node *v, size_t n, int64_t want);
