// Gangs whose roles ask for different things: one job all the same (docs/protocols.md 1.10). Slurm gives every task of
// a job the same, so the tasks of such a gang are large enough for what sits in each: a member that holds devices, or
// the largest, and beside it those that hold none. Pure, as all of the pool.
#pragma once

#include "pool/pool.h"

enum { TD_POOL_ROLES = 8 }; // at most this many roles of one gang
struct td_pool_role {
	int64_t members;
	struct td_pool_want want; // of one member; all roles number the kinds of devices alike
};
struct td_pool_bundle {
	int64_t tasks;
	struct td_pool_want each; // of one task
	// Of each role: 0: its members have a task each; else so many of them ride in one task, with the member that
	// has it.
	int64_t riders[TD_POOL_ROLES];
};
// The ways to make one job of the roles, the best first; at most TD_POOL_ROLES + 1. 0: none, for roles
// that hold devices hold different numbers of them, and Slurm would have to give some away in vain.
size_t td_pool_roles_bundle(const struct td_pool_role *v, size_t n, struct td_pool_bundle ret[TD_POOL_ROLES + 1]);

// Where a member sits: in which task, and what part of its CPUs it has: after those of the `before` CPUs of others,
// `mine` of `all`.
struct td_pool_ride {
	int64_t task, before, mine, all;
};
// Of the member `index` of the role `role`.
struct td_pool_ride td_pool_roles_ride(const struct td_pool_role *v, size_t n, const struct td_pool_bundle *b,
				       size_t role, int64_t index);
// Its share [*io_from, *io_to) of the task's cores, which are given as such a range; one at least, where the task has
// any: then two members share it.
void td_pool_roles_cores(const struct td_pool_ride *r, int64_t *io_from, int64_t *io_to);
