// Pods that make room for one that starves (pool/starve.h) or that waits while there is room in pieces (pool/defrag.h),
// ended as a pod is that Slurm preempts. Who was told has it in its annotation tandem.dev/ended, with the job for which
// it goes: so a bridge that dies before it has told anybody has done nothing, and the next one finishes what it finds
// begun, all members of a gang, and counts on their room.
#pragma once

#include "bridge/scheduler/run.h"

enum td_victim_is {
	TD_VICTIM_NONE, // no pod of ours has this job
	TD_VICTIM_NOT,  // not now: it does not run yet, or not with all its members; or it ends, but not soon
	TD_VICTIM_MAY,
	TD_VICTIM_GOES, // its pods end already, and soon (pool/leave.h)
};
// What the pods of a running job are. *ret_for: the job for which they go, when they were told so, and go soon; else 0.
enum td_victim_is td_victim_look(struct td_bridge *b, int64_t job, int64_t *ret_for);
// Do controllers make other pods for those that have this job?
bool td_victim_again(struct td_bridge *b, int64_t job);
// For which job the pod was told to make room, and why; 0: it was not told so. ret_why may be NULL; caller frees *ret_why.
int64_t td_victim_told(const struct td_object *pod, char **ret_why);
// "pod ml/train-0", "gang ml/train"; NULL: no pod of ours has it. Caller frees.
char *td_victim_name(struct td_bridge *b, int64_t job);
// Any thread: the pods of this job shall make room, as long as it is the one that was chosen. Who has not begun within a
// minute, because Slurm is away, forgets it: the one that starved may have room by then.
struct td_victim_wish {
	int64_t job, start, restarts; // of the grant
	int64_t waiter;               // job
	const char *why;              // "job 30 has room, which waits for 4 gpu on one node (its slice is over)"
};
void td_victim_tell(struct td_bridge *b, const struct td_victim_wish *w);
// The worker, of a pod or gang that runs: ends its pods if it was told, or was found begun. *ret_goes: so it is.
int td_bridge_run_victim(struct td_bridge_run *r, bool *ret_goes, struct td_error *err);
