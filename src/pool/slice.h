// Time slices: the time limit of a job that counts over all its runs (spec.preemption.qos[].totalTime).
// Pure, as pool.h.
//
// A job that is queued again has its whole time limit again. With totalTime it gets what is left: once
// for each time that it was queued again, so that whoever raises the limit later is not overruled. What
// was counted is in a mark in the job's admin comment, and nowhere else.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A run as Slurm's history has it.
struct td_pool_slice_run {
	int64_t submit_s, elapsed_s; // submit_s: when it was queued; elapsed_s: how long it ran
	int64_t limit_min;           // its time limit; 0: not known, or none
	bool ended;
};
// The mark: "tandem: used 3600 s in 2 runs, 1800 s left;".
struct td_pool_slice_mark {
	bool is; // there is one
	int64_t used_s, runs, left_s;
};
struct td_pool_slice {
	int64_t restarts;  // how often it was queued again
	int64_t limit_min; // its time limit now; 0: none
	struct td_pool_slice_mark mark;
	const struct td_pool_slice_run *runs; // of the job's id and user, in any order
	size_t n_runs;
	int64_t since_ms; // how long that restart is known, for a history that comes late
};
enum td_pool_slice_do {
	TD_SLICE_LEAVE, // it was never queued again, has no limit, or was counted already
	TD_SLICE_WAIT,  // the history does not have its last run yet
	TD_SLICE_WRITE, // the limit, and the mark
};
struct td_pool_slice_plan {
	enum td_pool_slice_do what;
	int64_t limit_min; // what its limit shall be
	// Its time is used up: it has one last minute, and is not queued again after that.
	bool last;
	struct td_pool_slice_mark mark; // what shall be written
};
// A history that lacks runs for longer than a minute has lost them: they do not count, to the good of the
// job.
struct td_pool_slice_plan td_pool_slice(const struct td_pool_slice *f);

// Finds the mark in an admin comment, which may be NULL.
struct td_pool_slice_mark td_pool_slice_read(const char *comment);
// The admin comment with this mark at its begin; what else is there stays. Caller frees.
char *td_pool_slice_write(const struct td_pool_slice_mark *m, const char *comment);
// "It has used 1 h 0 min in 2 runs, and 30 min are left." for people; NULL: it has no mark. Caller frees.
char *td_pool_slice_words(const char *comment);

// ---- pods ----
// A pod that is preempted ends, and its controller makes the next one, another pod. With totalTime that one gets what
// those before it have left.
struct td_pool_slice_pod {
	int64_t start_s; // when it was given what it has; 0: never
	int64_t end_s;   // when it ended; 0: not yet
};
struct td_pool_slice_turn {
	size_t pods;       // of those before that ran
	int64_t used_s;    // by them; while several ran side by side it counts once
	int64_t left_s;    // 0: nothing
	int64_t limit_min; // what the pod's limit shall be: whole minutes, as Slurm's are; 0: nothing is left
};
// v: its controller's other pods that stand for the same work, of an Indexed Job those of the same index. One that still
// runs is another part of it: then nobody knows whom a pod follows, and it has its whole limit (pods 0).
struct td_pool_slice_turn td_pool_slice_turn(int64_t limit_min, const struct td_pool_slice_pod *v, size_t n);
// "Its time counts over all pods of Job train: 1 before it ran for 40 min, and 20 min are left." NULL: none ran
// before it. Caller frees.
char *td_pool_slice_turn_words(const struct td_pool_slice_turn *t,
			       const char *owner); // owner NULL: a gang's, whose entries were runs
