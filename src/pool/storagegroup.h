// Storage groups: named parts of the storage of a pool, each some storage classes and file systems, for the Tenants to whom
// it is granted, with all below them, and for single users. Pure, as pool.h.
#pragma once

#include "base/mem.h"

#include <stdint.h>

struct td_pool_storage_group {
	const char *name;
	const char *const *classes;
	size_t n_classes;
	const char *const *files; // file systems: names of entries of spec.storage
	size_t n_files;
	const char *const *users;
	size_t n_users;
	int64_t claims, bytes; // what td_pool_storage_count has counted
};
// May whoever has been granted these groups claim storage of the class? One that is in no group is everybody's; of one
// that is in several, any will do.
bool td_pool_storage_may(const struct td_pool_storage_group *v, size_t n, const char *class, const char *const *granted,
			 size_t n_granted);
// Is the file system in a group, so that not everybody has it?
bool td_pool_storage_grouped(const struct td_pool_storage_group *v, size_t n, const char *file);
// May whoever has been granted these groups have the file system? One that is in no group is everybody's.
bool td_pool_storage_sees(const struct td_pool_storage_group *v, size_t n, const char *file, const char *const *granted,
			  size_t n_granted);
// Does this group hold the file system?
bool td_pool_storage_holds(const struct td_pool_storage_group *g, const char *file);
// Counts a claim of so many bytes in all groups that have its class. Sums stay below INT64_MAX.
void td_pool_storage_count(struct td_pool_storage_group *v, size_t n, const char *class, int64_t bytes);
