// What the two files of shadows share.
#pragma once

#include "bridge/syncer/shadow.h"

#include <uthash.h>

// Fixed priorities, above all that Slurm computes and any nice (docs/protocols.md 1.3). job_submit.lua gives
// 2,000,000,000 to a pod that the bridge lets past those who wait.
#define TD_SHADOW_WAITS 1900000000LL   // whom the bridge lets past takes nothing that it needs
#define TD_SHADOW_AHEAD 3000000000LL   // what old shadows are about to let go
#define TD_SHADOW_AT_ONCE 4000000000LL // it starts at once or not at all (S-I9)

struct td_shadow_job {
	int64_t job;
	struct td_pool_shadow_job is;
	int64_t start; // epoch seconds: when Slurm expects one that waits to start; 0: it does not say
};
struct td_shadow_of { // one node
	char *node;
	struct td_shadow_job v[TD_SHADOWS_MAX];
	size_t n;
	struct td_pool_size want;
	bool on;           // spec.shadows
	int64_t seen[2];   // what the node had given out when the jobs were read last: CPUs, MB
	int64_t refuse[2]; // the same, when Slurm refused an allocation; -1: it did not
	int64_t unsure_ms; // mono: a submit may have happened; a listing that begins later tells. 0: none
	char *said;        // the last event
	UT_hash_handle hh;
};
struct td_shadows {
	pthread_mutex_t
		lock; // guards everything here. The jobs of a node are changed by its reconcile, and by listings
	struct td_shadow_of *by_node;
	int64_t listed_ms;
	bool qos; // the QOS is there
};
// The QOS of such jobs; NULL: none is needed. Makes it when it is not there.
int td_shadow_qos(struct td_bridge *b, const struct td_settings *s, struct td_slurm *slurm, struct td_cancel *c,
		  const char **ret, struct td_error *err);
// Makes it when there is none. The lock is held.
struct td_shadow_of *td_shadow_of_locked(struct td_shadows *s, const char *node);
