// File systems of storage groups in native jobs and in logins (spec.storageGroups, docs/tenants.md), and where the parts
// find each other in a slurmd pod and a login pod. Such a file system is mounted below a directory that only root may
// enter, so that no process of a user's reaches it: not a job's, and not what slurmd does itself as a user (sbcast).
// tandem-scratch.so shows it at its own path, in the mounts of a step, to those who have it; in a login pod
// tandem-login.so does for sshd, and tandem-container for `tandem shell`. Without these, or without the list, nobody has it.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// NAME: what spec.storage calls so (operator/storage.c); slurmd.sh and login.sh close the directory.
#define TD_GROUPFS "/var/lib/tandem/groups"
// base/groupfiles.h, in the ConfigMap that the operator writes (operator/tenant_filters.c).
#define TD_GROUPFS_LIST "/etc/tandem/filters/files"

// The list. Caller frees; NULL: it cannot be read, so nobody has anything.
char *td_groupfs_read(const char *list);
// In a mount namespace of a step's own, as root: shows the user's, and takes all others away, which are mounted below
// `dir`. user NULL: nobody who has one. -1: ret_why says what failed; none is left.
int td_groupfs_show(const char *dir, const char *list, const char *user, char *ret_why, size_t n);
// For a login, as root: if the user has some, this process and its children get mounts of their own, with the user's
// in them and no others'. Else nothing is done: he sees none. -1: ret_why says what failed; the mounts may be its own, and
// it sees no other's.
int td_groupfs_login(const char *dir, const char *list, const char *user, char *ret_why, size_t n);
