// GPUs are cut in parts because a job or a pod waits for a part, and made whole again (docs/gpus.md, "Cut on demand"). The
// thread of policies looks every two seconds at those who wait, lets pool/recut.h decide, and writes what is to be done on
// the Node (TD_ANN_GPU_CUT); the operator makes a NodeAction of it (operator/cutting.c). Nothing is remembered that a bridge
// which begins to lead would need: what was cut when is on the Nodes.
//
// A native job for parts that no node has is held by job_submit.lua (TD_PART_MARK), and one whose parts are gone by Slurm
// (BadConstraints): this releases both when a node has such parts, and the first when no NodeSet cuts any more. A pod for
// such parts waits without a job.
//
// Costs nothing where no NodeSet has spec.gpuCutting. Else: of NODES nodes at most the annotations are read; of each of at
// most JOBS jobs that wait for parts two or three requests to Slurm, and nothing when none waits and nothing is cut.
#pragma once

#include "bridge/bridge.h"

struct td_cuts;
struct td_policies_facts;
struct td_want;
struct td_ask;
struct td_cuts *td_cuts_new(void);
struct td_cuts *td_cuts_free(struct td_cuts *x);
// For the informer of Nodes: those whose GPUs are cut on demand, as "on", and that were cut so once, as "was".
#define TD_CUTS_INDEX "cutting"
void td_cuts_index(const struct td_object *node, struct td_strv *ret);
// ---- the thread of policies ----
bool td_cuts_on(struct td_bridge *b);
void td_cuts_pass(struct td_bridge *b, struct td_slurm *slurm, const struct td_policies_facts *f);
// ---- any thread ----
struct td_cuts_note {
	const char *kind; // "1g.10gb"
	int64_t n, since_s;
	const char *partition; // NULL: any
	const char *ask, *pod; // UIDs: of the ask, and of the pod that says where it may run
	const char *ns;        // of the pod
};
// The ask waits for parts that no node has. False: nobody cuts GPUs in such. It is noted for a while, so it says so again
// at each look.
bool td_cuts_wait(struct td_bridge *b, const struct td_cuts_note *n);
// Appends what becomes of a job (0: none) or an ask (NULL: none) that waits for parts: " A GPU of n1 is being cut for it
// (1g.10gb)."
void td_cuts_words(struct td_bridge *b, int64_t job, const char *ask, struct td_buf *ret);
// Since this bridge leads: what was asked for.
uint64_t td_cuts_count(struct td_bridge *b);
