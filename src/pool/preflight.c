// Which jobs are tested before they start.
#include "pool/preflight.h"

#include <string.h>

static bool names(const char *const *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i], "*") || (name && !strcmp(list[i], name)))
			return true;
	return false;
}

enum td_pool_preflight td_pool_preflight(const struct td_pool_preflight_rule *r, const struct td_pool_preflight_job *j)
{
	// A job that is no pod's has no namespace, and "*" of the namespaces does not mean it.
	if (names(r->partitions, r->n_partitions, j->partition) || names(r->qos, r->n_qos, j->qos) ||
	    (j->ns && names(r->namespaces, r->n_namespaces, j->ns)))
		return TD_PREFLIGHT_YES;
	return r->n_qos && !j->qos ? TD_PREFLIGHT_QOS : TD_PREFLIGHT_NO;
}
