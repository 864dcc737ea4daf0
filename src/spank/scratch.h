// Each job's own /tmp, /var/tmp and /dev/shm (spec.scratch), and where the parts find each other in a slurmd
// pod: the plug-in scratch_plugin.c makes them at the first step of a job and shows them to every step;
// `tandem-container scratch` (scratch.c) removes them when the job has ended.
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

// A directory of the node, mounted in the slurmd pod. It is root's and closed to others. No step sees it.
//   jobs/JOB/tmp, var-tmp   the job's files
//   jobs/JOB/shm            a tmpfs, mounted in the pod, so that later steps of the job find the same
//   jobs/JOB/uid            a link that says whose job it is
//   node                    /tmp of the pod itself, of which no job but sbcast knows
//   trash/N                 what is being removed
//
// flock on this directory: whoever makes or takes away a jobs/JOB. flock on a jobs/JOB, shared: a step of the job
// lives here; slurmstepd holds it, so it ends with the process however that ends.
#define TD_SCRATCH "/var/lib/tandem/scratch"
#define TD_SCRATCH_JOBS TD_SCRATCH "/jobs"
#define TD_SCRATCH_TRASH TD_SCRATCH "/trash"
#define TD_SCRATCH_SHM "shm"
#define TD_SCRATCH_NODE "node"
#define TD_SCRATCH_LIBS "_libs" // how the names of directories end into which slurmd writes a program's libraries
// The plug-in's line there has what jobs may hold: shm=SIZE and tmp=SIZE, bytes or a share.
#define TD_SCRATCH_CONF "/run/slurm/conf/plugstack.conf"
#define TD_SCRATCH_TMP "50%"
// As slurmd got it from slurmctld: whether Slurm has devices with files anywhere.
#define TD_SCRATCH_GRES "/run/slurm/conf/gres.conf"

// Is a name of n bytes one of such a directory?
static inline bool td_scratch_is_libraries(const char *name, size_t n)
{
	const size_t tail = sizeof(TD_SCRATCH_LIBS) - 1;
	return n > tail && !memcmp(name + n - tail, TD_SCRATCH_LIBS, tail);
}

// At the start of a slurmd pod's container, before slurmd: no step can be alive, so everything that is there goes.
// It is only moved away here; td_scratch_keep() removes it.
int td_scratch_fresh(const char *dir, struct td_error *err);
// Takes away what is jobs/`job` below `dir`, unless a step of it lives: then *ret_gone is false.
int td_scratch_release(const char *dir, const char *job, bool *ret_gone, struct td_error *err);
// Removes everything in the trash of `dir`. Users made it, and may hold directories of it open and change them
// meanwhile: nothing outside of it is touched. What cannot be removed in 10 s
// stays for the next time (TD_TRANSIENT).
int td_scratch_empty(const char *dir, struct td_error *err);
// The service of a node: looks every second for jobs of which no step lives, asks slurmctld about those, and
// removes what those left that are not there any more. Where slurmctld does not answer nothing is removed. Beside it
// run two more processes: one gives jobs what sbcast writes, one holds them to their limits
// (scratch_limit.h); it returns when that one has ended.
int td_scratch_keep(const char *dir, const char *node);
// Prints each job of the node with what it holds on the disk.
int td_scratch_list(const char *dir);
// Bytes of the share ("90%", or bytes) of the disk on which `dir` is, at most all of it; -1: it is no share, or there is
// no such directory.
int64_t td_scratch_size(const char *dir, const char *share);
