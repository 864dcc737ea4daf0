// Files and directories: whole-file reads with a bound, durable atomic replace, trees.
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <sys/types.h>

// Reads a whole file of at most `max` bytes into *ret (appended; NUL-terminated). TD_NOT_FOUND when it is absent.
int td_file_read(const char *path, size_t max, struct td_buf *ret, struct td_error *err);
// Writes path.tmp-XXXXXX, fsyncs, renames over path, fsyncs the directory: after a crash either the old or the new
// file.
int td_file_write(const char *path, const void *p, size_t n, mode_t mode, struct td_error *err);
int td_mkdir_p(const char *path, mode_t mode, struct td_error *err); // existing is fine
// Removes a tree; does not follow links, does not cross mount points; absent is fine.
int td_rm_rf(const char *path, struct td_error *err);
bool td_path_exists(const char *path);
// write(2) until all is written.
int td_write_all(int fd, const void *p, size_t n, struct td_error *err);
