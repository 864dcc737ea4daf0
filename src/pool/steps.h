// The smaller decisions about an ask: whether it may try the fast path, whether its job must be
// read, what a refusal means, when to look again, whether it may be bound, and how its job ends.
// pool.h has the large one (td_pool_reconcile_ask).
//
// Times are the caller's: *_ms are milliseconds, *_us microseconds, *_s seconds. An int64_t answer
// is a time to wait in milliseconds, unless its name says otherwise.
#pragma once

#include "pool/pool.h"

// ---- the fast path (room.c): all of it is a hint, Slurm decides ----

// Slurm refused an immediate allocation because somebody waits who comes first. No other one is
// tried while the same jobs wait, ours and those of others, and for BLOCK_MS at most: what is known
// of the others may be seconds old, and Slurm takes up to 2 s to see that a job is held or at a
// limit, which then stops nobody (docs/facts/slurm.md S-I3).
struct td_pool_block {
	bool blocked;
	int64_t at_ms;  // when the refused try was sent
	size_t waiting; // others that waited then, and their fingerprint
	uint64_t print;
	uint64_t ours; // as in td_pool_fast
};

struct td_pool_fast {
	int64_t now_ms;
	bool allowed;        // by spec.scheduler
	int64_t view_age_ms; // age of what is known of Slurm's nodes; -1: nothing is known
	bool refused_here;   // Slurm refused this ask for this same state of its nodes
	size_t pending;      // asks of ours whose job waits in Slurm's queue; see td_pool_room_yield
	uint64_t ours;       // grows whenever one of ours begins or ends to wait there
	struct td_pool_block block;
	size_t waiting; // others that wait in Slurm's queue
	uint64_t print; // their fingerprint
	// An allocation can be raised above all that wait, which is only right where nobody of them
	// could use this very room. vain_ms: when one was refused all the same; 0: none was.
	bool raises;
	int64_t vain_ms;
};
// True while the block stands.
bool td_pool_block_holds(const struct td_pool_fast *f);
enum td_pool_fast_do {
	TD_FAST_NO,
	TD_FAST_TRY,   // Slurm decides who comes first
	TD_FAST_RAISE, // Slurm would refuse it for those who wait: show of all of them that they need not this room
};
// Says whether an ask may try an immediate allocation (docs/protocols.md 1.3).
enum td_pool_fast_do td_pool_fast(const struct td_pool_fast *f);

// Where more of ours wait, those who come stand in line.
enum { TD_POOL_WAITERS = 32, TD_POOL_OTHERS = 16 }; // ours; and others that are read for a raise

// Resources that Slurm gave one of our jobs since the last look at its nodes.
struct td_pool_given {
	struct td_pool_want want;
	int node; // index of the node; -1: Slurm has not said which
};
// True when the view of the nodes already includes what was given at given_ms. answered: Slurm has
// replied to the submit.
bool td_pool_given_seen(int64_t given_ms, bool answered, int64_t view_asked_ms);
// Takes what was given from the room on the nodes v, whose used_* are as Slurm says. Their GRES are
// current; CPUs and memory lag (docs/facts/slurm.md S-T8), so what our own jobs hold is a lower
// bound. held: what they hold, one entry per node; this function changes it.
void td_pool_room_take(struct td_pool_node *v, size_t n, struct td_pool_want *held, const struct td_pool_given *given,
		       size_t n_given);
// An ask of ours, or somebody's job, that waits in Slurm's queue, as seen by one that has just come.
struct td_pool_waiter {
	bool known;                // what it asks for, and where it may run
	bool aside;                // td_pool_reason_aside: Slurm passes it over, whatever is free
	struct td_pool_want want;  // the most that it may take on one node
	struct td_pool_want least; // what it takes there at least
	size_t nodes;              // on so many it starts at once; 0: on one
	int64_t members;           // above 1: it starts where so many times `least` fit beside each other
	const bool *feasible;      // per node: it may run there
};
// Leaves in v only the nodes where an immediate allocation takes nothing that somebody who waits
// will need: it must not deepen what he lacks there, nor make him lack what he has. (A pod of one
// CPU takes nothing from one that waits for GPUs, as long as there are CPUs for both.) v has its
// used_* as now. take: what the allocation takes, under every name of a kind. False: it must stand
// in line, because somebody could start himself, or is not known well enough.
bool td_pool_room_yield(struct td_pool_node *v, size_t n, const struct td_pool_want *take,
			const struct td_pool_waiter *waiters, size_t n_waiters);
