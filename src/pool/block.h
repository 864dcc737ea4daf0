// Can the blocks of a network hold a job? Pure (pool.h).
//
// The rule is that of topology/block in Slurm 24.11 (docs/facts/slurm.md S-G7 and S-G12). `base` is the smallest
// block size. A job with segments lies in segments of so many nodes, each in one block. A job without lies in as few
// blocks as its number of nodes needs at `base` nodes each: one of 8 nodes in 2 blocks where base is 4, even where
// these have 3 and 4 nodes, and a third one is free. Slurm refuses such a job when it is submitted, not later.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct td_pool_netblock {
	const char *name;
	int64_t nodes; // that the job may use, be they free or not
};
// Counts the nodes of each block: name[i] is that of node i, NULL where the job may not use it. Sorts `name`. ret has
// room for n. Returns how many blocks there are; the largest come first.
size_t td_pool_blocks_count(const char **name, size_t n, struct td_pool_netblock *ret);
struct td_pool_netblock_want {
	int64_t nodes, segment; // segment 0: none
	int64_t base;
};
// False: the reason in words goes to `why`, which has len bytes.
bool td_pool_blocks_hold(const struct td_pool_netblock *v, size_t n, const struct td_pool_netblock_want *w, char *why,
			 size_t len);
