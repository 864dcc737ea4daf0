// File systems of storage groups in native jobs (spec.storageGroups, docs/tenants.md), and where the parts find each other
// in a slurmd pod. Such a file system is mounted below a directory that only root may enter, so that no process of a
// user's reaches it: not a job's, and not what slurmd does itself as a user (sbcast). tandem-scratch.so shows it at its
// own path, in the mounts of a step, to those who have it. Without the plug-in, or without the list, nobody has it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// NAME: what spec.storage calls so (operator/storage.c); slurmd.sh closes the directory.
#define TD_GROUPFS "/var/lib/tandem/groups"
// Lines "NAME PATH USER USER …", in the ConfigMap that the operator writes (operator/tenant_filters.c).
#define TD_GROUPFS_LIST "/etc/tandem/filters/storage"

// Splits a line in place. True: the user has the file system *ret_name, at *ret_path. False: he does not, or the line is
// none that the operator writes.
bool td_groupfs_line(char *line, const char *user, const char **ret_name, const char **ret_path);
// In a mount namespace of a step's own, as root: shows the user's, and takes all others away, which are mounted below
// `dir`. -1: ret_why says what failed; none is left.
int td_groupfs_show(const char *dir, const char *list, uid_t uid, char *ret_why, size_t n);
