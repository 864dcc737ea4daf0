// Single devices of a node that are held for nobody's use in Slurm while its other devices work on: because they are out
// of service, or pods of other schedulers have them. Slurm cannot take one
// device out (a node with fewer is drained), so a job of root's, which has no process, holds it. Slurm
// chooses which device a job gets, so one that is free is got by holding all that are free until it is among
// them; one that a job holds by a job that waits for that one's end before everybody else. Pure, as pool.h.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TD_ASIDE_MAX = 64 }; // devices of a node, and jobs that hold or await some

struct td_pool_aside_job {
	int device;    // which one it holds; below 0: none yet, it waits
	int64_t after; // of one that waits: for the end of which job; 0: of none; below 0: not known
};
struct td_pool_aside {
	uint64_t want;     // devices that shall be held
	size_t any;        // and so many more, whichever Slurm gives (lend.h)
	uint64_t all;      // the node's devices
	bool drained;      // nothing starts there before somebody resumes it, and nothing is held
	bool away;         // it is down, or Slurm does not know how it is
	bool refused;      // Slurm has refused an allocation there, and the node has not changed since
	bool full;         // the same of a job that waits: there is a limit
	uint64_t ending;   // of devices: the jobs that hold them are to be ended
	bool packed;       // no device of the node is free
	const int64_t *by; // of each device: the job that holds it; 0: none does; below 0: not known
	const struct td_pool_aside_job *v;
	size_t n;
};
enum td_pool_aside_do {
	TD_ASIDE_LEAVE,
	TD_ASIDE_LOOK,     // nothing now; who holds a device is not known yet
	TD_ASIDE_ALLOCATE, // a job with one device that starts at once or not at all
	TD_ASIDE_QUEUE, // a job with one device after the end of the job `after`; 0: as soon as anything starts there
	TD_ASIDE_END,   // the jobs of `ends`
};
struct td_pool_aside_plan {
	enum td_pool_aside_do what;
	int64_t after;
	bool ends[TD_ASIDE_MAX];
	uint64_t
		may_end; // with LOOK: of `ending`, devices whose jobs may be ended now, because nobody gets them in between
};
// One step. When it is done the facts are read again.
void td_pool_aside_decide(const struct td_pool_aside *f, struct td_pool_aside_plan *ret);
// The devices that those jobs hold.
uint64_t td_pool_aside_held(const struct td_pool_aside_job *v, size_t n);
// Reads "gpu3,gpu5". False: it is no such list; what could be read is in *ret.
bool td_pool_aside_read(const char *text, uint64_t *ret);
// What an administrator's list and the operator's take out of service together. False: the first is no such list, and
// only the other counts.
bool td_pool_aside_both(const char *out, const char *hold, uint64_t *ret);
// "gpu3,gpu5"; NULL: none. Caller frees.
char *td_pool_aside_write(uint64_t devices);
