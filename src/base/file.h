// Files and directories: bounded reads of whole files, durable atomic replacement, trees.
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <sys/types.h>

// Reads a whole file of at most `max` bytes and appends it to *ret, NUL-terminated. Errors:
// TD_NOT_FOUND when it is absent, TD_INVALID when it is larger, TD_INTERNAL otherwise.
int td_file_read(const char *path, size_t max, struct td_buf *ret, struct td_error *err);
// The same of an open file, from where it stands; `path` is for messages.
int td_file_read_fd(int fd, const char *path, size_t max, struct td_buf *ret, struct td_error *err);
// Replaces the file: writes path.tmp-XXXXXX, calls fsync, renames it over path, and calls fsync on
// the directory. After a crash, either the old or the new file is there.
int td_file_write(const char *path, const void *p, size_t n, mode_t mode, struct td_error *err);
// Creates the directory and its missing parents. A directory that exists is no error.
int td_mkdir_p(const char *path, mode_t mode, struct td_error *err);
// Removes a tree. It does not follow links and does not cross mount points. A path that is absent
// is no error.
int td_rm_rf(const char *path, struct td_error *err);
bool td_path_exists(const char *path);
// Calls write(2) until all bytes are written.
int td_write_all(int fd, const void *p, size_t n, struct td_error *err);
// TD_THROTTLED when the file system of `dir` has less than `megabytes` free: err says that `what` needs
// so much, where and how much there is, and the fix. A directory that does not exist yet counts as its
// parent.
int td_file_room(const char *dir, int64_t megabytes, const char *what, const char *fix, struct td_error *err);
