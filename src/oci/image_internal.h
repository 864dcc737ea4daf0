// What image.c, import.c and recipe.c share.
#pragma once

#include "base/proc.h"
#include "oci/image.h"
#include "json/json.h"

// "docker.io/library/debian:13" → "debian", "13"; '/' of a name becomes '+', so that it is one directory.
int img_name(const char *ref, char **ret_name, char **ret_tag, struct td_error *err);
char *img_shown(const char *name, const char *tag); // "nvidia/cuda:12" again
int img_read(const char *dir, const char *name, const char *tag, struct td_image *ret,
	     struct td_error *err); // TD_NOT_FOUND
// The store's lock, held until the descriptor is closed.
int img_lock(const char *dir, struct td_cancel *c, int *ret_fd, struct td_error *err);
char *img_new_dir(const char *dir);  // a name that nobody has
void img_sweep(const char *dir);     // what crashes left; under the lock
bool img_in_use(const char *rootfs); // some container runs from it

struct img_meta {
	const char *const *env, *const *entrypoint, *const *cmd;
	const char *user, *workdir;
	const char *tool; // what built it, with its version; NULL: imported
};
// Renames a finished `made` (holding rootfs/) into place, in place of an older one. TD_CONFLICT when that one is in
// use.
int img_commit(const char *dir, const char *made, const char *name, const char *tag, const char *key,
	       const struct img_meta *meta, struct td_error *err);
// The first mirror of Debian's main archive that apt uses (apt_dir: "/etc/apt"); NULL: none, mmdebstrap has a default.
char *img_mirror(const char *apt_dir);