// True when the ask has no job, and nothing says that it must not try the fast path now.
bool td_pool_fast_due(const struct td_pool_ask *a, const struct td_pool_job *j);

// ---- reading its job ----

enum td_pool_look_do {
	TD_LOOK_NOT,   // what is known of the job still holds
	TD_LOOK_POLL,  // what the last poll says is enough
	TD_LOOK_LATER, // read it in `wait_ms`
	TD_LOOK_READ,
};
struct td_pool_look {
	enum td_job_know know;
	bool asked;            // something says that the job may have changed
	bool changed;          // the last poll differs from what is known
	bool warned;           // its stand-in was warned of its end
	bool named;            // the job carries this ask's UID
	enum td_job_is polled; // what the last poll means
	bool pod_waits;        // the pod is not bound
	bool knocks, knocked;  // its stand-in knocks when it runs; it has done so
	int64_t now_ms, not_before_ms;
	int64_t knock_ms; // its knock is waited for until then; 0: not set
	// out
	int64_t wait_ms;
};
// Says whether the job must be read. May change not_before_ms and knock_ms.
enum td_pool_look_do td_pool_look(struct td_pool_look *l);
// True while Prolog has not passed. reason: Slurm says that it runs it; age_s: since the job's
// start.
bool td_pool_prolog_runs(bool reason, bool knocked, int64_t age_s);

enum td_pool_warning { TD_WARNING_NONE, TD_WARNING_LATER, TD_WARNING_NOW };
// Says what the warning (USR1) of a stand-in means. A preempt time announces preemption; a near end
// announces the time limit, left_ms before it acts; any other USR1 was sent by somebody else.
enum td_pool_warning td_pool_warning(bool preempted, bool limit, int64_t left_ms);

struct td_pool_twin {
	int64_t job;
	bool ended, runs;
};
// Two jobs stand for one ask. True when `seen` is the one to keep: the granted one stays, else the
// one that runs, else the known one. granted: the job id of the grant.
bool td_pool_twin_better(const struct td_pool_twin *seen, const struct td_pool_twin *known, int64_t granted);

// ---- when to look again ----

// The wait before the next submit of an ask whose jobs ended before its pod was bound, `fails`
// times.
int64_t td_pool_backoff_ms(int fails);

struct td_pool_prepare { // a granted ask whose node is being prepared
	bool batch;      // its stand-in knocks, so a look is only the fallback

	bool burst; // it is one of many
	int waits;  // looks so far that found it not ready
	int64_t waited_ms;
};
int64_t td_pool_prepare_ms(const struct td_pool_prepare *p);
// Returns the new estimate of how long a prolog takes, in µs, after one that took took_us.
int64_t td_pool_prolog_learn(int64_t estimate_us, int64_t took_us, bool burst, bool looked_in_vain);
// True when so many granted asks are being prepared at once that looks at each of them count.
bool td_pool_burst(size_t preparing);
// The wait before a pending job is read again: the more jobs are pending, the longer. no_reason:
// Slurm has not looked at it yet.
int64_t td_pool_pending_ms(size_t pending, bool no_reason);
// How long a refusal by Slurm stands while nothing of the pod changes. outside: what it lacks (an
// account, a QOS) is given in Slurm, where no watch tells of it; the more asks are refused, the
// longer.
int64_t td_pool_refused_ms(bool outside, size_t refused);
// No node could ever take an ask. Returns 0 when that is final, else how long to wait before the
// answer counts, because nodes come or go. nodes_same_ms: for how long they have not changed.
int64_t td_pool_never_ms(enum td_pool_fit fit, int64_t nodes_same_ms);

// ---- what Slurm's answers and the devices mean; code: 0 or an enum td_code ----

enum td_pool_submitted {
	TD_SUBMITTED,       // done
	TD_SUBMITTED_QUEUE, // not possible at once: submit it to the queue
	TD_SUBMITTED_NEVER, // refused: say so, and try again only after a while
	TD_SUBMITTED_LATER, // a limit of Slurm is reached
	TD_SUBMITTED_FAIL,
};
enum td_pool_submitted td_pool_submitted(int code, bool immediate);

