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

// ---- an ask that takes resources from others: where, and when to try ----

// Who holds resources on a node.
struct td_pool_holder {
	int node;                // index of the node
	struct td_pool_want has; // there
	bool may;                // the ask's QOS may preempt its
	bool going;              // it ends already: what it has comes free without anybody's loss
	int64_t slice_s;         // so long it may not be preempted yet; 0: at once
	int64_t loss;            // what would be lost with it: nodes × seconds that it has run
};
// Returns the node where the ask fits when those go whom it may preempt, and the least is lost; -1:
// there is none. Nobody inside his slice is counted on.
int td_pool_preempt_node(const struct td_pool_node *nodes, size_t n, const struct td_pool_want *want,
			 const struct td_pool_holder *holders, size_t n_holders);

// Slurm preempts when an immediate allocation is refused for lack of room (docs/facts/slurm.md
// S-Q1); the next one gets the resources. Each try beyond that would take another victim.
struct td_pool_preempt {
	bool node;        // there is one, chosen before or now
	int tries;        // that were refused
	bool none;        // and after the last one nobody was found whom it had preempted
	bool leaving;     // a victim is being ended, but has its resources yet
	int64_t grace_ms; // until the last of those that were told must be gone; 0: nobody was told
	int64_t since_ms; // for how long it has been going on
};
enum td_pool_preempt_do {
	TD_PREEMPT_QUEUE, // stand in line: Slurm's scheduler preempts as well, more slowly
	TD_PREEMPT_TRY,   // an immediate allocation on the node
	TD_PREEMPT_WAIT,  // *ret_ms
};
enum td_pool_preempt_do td_pool_preempt(const struct td_pool_preempt *p, int64_t *ret_ms);
const char *td_pool_preempt_do_name(enum td_pool_preempt_do d); // "try"
// How often the job of a pod is read that may be told of its preemption: where nobody waits, nobody
// preempts. many: so many such pods there are.
int64_t td_pool_preempt_look_ms(bool waits, size_t many);
