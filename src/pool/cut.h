// How a GPU can be cut in parts (NVIDIA's MIG), and whether a wish fits. Its memory is in slices (8 of an H100); a part
// takes so many, one beside the other, and may begin only at some of them. Pure, as pool.h.
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { TD_CUT_KINDS = 20, TD_CUT_PARTS = 16, TD_CUT_NAME = 24 };
struct td_cut_kind {
	char name[TD_CUT_NAME]; // "1g.10gb", as Slurm's type of it
	int size;               // slices of memory
	uint32_t at;            // where it may begin
	int most;               // of them on one GPU; 0: as many as there is room for
};
// Finds a place for each part: ret_at[i] is where the i-th of wish begins. The largest go first, each where
// it first can, and what then has no place is tried otherwise. TD_INVALID: it names what does not fit, and
// what the GPU has. n_wish is TD_CUT_PARTS at most.
int td_pool_cut_place(const struct td_cut_kind *kinds, size_t n, const char *const *wish, size_t n_wish,
		      int ret_at[TD_CUT_PARTS], struct td_error *err);
