// tandem usage --yield: what became of the GPU hours that jobs and pods have held.
#pragma once

#include "cli/ledger.h"

// How a run ended, by what its GPU time is to the owner of the machine.
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
// By a state of sacct, "NODE_FAIL"; "preflight" is programs/yield.sh's own word.
enum td_yield td_yield_of(const char *state);

struct td_yield_row {
	char *name;
	double runs, s[TD_YIELD_N];
};
double td_yield_held(const struct td_yield_row *r); // seconds
// The share that is not known to be lost; below 0: nothing was held.
double td_yield_ratio(const struct td_yield_row *r);
// Prints them: output NULL, "json" or "csv". by: "tenant" or "user".
void td_yield_print(const struct td_yield_row *v, size_t n, const char *by, const char *output);
