// Our own asks that wait in Slurm's queue, as one that has just come must see them (room.c).
#pragma once

#include "bridge/scheduler/ask.h"

struct td_queued_job {
	struct td_ask_wait *wait; // a reference; NULL: what it asks for is not known
	bool aside;
};
enum { TD_QUEUED_MAX = TD_POOL_WAITERS + TD_POOL_OTHERS };
struct td_queued { // zero at first
	struct td_queued_job v[TD_QUEUED_MAX];
	size_t n, own; // own: the first are asks of ours
	bool more;     // there are more than that
};
// Adds all that wait now.
void td_queued_read(struct td_asks *t, struct td_queued *ret);
// Adds a job, with a reference of its own.
void td_queued_add(struct td_queued *l, const struct td_queued_job *j);
// What a job that waits asks for. NULL: it is not known well enough.
struct td_ask_wait *td_ask_wait_of_job(const struct td_slurm_job *j);
// The same in parts, which point into w: what one node, or each member of a gang, takes at least.
struct td_ask_wait_parts {
	struct td_pool_want want, least;
	size_t nodes;
	const char *kinds[TD_POOL_KINDS];
	const char *partition;                 // NULL: any
	const struct td_strv *excluded, *only; // only: all its nodes are among these; empty: they may be any
	const struct td_strv *must;            // of its nodes: it has to have these, and others besides
};
void td_ask_wait_show(const struct td_ask_wait *w, struct td_ask_wait_parts *ret);
// What each of its members takes, of an ask of ours that waits; false: that is not known.
bool td_ask_waits_least(struct td_asks *t, const struct td_ask *a, struct td_pool_want *ret);
void td_queued_done(struct td_queued *l);
// Raises each partition's most[] to the GPUs on one node that an ask of ours which waits wants there.
void td_ask_waits_largest(struct td_asks *t, const struct td_strv *partitions, int64_t *most);
#define td_auto_queued __attribute__((cleanup(td_queued_done)))

struct td_queued_seen { // l in the terms of one pod; strings point into l and the pod's want
	// Of the pod first, as in its want, then those of who waits.
	const char *kinds[TD_POOL_KINDS];
	struct td_pool_want take; // what the pod takes
	struct td_pool_waiter v[TD_QUEUED_MAX];
};
void td_queued_kinds(const struct td_queued *l, const struct td_want *w, struct td_queued_seen *ret);
// Calls td_pool_room_yield() for the pod's nodes v, which are in the order of `nodes`.
bool td_queued_yield(const struct td_queued *l, struct td_queued_seen *seen, const struct td_slurm_nodes *nodes,
		     struct td_pool_node *v);
