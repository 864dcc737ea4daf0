// The local image store: <dir>/<name with '/' as '+'>/<tag>/{rootfs,image.json}. Images are built by mmdebstrap from
// recipes in the binary, or imported; complete or not there (built beside, then renamed). Never written while in use.
// Only root sees what is in them.
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "base/mem.h"

struct td_image {
	char *name;   // "debian:13"
	char *rootfs; // directory
	char *key;    // content key of the recipe (sha256 hex)
	char *tool;   // "mmdebstrap 1.5.7": what built it; "" when it was imported
	struct td_strv env, entrypoint, cmd;
	char *user, *workdir;
	int64_t bytes, created_ms;
};
void td_image_done(struct td_image *i);
// "debian:13", "docker.io/library/debian:13", "debian" (tag latest) …: normalised. TD_NOT_FOUND names the image and
// `tandem image list`.
int td_image_resolve(const char *dir, const char *ref, struct td_image *ret, struct td_error *err);
int td_image_list(const char *dir, struct td_image **ret, size_t *ret_n, struct td_error *err);
// Builds a known recipe ("debian:13", "tandem/slurm:24.11") unless the same content key is there. progress(percent,
// text) may be NULL.
int td_image_build(const char *dir, const char *name, void (*progress)(void *ctx, int percent, const char *what),
		   void *ctx, struct td_cancel *c, struct td_error *err);
// From an OCI layout (a directory or an archive), a `docker save` archive or the tar of a root file system, compressed
// or not. name NULL: as it says itself; else it gets this one, and of several images in one archive the one of this
// name is meant. *ret_name: "debian:13"; may be NULL.
int td_image_import(const char *dir, const char *name, const char *path,
		    void (*progress)(void *ctx, int percent, const char *what), void *ctx, struct td_cancel *c,
		    char **ret_name, struct td_error *err);
int td_image_remove(const char *dir, const char *name, struct td_error *err);
const char *const *td_image_recipes(void); // NULL-terminated names
