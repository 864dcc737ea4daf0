// Which jobs are tested before they start (docs/health.md). Pure. The names are borrowed for the call.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Jobs of these partitions, these QOS, and pods of these namespaces are tested; "*" is every one.
struct td_pool_preflight_rule {
	const char *const *partitions, *const *qos, *const *namespaces;
	size_t n_partitions, n_qos, n_namespaces;
};
struct td_pool_preflight_job {
	const char *partition, *qos, *ns; // NULL: not known, or none
};
enum td_pool_preflight {
	TD_PREFLIGHT_NO,
	TD_PREFLIGHT_YES,
	TD_PREFLIGHT_QOS, // it depends on the job's QOS, which is not known
};
enum td_pool_preflight td_pool_preflight(const struct td_pool_preflight_rule *r, const struct td_pool_preflight_job *j);
