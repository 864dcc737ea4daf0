// Storage groups: who may claim what, and how much is claimed.
#include "pool/storagegroup.h"

#include <string.h>

static bool has(const struct td_pool_storage_group *g, const char *class)
{
	for (size_t i = 0; i < g->n_classes; i++)
		if (!strcmp(g->classes[i], class))
			return true;
	return false;
}

bool td_pool_storage_may(const struct td_pool_storage_group *v, size_t n, const char *class, const char *const *granted,
			 size_t n_granted)
{
	bool grouped = false;
	for (size_t i = 0; i < n; i++) {
		if (!has(&v[i], class))
			continue;
		grouped = true;
		for (size_t k = 0; k < n_granted; k++)
			if (!strcmp(granted[k], v[i].name))
				return true;
	}
	return !grouped;
}

void td_pool_storage_count(struct td_pool_storage_group *v, size_t n, const char *class, int64_t bytes)
{
	for (size_t i = 0; i < n; i++) {
		if (!has(&v[i], class))
			continue;
		v[i].claims++;
		if (bytes > 0 && __builtin_add_overflow(v[i].bytes, bytes, &v[i].bytes))
			v[i].bytes = INT64_MAX;
	}
}
