// The durable table of one node: which job holds which device. Pure data with load and save; no
// clock, no runtime, one thread at a time.
//
// Only the next claim supersedes a claim. Superseded holders stay in `prev` until somebody has
// proven that their last process is gone. Their identity stays in `past`, so that a superseded
// holder that comes late is recognised and refused (docs/protocols.md 1.6).
#pragma once

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

#define TD_GATE_PREV 16 // unproven holders of one device: with so many, new claims are refused
#define TD_GATE_PAST 32
#define TD_GATE_WITH 15 // who may hold a share of a device beside one other
#define TD_SLUID 16     // "s" and 13 letters and digits
#define TD_POD_NAME 320 // "<namespace>/<name>": 63 and 253 at most

struct td_holder {
	int64_t job, start; // start: epoch seconds; 0: unknown, matches any
	bool pod;           // a pod's stand-in: `uid` is the pod's
	int share;          // hundredths of each of its devices (shares.h); 0: they are its alone
	bool idle;          // its share counts for nothing at the moment
	char uid[40];       // uid of the pod, or id of the native user
	// How Slurm 26.05 and newer name the job's cgroup on cgroup v2; "": job_<id> (docs/facts/slurm.md S-V6).
	char sluid[TD_SLUID];
	// The pod that the job's comment names, by uid and by "namespace/name"; "": none. The job's
	// owner wrote it, so it is a hint where to look, never a proof.
	char ask[40], ask_pod[TD_POD_NAME];
	char account[64]; // Slurm's, of a native job, as its Prolog said it; "": not known. For figures only
};
struct td_gate_dev {
	bool held;
	struct td_holder now;
	struct td_holder prev[TD_GATE_PREV];
	int n_prev;
	struct td_holder with[TD_GATE_WITH]; // hold a share, as `now` does (shares.h)
	int n_with;
	struct {
		int64_t job, start;
	} past[TD_GATE_PAST]; // newest first
	int n_past;
};
struct td_gate_table {
	int n; // devices
	struct td_gate_dev dev[64];
};

// The job of one of those who hold a device, or held it, by that name; 0: there is none.
int64_t td_gate_sluid_job(const struct td_gate_table *t, const char *sluid);
// Copies the devices that exist, and no more of the memory.
void td_gate_copy(struct td_gate_table *to, const struct td_gate_table *from);
// True when both are the same run of the same job, and not two pods of it.
bool td_holder_same(const struct td_holder *a, const struct td_holder *b);
// Makes `h` the holder of every device in the mask. *ret_changed: the table must be saved before
// anyone is told. TD_CONFLICT: h was superseded on one of them, or h is a pod and a later grant
// holds the device; err says whose. TD_THROTTLED: TD_GATE_PREV is reached, or h has a share and those
// who hold one leave no room for it (td_shares_in_the_way). On failure nothing changes.
int td_gate_claim(struct td_gate_table *t, uint64_t mask, const struct td_holder *h, bool *ret_changed,
		  struct td_error *err);
// Copies the holders of devices in the mask that began in the same second as the pod's grant h to
// out, at most max, and returns how many. Such a holder may be the later one, because a job that
// waited has a lower id than an allocation that ended before it. So while it is busy, h must wait
// and not claim.
int td_gate_tied(const struct td_gate_table *t, uint64_t mask, const struct td_holder *h, struct td_holder *out,
		 int max);
// Records what the node itself says: the pod of h has a grant of these devices and has not ended.
// Never supersedes anybody. h becomes the holder of devices that nobody holds, is marked as the
// job's pod where its job is known, and is else added to the unproven earlier holders. True when
// something changed.
bool td_gate_tell(struct td_gate_table *t, uint64_t mask, const struct td_holder *h);
// True when h holds every device of the mask, and its share counts.
bool td_gate_holds(const struct td_gate_table *t, uint64_t mask, const struct td_holder *h);
// Returns every device that h holds.
uint64_t td_gate_held(const struct td_gate_table *t, const struct td_holder *h);
// Copies the distinct unproven earlier holders of the devices in the mask to out, at most max.
// Returns how many.
int td_gate_pending(const struct td_gate_table *t, uint64_t mask, struct td_holder *out, int max);
// Drops h from every prev, because it is proven that h is gone. True when something changed.
bool td_gate_forget(struct td_gate_table *t, const struct td_holder *h);

// Reads the table. boot: the id of the machine's present boot, or NULL where that says nothing. A
// table of an earlier boot counts as empty, because no process outlives one. So does an absent
// file.
int td_gate_load(const char *path, int n, const char *boot, struct td_gate_table *ret, struct td_error *err);
// Writes the table. Durable when it returns 0.
int td_gate_save(const char *path, const struct td_gate_table *t, const char *boot, struct td_error *err);
