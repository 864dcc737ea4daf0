// Machines that a cluster autoscaler is to make (docs/autoscale.md). The operator says in the SlurmCluster's
// status.autoscale which NodeSets may have more nodes; the thread of policies looks at the jobs that wait, lets pool/grow.h
// decide how many nodes would let them begin, and writes that to status.wanted; the operator asks Kubernetes for machines.
// Nothing is remembered from pass to pass.
//
// Costs nothing where no NodeSet has spec.autoscale. Else two or three requests to Slurm for each job that waits in a
// partition of these NodeSets, in the order of Slurm's priorities, until JOBS of them are found that new nodes might help,
// OF_ONE of one user, or LOOKS were looked at, LOOKS_OF_ONE of one user; every few seconds, a twentieth of the thread's time
// at most.
#pragma once

#include "bridge/bridge.h"

struct td_policies_facts;
// ---- the thread of policies ----
// A NodeSet of this SlurmCluster may grow, or what was said of one is to be taken back.
bool td_growth_on(struct td_bridge *b);
// *next_ms: mono, not before; 0 at first.
void td_growth_pass(struct td_bridge *b, struct td_slurm *slurm, const struct td_policies_facts *f, int64_t *next_ms);
// ---- for `tandem why` ----
// Adds which NodeSets grow, of those on whose nodes a job that waits may run (may, of the nodes).
void td_growth_words(struct td_bridge *b, const struct td_slurm_nodes *all, const bool *may, struct td_buf *t);
// ---- for tests ----
struct td_grow_job;
// What a job asks for, in the terms of pool/grow.h, its kinds of GRES by their numbers in `kinds`, which grows. False: it is
// not known, or new nodes would not help it. j->may and j->in are the caller's.
bool td_growth_read(const struct td_slurm_job *job, char kinds[][64], struct td_grow_job *ret);
