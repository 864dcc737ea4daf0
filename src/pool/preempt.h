// Who may take resources from whom: QOS as a SlurmCluster declares them, beside what slurmdbd has.
// Pure, as pool.h.
#pragma once

#include "pool/pool.h"

// ---- the QOS of spec.preemption in slurmdbd ----

struct td_pool_qos {
	const char *name;
	const char *const *preempts; // sorted
	size_t n_preempts;
	int64_t priority, grace_s, exempt_s;
};
enum td_pool_qos_do {
	TD_QOS_LEAVE,
	TD_QOS_MAKE,    // it is not there: without its list first, so that others may name it
	TD_QOS_WRITE,   // it differs from what the object says
	TD_QOS_FOREIGN, // it is there, and somebody else's: it is left alone, and somebody is told
	TD_QOS_RETIRE,  // Tandem's, and declared no more: it preempts nobody. Jobs that had it are in the history
};
// want NULL: not declared. live NULL: not in slurmdbd. ours: its description is Tandem's mark.
enum td_pool_qos_do td_pool_qos_decide(const struct td_pool_qos *want, const struct td_pool_qos *live, bool ours);
const char *td_pool_qos_do_name(enum td_pool_qos_do d); // "make"
