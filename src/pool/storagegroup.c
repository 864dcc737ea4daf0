// Storage groups: who may claim what, and how much is claimed.
#include "pool/storagegroup.h"

#include <string.h>

static bool in(const char *const *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i], name))
			return true;
	return false;
}

enum of { CLASS, FILE_SYSTEM };

static bool has(const struct td_pool_storage_group *g, enum of of, const char *name)
{
	return of == CLASS ? in(g->classes, g->n_classes, name) : in(g->files, g->n_files, name);
}

// What is in no group is everybody's.
static bool may(const struct td_pool_storage_group *v, size_t n, enum of of, const char *name,
		const char *const *granted, size_t n_granted)
{
	bool grouped = false;
	for (size_t i = 0; i < n; i++) {
		if (!has(&v[i], of, name))
			continue;
		grouped = true;
		if (in(granted, n_granted, v[i].name))
			return true;
	}
	return !grouped;
}

bool td_pool_storage_may(const struct td_pool_storage_group *v, size_t n, const char *class, const char *const *granted,
			 size_t n_granted)
{
	return may(v, n, CLASS, class, granted, n_granted);
}

bool td_pool_storage_grouped(const struct td_pool_storage_group *v, size_t n, const char *file)
{
	return !td_pool_storage_sees(v, n, file, NULL, 0);
}

bool td_pool_storage_sees(const struct td_pool_storage_group *v, size_t n, const char *file, const char *const *granted,
			  size_t n_granted)
{
	return may(v, n, FILE_SYSTEM, file, granted, n_granted);
}

bool td_pool_storage_holds(const struct td_pool_storage_group *g, const char *file)
{
	return has(g, FILE_SYSTEM, file);
}

void td_pool_storage_count(struct td_pool_storage_group *v, size_t n, const char *class, int64_t bytes)
{
	for (size_t i = 0; i < n; i++) {
		if (!has(&v[i], CLASS, class))
			continue;
		v[i].claims++;
		if (bytes > 0 && __builtin_add_overflow(v[i].bytes, bytes, &v[i].bytes))
			v[i].bytes = INT64_MAX;
	}
}
