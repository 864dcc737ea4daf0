// Reading a container's log: the newer file and the older one (<path>.1), as standin/log.c writes them, while it writes
// them.
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "base/mem.h"

#include <stdint.h>
#include <sys/types.h>

struct td_logfile {
	int now, old;  // descriptors; old may be -1
	bool in_old;   // reading the older file
	int64_t at;    // next byte of the one that is read
	bool lost;     // lines were lost before what the last read gave: a line that was begun has no end. The reader
		       // clears it
	char seen[64]; // what stands before `at` in the newer file: two rotations between two looks are told from one
		       // by it
	size_t n_seen;
	int64_t moved_ns; // when the older file got its content: another time means that the files were rotated
};
// TD_NOT_FOUND: there is no log (yet). Reading begins with the oldest byte.
int td_logfile_open(const char *path, struct td_logfile *ret, struct td_error *err);
void td_logfile_close(struct td_logfile *f);
#define td_auto_logfile __attribute__((cleanup(td_logfile_close)))
// To where the last n lines begin; an unfinished last line counts.
void td_logfile_tail(struct td_logfile *f, int64_t lines);
// Next bytes, in order over both files. 0: no more for now. Nothing is read twice, and nothing left out unless the log
// was rotated so often that it was not there any more: then *f says `lost`, and what comes begins with a line.
ssize_t td_logfile_read(struct td_logfile *f, char *buf, size_t n, struct td_cancel *c);

// One stored line. False: not stamped (written before the container's init was up): all of it is text.
struct td_logline {
	const char *stamp; // RFC 3339 with nanoseconds; NULL: none
	size_t stamp_len;
	bool err, part; // on stderr; without a line end
	const char *text;
	size_t len;
};
bool td_logline_parse(const char *line, size_t n, struct td_logline *ret); // line: without '\n'

// The last words: at most 80 lines and `max` bytes, without stamps. NULL: none. Caller frees.
char *td_logfile_last(const char *path, size_t max);
// Where the last n lines of a file of `size` bytes begin (n < 0: 0).
int64_t td_log_tail_offset(int fd, int64_t size, int64_t lines);
