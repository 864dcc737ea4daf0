// A native job that was queued again begins soon, instead of Slurm's two minutes later. Pure, as pool.h.
//
// Slurm gives every batch job that is queued again a begin 121 s later, so that no credential and no process of the run
// before meets the next one on the same node. It writes that begin when all nodes of the run have answered that it is
// over, or are down (docs/facts/slurm.md S-H6, S-H8). From then on only three things can meet: a start within the second
// in which a node ended the run (S-H7); what still runs on a node that was set down, which ends it within KillWait while
// nobody waits for that, and may be back before anybody has seen it down; both are kept away by the pause. And a node
// that was down when the run was lost, is so for longer, and comes back with its processes: a job whose node may do that
// by itself waits as Slurm wants it to.
// The begin is written when it has come: Slurm looks at a begin only now and then, but at an update at once (S-H9).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Times are Slurm's: epoch seconds.
struct td_pool_again_past { // zero at first; what is known of one job
	int64_t submit_s;   // when it was queued again, the last time that its begin was brought forward
	int64_t begin_s;    // to this time
	int64_t row;        // how often it was by then, each time soon after the time before
};
struct td_pool_again {
	int64_t restarts, submit_s, begin_s; // of its record; begin_s: not before
	int64_t now_s;                       // or earlier
	bool waits, batch;
	bool held;      // by its user or an administrator, or by `scontrol requeuehold`
	bool shared;    // its record is that of other tasks, too: what is written there is written to them
	bool node_back; // a node that failed as it was queued again may be given to it
	int64_t kill_s; // Slurm's KillWait
	bool behind;    // it made room for one that still waits
	struct td_pool_again_past past;
};
enum td_pool_again_do {
	TD_AGAIN_LEAVE, // it does not wait for that, begins by itself before long, or was queued again too often
	TD_AGAIN_LOOK,  // not now: look again
	TD_AGAIN_BEGIN, // now: it is written down as past.begin_s
};
struct td_pool_again_plan {
	enum td_pool_again_do what;
	int64_t in_s;                   // with TD_AGAIN_LOOK: it begins then; 0: not known
	struct td_pool_again_past past; // what is known of it from now on
};
// A begin that is not Slurm's own 120 or 121 s after the job was queued again is somebody's wish, and stays: a user's
// --begin, what an administrator wrote, a site's cred_expire or requeue_delay. So does a hold.
struct td_pool_again_plan td_pool_again(const struct td_pool_again *f);
const char *td_pool_again_name(enum td_pool_again_do d); // "begin"
// "It was queued again at 09:00:00, and begins 5 s later instead of Slurm's two minutes." For people; NULL: nothing was
// done for this run. submit_s: of its record now. Caller frees.
char *td_pool_again_words(const struct td_pool_again_past *p, int64_t submit_s);
