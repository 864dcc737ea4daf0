// How a run of a job ended, by what its GPU time is to the owner of the machine.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum td_yield {
	TD_YIELD_USEFUL,    // it completed, or runs
	TD_YIELD_FAILURE,   // its node failed
	TD_YIELD_PREEMPTED, // for somebody else
	TD_YIELD_PREFLIGHT, // its devices failed the test before it
	TD_YIELD_REQUEUED,  // somebody, or its end of time with --requeue
	TD_YIELD_OWN,       // its own error
	TD_YIELD_CUT,       // cancelled, or out of time: whether it was of use is not known
	TD_YIELD_N,
};
// By a state of Slurm's history, "NODE_FAIL"; "preflight" is our own word for a run whose test failed.
enum td_yield td_yield_of(const char *state);
// The state that counts for such a run: it was queued again soon after its start, and its admin comment says
// that a test failed; or it was a pod's, which got its place at once or was ended by the bridge, and its admin comment
// says how the pod ended (pool/notes.h). (programs/yield.sh of cli has the same rules.)
const char *td_yield_state(const char *state, const char *admin_comment, int64_t seconds);
// Whether its time is known to be lost.
bool td_yield_lost(enum td_yield y);
