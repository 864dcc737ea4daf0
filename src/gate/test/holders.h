// Holders of devices, for the tests of this room.
#pragma once

#include "gate/gate.h"

#include <stdio.h>

static inline struct td_holder native(int64_t job, int64_t start)
{
	return (struct td_holder){.job = job, .start = start, .uid = "1000"};
}

static inline struct td_holder with_pod(int64_t job, int64_t start, const char *uid)
{
	struct td_holder h = {.job = job, .start = start, .pod = true};
	snprintf(h.uid, sizeof(h.uid), "%s", uid);
	return h;
}
