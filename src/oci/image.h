// The local image store: <dir>/<name with '/' as '+'>/<tag>/{rootfs,image.json}. mmdebstrap builds
// images from recipes in the binary; others are imported. An image is complete or absent, because
// it is made in another directory and then renamed. An image in use is never changed. Only root can
// read the files.
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "base/mem.h"

struct td_image {
	char *name;   // "debian:13"
	char *rootfs; // directory
	char *key;    // content key of the recipe or the archive (sha256, hex)
	// What built it, such as "mmdebstrap 1.5.7"; "" when it was imported.
	char *tool;
	struct td_strv env, entrypoint, cmd;
	char *user, *workdir;
	int64_t bytes, created_ms;
};
void td_image_done(struct td_image *i);
// Finds an image by its normalised name: "debian:13" and "docker.io/library/debian:13" are the
// same, and "debian" has the tag latest. The caller frees *ret with td_image_done(). TD_NOT_FOUND:
// the message names the image and `tandem image list`.
int td_image_resolve(const char *dir, const char *ref, struct td_image *ret, struct td_error *err);
// All images, sorted by name. The caller frees each with td_image_done(), and then the array.
int td_image_list(const char *dir, struct td_image **ret, size_t *ret_n, struct td_error *err);
// Builds a known recipe ("debian:13", "tandem/slurm:24.11") unless an image with the same content
// key is in the store. progress(percent, text) may be NULL.
int td_image_build(const char *dir, const char *name, void (*progress)(void *ctx, int percent, const char *what),
		   void *ctx, struct td_cancel *c, struct td_error *err);
// Imports an OCI layout (a directory or an archive), a `docker save` archive or the tar of a root
// file system, compressed or not. The image gets the given name; name NULL: the name that the
// archive says. Of several images in one archive, the one with this name is taken. *ret_name is
// such as "debian:13"; ret_name may be NULL.
int td_image_import(const char *dir, const char *name, const char *path,
		    void (*progress)(void *ctx, int percent, const char *what), void *ctx, struct td_cancel *c,
		    char **ret_name, struct td_error *err);
int td_image_remove(const char *dir, const char *name, struct td_error *err);
const char *const *td_image_recipes(void); // NULL-terminated names
