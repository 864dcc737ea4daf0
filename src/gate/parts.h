// The threads that an agent is made of. Half an agent is worse than none: a part that fails ends all of them.
#pragma once

#include "base/cancel.h"
#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct td_part {
	const char *name;                            // for the log
	int (*run)(void *ctx, struct td_error *err); // until the cancel fires
	void *ctx;
	// td_parts_start's
	struct td_cancel *cancel;
	pthread_t thread;
	bool started;
};

// 0; or TD_INTERNAL: one could not start and the cancel has fired. After either td_parts_join is due, before ctx goes.
int td_parts_start(struct td_part *v, size_t n, struct td_cancel *cancel, struct td_error *err);
void td_parts_join(struct td_part *v, size_t n); // blocks until the cancel fired and all have ended
