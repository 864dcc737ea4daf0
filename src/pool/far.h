// Pods that run on nodes of another Kubernetes cluster: what is done with one, and what Slurm may give out of a node
// there. Pure; src/far has the facts and acts.
//
// A pod has one copy there at most, because the copy's name is made of the pod's UID. It is made after Slurm's grant is on
// the pod, and the pod ends here after the copy is gone there: so Slurm gives nothing to anybody else that is still held.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	TD_FAR_PENDING_MS = 120000, // a copy that finds no room for so long is given up
	TD_FAR_SETTLE_MS = 60000,   // more is offered when there has been more for so long
	TD_FAR_CPUS = 4096,         // the most that a node is believed to have
	TD_FAR_DEVICES = 64,
	TD_FAR_PODS = 4096,
	TD_FAR_NODES = 5000, // and a cluster
};

struct td_pool_far_pod {
	// The pod here.
	bool here;           // false: surely gone
	bool bound, granted; // to a node of that cluster; with Slurm's grant on it
	bool leaving, over;  // it is deleted; its phase is final
	bool ended;          // its grant has ended
	bool made;           // it had a copy
	bool begun;          // an earlier process wrote that it makes the copy, and nobody knows what became of that
	// Its copy.
	bool there, there_leaving, there_over;
	int64_t pending_ms; // for how long it has found no node; 0: it has one
	// While there is none: its node has room for it; something in the pod cannot go there.
	bool room, refused;
};
enum td_pool_far_do {
	TD_FAR_NOTHING,
	TD_FAR_MAKE,   // the copy
	TD_FAR_WAIT,   // until there is room
	TD_FAR_SHOW,   // here how the copy is
	TD_FAR_END,    // delete the copy
	TD_FAR_LET_GO, // nothing of it is there any more: let the pod go here
	TD_FAR_FAIL,   // the pod here; *ret_why says why
};
// *ret_why: a reason in one word for TD_FAR_FAIL, else NULL.
enum td_pool_far_do td_pool_far_decide(const struct td_pool_far_pod *p, const char **ret_why);

// What a node there offers here (its allocatable), of one resource. Slurm gives out all of it but `reserve`, which stays
// for pods that are not this pool's; those may have more already. No more than `most`: what is there is only said, and
// here it becomes lines of Slurm's configuration, and a file for each device.
int64_t td_pool_far_offer(int64_t allocatable, int64_t reserve, int64_t foreign, int64_t most);
// Whether one more stream may begin, of `most` for everybody: of a namespace that has `its` of the `all` that are open, by
// a person who has `his` of these. So however many there are of one person's, or of one namespace's, there is room for
// those of another one: a namespace has no more than what is left free, and a person in it no more than half of that.
bool td_pool_far_stream(int his, int its, int all, int most);

// The sum of two requests; what runs over is INT64_MAX.
int64_t td_pool_far_add(int64_t a, int64_t b);

// What is offered now. Less counts at once, more when it has lasted: each change drains the node once.
struct td_pool_far_offered {
	int64_t now, more;
	int64_t more_ms; // since when there is more; 0: there is not
};
// now_ms: monotonic, above 0. Returns true when o->now has changed.
bool td_pool_far_settle(struct td_pool_far_offered *o, int64_t want, int64_t now_ms);
