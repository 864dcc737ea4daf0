// Which NodeActions that are over become lines of their node's NodeHistory (operator/record.c). Pure.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// One NodeAction, or one line of a history. Times are ms of real time.
struct td_pool_old_act {
	int64_t begun, ended; // ended -1: it is not over; begun -1: it never began
	bool needed;          // somebody decides by it yet: it stays a NodeAction
	bool line;            // it has a line already
	size_t bytes;         // of its line
};
struct td_pool_record_rules {
	int64_t now;
	int64_t compact_ms; // a NodeAction that ended so long ago is folded, unless it
	int64_t window_ms;  // began within this: attempts are counted from it
	int64_t keep_ms;    // after its end nothing is kept
	size_t most_bytes, most_lines;
};
enum td_pool_fate {
	TD_RECORD_STAYS,
	TD_RECORD_FOLDS, // its line is written, then the NodeAction goes
	TD_RECORD_GOES   // no line of it is left, nor a NodeAction
};
// Says of one NodeAction what becomes of it. lines, bytes: what its history holds without it, those that go left out;
// where it has no room it stays. *ret_again: ms until it is due, where it is not yet; else untouched.
enum td_pool_fate td_pool_record_fate(const struct td_pool_old_act *r, const struct td_pool_record_rules *rules,
				      size_t lines, size_t bytes, int64_t *ret_again);
