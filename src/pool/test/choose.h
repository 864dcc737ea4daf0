// Which GPUs and cores of one node serve a request best, by what lies near to what: the yardstick that Slurm's own
// choice is held against (docs/gpus.md; docs/facts/slurm.md S-D13). Slurm gives out the devices, and nothing is ever given
// that it did not: so no program asks this, only tests and whoever compares.
//
// The choice is the best of all subsets, not a good one. GPUs that no measure tells apart are tried once, and what
// cannot become better than the best so far is left out; what is left out is never better (test_choose.c holds it
// against all subsets).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TD_POOL_TREE_GPUS = 64, TD_POOL_TREE_NUMAS = 16 };

enum td_pool_choose_policy {
	TD_CHOOSE_PREFER, // the closest GPUs; among equals the fewest NUMA nodes
	TD_CHOOSE_SINGLE, // all GPUs and cores of one NUMA node, or none
	TD_CHOOSE_PACK,   // the fewest NUMA nodes, and of these the ones that are used already
	TD_CHOOSE_SPREAD, // as many NUMA nodes as there can be, as evenly as can be
};

struct td_pool_tree_gpu {
	int numa;        // its NUMA node
	int pci;         // its PCIe switch; below 0: not known
	int nic;         // how far its next NIC is: 0: at its switch, 1: at its NUMA node, 2: farther, or not known
	uint64_t linked; // the GPUs that it reaches without PCIe (NVLink)
};
// A node: GPUs by index, and how many cores of each NUMA node are free.
struct td_pool_tree {
	int gpus, numas;
	struct td_pool_tree_gpu gpu[TD_POOL_TREE_GPUS];
	int cores[TD_POOL_TREE_NUMAS];
	uint64_t free; // the GPUs that nobody holds
};
// What a choice costs. Which of the figures counts first is the policy's.
struct td_pool_cost {
	int links;  // over all pairs of its GPUs: 0: linked, 1: at one switch, 2: at one NUMA node, 3: neither
	int numas;  // NUMA nodes that its GPUs are of; without GPUs, those of its cores
	int widest; // the most GPUs of one NUMA node
	int far;    // cores that are at none of them
	int nics;
	int breaks; // nearness of its GPUs to those that stay free: what it takes from who comes later
};
struct td_pool_choice {
	uint64_t gpus;                 // among equal choices the one with the lowest indexes
	int cores[TD_POOL_TREE_NUMAS]; // of each NUMA node
	struct td_pool_cost cost;
};

// How far two GPUs are from each other: 0 to 3, as above.
int td_pool_tree_far(const struct td_pool_tree *t, int a, int b);
// The tree of a node from a digit per GPU, its NUMA node ("0011"), and `each` cores at every one; "": one NUMA node.
// False: text that is none, or too many GPUs.
bool td_pool_tree_read(const char *numa, int gpus, int each, struct td_pool_tree *ret);
// What these GPUs and that many cores cost. The cores are taken near to the GPUs where they are free.
struct td_pool_cost td_pool_cost_of(const struct td_pool_tree *t, uint64_t gpus, int cores);
// Below 0: a is the better one. Of equal ones none is better.
int td_pool_cost_cmp(const struct td_pool_cost *a, const struct td_pool_cost *b, enum td_pool_choose_policy policy);
// The best choice of n free GPUs with so many free cores. False: there is none.
bool td_pool_choose(const struct td_pool_tree *t, int n, int cores, enum td_pool_choose_policy policy,
		    struct td_pool_choice *ret);
// The NUMA node whose cores the system itself takes best: without GPUs if there is one, else the one with the fewest;
// of equals the first. It has that many cores; -1: none has.
int td_pool_choose_system(const struct td_pool_tree *t, int cores);
