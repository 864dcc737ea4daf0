// On which nodes a job that waits may run, by what it has asked for: beyond its partition. Pure, as pool.h.
#pragma once

#include "pool/pool.h"

struct td_pool_allowed_node {
	const char *name, *features; // "a100,ib": that it has now; NULL: none
	bool partition;              // it is in one of the job's partitions
	bool named, excluded;        // by the job
	bool reserved;               // it is in the job's reservation
	bool large;                  // it has as much of everything as the job takes on one node, whoever has it now
	bool usable;                 // it is not drained, nor down
};
struct td_pool_allowed {
	const struct td_pool_allowed_node *nodes;
	size_t n;
	bool names, reserves;   // all its nodes have to be among those that it names; it has a reservation
	const char *constraint; // as sbatch --constraint; NULL: none
};
// Why nodes of its partition are not for it: each node counts once, by the first of these.
enum td_pool_allowed_why {
	TD_ALLOWED_NAMED,
	TD_ALLOWED_EXCLUDED,
	TD_ALLOWED_RESERVED,
	TD_ALLOWED_FEATURES,
	TD_ALLOWED_LARGE,
	TD_ALLOWED_WHYS,
};
struct td_pool_allowed_count {
	size_t partition, allowed; // nodes of its partition; of these it may use
	size_t away;               // of the allowed ones: drained or down now
	size_t out[TD_ALLOWED_WHYS];
	bool unread; // its constraint is not understood, and was not looked at
};
// may: per node.
void td_pool_allowed(const struct td_pool_allowed *f, bool *may, struct td_pool_allowed_count *ret);
// "It may run on n[1-3], 3 of the 8 nodes of its partition: it excludes 2, 3 have not the features a&b." nodes: the list as
// Slurm writes it. NULL: it may run on all of them. Caller frees.
char *td_pool_allowed_words(const struct td_pool_allowed_count *c, const char *nodes, const char *constraint);
// Is the word of this length one of the list, "a,b"? list NULL: no.
bool td_pool_lists(const char *list, const char *word, size_t len);
// Is one of these words, "a,c", one of the list?
bool td_pool_lists_any(const char *list, const char *words);
// Has a node with these features what a constraint wants? -1: it is not understood (counts, [a|b], and & beside | without
// parentheses).
int td_pool_constraint(const char *constraint, const char *features);
