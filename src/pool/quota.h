// Why a pod waits for its tenant's quota, in words: who holds it, and when there is room.
#pragma once

#include "base/mem.h"

#include <stdint.h>

struct td_pool_holder {
	const char *job; // "12 of alice"
	int64_t count;   // how much of the resource
	int64_t end;     // epoch seconds, by its time limit; 0: it has none
};
struct td_pool_quota {
	const char *tenant, *resource; // resource: as the quota names it
	const char *user;              // it is the limit of this one member; NULL: the tenant's
	int64_t quota, limit, want;    // limit: with what may be borrowed
	const struct td_pool_holder *holders;
	size_t n_holders;
	int64_t now; // epoch seconds
};
// True when the holders leave less than is wanted.
bool td_pool_quota_full(const struct td_pool_quota *q);
// Appends a sentence. Holders are named in the order in which they end, the first four of them.
void td_pool_quota_words(const struct td_pool_quota *q, struct td_buf *b);
