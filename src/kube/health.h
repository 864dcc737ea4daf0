// The health of a role, served over plain HTTP: /metrics, /livez and /readyz. There is one role per
// process, so the state is global; all functions are thread-safe.
//
// /livez is about this process alone: does every loop make progress? An API server or a Slurm that
// does not answer is no reason for a restart. /readyz is true when the role has started, has read
// the Lease (roles that elect a leader; a follower is ready) and every informer has its first list.
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

// ---- loops: what must not get stuck ----
struct td_loop;
// limit_ms is how long one turn may take. 0 means 5 minutes: every call inside has a deadline of
// 30 s or less.
struct td_loop *td_loop_new(const char *name, int64_t limit_ms);
struct td_loop *td_loop_free(struct td_loop *l); // NULL ok
TD_DEFINE_AUTO(struct td_loop *, td_loop_free)
void td_loop_busy(struct td_loop *l); // a turn begins
void td_loop_idle(struct td_loop *l); // it waits for work, or ends

// ---- conditions: what must be true before the process is ready ----
//
// why says what is missing; NULL means that the condition is met. Names are string constants
// ("lease"), at most 16.
void td_health_set(const char *name, const char *why);

// Informers register and unregister themselves (informer.c).
struct td_informer;
void td_health_informer(struct td_informer *i, bool in);

// Append a line for each problem; return true when there is none.
bool td_health_live(int64_t now_mono_ms, struct td_buf *why);
bool td_health_ready(struct td_buf *why);

// ---- the server ----
struct td_health;
// Serves the three paths from a thread of its own. listen is "ADDR:PORT" or "unix:/path"; with NULL
// nothing is served and *ret is NULL.
int td_health_serve(const char *role, const char *listen, struct td_health **ret, struct td_error *err);
struct td_health *td_health_end(struct td_health *h); // NULL ok
