// File systems of storage groups in a login pod (groupfs.h): `tandem-container files login USER COMMAND…`, by which `tandem
// shell` begins a login, and `files keep`, which ends what has one that its user has no more.
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

// Something mounted: by which device and directory of it, and which file system of a group that is; name "": none, but
// the pod's own.
struct td_groupmount {
	unsigned major, minor;
	char root[1024], name[64];
};
// Reads a line of mountinfo (proc(5)). dir: file systems of groups are mounted below, NULL: there are none. False: it is none.
bool td_groupmount_read(const char *line, const char *dir, struct td_groupmount *ret);
// Of which file system is what is mounted elsewhere, by those of the pod: that whose directory is nearest above it. NULL: none.
const char *td_groupmount_of(const struct td_groupmount *own, size_t n, const struct td_groupmount *x);

// As root: the login's mounts (td_groupfs_login), then the command. Returns only where it cannot be started: an exit code.
int td_groupkeep_login(const char *user, char **command);
// Has the user one no more, by the list before and the one of now? (pure)
bool td_groupkeep_lost(const char *had, const char *list, const char *user);
// As root, in the pod's own mounts: looks at all processes of the pod, and ends those of people who see a file system that
// the list does not give them, and all of people who have lost one since the list before: SIGHUP, and two seconds later
// SIGKILL. Says of each what was ended. Returns how many processes, negative when it could not look. Who cannot be found by
// his number while a directory service is away is left alone.
int td_groupkeep_look(struct td_error *err);
