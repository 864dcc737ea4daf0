// What an OCI layout or the content of a `docker save` archive says: which image is meant, its layers and its
// configuration. Every document is checked against the digest that leads to it. Sources: OCI Image Format
// Specification 1.1 (image-layout, image-index, manifest, config); Docker Image Specification 1.2 for manifest.json.
#pragma once

#include "json/json.h"

#include <stddef.h>

struct img_layer {
	char *path;       // in the layout
	char digest[65];  // sha256 of the file; "": docker's archives do not say it
	char diff_id[65]; // sha256 of the tar
};

struct img_source {
	char *name;   // as written there; NULL: it names none
	char key[65]; // digest of the manifest, for docker's archives of the configuration
	struct td_json *config;
	struct img_layer *layers; // the lowest first
	size_t n;
};
void img_source_done(struct img_source *s);

bool img_is_layout(int root);
// root: the layout's directory. want: the name that the image is to have, NULL: as the layout says; of several images
// the one of that name is taken. TD_NOT_FOUND: none for this machine, or not said which; the message lists what there
// is. TD_INVALID: damaged.
int img_layout_read(int root, const char *want, struct img_source *ret, struct td_error *err);
// A regular file of the layout, wherever its links lead inside of it.
int img_layout_open(int root, const char *path, int *ret_fd, struct td_error *err);
