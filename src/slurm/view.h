// The cached view of Slurm: what small frequent polls tell, so that nobody asks per pod.
//
// Jobs: only ids that somebody watches are polled (/jobs/state/ with a filter: 80 bytes each, however many others there
// are). Nodes: /nodes/ at a modest rate. The number of other jobs that wait: all of /jobs/state/, rarely. Thread-safe;
// polls are made by the caller's threads (td_slurm_view_poll_*), one thread per kind of poll.
#pragma once

#include "slurm/rest.h"

struct td_slurm_view;
struct td_slurm_view *td_slurm_view_new(void);
struct td_slurm_view *td_slurm_view_free(struct td_slurm_view *v);
TD_DEFINE_AUTO(struct td_slurm_view *, td_slurm_view_free)

// How long to wait for the next poll: `times` as long as one takes, so that Slurm has its time for others, and at least
// min_ms. The quickest of the last few counts: one that was slow, because the machine was busy for a moment, must not
// make us blind for seconds, nor must the very first.
struct td_slurm_pace {
	int64_t took[8];
	size_t n;
};
int64_t td_slurm_pace_wait(struct td_slurm_pace *p, int64_t took_ms, int64_t times, int64_t min_ms);

// ---- jobs ----
// Watching starts with the states the caller knows (0: none yet).
void td_slurm_view_watch(struct td_slurm_view *v, int64_t job, uint64_t states);
// Jobs that nobody wants any more stay watched for keep_ms: a slurmctld that was killed brings cancelled jobs back.
// `wanted` is called under the view's lock. Returns how many are wanted.
size_t td_slurm_view_sweep(struct td_slurm_view *v, int64_t now_ms, int64_t keep_ms,
			   bool (*wanted)(void *ctx, int64_t job), void *ctx);
// One poll of all watched jobs. *ret_changed: those whose states differ from the last poll; *ret_gone: all that were
// absent from the answer (they are among the changed, with states 0, the first time). On an error nothing is changed.
int td_slurm_view_poll_jobs(struct td_slurm_view *v, struct td_slurm *s, struct td_cancel *c,
			    struct td_slurm_states *ret_changed, struct td_slurm_states *ret_gone,
			    struct td_error *err);

// ---- nodes ----
// A snapshot, immutable, reference-counted. `seq` grows with every poll, `gen` only when something differs from the one
// before.
struct td_slurm_snapshot {
	struct td_slurm_nodes nodes; // sorted by name
	uint64_t seq, gen;
	int64_t asked_ms; // mono: the request was *sent* at this time: the data is newer
	int refs;
};
struct td_slurm_snapshot *td_slurm_view_nodes(struct td_slurm_view *v); // a reference; NULL before the first poll
struct td_slurm_snapshot *td_slurm_snapshot_unref(struct td_slurm_snapshot *s);
TD_DEFINE_AUTO(struct td_slurm_snapshot *, td_slurm_snapshot_unref)
int td_slurm_view_poll_nodes(struct td_slurm_view *v, struct td_slurm *s, int64_t now_mono_ms, struct td_cancel *c,
			     bool *ret_changed, struct td_error *err);

// ---- others that wait ----
// Counts the jobs that wait and are not watched, and a fingerprint of which they are: "the same state of the pool" for
// the fast path.
int td_slurm_view_poll_waiting(struct td_slurm_view *v, struct td_slurm *s, struct td_cancel *c, struct td_error *err);
// All jobs that have not ended, by phase: n[1] the watched, n[0] the others. The watched are as fresh as their poll,
// the others as the last td_slurm_view_poll_waiting().
struct td_slurm_job_counts {
	size_t n[2][TD_PHASE_FLAG];
};
void td_slurm_view_counts(const struct td_slurm_view *v, struct td_slurm_job_counts *ret);
void td_slurm_view_waiting(const struct td_slurm_view *v, size_t *ret_n, uint64_t *ret_print);
