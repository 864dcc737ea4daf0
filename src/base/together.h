// Several blocking calls side by side, which take as long together as the slowest one.
#pragma once

#include "base/cancel.h"

#include <stddef.h>

struct td_together {
	// Returns 0 or a code. It watches stop, and nothing else.
	int (*call)(void *ctx, size_t i, struct td_cancel *stop);
	void *ctx;
	size_t n;
	bool first; // when one call returns 0, the others are stopped
};
// Makes the calls 0 … n-1, each in a thread of its own, and returns when all have ended. c (NULL: none) stops them.
// Where there are no more threads, the caller's one makes a call before the others are waited for.
void td_together(const struct td_together *t, struct td_cancel *c);