enum td_pool_devices {
	TD_DEVICES_THERE,
	TD_DEVICES_AGAIN,     // decide again with what the watch brings
	TD_DEVICES_WAIT,      // not available now
	TD_DEVICES_GIVE_BACK, // the grant cannot be used: end the job
	TD_DEVICES_REFUSE,    // the same, and the next grant would not be usable either
	TD_DEVICES_FAIL,
};
// Says what the result of preparing the granted devices means.
enum td_pool_devices td_pool_devices(int code);
// Counted devices of one node. A kubelet that has fewer than the pod asks for would fail the pod.
struct td_pool_counted {
	int64_t offer, used, want; // offer -1: nothing to compare with
	int64_t age_s;             // of the grant
};
// Returns 0, TD_THROTTLED or TD_NOT_FOUND, for td_pool_devices.
int td_pool_counted(const struct td_pool_counted *c);

// ---- binding ----

// A version of the pod carries a fence. Returns true when the fence ends the grant that was decided
// on (`had`). own: the fence is for this very run of the job; j: the job, read after that version.
bool td_pool_fence_ended(bool own, const struct td_grant *had, const struct td_pool_job *j);

enum td_pool_rebind {
	TD_REBIND_AGAIN, // bind again with this version
	TD_REBIND_OVER,  // bound, ending or another pod: decide again when the watch has caught up
	TD_REBIND_LOST,  // somebody gave a grant of this pod back: a fresh look tells which
};
// A Binding met another version of the pod, or its reply was lost. Says what to do with the pod as
// it was read again.
enum td_pool_rebind td_pool_rebind(bool same_uid, bool ending, bool bound, bool same_epoch);

// ---- the end of a pod and of its job ----

struct td_pool_end {
	bool pod;     // the pod is there
	bool unbound; // it is there, waits and does not end
	bool batch;   // its stand-in is a process that can exit with the pod's code
	bool read;    // its job was read for this decision
	bool named;   // the job's name, which DELETE sends, holds the ask's UID

	bool tried;        // an attempt to tell its stand-in was made just now
	int64_t told_ms;   // for how long its stand-in has known; -1: it was not told
	int64_t settle_ms; // for how long its stand-in may still be about to connect to us
};
enum td_pool_end_do {
	TD_END_READ,   // read its job first
	TD_END_AGAIN,  // decide again with what was read
	TD_END_FORGET, // a waiting pod whose job we gave back: that end is not the user's scancel
	// Tell the stand-in, which exits with the pod's code, so that sacct tells the truth. When
	// it is not connected, told_ms stays -1.
	TD_END_TELL,
	TD_END_WAIT,   // wait *ret_ms for the stand-in
	TD_END_CANCEL, // end the job; *ret_fence: a Binding of it may be on its way
};
// Says how to end the job of an ask that needs it no more. Sets both outputs.
enum td_pool_end_do td_pool_end_job(const struct td_pool_end *e, const struct td_pool_job *j, int64_t *ret_ms,
				    bool *ret_fence);
// How a pod ends whose grant has ended. Its kubelet fails it, so that its logs stay and its controller
// makes the next one. Only where no kubelet does so the object goes.
struct td_pool_ending {
	bool bound;       // else nothing of it runs
	bool node_ready;  // its kubelet lives
	int64_t asked_ms; // for how long the kubelet has known; -1: it was not told
	int64_t grace_s;  // how long its containers may take
};
enum td_pool_ending_do {
	TD_ENDING_FAIL, // write the phase Failed
	TD_ENDING_ASK,  // tell its kubelet to fail it
	TD_ENDING_WAIT, // *ret_ms
	TD_ENDING_DELETE,
};
enum td_pool_ending_do td_pool_ending(const struct td_pool_ending *e, int64_t *ret_ms);
const char *td_pool_ending_name(enum td_pool_ending_do d); // "ask"
// Returns how many seconds a pod gets to end when its grant has ended. own: the grace in its spec.
int64_t td_pool_end_grace_s(bool bound, int64_t own, int64_t most);

// How many of at most `most` seconds go to the signal by which a pod asked to be told, `asked` seconds
// before TERM. own: the grace in its spec, which follows, and of which a third of all is kept for it
// at least.
int64_t td_pool_end_signal_s(int64_t asked, int64_t own, int64_t most);

// ---- the whole pool ----

// True when gates are stuck on so many nodes at once that draining them all would only stop the
// pool: pods that end slowly do so one by one.
bool td_pool_gate_alarm(size_t held, size_t nodes);

// Mass-vanish (docs/protocols.md 1.9): evict nobody, drain the pool, raise an alarm. When the jobs
// stay gone, or a person confirms it, their asks end.
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
	TD_LOSS_ACCEPT, // the jobs stayed gone: their asks end
};
// Jobs that are gone for longer than this are taken as gone for good.
enum { TD_POOL_LOST_MS = 120000 };
enum td_pool_loss_do td_pool_loss(const struct td_pool_loss *l);
