// The model of one pool and every decision about it, as pure functions: no HTTP, no JSON, no clock,
// no memory of earlier calls.
//
// A caller translates what both APIs say into these structs, asks, and carries out the answer:
// files named `facts` read, `pool` decides, files named `act` act. Every rule is one of
// docs/protocols.md, and every decision bug adds a scenario to t/scenarios/. steps.h has the
// smaller decisions about an ask; nodeset.h and cluster.h have those of the operator.
//
// Nothing is allocated: outputs point to static text or into the inputs. Any thread may call.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- asks, jobs and grants (docs/protocols.md 1) ----

// What Slurm gave an ask. All of it is compared, because Slurm uses job ids again after a crash.
// Strings may be NULL, which equals "".
struct td_grant {
	int64_t job, start, restarts;
	const char *ask, *nodes, *devices; // devices: canonical, as in tandem.dev/devices
};
// Returns NULL when both are the same, else the first thing that differs: "job id", "ask",
// "start time", "restart count", "nodes" or "devices".
const char *td_grant_differs(const struct td_grant *a, const struct td_grant *b);

enum td_pool_pod_state {
	TD_POD_GONE,    // no object has this UID; a quorum read or the watch said so
	TD_POD_WAITING, // not bound
	TD_POD_BOUND,
	TD_POD_LEAVING, // bound and being deleted: its containers may still run
	TD_POD_DONE,    // Succeeded or Failed
};
enum td_job_know {
	TD_JOB_NONE,   // the ask has no job
	TD_JOB_UNSURE, // the submit had no reply, or the job is not read yet: look first
	TD_JOB_GONE,   // Slurm does not know the id any more
	TD_JOB_READ,   // it was read: the other fields of td_pool_job hold
};
// The state of a job, reduced to what matters for decisions.
enum td_job_is {
	TD_IS_UNKNOWN,
	TD_IS_PENDING,
	TD_IS_STARTING, // it has resources, but its nodes or its prolog are not ready
	TD_IS_RUNNING,
	TD_IS_LOST, // suspended, resizing or stopped
	TD_IS_ENDED,
};
struct td_pool_job {
	enum td_job_know know;
	enum td_job_is is;
	// GONE by one read only. A poll must first show that not all of Slurm's state is gone.
	bool unproven;
	bool ours;             // it names this ask (by admin_comment, or by name and user)
	bool cancelled;        // it ended as CANCELLED
	bool started;          // it was given nodes at some time
	bool warned;           // its end was announced (preemption, time limit): it is near
	bool same_spec;        // it still asks for what the pod wants (excluded nodes included)
	struct td_grant grant; // when RUNNING
};
struct td_pool_ask {
	const char *uid;
	enum td_pool_pod_state pod;
	bool refused;   // no node could ever take it, or nobody may submit it
	bool has_grant; // the pod carries a grant in its annotations: the next field
	struct td_grant grant;
	bool fits_now;   // Slurm could start it now and nobody waits before it: try the fast path
	bool takes;      // its room is being taken from others: wait
	bool node_fits;  // (job RUNNING) the pod may still run on the granted node
	bool fenced;     // (job RUNNING) the node says that its devices went on to another job
	bool superseded; // (pod DONE) its agent ended it for that before it was told why
	bool short_of;   // (job RUNNING) Slurm names fewer devices than the pod asks for
	bool waited;     // `short_of` has lasted for a while
	bool lost_state; // mass-vanish: Slurm may have lost its state, so GONE proves nothing
};
enum td_pool_do {
	TD_DO_NOTHING,
	TD_DO_ALLOCATE, // try an immediate allocation, then TD_DO_SUBMIT
	TD_DO_SUBMIT,   // submit a batch stand-in
	TD_DO_LOOK,     // find or read the job
	TD_DO_SHOW,     // say on the pod why it waits
	TD_DO_WAIT,     // granted but not ready: look again soon
	TD_DO_UPDATE,   // write the job's excluded nodes anew
	TD_DO_BIND,
	TD_DO_END_JOB,
	TD_DO_END_POD,
	TD_DO_REFUSE, // say on the pod why it will never run
	TD_DO_FORGET, // nothing is left of it
};
struct td_pool_step {
	enum td_pool_do what;
	const char *why; // static text, for logs, events and scenarios
};
// Returns the next step of an ask.
struct td_pool_step td_pool_reconcile_ask(const struct td_pool_ask *a, const struct td_pool_job *j);
const char *td_pool_do_name(enum td_pool_do d); // "bind"

