// Many connections over one way to a program `tandem-standin lines` (standin/lines.h), each as a socket here. Nothing in
// it knows what the way is.
#pragma once

#include "base/cancel.h"
#include "base/err.h"

// The way: bytes in both directions.
struct td_lines_way {
	void *ctx; // the way's from td_lines_new() on
	// Sends all of it. Any thread calls it, one at a time.
	int (*send)(void *ctx, const void *p, size_t n, struct td_cancel *c, struct td_error *err);
	// Appends what comes next. One thread calls it. Any error is the end.
	int (*recv)(void *ctx, struct td_cancel *c, struct td_buf *ret, struct td_error *err);
	void (*done)(void *ctx);
};
// Thread-safe. NULL: there is no thread for it now, and the way was let go of.
struct td_lines *td_lines_new(const struct td_lines_way *way);
// Nobody uses it any more, and all its connections were closed. NULL is fine.
struct td_lines *td_lines_free(struct td_lines *l);
// Whether no connection comes any more: its end is gone, or all numbers were given.
bool td_lines_over(struct td_lines *l);
// How many connections there are now.
int td_lines_count(struct td_lines *l);

// One connection. *ret_fd is the caller's, who closes it before the connection. TD_TRANSIENT: nothing answers there, or
// the way is gone; TD_CANCELLED.
struct td_line_one;
int td_lines_open(struct td_lines *l, struct td_cancel *c, struct td_line_one **ret, int *ret_fd, struct td_error *err);
// Blocks for 10 s at most, after which the whole way counts as stuck and is ended. NULL is fine.
struct td_line_one *td_line_one_close(struct td_line_one *o);
