// Which builds of an environment a run needs: one for each architecture that nodes have to which its steps may go. Pure,
// as pool.h.
#pragma once

#include <stddef.h>

struct td_archs_node {
	const char *arch;                  // "x86_64"; "": not known
	const char *partitions, *features; // "all,debug"; NULL: none
	const char *cuda;                  // the newest CUDA that its driver can do, "12.4"; NULL: not known, or no GPU
};
struct td_archs_step {
	const char *partition, *constraint; // "p", "p,q"; "a&b"; NULL: any
};
struct td_archs_build {
	const char *arch,
		*cuda; // cuda: the oldest of these nodes', so that what is built runs on all; NULL: none is known
	size_t step;   // the first step that has such nodes
};
enum { TD_ARCHS_MOST = 8 };
// Writes them to ret, sorted by name, and returns how many; 0: no node's is known. A partition or constraint that no
// node has counts as none said: Slurm refuses it in its own words. Of constraints only names that are all wanted are
// understood; any other counts as none.
size_t td_pool_archs(const struct td_archs_node *v, size_t n, const struct td_archs_step *steps, size_t n_steps,
		     struct td_archs_build ret[TD_ARCHS_MOST]);
