// Fault points for tests. They exist only in builds with -Dfaults=true (build-asan); release builds
// contain nothing of them.
//
// A point is one moment of a write, such as "kube.create.pods.binding.before" or
// "slurm.job-submit.after". One line says what happens there:
//   POINT:ACTION[#N]   POINT may be a pattern (fnmatch); N: only the N-th time (default 1)
//   crash              sends SIGKILL to its own process
//   lose               the caller gets TD_UNCERTAIN; at a "before" point the request never arrived,
//                      at an "after" point it was done and its reply was lost
//   fail               at a "before" point TD_TRANSIENT: nothing was done; at an "after" point
//                      the same as lose
//   delay=MS           waits, then goes on
//
// The line fires once. It comes from the file $TANDEM_HOME/fault/<role>, which may be written at
// any time. The file is renamed to <role>.fired when it fires, so that a role that is started again
// does not fail again. Without that file the line comes from the environment variable TD_FAULT, set
// by hand, and fires once per process. Every point that is passed is appended to
// $TANDEM_HOME/fault/<role>.trace if that file exists. The role is argv[1], as in `tandem bridge`.
#pragma once

#include "base/err.h"

#include <stdbool.h>

#ifdef TD_FAULTS
// Returns 0, or a failure that the caller must handle as if it were real.
int td_fault_at(struct td_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#else
#define td_fault_at(err, ...) 0
#endif
