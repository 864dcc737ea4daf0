// What the files of the service share.
#pragma once

#include "base/mem.h"
#include "spank/scratch.h"

#include <stdint.h>

// As squeue writes the states in which a job has its nodes.
#define TD_SCRATCH_ALIVE "R,S,ST,CG,CF,RS,SI,SO"

// The /tmp of the node itself, which sbcast writes to, becomes a directory of `dir`.
int td_scratch_node_tmp(const char *dir, struct td_error *err);
// Gives what sbcast writes there to the jobs that it is for, until this process ends. It returns where the kernel does
// not allow it.
void td_scratch_bcast(const char *dir);
// Moves a path of the file system of `dir` into its trash.
int td_scratch_move(const char *path, const char *dir, struct td_error *err);
// Adds to *sum what lies below `path` on its file system, in bytes of the disk. 0; 1 when there are more than `most`
// entries: then it is only a part; -1: it is not there. Another process may read *sum meanwhile: its user may see to it
// that the look never ends, and what has been counted by then is held all the same.
int td_scratch_used(const char *path, int64_t most, int64_t *sum);
// The same for all that one job holds on the node: its /tmp and /var/tmp below `dir`, and what its containers wrote.
int td_scratch_holds(const char *dir, const char *job, int64_t most, int64_t *sum);
// Looks at what jobs hold, and ends those that hold too much, for as long as this process lives.
void td_scratch_watch(const char *dir, const char *node);
// The names of the jobs that have directories here.
void td_scratch_jobs(const char *dir, struct td_strv *ret);
