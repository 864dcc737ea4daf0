// Cancellation: a flag that is raised once and that every blocking call watches.
//
// A td_cancel is reference-counted and thread-safe. A blocking call takes one (NULL: the call
// cannot be cancelled) and returns TD_CANCELLED within 10 ms of td_cancel_fire(). A poll loop adds
// td_cancel_fd() to its set; the descriptor stays readable once the flag is raised.
#pragma once

#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

struct td_cancel;
struct td_cancel *td_cancel_new(void);
struct td_cancel *td_cancel_ref(struct td_cancel *c);
struct td_cancel *td_cancel_unref(struct td_cancel *c); // returns NULL
void td_cancel_fire(struct td_cancel *c);               // async-signal-safe; idempotent
bool td_cancelled(const struct td_cancel *c);           // NULL: false
int td_cancel_fd(const struct td_cancel *c);            // -1 for NULL
// Waits at most `ms` milliseconds (< 0: without a limit). Returns 0 when the time is over and
// TD_CANCELLED when `c` is fired.
int td_cancel_wait(const struct td_cancel *c, int64_t ms);
// Fires `c` on SIGTERM and SIGINT, from a thread of its own, and ignores SIGPIPE. Call it in main
// before other threads start, because they inherit the blocked signals.
void td_cancel_on_signals(struct td_cancel *c);
TD_DEFINE_AUTO(struct td_cancel *, td_cancel_unref)
