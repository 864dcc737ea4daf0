// A fabric as ibnetdiscover(8) prints it: which switch each host hangs at, and how the switches hang together. Pure.
//
// A leaf is a switch at which a node of the pool hangs. A node with adapters at several leaves (rails) makes one place of
// them: nodes there are one switch away from each other on every rail. Wider places are leaves with a common switch above
// them, and so on. What ever else hangs there (storage, SHARP's aggregation nodes) makes no place.
#pragma once

#include "slurm/topology.h"

struct td_slurm_ibnet;
enum { TD_IBNET_MAX = 1 << 20 }; // bytes of text; a ConfigMap holds no more
// TD_INVALID says what is wrong with the text.
int td_slurm_ibnet_read(const char *text, struct td_slurm_ibnet **ret, struct td_error *err);
void td_slurm_ibnet_free(struct td_slurm_ibnet *net); // NULL is fine
TD_DEFINE_AUTO(struct td_slurm_ibnet *, td_slurm_ibnet_free)
size_t td_slurm_ibnet_switches(const struct td_slurm_ibnet *net);

// The same, made cable by cable, of devices that are known by their names. Both ends of a cable may name it.
struct td_slurm_ibnet *td_slurm_ibnet_new(void);
struct td_slurm_ibnet_end {
	const char *name;
	bool host;
};
void td_slurm_ibnet_cable(struct td_slurm_ibnet *net, const struct td_slurm_ibnet_end *a,
			  const struct td_slurm_ibnet_end *b);
void td_slurm_ibnet_done(struct td_slurm_ibnet *net); // before places are asked for

// Fills at[] of each place, which must be empty; the strings are the caller's. A node is found by the GUIDs of its
// adapters (ids[i], "506b:4b03:00ca:1e2c"), else by its name as the first word of an adapter's description. One that is
// not found has none. Returns how many levels there are, 1 at least; *ret_found: how many nodes were found.
size_t td_slurm_ibnet_places(struct td_slurm_ibnet *net, struct td_slurm_place *places, const struct td_strv *ids,
			     size_t n, size_t *ret_found);
