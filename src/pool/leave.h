// Who makes room for one that starves (starve.h) leaves at a time: what is written of it, so that whoever leads then goes
// on with it, and asks nobody else. Pure, as pool.h.
//
// A native job has it in its admin comment, "tandem: moved off n0, so that job 30 has room, which waits for 4 gpu (its
// slice is over), at 2026-11-27T09:00:00Z after 0 restarts". Of pods the annotation tandem.dev/ended says it.
#pragma once

#include "pool/pool.h"

struct td_pool_leave {
	int64_t waiter;         // the job for which it leaves
	int64_t at_s, restarts; // epoch; in the run after so many restarts. at_s 0: at once, and nobody has to remember
	bool ends;              // it cannot be queued again, so it ends at that time
};
// The comment with this in it; what others have written stays. wants: "4 gpu on one node (its slice is over)". Caller
// frees.
char *td_pool_leave_write(const struct td_pool_leave *l, const char *nodes, const char *wants, const char *comment);
// False: there is none with a time.
bool td_pool_leave_read(const char *comment, struct td_pool_leave *ret);
// For which job it left its place, with a time or without one; 0: for none.
int64_t td_pool_leave_for(const char *comment);

// A native job says in its own comment which signal it hears before it has to go, as a pod does by its annotation:
// "slurm.tandem.dev/signal=USR1", "…=B:USR1@60". Slurm shows nobody which one sbatch --signal names. Its user writes it,
// and it is sent to nobody else.
struct td_pool_leave_signal {
	char name[8];     // "USR1"; "": none
	bool batch;       // to its script alone; else to all processes of its steps, and not to the script
	int64_t before_s; // so long before the end of its grace, or at the begin of that; 0: at the begin
};
// False: there is none, or none that can be read.
bool td_pool_leave_signal(const char *comment, struct td_pool_leave_signal *ret);
// Is it time, of one that was told, and goes on until its time?
bool td_pool_leave_signal_now(const struct td_pool_leave_signal *g, const struct td_pool_leave *l, int64_t now_s);

enum td_pool_leave_do {
	TD_LEAVE_STAYS, // it has left and runs again, nobody waits for its place any more, or it did not go when it was asked
	TD_LEAVE_GRACE, // it goes on until its time
	TD_LEAVE_GO,    // it is asked to leave, again and again within a minute
};
// A job that runs after so many restarts. waits: the one for which it leaves waits still.
enum td_pool_leave_do td_pool_leave(const struct td_pool_leave *l, int64_t restarts, bool waits, int64_t now_s);
const char *td_pool_leave_name(enum td_pool_leave_do d); // "grace"

// Pods end already, at the latest at by_s (0: they have): is their room about to come? Not, where they may take their time
// (a grace that the owner of a pod chose), or should have gone a minute ago. Then others are asked as if they stayed.
bool td_pool_leave_soon(int64_t by_s, int64_t now_s, int64_t most_s);
// Pods were chosen while their job was the one of `chosen` (job, start and restarts): may they be ended now? A job that
// was given back since, ended, or runs anew is nobody's who was chosen.
bool td_pool_leave_may(const struct td_grant *chosen, const struct td_pool_job *now);
