// Entering a container, as its user.
#pragma once

#include "base/err.h"

// Enters the container of this directory and becomes the program argv, with the image's environment:
// its variables win, but for those that `keep` names ("A,B"). workdir "": the image's directory. Returns only when it
// failed.
int td_ct_inside(const char *dir, const char *workdir, const char *keep, char **argv, struct td_error *err);
