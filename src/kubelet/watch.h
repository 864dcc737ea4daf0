// One thread waits for two things: for processes to exit (then it adds a key to the work queue) and
// for deadlines (then it fires a cancel).
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "kube/controller.h"

struct td_watch;
int td_watch_new(struct td_queue *queue, struct td_watch **ret, struct td_error *err);
// Stops the thread and drops pending waits.
struct td_watch *td_watch_free(struct td_watch *w);
// Adds `key` to the queue once when `pidfd` becomes readable. The descriptor is duplicated.
int td_watch_exit(struct td_watch *w, int pidfd, const char *key, struct td_error *err);
// Fires `cancel` after `ms`, unless the handle is dropped before. The deadline keeps a reference to
// `cancel`. NULL: no timer could be made.
struct td_deadline;
struct td_deadline *td_watch_deadline(struct td_watch *w, struct td_cancel *cancel, int64_t ms);
struct td_deadline *td_deadline_drop(struct td_deadline *d); // d may be NULL; returns NULL
TD_DEFINE_AUTO(struct td_deadline *, td_deadline_drop)
