// What happens by time alone: bookmarks become due, Events are forgotten after an hour.
#pragma once

#include "apiserver/srv.h"

struct td_ticker;
struct td_ticker *td_ticker_start(struct td_srv *s, struct td_cancel *cancel);
void td_ticker_join(struct td_ticker *t); // after cancel; frees. NULL ok
// Removes Events whose last sighting is older than an hour; returns how many (for tests).
size_t td_events_forget(struct td_srv *s, int64_t now_ms);
