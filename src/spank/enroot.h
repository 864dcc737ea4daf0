// What a squashfs image of enroot says about its start: /etc/environment and /etc/rc. Pure.
#pragma once

#include "base/err.h"
#include "base/mem.h"

// Adds "NAME=VALUE" and a zero byte for each line of /etc/environment that sets a variable: quotes around the
// value go, and each ${NAME} in it is what value(NAME) says (NULL: nothing). Other lines are skipped.
void td_ct_environment_parse(const char *text, const char *(*value)(const char *name), struct td_buf *ret);
// The directory to which /etc/rc changes first; NULL: it does not say. The caller frees it.
char *td_ct_rc_workdir(const char *text);
// The same two files from an image's configuration: `env` has n bytes of "NAME=VALUE", each ended by a zero byte.
// A value of several lines has no form there and is left out.
void td_ct_environment_write(const char *env, size_t n, struct td_buf *ret);
// entry: n bytes of words, each ended by a zero byte.
void td_ct_rc_write(const char *workdir, const char *entry, size_t n, struct td_buf *ret);
