// Events expire one hour after their last write, as on a real API server. A turn is short: it reads
// one page of the table and deletes a bounded number of Events; the next turn continues where it
// stopped.
//
// The time of a write is not stored with the Event. Instead, every minute the current revision is
// noted: everything up to the revision of an hour-old note is at least an hour old. The times in
// the Event itself count only if it was written before this process started.
#pragma once

#include "apiserver/store.h"
#include "base/clock.h"

enum { TD_EXPIRY_PAGE = 1024, TD_EXPIRY_DELETES = 256 };
struct td_expiry;
struct td_expiry *td_expiry_new(struct td_store *s, const struct td_clock *clock);
struct td_expiry *td_expiry_free(struct td_expiry *e);
size_t td_expiry_turn(struct td_expiry *e); // returns the number of Events deleted
