// What a role tells about itself over plain HTTP: /metrics, /livez, /readyz; and what the two answers are made of. One
// role per process: all this is the process's, and thread-safe.
//
// /livez is about us alone (does every loop make progress?): an API server or a Slurm that does not answer is no reason
// to be restarted. /readyz: started, the Lease looked at (by roles that elect a leader; who stands in line is ready),
// every informer's first list in.
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

// ---- loops: what must not get stuck ----
struct td_loop;
// limit_ms: how long one turn may take; 0: 5 minutes (every call inside has a deadline of 30 s or less).
struct td_loop *td_loop_new(const char *name, int64_t limit_ms);
struct td_loop *td_loop_free(struct td_loop *l); // NULL ok
TD_DEFINE_AUTO(struct td_loop *, td_loop_free)
void td_loop_busy(struct td_loop *l); // a turn begins
void td_loop_idle(struct td_loop *l); // it waits for work, or ends

// ---- conditions: what must be true before we are ready ----
// why NULL: it is. Names are compile-time facts ("lease"); at most 16.
void td_health_set(const char *name, const char *why);

// Informers count themselves in and out (informer.c).
struct td_informer;
void td_health_informer(struct td_informer *i, bool in);

// Append a line for each thing that is wrong. True: nothing is.
bool td_health_live(int64_t now_mono_ms, struct td_buf *why);
bool td_health_ready(struct td_buf *why);

// ---- the server ----
struct td_health;
// listen: "ADDR:PORT" or "unix:/path"; NULL: *ret is NULL and nothing is served. Has a thread of its own.
int td_health_serve(const char *role, const char *listen, struct td_health **ret, struct td_error *err);
struct td_health *td_health_end(struct td_health *h); // NULL ok
