// Defragmentation: which running jobs have to move so that one that waits has room, where there would be
// enough for it if it were not in pieces. Pure, as pool.h.
#pragma once

#include "pool/pool.h"

// What a job has on one node.
struct td_pool_move_part {
	int node;
	struct td_pool_want has;
};
// A job that runs and may be queued again.
struct td_pool_move_job {
	const struct td_pool_move_part *parts; // on different nodes
	size_t n_parts;
	const bool *feasible; // per node: it may run there, too
	int64_t loss;         // what would be lost with it
};
struct td_pool_defrag {
	const struct td_pool_node *nodes; // feasible: for who waits
	size_t n;
	// Who waits: so many times `want`; spread: each on a node of its own.
	struct td_pool_want want;
	int64_t units;
	bool spread;
	int64_t most; // they may be on so many nodes; 0: on any number
	const struct td_pool_move_job *jobs;
	size_t n_jobs;
};
enum { TD_DEFRAG_MOST = 64 }; // so many jobs are moved at once at most
// The smallest set of jobs whose leaving makes room, and which fit into the free pieces that remain; of sets
// of one size that with the least loss. Returns how many, and their indexes; 0: it has room, or there is no
// such set.
//
// Pools with up to 12 jobs that may move are searched completely, and none is missed. In larger ones a
// greedy choice says whether there is a set, and a search among the 20 jobs that are cheapest to move whether
// there is a smaller one, of up to 6; both stop after a fixed number of steps (0.1 s at 10,000 nodes). With `most` the
// greedy choice is made on those nodes that could have the most room.
size_t td_pool_defrag(const struct td_pool_defrag *f, size_t ret[TD_DEFRAG_MOST]);
// Devices of all kinds that are free on nodes that who waits may use.
int64_t td_pool_defrag_free(const struct td_pool_defrag *f);
