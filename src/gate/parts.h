// The threads of an agent. Half an agent is worse than none, so a part that fails ends all of them.
#pragma once

#include "base/cancel.h"
#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct td_gate_part {
	const char *name;                            // for the log
	int (*run)(void *ctx, struct td_error *err); // returns when the cancel has fired
	void *ctx;
	// Set by td_parts_start
	struct td_cancel *cancel;
	pthread_t thread;
	bool started;
};

// Starts a thread for each part. TD_INTERNAL: one could not start, and the cancel has fired. In
// both cases td_parts_join must follow before any ctx is freed.
int td_parts_start(struct td_gate_part *v, size_t n, struct td_cancel *cancel, struct td_error *err);
// Blocks until the cancel has fired and all threads have ended.
void td_parts_join(struct td_gate_part *v, size_t n);
