// A second record of the last acknowledged revision, beside the database: the file state.db-mark.
//
// SQLite ends a damaged log at the first frame whose checksum is wrong, and goes on with what is
// before it, without a word. The mark shows this: a database that ends below it has lost
// acknowledged writes. Writing the mark costs no sync: after kill -9 the kernel still holds it, and
// after a power cut an older mark only detects less.
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

// Opens the mark of the database db_path, whose last revision is `revision`. *ret_fd: for
// td_mark_set. Returns TD_INVALID when writes are missing; the message says what to do. If the user
// has renamed a mark to state.db-mark.accepted, that loss is accepted: *ret_jump is then the
// revision to go on from (above all that were given out), else 0. lossy: the database may lose its
// last commits by design (TANDEM_DB_SYNC=normal): it goes on in the same way.
int td_mark_open(const char *db_path, uint64_t revision, bool lossy, int *ret_fd, uint64_t *ret_jump,
		 struct td_error *err);
void td_mark_set(int fd, uint64_t revision);
// Call when the jump is on file: removes the mark that was accepted.
void td_mark_accepted(const char *db_path);
