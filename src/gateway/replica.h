// The replicas of an endpoint (pure): which of them gets a request, and which are started or ended.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	TD_REPLICAS_MOST = 16,
	// One that is too many gets no new request at once. It is not ended before every gateway has had a look, and
	// said whether requests to it still wait there; nor does it wait for these for ever.
	TD_REPLICA_HOLD_S = 4,
	TD_REPLICA_DRAIN_S = 300,
	// One that has run for so long ended by some accident: it comes back at once.
	TD_REPLICA_LONG_S = 600,
	TD_REPLICA_FIRST_S = 5,
	TD_REPLICA_LAST_S = 300
};

// As one request sees it.
struct td_replica_way {
	bool ready;
	bool out;      // it was not reached, and nobody has reached it since
	int in_flight; // requests that wait for their answer there
};
// The ready one with the fewest requests. turn: a number that grows with each request, so that equals take turns.
// When none is left but those that were not reached, one of these is tried. -1: none.
int td_replica_pick(const struct td_replica_way *v, int n, uint64_t turn);

enum td_replica_is {
	TD_REPLICA_NONE,  // it has no pod
	TD_REPLICA_LIVES, // it waits, starts or runs
	TD_REPLICA_ENDED, // its pod is over
	TD_REPLICA_GOES,  // its pod is being deleted
};
struct td_replica_seen {
	enum td_replica_is is;
	int in_flight;
	int soon;             // how often it has ended soon after its start, one time after the other
	int64_t began, ended; // s, of one that is over
};
struct td_replica_want {
	int n; // so many, those with the numbers below it; 0: the session is over
	int64_t now;
	int64_t shrunk;     // s: when the last ones became too many
	int64_t busy_until; // s: until then some gateway has requests at those
};
enum td_replica_act {
	TD_REPLICA_LEAVE,
	TD_REPLICA_MAKE,
	TD_REPLICA_REPLACE, // delete what is over, make it anew
	TD_REPLICA_REMOVE,
};
enum td_replica_act td_replica_next(const struct td_replica_seen *s, int number, const struct td_replica_want *want);
// `soon` of the next one, after this one has ended.
int td_replica_soon(const struct td_replica_seen *s);
