// Files that an untrusted container may have prepared: names resolved inside a root, and payload directories that
// change as a whole.
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdint.h>
#include <sys/types.h>

// ---- resolving ----
// Opens `rel` below the directory `root`, O_PATH; symlinks and ".." cannot leave root (absolute links start at root).
// TD_NOT_FOUND; TD_INVALID: not a path that may be used (a magic link, a loop).
int td_path_open_in(const char *root, const char *rel, int *ret_fd, struct td_error *err);
// As mkdir -p of rel below root, same rules; 0 also when it exists.
int td_path_mkdir_in(const char *root, const char *rel, mode_t mode, struct td_error *err);
// Makes the empty file `rel` below root, same rules; its directory is there. TD_EXISTS: so is the file, or a link of
// that name.
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
// Makes dir show exactly the payload: files in ..<hash>, ..data → that (swapped by rename), <name> → ..data/<name>. The
// same payload again changes nothing. gid -1: files stay root's; else they belong to the group and it may read them.
int td_payload_write(const char *dir, const struct td_payload *p, int64_t gid, struct td_error *err);
