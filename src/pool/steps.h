// The smaller decisions about an ask: may it try the fast path, must its job be read, what does a refusal mean, when is
// it looked at again, may it be bound, how does its job end. pool.h has the large one (td_pool_reconcile_ask).
//
// Times are the caller's: *_ms are milliseconds, *_s seconds. Answers that are an int64_t are milliseconds to wait.
#pragma once

#include "pool/pool.h"

// ---- the fast path (room.c): all of it is a hint, Slurm decides ----
// Slurm refused an immediate allocation because somebody of higher priority waits. No further one is tried until the
// set of others that wait is another one; it is known by their number and a fingerprint.
struct td_pool_block {
	bool blocked;
	size_t waiting;
	uint64_t print;
};
bool td_pool_block_holds(const struct td_pool_block *b, size_t waiting, uint64_t print);
struct td_pool_fast {
	bool allowed;        // by spec.scheduler
	int64_t view_age_ms; // of what is known of Slurm's nodes; -1: nothing is
	bool refused_here;   // Slurm refused this ask for this very state of its nodes
	size_t pending;      // asks of ours whose job waits in Slurm's queue
	struct td_pool_block block;
	size_t waiting; // others that wait in Slurm's queue
	uint64_t print;
};
bool td_pool_fast_may(const struct td_pool_fast *f);
// Resources that were given since the last look at the nodes.
struct td_pool_given {
	struct td_pool_want want;
	int node; // its index; -1: Slurm has not said where
};
// The view of the nodes shows them already. answered: Slurm has replied to the submit.
bool td_pool_given_seen(int64_t given_ms, bool answered, int64_t view_asked_ms);
// v: used_* as Slurm's nodes say. GRES there are current; CPUs and memory lag (docs/facts/slurm.md S-T8), so what our
// own jobs hold (held, one entry a node, which this function changes) is a lower bound.
void td_pool_room_take(struct td_pool_node *v, size_t n, struct td_pool_want *held, const struct td_pool_given *given,
		       size_t n_given);
// It has no job, and nothing says that it must not try the fast path now.
bool td_pool_fast_due(const struct td_pool_ask *a, const struct td_pool_job *j);

// ---- reading its job ----
enum td_pool_look_do {
	TD_LOOK_NOT,   // what is known of it holds
	TD_LOOK_POLL,  // what the last poll says is enough
	TD_LOOK_LATER, // in `wait_ms`
	TD_LOOK_READ,
};
struct td_pool_look {
	enum td_job_know know;
	bool asked;            // something says that it may have changed
	bool changed;          // the last poll differs from what is known
	bool warned;           // its stand-in was warned of its end
	bool named;            // the job carries this ask's UID
	enum td_job_is polled; // what the last poll means
	bool pod_waits;        // not bound
	bool knocks, knocked;  // its stand-in tells when it runs; it has
	int64_t now_ms, not_before_ms;
	int64_t knock_ms; // until then its knock is waited for; 0: not set
	// out
	int64_t wait_ms;
};
// Changes not_before_ms and knock_ms.
enum td_pool_look_do td_pool_look(struct td_pool_look *l);
// Prolog has not passed. reason: Slurm says that it runs it; age_s: of the job's start.
bool td_pool_prolog_runs(bool reason, bool knocked, int64_t age_s);
// Its stand-in was warned (USR1). Preemption is announced by a preempt time; the time limit by its nearness; any other
// USR1 was somebody's own idea.
enum td_pool_warning { TD_WARNING_NONE, TD_WARNING_LATER, TD_WARNING_NOW };
enum td_pool_warning td_pool_warning(bool preempted, bool limit, int64_t left_ms);
// Two jobs stand for one ask: is the first the one to keep? The granted one stays, else the one that runs, else the one
// we know.
struct td_pool_twin {
	int64_t job;
	bool ended, runs;
};
bool td_pool_twin_better(const struct td_pool_twin *seen, const struct td_pool_twin *known, int64_t granted);

// ---- when to look again ----
int64_t td_pool_backoff_ms(int fails); // a job that ended before its pod was bound, that often: not a storm
struct td_pool_prepare {               // granted, and its node is being prepared
	bool batch;                    // its knock goes before any look
	bool burst;                    // one of many
	int waits;                     // looks in vain
	int64_t waited_ms;
};
int64_t td_pool_prepare_ms(const struct td_pool_prepare *p);
// How long a prolog takes, in µs: the estimate after one that took so long.
int64_t td_pool_prolog_learn(int64_t estimate_us, int64_t took_us, bool burst, bool looked_in_vain);
// A waiting job is read again after that; the more wait, the slower. no_reason: Slurm has not looked at it yet.
int64_t td_pool_pending_ms(size_t pending, bool no_reason);
// No node could ever take it. 0: that is so; else so long to wait, because nodes are coming or going.
int64_t td_pool_never_ms(enum td_pool_fit fit, int64_t nodes_same_ms);

