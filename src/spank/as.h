// Doing something with another's rights, and coming back: in a child, because rights that a process
// gave up are gone.
#pragma once

#include "spank/container.h"

// Runs f in a child that is nobody but the owner: his user, groups, and no capability. Returns what f
// returned, with its error.
int td_ct_as(const struct td_ct_owner *who, int (*f)(void *ctx, struct td_error *err), void *ctx, struct td_error *err);
// Gives up everything for the owner's rights, in the calling process.
int td_ct_become(const struct td_ct_owner *who, struct td_error *err);
// Reads a file as the owner: *ret gets its text. A file that the owner may not read is TD_DENIED.
int td_ct_read_as(const struct td_ct_owner *who, const char *path, size_t max, struct td_buf *ret,
		  struct td_error *err);
// Opens a file for reading as the owner. One that he may not read is TD_DENIED, an absent one TD_NOT_FOUND,
// and what is no regular file TD_INVALID. Links of /proc that lead out of the file system are not followed (TD_DENIED).
int td_ct_open_as(const struct td_ct_owner *who, const char *path, int *ret_fd, struct td_error *err);
// Copies an open file from its start; `path` is for messages. More than `max` bytes are
// TD_INVALID; who writes it may make it longer meanwhile, so there is no copy without a bound.
int td_ct_copy(int from, const char *path, int to, size_t max, struct td_error *err);
