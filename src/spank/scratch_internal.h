// What the files of the service share.
#pragma once

#include "base/mem.h"
#include "spank/scratch.h"

#include <stdint.h>
#include <sys/types.h>

// As squeue writes the states in which a job has its nodes.
#define TD_SCRATCH_ALIVE "R,S,ST,CG,CF,RS,SI,SO"

// The /tmp of the node itself, which sbcast writes to, becomes a directory of `dir`.
int td_scratch_node_tmp(const char *dir, struct td_error *err);
// Gives what sbcast writes there to the jobs that it is for, until this process ends. It returns where the kernel does
// not allow it.
void td_scratch_bcast(const char *dir);
// Moves a path of the file system of `dir` into its trash.
int td_scratch_move(const char *path, const char *dir, struct td_error *err);
// What a look has counted: bytes of the disk, and names, each of which may be a file of its own.
struct td_scratch_held {
	int64_t bytes, files;
};
// Adds to *sum what lies below `path` on its file system. 0; 1 when there are more than `most` entries: then it is only
// a part; -1: it is not there. Another process may read *sum meanwhile: its user may see to it that the look never ends,
// and what has been counted by then is held all the same.
int td_scratch_used(const char *path, int64_t most, struct td_scratch_held *sum);
// The same for all that one job holds on the node: its /tmp and /var/tmp below `dir`, and what its containers wrote.
int td_scratch_holds(const char *dir, const char *job, int64_t most, struct td_scratch_held *sum);

// ---- scratch_open.c ----
struct td_scratch_deleted {
	long long job;
	dev_t dev;
	ino_t ino;
	int64_t bytes;
};
// Deleted files of these disks, and of containers' overlays, that processes of jobs have open or mapped.
struct td_scratch_open {
	dev_t disks[2];
	size_t n_disks;
	struct td_scratch_deleted *v;
	size_t n, room;
};
// Looks at all processes below `proc` ("/proc"). o->v is made anew, and is the caller's to free.
void td_scratch_open_scan(const char *proc, struct td_scratch_open *o);
// What one job holds of them, in bytes.
int64_t td_scratch_open_sum(const struct td_scratch_open *o, const char *job);
// Looks at what jobs hold, and ends those that hold too much, for as long as this process lives.
void td_scratch_watch(const char *dir, const char *node);
// The names of the jobs that have directories here.
void td_scratch_jobs(const char *dir, struct td_strv *ret);
