// Native jobs that were queued again begin soon (pool/again.h). The poll of those that wait (poll.c) finds them, and two
// workers read each, decide, and write its begin, and into its admin comment which node failed, and why (pool/said.h):
// three requests (four where a node failed) for each time that a job is queued again, one for a new one that waits where
// few are new, none for one that goes on waiting. All is in memory: a bridge that has just begun to lead knows neither
// which nodes failed before nor how often a job was queued again, so those from before it wait as Slurm wants them to.
#pragma once

#include "bridge/bridge.h"

struct td_agains;
struct td_agains *td_agains_new(void);
struct td_agains *td_agains_free(struct td_agains *a);
// The thread that polls nodes: which have failed since.
void td_agains_nodes(struct td_bridge *b, const struct td_slurm_snapshot *old, const struct td_slurm_snapshot *now);
// The same: their states could not be read now, so one may have failed and come back unseen.
void td_agains_blind(struct td_bridge *b);
// These wait again, or end their run and are to wait again, since a time between two polls (mono, ms).
// from_ms -1: since before this bridge began.
void td_agains_back(struct td_bridge *b, const struct td_slurm_states *jobs, int64_t from_ms, int64_t to_ms);
// One job, by its id: for workers of again_queue.
int td_agains_reconcile(void *bridge, const char *key, int64_t *again_ms, struct td_cancel *c, struct td_error *err);
// Appends what was done, " It was queued again …"; nothing when it was not queued again, or for an earlier run.
void td_agains_words(struct td_bridge *b, const struct td_slurm_job *j, struct td_buf *ret);
// How many begins were brought forward since this bridge leads.
uint64_t td_agains_count(struct td_bridge *b);
