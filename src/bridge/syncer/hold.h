// Root's jobs that hold something of one node in Slurm for nobody's use: what pods of other schedulers hold
// (shadow.h), and devices one by one (aside.h). Their owners decide what is held; here is how such a job is
// made, and how it is found again.
#pragma once

#include "bridge/bridge.h"

// Fixed priorities, above all that Slurm computes and any nice (docs/protocols.md 1.3). job_submit.lua gives
// 2,000,000,000 to a pod that the bridge lets past those who wait.
#define TD_HOLD_WAITS 1900000000LL   // whom the bridge lets past takes nothing that it needs
#define TD_HOLD_AHEAD 3000000000LL   // what old holders are about to let go
#define TD_HOLD_AT_ONCE 4000000000LL // it starts at once or not at all (S-I9)

struct td_hold {
	struct td_bridge *b;
	const struct td_settings *s;
	struct td_slurm *slurm;
	const struct td_slurm_node *n;
	const char *name;       // of the job
	const char *mark;       // its admin comment is this, the SlurmCluster's uid, / and the node
	const char *gres;       // "gres/gpu:1"; NULL: none
	const char *dependency; // NULL: none
	int64_t cpus, memory_mb;
	int64_t priority;
	bool at_once; // an allocation, which starts inside the call or not at all. Else a batch job that waits
};
enum td_hold_is {
	TD_HOLD_MADE,
	TD_HOLD_REFUSED, // Slurm has no room for it, or does not want it; *err says why
	TD_HOLD_UNSURE,  // it may be there: a listing that begins later tells, and is asked for
	TD_HOLD_NOT_NOW, // nothing was done
};
// *ret_is is always set. 0: it is made, and *ret_job is its id.
int td_hold_submit(const struct td_hold *h, enum td_hold_is *ret_is, int64_t *ret_job, struct td_cancel *c,
		   struct td_error *err);
// The node of which the job holds something, by a mark; NULL: it is no job of this SlurmCluster's with that mark.
// Points into j.
const char *td_hold_node(const struct td_settings *s, const struct td_slurm_job *j, const char *mark);
