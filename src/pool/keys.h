// Turning a cluster's keys over (docs/keys.md): which step is due. Pure.
//
// No daemon is ever asked for what it may not have: a new key is brought to everybody first, then
// everybody proves by it who he is, and only when nobody can hold anything proved by the old one
// any more is that forgotten.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum td_pool_keys {
	TD_KEYS_KEEP,   // nothing is due; as the last step: nothing is on its way
	TD_KEYS_SPREAD, // a new key is made, and is believed
	TD_KEYS_USE,    // it is used; the old one is still believed
	TD_KEYS_DROP,   // the old one is gone
};
struct td_pool_keys_facts {
	long long wanted, has;  // generations: the spec's, and the newest that was made
	enum td_pool_keys last; // the step that was made last
	int64_t age_ms;         // since then
	bool seen;              // slurmctld, and every node that answers, has what was written then
	int64_t spread_ms;      // for how long those may need it who cannot say so
	int64_t overlap_ms;     // for how long the old one is believed after that
};
enum td_pool_keys td_pool_keys_next(const struct td_pool_keys_facts *f);
