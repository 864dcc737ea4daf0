// The storage of a Tenant's quota: what the claims (PersistentVolumeClaims) of its namespaces may ask for together, with
// those of the Tenants below it. Kubernetes limits single namespaces (ResourceQuota), so the sum is divided among them,
// and no division lets more than the quota through at any moment. Pure.
#pragma once

#include "base/mem.h"

#include <stdint.h>

// A namespace, of one word.
struct td_pool_storage_space {
	bool counted;       // the API server has counted what is there, and limits it: `hard` and `used` are known
	int64_t said;       // what its ResourceQuota asks for; one that is to be made begins with 0
	int64_t hard, used; // what the API server enforces, and what is used
	int64_t room;       // somebody there has asked that so much more be possible at once; 0: nobody has
};
// A Tenant that names the word: its namespaces, and those of the Tenants below it, as places in the list.
struct td_pool_storage_limit {
	int64_t quota;
	const size_t *spaces;
	size_t n;
};
// What each ResourceQuota shall say now. Each namespace gets what it uses, then the room that was asked for there, as far
// as every quota above it has so much left (those that come first in a limit's list first), and a like part of what is
// left after that; nothing changes before one has less than seven eighths of its part, so that a small claim
// seldom costs a write. What one gives up comes to others only when the API server enforces it: what the
// claims of a limit's namespaces can come to stays within the quota, but for what was beyond it before. ret
// has a place for each space.
void td_pool_storage_split(struct td_arena *arena, const struct td_pool_storage_limit *limits, size_t n_limits,
			   const struct td_pool_storage_space *spaces, size_t n, int64_t *ret);
