// The cached view of Slurm, kept by small frequent polls, so that nothing asks Slurm once per pod.
//
// Jobs: only watched ids are polled (/jobs/state/ with a filter; 80 bytes a job, however many other
// jobs there are). Nodes: whether any has changed, and /nodes/ then; of very many that list is kept
// back, and nodes are read by themselves meanwhile. Other jobs that wait: all of /jobs/state/, rarely.
//
// Thread-safe. The caller's threads make the polls (td_slurm_view_poll_*), one thread for each kind
// of poll.
#pragma once

#include "slurm/rest.h"

#include <stdatomic.h>

struct td_slurm_view;
struct td_slurm_view *td_slurm_view_new(void);
struct td_slurm_view *td_slurm_view_free(struct td_slurm_view *v);
TD_DEFINE_AUTO(struct td_slurm_view *, td_slurm_view_free)

// How long to wait before the next poll: `times` as long as a poll takes, so that Slurm has time
// for others, and at least min_ms. The quickest of the last few polls counts: neither a poll that
// was slow because the machine was busy for a moment nor the very first ones may blind the caller
// for seconds. took_ms: the poll that has just ended.
struct td_slurm_pace { // zero at first
	int64_t took[8];
	size_t n;
};
int64_t td_slurm_pace_wait(struct td_slurm_pace *p, int64_t took_ms, int64_t times, int64_t min_ms);

// ---- jobs ----
// Starts to watch a job, with the states that the caller knows; 0: none.
void td_slurm_view_watch(struct td_slurm_view *v, int64_t job, uint64_t states);
// Ends the watch of jobs that nobody has wanted for keep_ms. Until then they stay watched, because
// a slurmctld that was killed brings cancelled jobs back (S-C1). `wanted` is called under the
// view's lock. Returns how many jobs are wanted.
size_t td_slurm_view_sweep(struct td_slurm_view *v, int64_t now_ms, int64_t keep_ms,
			   bool (*wanted)(void *ctx, int64_t job), void *ctx);
// Polls all watched jobs once. *ret_changed: the jobs whose states differ from the last poll.
// *ret_gone: all jobs that are absent from the answer; the first time they are among the changed as
// well, with states 0. Jobs that nobody wants any more are polled more rarely. On an error nothing
// changes.
int td_slurm_view_poll_jobs(struct td_slurm_view *v, struct td_slurm *s, struct td_cancel *c,
			    struct td_slurm_states *ret_changed, struct td_slurm_states *ret_gone,
			    struct td_error *err);

// ---- nodes ----
// An immutable, reference-counted snapshot. `seq` grows with every poll, `gen` only when a snapshot
// differs from the one before.
struct td_slurm_snapshot {
	struct td_slurm_nodes nodes; // sorted by name
	uint64_t seq, gen;
	uint64_t whole; // `gen` of the last whole list: what came since are nodes that were read by themselves
	int64_t gap_ms; // so long the list can be kept back (td_slurm_view_paced); 0: it never is
	// Mono: when the last request was sent that showed this state, so the data is newer.
	atomic_int_fast64_t asked_ms;
	int refs;
};
// Returns a reference; NULL before the first poll.
struct td_slurm_snapshot *td_slurm_view_nodes(struct td_slurm_view *v);
struct td_slurm_snapshot *td_slurm_snapshot_unref(struct td_slurm_snapshot *s);
TD_DEFINE_AUTO(struct td_slurm_snapshot *, td_slurm_snapshot_unref)
// How much older the snapshot is than it may be by its pace, in ms.
int64_t td_slurm_snapshot_late(const struct td_slurm_snapshot *s, int64_t now_ms);
// Mono: when the last request was sent that shows how this node is. asked_ms, or later.
int64_t td_slurm_snapshot_seen(const struct td_slurm_snapshot *s, const char *node);

// Of more than `few` nodes the list takes a bounded share of Slurm's time: the next one is read `times` as long after
// one as it took (at least least_ms). What was not used of that is kept for `burst` lists: in a pool where little changes
// the list comes at once. In between, when something has changed, the nodes of which somebody said so are
// read by themselves. times 0, as at first: the list is never kept back. Before the first poll.
struct td_slurm_list_pace {
	int64_t times, least_ms;
	size_t few;
	int64_t burst;
};
void td_slurm_view_paced(struct td_slurm_view *v, const struct td_slurm_list_pace *p);
// Says that this node may have changed. A hint only: nothing is lost with it, because the list follows. From any thread.
void td_slurm_view_hint(struct td_slurm_view *v, const char *node);
// Grows whenever something of the nodes has changed, also while the list is kept back and nobody knows what.
uint64_t td_slurm_view_stir(struct td_slurm_view *v);
// Polls all nodes once: asks whether any has changed, and reads the list when one has, when changes
// follow each other, and every minute. Slurm counts in whole seconds: whether a change came before
// or after the list of its own second is not to be told, so another list follows when that second
// is over. *ret_changed: `gen` has grown. On an error nothing changes.
int td_slurm_view_poll_nodes(struct td_slurm_view *v, struct td_slurm *s, int64_t now_mono_ms, struct td_cancel *c,
			     bool *ret_changed, struct td_error *err);

// When the list must be read. Zero at first.
struct td_slurm_nodes_pace {
	int64_t since;   // slurmctld's second of the last list; 0: none
	int64_t read_ms; // mono: when it was asked for
	bool news;       // it differed from the one before
	bool again;      // something changed in its second, maybe after it was made
	bool owed;       // something has changed, and the list was kept back
};
enum td_slurm_nodes_do {
	TD_NODES_READ,
	TD_NODES_ASK, // whether anything changed since *ret_since
};
enum td_slurm_nodes_do td_slurm_nodes_next(const struct td_slurm_nodes_pace *p, int64_t now_ms, int64_t *ret_since);
// The answer. True: read the list now.
bool td_slurm_nodes_answer(struct td_slurm_nodes_pace *p, int64_t now_ms, bool changed);
// The list was read.
void td_slurm_nodes_read(struct td_slurm_nodes_pace *p, int64_t now_ms, int64_t at, bool differs);

// ---- other jobs that wait ----
// Counts the waiting jobs that are not watched, and makes a fingerprint of their ids. Number and
// fingerprint together tell the fast path whether the queue is still the same. *ret_back, which may be NULL: those that
// wait and did not at the last poll, tasks of arrays too; those that are new and wait, where they are few; and those that
// end their run and are to wait again, when that is seen first. Of the first poll only these.
int td_slurm_view_poll_waiting(struct td_slurm_view *v, struct td_slurm *s, struct td_cancel *c,
			       struct td_slurm_states *ret_back, struct td_error *err);
// Counts all jobs that have not ended, by phase: n[1] the watched ones, as of the last poll of
// jobs; n[0] the others, as of the last td_slurm_view_poll_waiting().
struct td_slurm_job_counts {
	size_t n[2][TD_PHASE_FLAG];
};
void td_slurm_view_counts(const struct td_slurm_view *v, struct td_slurm_job_counts *ret);
void td_slurm_view_waiting(const struct td_slurm_view *v, size_t *ret_n, uint64_t *ret_print);
