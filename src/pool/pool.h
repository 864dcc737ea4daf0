// The model of one pool and every decision about it: pure functions. No HTTP, no JSON, no clock, no memory of the past.
//
// Callers translate what both APIs say into these structs, ask, and carry out the answer: `facts` reads, `pool`
// decides, `act` acts. Every rule is one of docs/protocols.md; every decision bug adds a scenario to t/scenarios/.
// steps.h has the smaller decisions about an ask, nodeset.h and cluster.h the operator's.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- asks, jobs and grants (docs/protocols.md 1)
// ------------------------------------------------------------------------- A grant is what Slurm gave an ask: all of
// it is compared, because Slurm uses job ids again after a crash. Strings may be NULL (= "").
struct td_grant {
	int64_t job, start, restarts;
	const char *ask, *nodes, *devices; // devices: canonical text, as in the annotation tandem.dev/devices
};
// NULL when they are the same; else what differs first: "job id", "ask", "start time", "restart count", "nodes",
// "devices".
const char *td_grant_differs(const struct td_grant *a, const struct td_grant *b);

enum td_pod_state {
	TD_POD_GONE,    // no object with this UID: a quorum read or the watch said so
	TD_POD_WAITING, // not bound
	TD_POD_BOUND,
	TD_POD_LEAVING, // bound and being deleted: its containers may still run
	TD_POD_DONE,    // Succeeded or Failed
};
enum td_job_know {
	TD_JOB_NONE,   // the ask has no job
	TD_JOB_UNSURE, // a submit without a reply, or a job that was not read yet: look before anything else
	TD_JOB_GONE,   // Slurm does not know the id any more
	TD_JOB_READ,   // read: the fields below hold
};
enum td_job_is { // what its states mean, reduced to what decides
	TD_IS_UNKNOWN,
	TD_IS_PENDING,
	TD_IS_STARTING, // resources given, nodes or prolog not ready
	TD_IS_RUNNING,
	TD_IS_LOST, // suspended, resizing, stopped
	TD_IS_ENDED,
};
struct td_pool_job {
	enum td_job_know know;
	enum td_job_is is;
	bool unproven;         // GONE by one read only: a poll must show first that not all of Slurm's state is gone
	bool ours;             // it names this ask (admin_comment, or name and user)
	bool cancelled;        // ended as CANCELLED
	bool started;          // it was given nodes once
	bool warned;           // preemption or the time limit was announced: it is about to be killed
	bool same_spec;        // still asks for what the pod wants (excluded nodes included)
	struct td_grant grant; // when RUNNING
};
struct td_pool_ask {
	const char *uid;
	enum td_pod_state pod;
	bool refused;   // no node could ever take it, or nobody may submit it
	bool has_grant; // the pod carries one in its annotations
	struct td_grant grant;
	bool fits_now;   // Slurm could start it now and nobody waits before it: the fast path
	bool node_fits;  // (job RUNNING) the pod may still run on the node that was granted
	bool fenced;     // (job RUNNING) the node says that the devices of this very grant went on to another job
	bool superseded; // (done) its agent ended it, because the devices went on to another job
	bool short_of;   // (job RUNNING) Slurm does not name as many devices as the pod asks for
	bool waited;     // … and has not for a while
	bool lost_state; // mass-vanish: Slurm may have lost its state; GONE proves nothing
};
enum td_pool_do {
	TD_DO_NOTHING,
	TD_DO_ALLOCATE, // try an immediate allocation, then TD_DO_SUBMIT
	TD_DO_SUBMIT,   // a batch stand-in
	TD_DO_LOOK,     // find or read the job
	TD_DO_SHOW,     // say on the pod why it waits
	TD_DO_WAIT,     // granted but not ready: look again soon
	TD_DO_UPDATE,   // the job's excluded nodes are stale
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
struct td_pool_step td_pool_reconcile_ask(const struct td_pool_ask *a, const struct td_pool_job *j);
const char *td_pool_do_name(enum td_pool_do d); // "bind"

// More than 20 % of our asks' jobs, and at least 5, vanished between two reads: Slurm lost its state; evict nobody.
bool td_pool_mass_vanish(size_t gone, size_t watched);

// ---- capacity
// ---------------------------------------------------------------------------------------------------------------
enum { TD_POOL_KINDS = 8 }; // GRES kinds that are counted
struct td_pool_want {
	int64_t cpus, memory_mb;
	int64_t gres[TD_POOL_KINDS]; // per kind; kinds are numbered by the caller
	bool exclusive;
};
struct td_pool_node {
	const char *name;
	bool feasible; // the pod may run there (selectors, taints, cordon is not looked at)
	bool usable;   // could start a job now
	int64_t cpus, memory_mb, gres[TD_POOL_KINDS]; // all there is
	int64_t used_cpus, used_memory_mb, used_gres[TD_POOL_KINDS];
};
// Index of a node where it fits now, or -1.
int td_pool_fits_now(const struct td_pool_node *nodes, size_t n, const struct td_pool_want *w);
// Could any node ever take it? When not, the reason in words goes to `why` ("no node has 9 gpu (the largest has 8)").
// kinds: names of the GRES kinds.
enum td_pool_fit { TD_FIT_NO_NODES, TD_FIT_NEVER, TD_FIT_SOME_DAY };
enum td_pool_fit td_pool_fits_ever(const struct td_pool_node *nodes, size_t n, const struct td_pool_want *w,
				   const char *const *kinds, char *why, size_t len);

// ---- one node, both sides (docs/protocols.md 2)
// -----------------------------------------------------------------------
struct td_pool_node_facts {
	// Kubernetes
	bool k8s;            // there is a Node object
	bool cordoned;       // spec.unschedulable
	const char *request; // annotation tandem.dev/drain: somebody asks for a drain; NULL: nobody
	const char *gate;    // a device was not let go in time: the agent's words; NULL: none
	const char *devices; // its kubelet offers fewer than Slurm counts there: words; NULL: as many
	bool gate_alarm;     // so many nodes say that, that something else is wrong: no more of them are drained
	bool lost_state;     // the pool is stopped: Slurm lost its state
	// Slurm
	bool known;                 // false: the look-up failed or is old. Unknown is unknown: nothing is decided
	bool slurm;                 // Slurm has the node
	bool drain;                 // its DRAIN flag
	const char *reason, *words; // words: "draining", "down", …
	bool bad;                   // down, failed, not responding, …: worth showing
};
enum td_node_do { TD_NODE_LEAVE, TD_NODE_DRAIN, TD_NODE_UNDRAIN, TD_NODE_REASON };
enum { TD_POOL_REASON_MAX = 256 };
struct td_pool_node_plan {
	enum td_node_do slurm;
	char reason[TD_POOL_REASON_MAX]; // for DRAIN and REASON
	// What the Kubernetes side should show.
	bool decided;             // false: leave it as it is
	bool foreign;             // taint and condition SlurmDrain=True
	const char *state, *text; // annotations slurm-state and slurm-reason; NULL: removed. They point into the facts
};
void td_pool_node_causes(const struct td_pool_node_facts *f, struct td_pool_node_plan *ret);

// ---- whose the reason of a drain is: who may change it, and lift the drain (reason.c)
// -------------------------------------------
enum td_pool_owner {
	TD_OWNER_OTHERS,   // a person, or nobody
	TD_OWNER_BRIDGE,   // cordons, requests, gates, devices, a lost state
	TD_OWNER_OPERATOR, // updates, nodes that leave or are gone, slurmds that died
	TD_OWNER_TANDEM,   // "tandem: …" of some other part
	TD_OWNER_SLURM,    // Slurm itself: the slurmd reported fewer devices than the record says
};
enum td_pool_owner td_pool_reason_owner(const char *reason);  // NULL: of others
bool td_pool_reason_is(const char *reason, const char *what); // what: a TD_REASON_… of base/names.h
// Some part of Tandem wrote it.
bool td_pool_reason_tandem(const char *reason);

// ---- Slurm's record of a node, reduced to what decides; slurm/states.h says what its states mean
// -----------------------------------
struct td_pool_record {
	bool drain;         // its DRAIN flag
	bool down;          // Slurm holds it for dead: its jobs have ended
	bool bad;           // down, failed, not responding, …: Slurm gives it no work, and nobody asked for that
	bool silent;        // bad only because it does not respond: sinfo counts it as what it was ("idle*")
	bool jobs, mixed;   // a job is on it or ends; mixed: there is room for more
	int64_t alloc_cpus; // a hint beside `jobs`
	const char *reason, *address;
	int64_t reason_at; // epoch seconds
};
bool td_pool_record_busy(const struct td_pool_record *r); // a job may be on it; NULL: false
enum td_pool_class {
	TD_CLASS_IDLE,
	TD_CLASS_MIXED,
	TD_CLASS_ALLOCATED,
	TD_CLASS_DRAINING,
	TD_CLASS_DRAINED,
	TD_CLASS_DOWN
};
enum td_pool_class td_pool_record_class(const struct td_pool_record *r); // each node counts once

// ---- a condition of an object's status
// ---------------------------------------------------------------------------------------------
#define TD_STATUS_TRUE "True"
#define TD_STATUS_FALSE "False"
#define TD_STATUS_UNKNOWN "Unknown"
struct td_pool_condition {
	const char *type, *status, *reason, *message;
};

// ---- words
// ------------------------------------------------------------------------------------------------------------------------
// Slurm's reason for a waiting job ("Resources", "QOSMaxGRESPerUser", …) in plain words.
const char *td_pool_reason_words(const char *slurm_reason);
