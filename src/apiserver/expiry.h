// Events go one hour after their last write, as on a real API server. A turn is short: one page of the table, a bounded
// number of deletions; where it stopped, the next one goes on.
//
// When an object was written is not kept with it: every minute the revision of that minute is noted, and what an
// hour-old note covers is an hour old. Only for what was written before this process started the times in the Event
// itself are read.
#pragma once

#include "apiserver/store.h"
#include "base/clock.h"

enum { TD_EXPIRY_PAGE = 1024, TD_EXPIRY_DELETES = 256 };
struct td_expiry;
struct td_expiry *td_expiry_new(struct td_store *s, const struct td_clock *clock);
struct td_expiry *td_expiry_free(struct td_expiry *e);
size_t td_expiry_turn(struct td_expiry *e); // how many Events went
