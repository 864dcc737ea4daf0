// Decisions about a gang: one ask with several pods, its members, and one job for all of them
// (docs/protocols.md 1.10). Pure, as all of the pool.
#pragma once

#include "pool/pool.h"

// What becomes of a gang that has lost a member: one that failed, was deleted or is being deleted.
enum td_pool_gang_loss {
	TD_GANG_FAIL,    // all members end as Failed
	TD_GANG_RESTART, // all members are deleted, so that their owner makes them anew
	TD_GANG_REPLACE, // the others go on, and a new pod takes the place with its devices
};
struct td_pool_gang {
	const char *uid;
	int64_t size; // members that it needs
	// Of its members; the others are gone. `failed` are done without success.
	int64_t waiting, bound, leaving, succeeded, failed;
	enum td_pool_gang_loss on_loss;
	bool refused, fits_now, fenced, short_of, waited, lost_state; // as in struct td_pool_ask
	bool nodes_fit; // (job RUNNING) every waiting member may still run on the node of its seat
	bool late;      // (job RUNNING) granted long ago, and not every member is bound
	// (some are bound) What the bound members carry: job, start and restarts; and whether one of
	// them sits elsewhere than the grant as it is now would put it.
	struct td_grant grant;
	bool differs;
};
// Returns the next step. END_POD ends every bound member; BIND binds every waiting one.
struct td_pool_step td_pool_reconcile_gang(const struct td_pool_gang *g, const struct td_pool_job *j);

// How many of `want` fit beside each other: now, on one node; 0: none.
int64_t td_pool_gang_slots(const struct td_pool_node *x, const struct td_pool_want *want);
// Pods may ask for anything: what is too much to count is more than any node has.
int64_t td_pool_times(int64_t one, int64_t members);
// What all members would take on one node. members below 2: `one` itself.
struct td_pool_want td_pool_gang_most(const struct td_pool_want *one, int64_t members);
// True when all members fit now.
bool td_pool_gang_fits_now(const struct td_pool_node *nodes, size_t n, const struct td_pool_want *want,
			   int64_t members);
// The fewest nodes that could hold all members, were nobody else there: of those that are usable, or of all where these
// do not suffice. 0: none could.
int64_t td_pool_gang_fewest(const struct td_pool_node *nodes, size_t n, const struct td_pool_want *want,
			    int64_t members);
// As td_pool_fits_ever(), for all members together.
enum td_pool_fit td_pool_gang_fits_ever(const struct td_pool_node *nodes, size_t n, const struct td_pool_want *want,
					int64_t members, const char *const *kinds, char *why, size_t len);

// ---- dealing a grant out among the members ----

struct td_pool_gang_part { // what the job has on one of its nodes
	int64_t cpus, gres[TD_POOL_KINDS];
};
struct td_pool_gang_seat {
	size_t part;  // on which of the job's nodes
	int64_t slot; // the how manieth member there: it has the slot's share of the devices and cores
	int64_t of;   // so many members sit there
};
// The order in which ranks go over the job's nodes: by block, rack and name, so that neighbours in
// rank are neighbours in the network. (Slurm's own order of dynamic nodes is that of their coming.)
// Nodes without labels come last. ret[i]: the index of the i-th.
struct td_pool_gang_place {
	const char *block, *rack, *name; // NULL: not labelled
};
void td_pool_gang_order(const struct td_pool_gang_place *v, size_t n, size_t *ret);
// Seats the members: ret[i] is the seat of rank i, on the parts in their order. False: the job has
// too little.
bool td_pool_gang_deal(const struct td_pool_gang_part *parts, size_t n, const struct td_pool_want *want, size_t members,
		       struct td_pool_gang_seat *ret);

// ---- ranks ----

struct td_pool_gang_rank {
	int64_t fixed; // the rank that its owner gave it (an index); -1: none
	int64_t rank;  // in: the rank that it has (bound before); -1: none yet. Out: its rank
};
// Gives every member without one a rank below `size`: its fixed one where that is free, else the
// lowest that is free, in the order of v. False: there are more members than ranks.
bool td_pool_gang_ranks(struct td_pool_gang_rank *v, size_t n, size_t size);
