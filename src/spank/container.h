// tandem-container: prepares the container of a step on its node, and keeps the node's images.
//
//   prepare   (the plug-in, as root, once for each task): makes the container unless it is there
//   enter     (the plug-in, as the user, before his program): goes inside and becomes the program
//   start     (the same, with the image's entry point, or to save the container afterwards)
//   filter    (the same two under the filter of system calls of the job's project)
//   started   (what an entry point starts inside)
//   release   (the plug-in at a step's end): removes it
//   keep      (slurmd.sh): the service. It pulls images, outside of any job's limits, removes what
//             jobs left behind, and keeps the cache within its limit
//   pull, list  (an administrator in a slurmd pod)
//   scratch fresh|keep  (slurmd.sh): removes what jobs left in their own /tmp and /dev/shm, and ends those that
//             hold too much there
//   scratch size SHARE  (slurmd.sh): megabytes of that share of their disk
//   files login|keep  (`tandem shell` and login.sh in a login pod): file systems of storage groups for a login; the end of
//             those who have one no more
//   scratch list  (an administrator in a slurmd pod): what each job holds
//
// Files
//   main.c                     the modes
//   reference.[ch]             names of images, and the patterns that allow them
//   mounts.[ch]                the words of --container-mounts
//   settings.[ch]              containers.conf
//   logins.[ch]                credentials for registries, from the files that users already have
//   pull.[ch]                  from a registry, an archive or a squashfs file to a tree
//   store.[ch]                 the cache: who uses what, and what goes when it is full
//   enter.[ch] enter_internal.h root.c  makes the namespaces, and what is mounted in them
//   holder.[ch]                the process that holds the namespaces
//   inside.[ch] pretend.[ch]   entering them; what root inside only seems to do
//   start.[ch]                 the image's entry point
//   enroot.[ch] programs/rc.sh what enroot's images say about their start
//   save.[ch]                  a container as a squashfs file
//   keep.[ch]                  the service, and how prepare talks to it
//   as.[ch] pass.[ch]          doing something with another's rights; handing over a descriptor
//   filter.h filter_read.c filter_code.c filter_load.c filter_plugin.c
//                              a project's filter of system calls on its native jobs, whose plug-in is one more
//   layout.h spank_api.h plugin.c version.c  the plug-in, a program of its own
//   scratch.[ch] scratch_internal.h scratch_trash.c scratch_bcast.c scratch_plugin.c
//                              each job's own /tmp and /dev/shm, whose plug-in is one more
//   groupfs.[ch]               file systems of storage groups, which that plug-in shows to those who have them
//   groupkeep.[ch] login_plugin.c  the same in login pods, where sshd's plug-in is one more (a module of PAM)
//   devview.[ch]               a task's own view of /dev, which that plug-in shows, and inside.c
//   scratch_limit.[ch] scratch_walk.c scratch_open.c scratch_watch.c  how much of the disk it may hold
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <sys/types.h>

// Who a container is for.
struct td_ct_owner {
	uid_t uid;
	gid_t gid;
	gid_t groups[1024];
	size_t n_groups;
	const char *name, *home; // "": not known
};
