// Lays a tar over a directory, as a layer of an image: whatever the tar says, nothing outside of the directory is read,
// written or linked.
//
// How: each parent is opened by openat2(RESOLVE_IN_ROOT), so a symbolic link means what it will mean inside a
// container; an entry is made with a new name only (what was there goes first), never written through a link. Names
// with ".." are refused, absolute ones are taken from the root. Device nodes are left out (containers get theirs from
// us), of extended attributes only file capabilities and user.* are kept.
#pragma once

#include "base/cancel.h"
#include "oci/tar.h"

struct td_unpack {
	int root;       // the directory, any descriptor of it
	bool whiteouts; // ".wh.NAME" removes what layers below have, ".wh..wh..opq" all that they have in its directory
	struct td_cancel *cancel;
	size_t entries, devices; // out: how many there were; devices: of them left out
};
// TD_INVALID with the entry's name, TD_TRANSIENT: the file system is nearly full (a part of it is left to others),
// TD_CANCELLED. After a failure the directory holds a part.
int td_unpack(struct td_unpack *u, struct td_tar *t, struct td_error *err);
