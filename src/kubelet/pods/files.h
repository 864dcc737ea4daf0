// Files in places that an untrusted container may have prepared: paths resolved inside a root, and
// payload directories that change as a whole.
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdint.h>
#include <sys/types.h>

// ---- resolving ----
// Opens `rel` below the directory `root` with O_PATH. Symlinks and ".." cannot leave root: absolute
// links start at root. TD_NOT_FOUND; TD_INVALID: the path may not be used (a magic link, a loop).
int td_path_open_in(const char *root, const char *rel, int *ret_fd, struct td_error *err);
// Like mkdir -p of `rel` below root, by the same rules. Returns 0 also when it exists.
int td_path_mkdir_in(const char *root, const char *rel, mode_t mode, struct td_error *err);
// Makes the empty file `rel` below root, by the same rules. Its directory must exist. TD_EXISTS: a
// file or link of that name exists.
int td_path_create_in(const char *root, const char *rel, mode_t mode, struct td_error *err);

// ---- payload: what configMap, secret, projected and downwardAPI volumes show ----
struct td_payload_file {
	char *path; // relative, no "..", not absolute
	struct td_buf data;
	mode_t mode;
};
struct td_payload {
	struct td_payload_file *v;
	size_t n, cap;
};
// TD_INVALID: the path is absolute, empty, has a ".." or starts with "..".
int td_payload_add(struct td_payload *p, const char *path, const void *data, size_t n, mode_t mode,
		   struct td_error *err);
void td_payload_done(struct td_payload *p);
#define td_auto_payload __attribute__((cleanup(td_payload_done)))
// Makes `dir` show exactly the payload: files are in ..<hash>, ..data links to that (swapped by
// rename), and <name> links to ..data/<name>. Writing the same payload again changes nothing. gid
// -1: files stay root's; otherwise they belong to the group, and it may read them.
int td_payload_write(const char *dir, const struct td_payload *p, int64_t gid, struct td_error *err);
