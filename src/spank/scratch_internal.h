// What the two files of the service share.
#pragma once

#include "spank/scratch.h"

// The /tmp of the node itself, which sbcast writes to, becomes a directory of `dir`.
int td_scratch_node_tmp(const char *dir, struct td_error *err);
// Gives what sbcast writes there to the jobs that it is for, until this process ends. It returns where the kernel does
// not allow it.
void td_scratch_bcast(const char *dir);
// Moves a path of the file system of `dir` into its trash.
int td_scratch_move(const char *path, const char *dir, struct td_error *err);
