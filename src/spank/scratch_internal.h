// What the two files of the service share.
#pragma once

#include "spank/scratch.h"

// Moves a path of the file system of `dir` into its trash.
int td_scratch_move(const char *path, const char *dir, struct td_error *err);
