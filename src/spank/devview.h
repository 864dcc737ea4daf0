// A task's own view of /dev: what its cgroup does not let it open is not there. scratch_plugin.c shows it to every
// task of a node where Slurm has devices, inside.c to those in containers; docs/native-jobs.md says what is seen.
//
// Which devices those are the kernel says, not Slurm: a task is asked when it is in its cgroup and has become its user
// (td_devview_refused), and a child that stayed root makes the view of it (td_devview_make). So it holds for any
// release of Slurm, for cgroup v1 and v2, and for what stands behind a device (MIG's capabilities, say).
#pragma once

#include <stddef.h>
#include <sys/types.h>

enum { TD_DEVVIEW_LIST = 64 << 10, TD_DEVVIEW_WHY = 256 };

// Writes the device files below `dev` that the caller's cgroup refuses to it, as paths from there, each with a zero
// byte behind it. Nothing is opened. Files whose rights refuse him say nothing about the cgroup and are not listed.
// The length of the list; -1 with errno: /dev cannot be read, or there are too many of them for n bytes.
ssize_t td_devview_refused(const char *dev, char *list, size_t n);
// Mounts on `dev` a copy without those of the list, and without links to them, in the caller's mount namespace, which
// must be its own. The device files are made anew with the same rights, or bound where that is not allowed; what is
// mounted below is mounted there, too. Needs SYS_ADMIN. -1: `why` says what failed, and nothing is promised about
// what is mounted.
int td_devview_make(const char *dev, const char *list, size_t n, char why[TD_DEVVIEW_WHY]);
