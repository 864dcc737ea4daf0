// What was read of a directory's files by an earlier command, so that only files that changed are read again.
//
// A file is the same when its inode, size, and times of change (of content, and of the inode, which no program sets) are
// those of then. One that had just been changed when it was read is not remembered: within one tick of the clock it could
// be changed once more and look the same. What is kept is a hint: without it, or with one that is broken, all is read.
#pragma once

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <stddef.h>
#include <sys/stat.h>

struct td_ship_seen;
// Of the directory (as the person wrote it): $XDG_CACHE_HOME/tandem/files-…, or ~/.cache. Never fails: what cannot be read
// is as if it were not there.
struct td_ship_seen *td_ship_seen_new(const char *dir, const struct td_clock *clock);
struct td_ship_seen *td_ship_seen_free(struct td_ship_seen *s);
TD_DEFINE_AUTO(struct td_ship_seen *, td_ship_seen_free)
// The hashes of the file's chunks, 64 letters each without an end, *ret_n of them; NULL: it must be read. They live as
// long as s.
const char *td_ship_seen_find(const struct td_ship_seen *s, const char *path, const struct stat *st, size_t *ret_n);
// The file has these chunks, "HASHHASH…", as it was with st. What is not said again is forgotten.
void td_ship_seen_add(struct td_ship_seen *s, const char *path, const struct stat *st, const char *hashes, size_t n);
// Something in it turned out to be wrong: nothing is believed, and nothing kept.
void td_ship_seen_drop(struct td_ship_seen *s);
// Keeps what was added. Nothing is said when that fails: the next command reads all.
void td_ship_seen_keep(struct td_ship_seen *s);
