// Machines that a cluster autoscaler makes (docs/autoscale.md): how many nodes more would let jobs begin that wait, and how
// many a NodeSet shall have. Pure, as pool.h.
#pragma once

#include "pool/nodeset.h"

// ---- who waits, and what new nodes would do for him ----

enum { TD_GROW_SETS = 16, TD_GROW_KINDS = TD_POOL_KINDS };
// What one node has left, or what one part of a job takes. gres: per kind; a kind is a name of GRES whatever its type.
struct td_grow_room {
	int64_t cpus, memory_mb, gres[TD_GROW_KINDS];
};
struct td_grow_node {
	struct td_grow_room left; // of a node where Slurm would start jobs; else all zero
	bool whole;               // nobody has anything of it
};
struct td_grow_set {
	struct td_grow_room shape; // what a new node of it would have, as those that are there
	size_t room;               // so many more it may have
	// out
	size_t wanted; // so many more are wanted
	size_t first;  // for which job first; SIZE_MAX: for none
};
struct td_grow_job {
	struct td_grow_room part;
	size_t parts;          // that begin together
	size_t times;          // so many such jobs (an array's tasks), each of which may begin alone
	bool apart;            // each part has a node of its own
	bool exclusive;        // and has it alone
	const bool *may;       // of the nodes; NULL: none of them
	bool in[TD_GROW_SETS]; // it may run on new nodes of these sets
};
// Looks at the jobs in their order, which is Slurm's: each is placed on what is free, then on new nodes that others have
// asked for, then on further ones. One that finds no place with all that may come asks for nothing: new machines would not
// let it begin. v is changed: what is taken is taken from it. n_sets is TD_GROW_SETS at most.
void td_pool_grow(struct td_grow_node *v, size_t n, struct td_grow_set *sets, size_t n_sets,
		  const struct td_grow_job *jobs, size_t n_jobs);

// May a job run on new nodes of a set? As on those of it that serve. Where none does, as on all of it: nothing better is
// known. in: of each of n nodes, `stride` apart, whether it is of the set; there: whether it serves; may: whether the job may
// run there.
bool td_pool_grow_like(const bool *in, size_t stride, const bool *there, const bool *may, size_t n);

// ---- how many nodes a NodeSet shall have ----

struct td_grow_policy {
	long long min, max;
	int64_t idle_s;   // a node without a job stays that long
	long long wanted; // nodes that it would have with those that are wanted; 0: nobody waits
	bool view;        // Slurm's answer is fresh
	int64_t now_ms;   // real time
};
struct td_grow_plan {
	long long nodes;    // that shall be Slurm's
	long long machines; // that shall be made for it
};
// Marks the members that may go (m->spare), and says how many there shall be. A node goes when no job was on it for idle_s
// and nobody waits for one. A machine that Kubernetes has and Slurm does not use yet comes before one that is to be made;
// one that has not become ready for a quarter of an hour is not waited for.
struct td_grow_plan td_pool_grow_set(struct td_pool_member *v, size_t n, const struct td_grow_policy *p);
