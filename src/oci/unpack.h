// Unpacks a tar over a directory, as a layer of an image. Whatever the tar says, nothing outside of
// the directory is read, written or linked.
//
// Each parent directory is opened with openat2(RESOLVE_IN_ROOT), so that a symbolic link means what
// it will mean inside of a container. An entry is always made anew, after what had its name was
// removed, and never written through a link. Names with ".." are refused; absolute names start at
// the directory. Device nodes are left out (containers get theirs from the runtime). Of extended
// attributes only file capabilities and user.* are kept.
#pragma once

#include "base/cancel.h"
#include "oci/tar.h"

struct td_unpack {
	int root; // the directory, any descriptor of it
	// ".wh.NAME" removes what lower layers have under NAME; ".wh..wh..opq" removes all that
	// they have in its directory.
	bool whiteouts;
	struct td_cancel *cancel;
	// Output: the number of entries, and how many device nodes were left out.
	size_t entries, devices;
};
// TD_INVALID: the message names the entry. TD_TRANSIENT: the file system is nearly full (a part of
// it stays free for others). TD_CANCELLED. After a failure the directory holds a part of the layer.
int td_unpack(struct td_unpack *u, struct td_tar *t, struct td_error *err);