// True when at least 5 and more than 20 % of the watched jobs vanished between two reads. Then
// Slurm has lost its state, and nobody is evicted (docs/protocols.md 1.9).
bool td_pool_mass_vanish(size_t gone, size_t watched);

// ---- capacity ----

enum { TD_POOL_KINDS = 8 }; // at most this many kinds of GRES are counted
struct td_pool_want {
	int64_t cpus, memory_mb;
	int64_t gres[TD_POOL_KINDS]; // per kind; the caller numbers the kinds
	bool exclusive;
	// Of a gang: each member has a node of its own; and on how many nodes they may be, 0: any number.
	bool alone;
	int64_t nodes;
};
struct td_pool_node {
	const char *name;
	bool feasible; // by selectors and taints the pod may run there; a cordon does not count
	bool usable;   // Slurm could start a job there now
	int64_t cpus, memory_mb, gres[TD_POOL_KINDS]; // in total
	int64_t used_cpus, used_memory_mb, used_gres[TD_POOL_KINDS];
};
// Returns the index of a node where it fits now, or -1.
int td_pool_fits_now(const struct td_pool_node *nodes, size_t n, const struct td_pool_want *w);
// Says whether any node could ever take it. If none could, the reason in words goes to `why`, which
// has len bytes: "it asks for 9 gpu; no node that it may use has more than 8". kinds: the names of
// the kinds of GRES.
enum td_pool_fit { TD_FIT_NO_NODES, TD_FIT_NEVER, TD_FIT_SOME_DAY };
enum td_pool_fit td_pool_fits_ever(const struct td_pool_node *nodes, size_t n, const struct td_pool_want *w,
				   const char *const *kinds, char *why, size_t len);

// ---- one node, both sides (docs/protocols.md 2) ----

struct td_pool_node_facts {
	// From Kubernetes
	bool k8s;            // there is a Node object
	bool cordoned;       // spec.unschedulable
	const char *request; // annotation tandem.dev/drain, which asks for a drain; NULL: none
	const char *hold;    // annotation tandem.dev/hold: out of service for its health; NULL: it is not
	bool end_jobs;       // annotation tandem.dev/end-jobs: its jobs shall end
	const char *gate;    // a device was not released in time: the agent's words; NULL: none
	const char *devices; // its kubelet offers fewer than Slurm counts, in words; NULL: as many
	bool gate_alarm;     // td_pool_gate_alarm: no more nodes are drained for `gate`
	bool lost_state;     // the pool is stopped, because Slurm lost its state

	// From Slurm
	bool known;                 // false: the look-up failed or is old, so nothing is decided
	bool slurm;                 // Slurm has the node
	bool drain;                 // its flag DRAIN
	const char *reason, *words; // words: "draining", "down", …
	bool busy;                  // it has a job
	bool down;                  // its flag DOWN
	bool by_person;             // it is down by somebody's word, not because it is silent
	bool bad;                   // down, failed, not responding, …: worth showing
	bool reboot;                // somebody has asked for its reboot, which may drain it until then
	bool off;                   // powered down, or on its way up or down: worth showing
};
enum td_node_do { TD_NODE_LEAVE, TD_NODE_DRAIN, TD_NODE_UNDRAIN, TD_NODE_REASON, TD_NODE_DOWN };
enum { TD_POOL_REASON_MAX = 256 };
struct td_pool_node_plan {
	enum td_node_do slurm;
	char reason[TD_POOL_REASON_MAX]; // for DRAIN, REASON and DOWN; "": the one that stands stays

