// A second memory of the last acknowledged revision, beside the database: state.db-mark.
//
// SQLite ends a damaged log at the first frame that does not check out and goes on with what is before it, without a
// word. With the mark that is seen: a file that ends below it has lost writes that somebody was told are there. Writing
// it costs no sync: what kill -9 leaves is the kernel's, and after a power cut an older mark only says less.
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

// revision: where the database ends; *ret_fd: for td_mark_set. TD_INVALID: writes are missing, with what to do. A mark
// that the user renamed to state.db-mark.accepted lets it pass: *ret_jump is then the revision to go on from (it was
// given out), else 0. lossy: the database may lose its last commits by design (TANDEM_DB_SYNC=normal): it goes on
// likewise.
int td_mark_open(const char *db_path, uint64_t revision, bool lossy, int *ret_fd, uint64_t *ret_jump,
		 struct td_error *err);
void td_mark_set(int fd, uint64_t revision);
// After the jump is on file: the mark that was accepted goes.
void td_mark_accepted(const char *db_path);
