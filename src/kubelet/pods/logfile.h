// Reads a container's log while standin/log.c writes it: the newer file and the older one
// (<path>.1).
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "base/mem.h"

#include <stdint.h>
#include <sys/types.h>

struct td_logfile {
	int now, old; // descriptors; old may be -1
	bool in_old;  // the older file is being read
	int64_t at;   // offset of the next byte in that file
	// Lines were lost before what the last read gave, so a line that was begun has no end. The
	// reader clears the flag.
	bool lost;
	// The bytes before `at` in the newer file. They tell one rotation between two looks from
	// two.
	char seen[64];
	size_t n_seen;
	// When the older file got its content. Another time means that the files were rotated.
	int64_t moved_ns;
};
// Opens the log; reading begins with the oldest byte. TD_NOT_FOUND: there is no log (yet).
int td_logfile_open(const char *path, struct td_logfile *ret, struct td_error *err);
void td_logfile_close(struct td_logfile *f);
#define td_auto_logfile __attribute__((cleanup(td_logfile_close)))
// Moves to where the last n lines begin. An unfinished last line counts.
void td_logfile_tail(struct td_logfile *f, int64_t lines);
// Reads the next bytes, in order over both files. 0: no more for now. Nothing is read twice.
// Nothing is left out, unless rotations removed it before it was read: then *f says `lost`, and
// what comes begins with a whole line.
ssize_t td_logfile_read(struct td_logfile *f, char *buf, size_t n, struct td_cancel *c);

// One stored line. td_logline_parse returns false for a line without a stamp, written before the
// container's init was up: all of it is text.
struct td_logline {
	const char *stamp; // RFC 3339 with nanoseconds; NULL: none
	size_t stamp_len;
	bool err, part; // on stderr; without a line end
	const char *text;
	size_t len;
};
bool td_logline_parse(const char *line, size_t n, struct td_logline *ret); // line: without '\n'

// The last words of a log: at most 80 lines and `max` bytes, without stamps. NULL: none. Caller
// frees.
char *td_logfile_last(const char *path, size_t max);
// Returns the offset where the last n lines of a file of `size` bytes begin (0 if n < 0).
int64_t td_log_tail_offset(int fd, int64_t size, int64_t lines);
