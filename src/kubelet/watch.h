// One thread that waits: for processes to end (then a key goes into the work queue) and for deadlines (then a cancel
// fires).
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "kube/controller.h"

struct td_watch;
int td_watch_new(struct td_queue *queue, struct td_watch **ret, struct td_error *err);
struct td_watch *td_watch_free(struct td_watch *w); // stops the thread; pending waits are dropped
// Adds `key` to the queue once when pidfd becomes readable. The descriptor is duplicated.
int td_watch_exit(struct td_watch *w, int pidfd, const char *key, struct td_error *err);
// Fires `cancel` (a reference is kept) after ms, unless the handle was dropped before.
struct td_deadline;
struct td_deadline *td_watch_deadline(struct td_watch *w, struct td_cancel *cancel, int64_t ms);
struct td_deadline *td_deadline_drop(struct td_deadline *d); // NULL ok; returns NULL
TD_DEFINE_AUTO(struct td_deadline *, td_deadline_drop)
