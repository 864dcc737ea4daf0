// Which pods of a real kubelet have processes. It only reads, below the directories that kubelets
// make (kubepods), on cgroup v1 and v2, with either of the two drivers. It keeps no state:
// hierarchies may come and go. One look takes some hundred system calls.
//
//   cgroupfs: <root>/kubepods[/burstable|/besteffort]/pod<uid>/<container>/…
//   systemd:  <root>/kubepods.slice[/kubepods-burstable.slice]/
//             kubepods[-burstable]-pod<uid, '_' for '-'>.slice/…
//
// <root> is the cgroup file system (v2), or one controller's below it (v1). kubepods may lie some
// levels deeper (the kubelet's cgroupRoot).
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum td_cg_state {
	TD_CG_NONE,  // no such cgroup
	TD_CG_EMPTY, // it is there and has no process
	TD_CG_BUSY,
};
// Looks for processes of the pod. An error means that it is not known: the file system is not
// there, or a directory cannot be read.
int td_cg_pod(const char *root, const char *uid, enum td_cg_state *ret, struct td_error *err);
// How much CPU time the pod's processes have used, in us. TD_NOT_FOUND: it has no cgroup, or one that does not say.
int td_cg_pod_cpu(const char *root, const char *uid, int64_t *ret_us, struct td_error *err);
// Lists the pod's processes, at most max. Returns how many; 0: it has none, or it is not known.
size_t td_cg_pod_pids(const char *root, const char *uid, pid_t *v, size_t max);
// Finds the next uid of a pod in the text of a /proc/PID/cgroup, from *at on, and moves *at behind
// it. False: there is none. Of nested pods the outer one comes first.
bool td_cg_next_pod(const char **at, char ret_uid[40]);
// Lists the jobs that have processes, by their directories job_<id> (not by names of another kind); at most max. Returns how
// many; 0: there are none, or it is not known.
size_t td_cg_jobs(const char *root, int64_t *v, size_t max);
// Looks for processes of a Slurm job in any pod, below a directory job_<id>, or one that is called sluid ("": it has no
// such name). On v1 it looks in the
// freezer hierarchy, because Slurm tracks processes there.
int td_cg_job(const char *root, int64_t job, const char *sluid, enum td_cg_state *ret, struct td_error *err);
