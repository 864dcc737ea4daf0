// Devices of a node that pods of other schedulers have (spec.shadows): root's jobs hold them in Slurm (aside.h), so
// that it gives them to nobody else. Which ones a pod gets is what Slurm gave to those jobs; a pod that has its
// devices keeps them. Pure, as pool.h.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct td_pool_lend_pod {
	int64_t want;      // how many devices it asks for
	uint64_t has;      // those that it was told; 0: none yet
	int64_t since;     // when it came, for the order
	const char *named; // breaks ties
};
struct td_pool_lend {
	uint64_t want; // exactly these are to be held
	size_t any;    // and so many more, whichever
};
void td_pool_lend_sum(const struct td_pool_lend_pod *v, size_t n, struct td_pool_lend *ret);
// Who has waited longest is told devices when enough are held that nobody has. spare: those. Returns which pod, and its
// devices in *ret; n: nobody is, now. Nobody passes him, so that many small ones do not starve a large one.
size_t td_pool_lend_next(const struct td_pool_lend_pod *v, size_t n, uint64_t spare, uint64_t *ret);