// ---- what Slurm's answers and the devices mean; code: enum td_code ----
enum td_pool_submitted {
	TD_SUBMITTED,       // done
	TD_SUBMITTED_QUEUE, // not at once: through the queue
	TD_SUBMITTED_NEVER, // refused: said, and tried again in a while only
	TD_SUBMITTED_LATER, // a limit
	TD_SUBMITTED_FAIL,
};
enum td_pool_submitted td_pool_submitted(int code, bool immediate);
enum td_pool_devices {
	TD_DEVICES_THERE,
	TD_DEVICES_AGAIN,     // decided again with what the watch tells
	TD_DEVICES_WAIT,      // not now
	TD_DEVICES_GIVE_BACK, // the grant is of no use
	TD_DEVICES_REFUSE,    // the same, and the next one would not be either
	TD_DEVICES_FAIL,
};
enum td_pool_devices td_pool_devices(int code);
// Counted devices: a kubelet that has not as many as the pod asks for would fail the pod. age_s: of the grant.
struct td_pool_counted {
	int64_t offer, used, want; // offer -1: no question there
	int64_t age_s;
};
int td_pool_counted(const struct td_pool_counted *c); // 0, TD_THROTTLED, TD_NOT_FOUND: for td_pool_devices

// ---- binding ----
// A version of the pod carries a fence. own: for this very run. had: the grant that was decided on; j: the job, read
// after that version.
bool td_pool_fence_ended(bool own, const struct td_grant *had, const struct td_pool_job *j);
// A Binding met another version of the pod, or its reply was lost. What is the pod now?
enum td_pool_rebind {
	TD_REBIND_AGAIN, // with this version
	TD_REBIND_OVER,  // it is bound, ends, or is another pod: decided again when the watch has caught up
	TD_REBIND_LOST,  // somebody gave a grant of this pod back: which of them ours is, only a fresh look tells
};
enum td_pool_rebind td_pool_rebind(bool same_uid, bool ending, bool bound, bool same_epoch);

// ---- the two ends ----
struct td_pool_end {
	bool pod;          // it is there
	bool unbound;      // it is there, waits and does not end
	bool batch;        // its stand-in is a process that may exit with the pod's code
	bool read;         // its job was read for this
	bool named;        // the job's name holds the ask's UID, and Slurm compares it as it ends the job
	bool tried;        // to tell its stand-in, just now
	int64_t told_ms;   // for how long its stand-in has known; -1: it was not told
	int64_t settle_ms; // for how long its stand-in may still be on its way to us
};
enum td_pool_end_do {
	TD_END_READ,   // its job first
	TD_END_AGAIN,  // decided again with what was read
	TD_END_FORGET, // a waiting pod whose job we gave back: its end is not the user's scancel
	TD_END_TELL,   // the stand-in exits with the pod's code, so that sacct tells the truth; not connected: told_ms
		       // stays -1
	TD_END_WAIT,   // for that, ret_ms
	TD_END_CANCEL, // the job; a Binding of it may be on its way: ret_fence
};
enum td_pool_end_do td_pool_end_job(const struct td_pool_end *e, const struct td_pool_job *j, int64_t *ret_ms,
				    bool *ret_fence);
// Seconds that a pod gets to end with its grant: own is its spec's.
int64_t td_pool_end_grace_s(bool bound, int64_t own, int64_t most);

// ---- the whole pool ----
// Slow ends of pods come one by one. When many gates are stuck at once, draining them all would only stop the pool.
bool td_pool_gate_alarm(size_t held, size_t nodes);
// Mass-vanish: evict nobody, drain the pool, alarm; when the jobs stay gone or a person confirms, their asks end.
struct td_pool_loss {
	bool vanished;       // td_pool_mass_vanish, now
	bool lost, accepted; // what was decided before
	int64_t since_ms;    // for how long it is lost
	bool confirmed;      // by a person
};
enum td_pool_loss_do {
	TD_LOSS_NOTHING,
	TD_LOSS_BACK,   // nothing is lost (any more)
	TD_LOSS_BEGIN,  // stop the pool
	TD_LOSS_ACCEPT, // they stayed gone: their asks end
};
enum { TD_POOL_LOST_MS = 120000 };
enum td_pool_loss_do td_pool_loss(const struct td_pool_loss *l);