	// What the Kubernetes side should show
	bool decided; // false: leave it as it is
	bool foreign; // condition SlurmDrain=True
	bool taint;   // nothing that Slurm does not place goes there either: `foreign`, or a hold
	bool down;    // nor here: Slurm holds the node for dead
	// Annotations slurm-state and slurm-reason; NULL: removed. They point into the facts.
	const char *state, *text;
};
// Fills *ret, which points into *f.
void td_pool_node_causes(const struct td_pool_node_facts *f, struct td_pool_node_plan *ret);

// How often figures of a node that change all the time are written: TD_POOL_WRITES at once, then one every
// TD_POOL_WRITE_MS. Returns in how many ms one may be written. 0: now, and it is counted. *full_at: when all of
// them may be written at once again (mono, ms; 0 at first).
enum { TD_POOL_WRITES = 4, TD_POOL_WRITE_MS = 15000 };
int64_t td_pool_write_in(int64_t *full_at, int64_t now_ms);

// ---- who wrote the reason of a drain, and so may change it and lift the drain (reason.c) ----

enum td_pool_owner {
	TD_OWNER_OTHERS,   // a person, or nobody
	TD_OWNER_BRIDGE,   // cordons, requests, holds, gates, devices, a lost state
	TD_OWNER_OPERATOR, // updates, nodes that leave or are gone, slurmds that died
	TD_OWNER_TANDEM,   // "tandem: …" of some other part
	TD_OWNER_SLURM,    // Slurm itself: slurmd reported fewer devices than the record says
};
enum td_pool_owner td_pool_reason_owner(const char *reason);  // NULL: TD_OWNER_OTHERS
bool td_pool_reason_is(const char *reason, const char *what); // what: a TD_REASON_… of base/names.h
// True when any part of Tandem wrote it.
bool td_pool_reason_tandem(const char *reason);

// ---- Slurm's record of a node, reduced to what matters; slurm/states.h explains its states ----

struct td_pool_record {
	bool drain;  // its flag DRAIN
	bool down;   // Slurm holds it for dead: its jobs have ended
	bool bad;    // down, failed, not responding, …: no work, and nobody asked for that
	bool silent; // bad only for not responding; sinfo counts it as before ("idle*")

	bool jobs, mixed;   // a job runs or ends on it; mixed: it has room for more
	int64_t alloc_cpus; // a hint beside `jobs`
	const char *reason, *address;
	int64_t reason_at; // epoch seconds

	// A node that comes on demand (pool/nodeset.h).
	bool off;        // powered down, or on its way there: no slurmd belongs there
	bool rising;     // Slurm waits for its slurmd
	bool leaving;    // is powered down when its jobs are over
	int64_t busy_at; // when a job was on it last, epoch seconds; 0: not known
};
// True when a job may be on the node. NULL: false.
bool td_pool_record_busy(const struct td_pool_record *r);
enum td_pool_class {
	TD_CLASS_IDLE,
	TD_CLASS_MIXED,
	TD_CLASS_ALLOCATED,
	TD_CLASS_DRAINING,
	TD_CLASS_DRAINED,
	TD_CLASS_DOWN,
	TD_CLASS_OFF, // powered down; Slurm starts it for a job
};
// The one class in which a node is counted.
enum td_pool_class td_pool_record_class(const struct td_pool_record *r);

// ---- a condition in an object's status ----

#define TD_STATUS_TRUE "True"
#define TD_STATUS_FALSE "False"
#define TD_STATUS_UNKNOWN "Unknown"
struct td_pool_condition {
	const char *type, *status, *reason, *message;
};

// ---- words ----

// Explains Slurm's reason for a waiting job ("Resources", "QOSMaxGRESPerUser", …) in plain words.
// nodes: on how many it wants to run. NULL: the reason is not known.
const char *td_pool_reason_words(const char *slurm_reason, int64_t nodes);
// True when Slurm passes over a job that waits for this reason, whatever is free: it is held, waits
// for a moment or another job, is at a limit, or all its nodes are drained (docs/facts/slurm.md
// S-I3). Such a job stops nobody. One whose nodes others come first at (S-Q22) waits for its turn.
bool td_pool_reason_aside(const char *slurm_reason);
