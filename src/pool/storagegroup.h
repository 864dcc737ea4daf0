// Storage groups: named parts of the storage of a pool, each some storage classes, for the Tenants to whom it is granted,
// with all below them. Pure, as pool.h.
#pragma once

#include "base/mem.h"

#include <stdint.h>

struct td_pool_storage_group {
	const char *name;
	const char *const *classes;
	size_t n_classes;
	int64_t claims, bytes; // what td_pool_storage_count has counted
};
// May whoever has been granted these groups claim storage of the class? One that is in no group is everybody's; of one
// that is in several, any will do.
bool td_pool_storage_may(const struct td_pool_storage_group *v, size_t n, const char *class, const char *const *granted,
			 size_t n_granted);
// Counts a claim of so many bytes in all groups that have its class. Sums stay below INT64_MAX.
void td_pool_storage_count(struct td_pool_storage_group *v, size_t n, const char *class, int64_t bytes);
