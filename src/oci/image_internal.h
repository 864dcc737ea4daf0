// What image.c, import.c and recipe.c share.
#pragma once

#include "base/proc.h"
#include "oci/image.h"
#include "json/json.h"

// Splits a reference: "docker.io/library/debian:13" becomes "debian" and "13". A '/' in the name
// becomes '+', so that the name is one directory.
int img_name(const char *ref, char **ret_name, char **ret_tag, struct td_error *err);
char *img_shown(const char *name, const char *tag); // the reverse: "nvidia/cuda:12"
// TD_NOT_FOUND: the store has no such image.
int img_read(const char *dir, const char *name, const char *tag, struct td_image *ret, struct td_error *err);
// Takes the store's lock, which is held until the descriptor is closed.
int img_lock(const char *dir, struct td_cancel *c, int *ret_fd, struct td_error *err);
char *img_new_dir(const char *dir); // an unused name
// Removes what crashes left. The caller holds the lock.
void img_sweep(const char *dir);
bool img_in_use(const char *rootfs); // true: a container runs from it

struct img_meta {
	const char *const *env, *const *entrypoint, *const *cmd;
	const char *user, *workdir;
	const char *tool; // what built it, with its version; NULL: imported
};
// Puts the finished directory `made`, which holds rootfs/, in the place of the image and replaces
// an older one. TD_CONFLICT: the older one is in use.
int img_commit(const char *dir, const char *made, const char *name, const char *tag, const char *key,
	       const struct img_meta *meta, struct td_error *err);
// The first mirror of Debian's main archive in apt's configuration (apt_dir: "/etc/apt"). NULL:
// none, and mmdebstrap uses its default.
char *img_mirror(const char *apt_dir);
