// Fault points for tests; in builds with -Dfaults=true only (build-asan), release builds hold nothing of it.
//
// A point is one moment of a write, "kube.create.pods.binding.before" or "slurm.job-submit.after". What is to happen
// there is one line:
//   POINT:ACTION[#N]     POINT may be a pattern (fnmatch); N: at the N-th time only (1)
//   crash                SIGKILL to ourselves
//   lose                 the caller gets TD_UNCERTAIN: before, the request never arrived; after, it was done and its
//   reply was lost fail                 before: TD_TRANSIENT, nothing was done; after: as lose delay=MS waits, then
//   goes on
// It fires once. Where the line comes from: $TANDEM_HOME/fault/<role>, which may be written at any time and is renamed
// to <role>.fired when it fires (so a role that was started again does not fall again), else the environment, TD_FAULT,
// by hand: once per process. Every point that is passed is appended to $TANDEM_HOME/fault/<role>.trace where that
// exists. role: argv[1], as `tandem bridge`.
#pragma once

#include "base/err.h"

#include <stdbool.h>

#ifdef TD_FAULTS
// 0, or the failure that the caller must behave as if it had met.
int td_fault_at(struct td_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#else
#define td_fault_at(err, ...) 0
#endif
