// The namespaces of a container and what is mounted there.
//
// Everything is done in a user namespace of the user's own, by a process with his rights and no others:
// whatever he could not open outside, he cannot mount. Only two things need root before: to map the
// user's groups, and the tree, which belongs to nobody's user (TD_CT_UID) and appears as his (an
// idmapped mount). The root is an overlay of the tree and of what he changes.
#pragma once

#include "spank/container.h"
#include "spank/mounts.h"

struct td_ct_enter {
	const char *dir; // of the container; it has the link "tree"
	const struct td_ct_owner *owner;
	const char *job; // whose /tmp and /dev/shm it has, where jobs have their own (scratch.h)
	const char *cwd; // where a relative source of a mount begins
	const struct td_ct_mounts *mounts;
	bool home, root, read_only;
};
// Makes the namespaces, with a process that holds them (holder.h). The caller has the container's lock.
int td_ct_enter_make(const struct td_ct_enter *e, struct td_error *err);
// Opens a path as seen from the directory `root`, whose links are followed inside of it. -1: see errno.
int td_ct_open_in(int root, const char *path, int flags);
