// Names of images as people write them for enroot and Docker, and patterns of names. Pure.
#pragma once

#include "base/err.h"
#include "base/mem.h"

struct td_ct_reference {
	char *registry; // with its port; "docker.io" when none is named
	char *path;     // "library/debian"
	char *tag;      // "latest" when none is named; NULL with a digest
	char *digest;   // "sha256:…"; NULL: none
};
// Reads [docker://][USER@][REGISTRY#]IMAGE[:TAG] (enroot) and [docker://]REGISTRY/IMAGE[:TAG][@DIGEST]
// (Docker). TD_INVALID: the message says what is wrong and how it is written.
int td_ct_reference_parse(const char *text, struct td_ct_reference *ret, struct td_error *err);
void td_ct_reference_done(struct td_ct_reference *r);
#define td_auto_reference __attribute__((cleanup(td_ct_reference_done)))
// Is it a path, as Pyxis tells it from a name: does it begin with '/' or '.'?
bool td_ct_is_path(const char *image);
// "registry/path:tag" or "registry/path@digest". The caller frees it.
char *td_ct_reference_text(const struct td_ct_reference *r);
// Does a pattern allow the name? '*' stands for anything. A pattern is compared with the full name
// ("docker.io/library/debian:13"), and with the name without its tag or digest. One that begins with '/' is
// compared with paths.
bool td_ct_pattern_allows(const char *pattern, const struct td_ct_reference *r);
bool td_ct_pattern_allows_path(const char *pattern, const char *path);
