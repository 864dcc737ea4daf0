/* A policy of a site's own: who asks for the shortest time starts first (docs/policies.md).
 *     cc -shared -fPIC -O2 -o shortest.so policy-shortest.c
 */
#include <tandem/policy.h>

#include <stdlib.h>

const uint32_t tandem_policy_version = TANDEM_POLICY_VERSION;

static const struct tandem_policy_job *jobs;

static int shorter(const void *a, const void *b)
{
	const struct tandem_policy_job *x = &jobs[*(const size_t *)a], *y = &jobs[*(const size_t *)b];
	int64_t m = x->time_limit_min ? x->time_limit_min : INT64_MAX,
		n = y->time_limit_min ? y->time_limit_min : INT64_MAX;
	if (m != n)
		return m < n ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

int tandem_policy_order(const struct tandem_policy_input *in, size_t *order)
{
	for (size_t i = 0; i < in->n_waiting; i++)
		order[i] = i;
	jobs = in->waiting;
	qsort(order, in->n_waiting, sizeof(*order), shorter);
	return 0;
}
