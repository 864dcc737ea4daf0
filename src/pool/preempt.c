// Who may take resources from whom (preempt.h). t/scenarios/preempt.txt shows every case.
#include "pool/preempt.h"

#include <string.h>

static bool same(const struct td_pool_qos *a, const struct td_pool_qos *b)
{
	bool yes = a->priority == b->priority && a->grace_s == b->grace_s && a->exempt_s == b->exempt_s &&
		   a->n_preempts == b->n_preempts;
	for (size_t i = 0; yes && i < a->n_preempts; i++)
		yes = !strcmp(a->preempts[i], b->preempts[i]);
	return yes;
}

enum td_pool_qos_do td_pool_qos_decide(const struct td_pool_qos *want, const struct td_pool_qos *live, bool ours)
{
	if (!live)
		return want ? TD_QOS_MAKE : TD_QOS_LEAVE;
	if (!want)
		return ours && (live->n_preempts || live->priority || live->grace_s || live->exempt_s) ? TD_QOS_RETIRE
												       : TD_QOS_LEAVE;
	return !ours ? TD_QOS_FOREIGN : same(want, live) ? TD_QOS_LEAVE : TD_QOS_WRITE;
}

const char *td_pool_qos_do_name(enum td_pool_qos_do d)
{
	static const char *const names[] = {"leave", "make", "write", "foreign", "retire"};
	return (size_t)d < sizeof(names) / sizeof(names[0]) ? names[d] : "?";
}
