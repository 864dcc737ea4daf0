// One job that waits is looked at, and jobs that run are queued again for it: what defragmentation (defrag.c) and
// starvation (starve.c) share.
#pragma once

#include "bridge/policy/policies.h"
#include "pool/starve.h"

struct td_starve_look;   // starve.c: the accounts and what they hold
struct td_starve_served; // starve.c: for whom room is made already
struct td_moves_set {    // places in the look's `known`
	size_t v[TD_DEFRAG_MOST], n;
	bool comes;                                  // with starve: he has room when those have left that leave already
	enum td_pool_starve_why why[TD_DEFRAG_MOST]; // with starve: why each
};
enum { TD_MOVES_LISTS = 16 };
struct td_moves_lists { // for each list of partitions, and of nodes without which: the nodes of it
	const char *partition[TD_MOVES_LISTS], *excluded[TD_MOVES_LISTS];
	bool *feasible[TD_MOVES_LISTS];
	size_t n;
};
struct td_moves_look {
	struct td_bridge *b;
	const struct td_settings *s;
	struct td_policies_facts *f;
	const struct td_starve_look *starve; // NULL: it waits although there is room enough, only in pieces
	struct td_starve_served
		*served; // with starve: whose room this one may not have; it is added if it is served, too
	int64_t after_s; // so long it has to wait
	const struct td_slurm_nodes *nodes; // NULL: those of the view
	const struct td_slurm_job *waiter;
	bool comes; // he has room when those have left that leave already
	struct td_pool_defrag pool;
	const bool *must; // as in td_pool_starve
	const char *kinds[TD_POOL_KINDS];
	struct td_moves_lists lists;
	// Of pool.jobs: which job, and for how long nobody may move it yet.
	struct td_policies_known **known;
	int64_t *slice_s;
};
// ---- defrag.c ----
// Looks at the job `id`. Fills the words. True: jobs were told to leave. busy: nobody may be told now.
bool td_moves_head(struct td_moves_look *of, struct td_slurm *slurm, struct td_policies_moves *m, int64_t id, bool busy,
		   struct td_policies_words *ret);
// The parts of a job; 0: it is on a node that is not known.
size_t td_moves_parts(struct td_moves_look *k, const struct td_policies_known *j, struct td_pool_move_part *ret);
// Whether the node of one that was told is to be asked now; noted in j->asked, so that it is asked once for each time
// that it was told. Who could not ask sets that to 0.
bool td_moves_asks(struct td_policies_known *j, enum td_pool_leave_do d);
// The place for this waiter's move; NULL: he had one within the minute, somebody was leaving for him, or too many are made.
struct td_policies_move *td_moves_slot(struct td_policies_moves *m, int64_t waiter, int64_t now_ms);
// Does somebody leave for him, or has within the minute?
bool td_moves_paused(struct td_policies_moves *m, int64_t waiter, int64_t now_ms);
// Somebody leaves for this waiter now: he has a minute from when the last one has gone. Until Slurm has cleaned up after
// that one, its room does not show, and more would be asked for it.
void td_moves_pause(struct td_policies_moves *m, int64_t waiter, int64_t now_ms);
// The entry of spec.preemption.qos; 0: none, so Slurm's own.
int64_t td_moves_priority(const struct td_settings *s, const char *qos);

// ---- starve.c ----
// Looks at the first few of each partition's queue who are entitled, in their order. Returns how many words there are, at
// most `most`. busy: others leave for a defragmentation.
size_t td_starve_pass(const struct td_moves_look *of, struct td_slurm *slurm, struct td_policies_moves *m, bool busy,
		      struct td_policies_words *ret, size_t most);
// The victims among those whose slice is over in `in_s`, with their parts in the room `parts`.
size_t td_starve_choose(struct td_moves_look *k, int64_t in_s, struct td_pool_move_part *parts,
			struct td_moves_set *ret);
// Room is made for the one that is looked at: those after it may not have it.
void td_starve_serve(const struct td_moves_look *k);
// "its account holds 0 of the 8 GPUs that are its share"
void td_starve_words(const struct td_moves_look *k, struct td_buf *t);
// Others may stand before it in the queue, and the room that is made would be theirs. Slurm says so (Priority) of one
// without any before it, too, when it may have one of several QOS. So it goes to the front first (pool/starve.h).
void td_starve_raise(const struct td_moves_look *k, struct td_slurm *slurm);
// Who is at the front, and is not kept there (of each known job; NULL: nobody is), has his own place again.
void td_starve_lower(struct td_bridge *b, struct td_policies_facts *f, struct td_slurm *slurm, const bool *keep);
