// Reads what an OCI layout or the content of a `docker save` archive says: which image is meant,
// its layers and its configuration. Every document is checked against the digest that leads to it.
// Sources: OCI Image Format Specification 1.1 (image-layout, image-index, manifest, config); Docker
// Image Specification 1.2 for manifest.json.
#pragma once

#include "json/json.h"

#include <stddef.h>

struct img_layer {
	char *path;       // in the layout
	char digest[65];  // sha256 of the file; "": Docker archives lack it
	char diff_id[65]; // sha256 of the tar
};

struct img_source {
	char *name; // as the layout writes it; NULL: it has none
	// Digest of the manifest; of the configuration in Docker archives.
	char key[65];
	struct td_json *config;
	struct img_layer *layers; // lowest first
	size_t n;
};
void img_source_done(struct img_source *s);

bool img_is_layout(int root);
// root is the layout's directory. want is the name that the image is to have; NULL: the name that
// the layout says. Of several images the one with this name is taken. The caller frees *ret with
// img_source_done(). TD_NOT_FOUND: no image is for this machine, or it is open which one is meant;
// the message lists what there is. TD_INVALID: the layout is damaged.
int img_layout_read(int root, const char *want, struct img_source *ret, struct td_error *err);
// Opens a regular file of the layout. Links are followed, but never out of the layout.
int img_layout_open(int root, const char *path, int *ret_fd, struct td_error *err);
