// How many native jobs each node has, for the annotation tandem.dev/slurm-jobs. Slurm's record of a node does not say
// it, so each job's record is read once, when the job has been there in two looks: one that ends sooner is never read,
// and a pool where nothing changes is not looked at.
//
// It says besides how often a node's figures of native jobs may be written. The parts are thread-safe.
#pragma once

#include "bridge/bridge.h"

struct td_counts;
struct td_counts *td_counts_new(void);
struct td_counts *td_counts_free(struct td_counts *c); // NULL ok

// One look, when one is due; queues the nodes whose number has changed. Called by the listing thread alone. An error
// (Slurm does not answer) changes nothing, and the next look is not before it is due.
int td_counts_look(struct td_bridge *b, struct td_slurm *s, struct td_error *err);
// "3"; NULL: none. Caller frees.
char *td_counts_text(struct td_bridge *b, const char *node);
// In how many ms the figures of this node may be written (td_pool_write_in). 0: now, and it counts as written.
int64_t td_counts_write_in(struct td_bridge *b, const char *node);
