// What the two files of devices that are held one by one share: aside.c has the table, aside_act.c changes it.
#pragma once

#include "bridge/syncer/aside.h"
#include "pool/aside.h"

#include <uthash.h>

#define TD_ASIDE_KIND "gpu"

struct td_aside_of { // one node
	char *node;
	struct td_pool_aside_job v[TD_ASIDE_MAX];
	int64_t job[TD_ASIDE_MAX], cpus[TD_ASIDE_MAX], start[TD_ASIDE_MAX]; // of v
	size_t n;
	int64_t refuse[2]; // what the node had given out when Slurm refused an allocation: CPUs, GPUs; -1: it did not
	int64_t again_ms;  // mono: then it is tried again all the same; a reservation may have been in the way
	int64_t full[2];   // the same of a job that waits
	char *wish;        // td_aside_wish(); NULL: none
	int64_t unsure_ms; // mono: a submit may have happened; a listing that begins later tells. 0: none
	uint64_t out;      // the annotation's
	uint64_t lent;     // to pods of other schedulers (lend.h)
	uint64_t in_use;   // of `out`: those that such pods have still
	size_t any;        // and so many more shall be
	UT_hash_handle hh;
};
struct td_asides {
	pthread_mutex_t lock; // guards everything here. A node's jobs are changed by its reconcile, and by listings
	struct td_aside_of *by_node;
	int64_t listed_ms;
};
// Makes it when there is none, if it shall. The lock is held.
struct td_aside_of *td_aside_of_locked(struct td_asides *a, const char *node, bool make);
// Which devices shall be out of service, and which pods of other schedulers have. The lock is held.
void td_aside_wants(struct td_aside_of *x, uint64_t out, uint64_t lent);
// False: it was known already. The lock is held.
bool td_aside_add_locked(struct td_aside_of *x, int64_t job, const struct td_pool_aside_job *is, int64_t cpus);
// What is known of the job now; j NULL: it is gone.
void td_aside_set(struct td_asides *a, struct td_aside_of *x, int64_t job, const struct td_slurm_job *j);
// The devices that the job has on its node.
uint64_t td_aside_devices(const struct td_slurm_job *j);
// All that are held on the node, and all that a node with so many has.
uint64_t td_aside_held(struct td_bridge *b, const char *node);
uint64_t td_aside_all(int64_t devices);
