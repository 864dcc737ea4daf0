// Resource groups: named parts of a pool, each for whom it is granted to.
//
// A group is granted to Tenants, with all below them, and to single users. Whoever has none of it may
// not use its nodes, by a native job or by a pod. A job that names no partition uses whatever its
// account and user have been granted, and the default partition. Pure, as pool.h.
#pragma once

#include "base/mem.h"

#include <stdint.h>

struct td_pool_group {
	const char *name; // and that of its partition
	const char *const *users;
	size_t n_users;
};
struct td_pool_grant {
	const char *group, *account;
};
struct td_pool_groups {
	const struct td_pool_group *v;
	size_t n;
	const struct td_pool_grant *grants;
	size_t n_grants;
};

// A Tenant, as far as groups need it.
struct td_pool_group_tenant {
	const char *name, *parent; // parent NULL: none
	const char *account;       // NULL: it is not in place
	const char *const *groups; // that it is granted itself
	size_t n_groups;
};
// Who may use what, with what is inherited; sorted by group and account, each once. Returns their
// number. *ret and its strings live in the arena and the arguments.
size_t td_pool_grants(struct td_arena *arena, const struct td_pool_group_tenant *t, size_t n,
		      const struct td_pool_grant **ret);
// May jobs of this account and user use the group? One that is none may be used by everybody.
bool td_pool_group_may(const struct td_pool_groups *g, const char *group, const char *account, const char *user);

struct td_pool_group_ask {
	const char *named; // partitions that the job names, with commas between; NULL: none
	const char *usual; // the default partition; NULL: not known
	const char *account, *user;
};
// The partitions of a job, with commas between; NULL: Slurm's default, or *ret_refused is the group
// that it names and has not been granted.
const char *td_pool_group_route(struct td_arena *arena, const struct td_pool_groups *g,
				const struct td_pool_group_ask *a, const char **ret_refused);
