// Whether a machine that asks for a node's certificate with a token may have it. A token is for one machine, one use and
// a time. It is reserved for a request before that is approved, so that whatever dies in between no second request is.
// Pure, as pool.h.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct td_pool_join {
	// The token: what its record says.
	bool known;          // there is a record, and nobody revokes it
	bool expired;        // its time is over
	const char *machine; // whose it is
	const char *name;    // the node that it may become; NULL: any that is not there
	const char *used_by; // the uid of the request that it is reserved for; NULL: none
	bool again;          // the node may be there, or promised: it is this machine from now on
	// The request.
	const char *uid;
	const char *by; // the machine that signed it; "": it cannot be read
	const char *cn, *org;
	bool names, usages;
	// The node of that name.
	bool there;    // it is in the cluster
	bool host;     // a NodeSet takes it for a machine that runs slurmd itself, and lets it read Slurm's key
	bool promised; // another token is used for it, and it has not come yet
};
enum td_join_do { TD_JOIN_REFUSE, TD_JOIN_RESERVE, TD_JOIN_APPROVE };
enum { TD_JOIN_TEXT = 512 };
struct td_pool_join_plan {
	enum td_join_do what;
	const char *reason; // of a refusal, in one word
	char text[TD_JOIN_TEXT];
	const char *node; // the name that it is to have; points into cn
};
void td_pool_join_decide(const struct td_pool_join *f, struct td_pool_join_plan *ret);
// How long, in ms, a machine that boots as a node waits for its token until nobody else can be that node: while a kubelet
// says it by renewing the node's Lease. before, now: the Lease's resourceVersion when the machine began to boot, or when it
// was seen to change since, and now; NULL: there was none. unchanged_ms: since then, by the clock of who looks. lease_ms:
// for how long one renewal counts. 0: not at all.
int64_t td_pool_boot_wait(const char *before, const char *now, int64_t unchanged_ms, int64_t lease_ms);
