// The durable table of one node: which job holds which device. Pure data with load and save; no clock, no runtime, one
// thread at a time.
//
// A claim is superseded only by the next claim. Superseded holders stay in `prev` until someone has proven that their
// last process is gone; their identity stays in `past`, so that a late word of a superseded holder is recognised and
// refused (docs/protocols.md 1.6).
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

#define TD_GATE_PREV 16 // more unproven holders of one device: new claims are refused until one is gone
#define TD_GATE_PAST 32
#define TD_POD_NAME 320 // "<namespace>/<name>": 63 and 253 at most

struct td_holder {
	int64_t job, start; // start 0: unknown, matches any
	bool pod;           // a pod's stand-in: `uid` is the pod's
	char uid[40];       // pod uid or the native user's id
	// The pod that the job's comment names, by uid and by "namespace/name"; "": none. A word of the job's owner: a
	// hint where to look, never a proof.
	char ask[40], ask_pod[TD_POD_NAME];
};
struct td_gate_dev {
	bool held;
	struct td_holder now;
	struct td_holder prev[TD_GATE_PREV];
	int n_prev;
	struct {
		int64_t job, start;
	} past[TD_GATE_PAST]; // newest first
	int n_past;
};
struct td_gate_table {
	int n; // devices
	struct td_gate_dev dev[64];
};

void td_gate_copy(struct td_gate_table *to,
		  const struct td_gate_table *from); // the devices that there are, and no more memory
bool td_holder_same(const struct td_holder *a, const struct td_holder *b); // the same job run
// Names `h` as holder of every device in the mask. *ret_changed: the table must be saved before anyone is told.
// TD_CONFLICT: h was superseded on one of them, or (a pod) a later grant holds it; err says by whom. TD_THROTTLED:
// TD_GATE_PREV. Nothing changes then.
int td_gate_claim(struct td_gate_table *t, uint64_t mask, const struct td_holder *h, bool *ret_changed,
		  struct td_error *err);
// What the node itself says: the pod of h has a grant of these devices and has not ended. Never supersedes anybody: h
// becomes the holder of devices that nobody holds, is marked as the job's pod where its job is known, and else waits
// among the unproven earlier holders. True when something changed.
bool td_gate_tell(struct td_gate_table *t, uint64_t mask, const struct td_holder *h);
bool td_gate_holds(const struct td_gate_table *t, uint64_t mask,
		   const struct td_holder *h);                                   // on every device of the mask
uint64_t td_gate_held(const struct td_gate_table *t, const struct td_holder *h); // every device that h holds
// Distinct unproven earlier holders of any device in the mask; returns how many (at most max).
int td_gate_pending(const struct td_gate_table *t, uint64_t mask, struct td_holder *out, int max);
bool td_gate_forget(struct td_gate_table *t,
		    const struct td_holder *h); // proven gone: drops it from every prev; true when something changed

// boot: what the machine calls its present boot, or NULL where that says nothing. A table of an earlier boot is empty:
// nobody's processes outlive one. An absent file is empty, too.
int td_gate_load(const char *path, int n, const char *boot, struct td_gate_table *ret, struct td_error *err);
int td_gate_save(const char *path, const struct td_gate_table *t, const char *boot,
		 struct td_error *err); // durable when it returns 0
