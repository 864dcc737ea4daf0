// From a registry, an archive or a squashfs file to a tree in the cache.
//
// Whose credentials count: those of the user who asks. The registry is asked for the manifest each
// time, with them, so that a tree which is there already serves only those who could fetch it
// themselves. Only the images of spec.containers.images.prePull are everybody's: the cluster fetched
// them with its own credentials, and nobody is asked again.
//
// What comes from outside is read by skopeo, umoci and unsquashfs as the user TD_CT_UID, who owns the trees and
// nothing else. Tools check every blob against the manifest's digest.
//
// A file is opened with the user's rights each time. The tree of a squashfs file is found again by the file's device,
// inode, size and time of change (of the inode: nobody can set it), so a step with an image of 20 GB that is there
// already reads none of it; a digest would read it all. Who replaces or overwrites the file gets a new tree.
#pragma once

#include "spank/container.h"
#include "spank/settings.h"

struct td_ct_pull {
	const struct td_ct_owner *owner; // NULL: the cluster itself
	const char *image;               // as the user wrote it
	const char *id;                  // the container that takes the tree; NULL: none
	const struct td_ct_settings *settings;
	int file; // the image's file where `image` is a path, opened as the owner; -1: none
	void (*say)(void *ctx, const char *text);
	void *ctx;
};
// *ret_key: the tree, which belongs to `id` from now on. The caller frees it. TD_DENIED: the image is not in the
// catalogue, or its registry refuses.
int td_ct_pull(const struct td_ct_pull *p, char **ret_key, struct td_error *err);
