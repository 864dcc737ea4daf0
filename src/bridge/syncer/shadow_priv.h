// What the files of shadows share.
#pragma once

#include "bridge/syncer/hold.h"
#include "bridge/syncer/shadow.h"

#include <uthash.h>

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
	struct td_pool_size there; // of want: without pods that wait at the gate (entrance.h)
	bool on;                   // spec.shadows
	int64_t seen[2];           // what the node had given out when the jobs were read last: CPUs, MB
	int64_t refuse[2];         // the same, when Slurm refused an allocation; -1: it did not
	int64_t unsure_ms;         // mono: a submit may have happened; a listing that begins later tells. 0: none
	char *said;                // the last event
	UT_hash_handle hh;
};
struct td_shadows {
	pthread_mutex_t
		lock; // guards everything here. The jobs of a node are changed by its reconcile, and by listings
	struct td_shadow_of *by_node;
	int64_t listed_ms;
};
struct td_shadow_wants { // zero at first
	struct td_pool_size want;
	bool over;          // the pods ask for more than the node has
	struct td_buf pods; // who holds it, in words
};
// What is to be held on the node with these pods. False: what Slurm gives out there is not known.
bool td_shadow_want_of(struct td_bridge *b, const struct td_settings *s, const struct td_object *node,
		       const struct td_objects *there, struct td_shadow_wants *ret);
// As td_shadow_text, as if so much were held. left NULL: what is.
char *td_shadow_text_with(struct td_bridge *b, const char *node, const struct td_pool_size *left);
// Makes it when there is none. The lock is held.
struct td_shadow_of *td_shadow_of_locked(struct td_shadows *s, const char *node);
