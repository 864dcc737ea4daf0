// Slurm's REST API: what we ask of it, in our words; one adapter (vtable) per parser version behind it (v0.0.42 first).
//
// Success is HTTP 200 *and* what the call promises: a submit that answers 200 without a job id failed, one that answers
// 500 with a job id was done (docs/facts/slurm.md S-T3, S-T4). Codes: TD_NOT_FOUND (no such job or node), TD_DENIED,
// TD_INVALID (Slurm refused it for good: its words in err), TD_THROTTLED (a limit: later), TD_CONFLICT (the state
// changed under us: look again), TD_UNAUTHENTICATED (tokens are dropped and it was tried twice), TD_TRANSIENT (surely
// not done), TD_UNCERTAIN (may be done: look before you repeat). Thread-safe.
//
// err->detail: Slurm's error number where Slurm gave one (slurm_errno.h of 24.11).
//
// Strings in replies are owned by the reply and freed by its *_done.
#pragma once

#include "base/cancel.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "slurm/states.h"

enum {                               // error numbers that callers tell apart
	TD_SLURM_ERR_NOT_TOP = 2013, // ESLURM_NOT_TOP_PRIORITY: somebody waits before this job
	TD_SLURM_ERR_NO_NODE = 2018, // ESLURM_INVALID_NODE_NAME
};

struct td_slurm;
struct td_slurm_opts {
	const char *url; // "http://10.77.0.5:6820", or a socket: "unix:/var/lib/…/rest.sock"
	const void *key; // jwt_hs256.key, raw bytes
	size_t key_len;
	const char *user;             // acts as this user unless a call names one: root or SlurmUser. NULL: "root"
	int token_life_s;             // 0: 1200
	int64_t timeout_ms;           // per call; 0: 15 s
	const struct td_clock *clock; // NULL: the system's
};
int td_slurm_new(const struct td_slurm_opts *o, struct td_slurm **ret, struct td_error *err);
struct td_slurm *td_slurm_free(struct td_slurm *s);
TD_DEFINE_AUTO(struct td_slurm *, td_slurm_free)
const char *td_slurm_url(const struct td_slurm *s);
enum td_slurm_op {
	TD_SLURM_OTHER,
	TD_SLURM_ALLOCATE,
	TD_SLURM_SUBMIT,
	TD_SLURM_JOB_UPDATE,
	TD_SLURM_JOB_END,
	TD_SLURM_NODE_UPDATE,
	TD_SLURM_NODE_DELETE,
	TD_SLURM_JOB,
	TD_SLURM_JOBS,
	TD_SLURM_JOB_STATES,
	TD_SLURM_NODES,
	TD_SLURM_NODE,
	TD_SLURM_OPS,
};
const char *
td_slurm_op_name(enum td_slurm_op op); // "job-allocate": the label of its metrics, and part of its fault points' names
// 0: slurmctld answers and takes our token (a job's state is asked for: /ping lies, S-T2).
int td_slurm_check(struct td_slurm *s, struct td_cancel *c, struct td_error *err);

// ---- jobs ----
struct td_slurm_ask {              // what a job wants; NULL and 0 are left out
	const char *name, *script; // script: batch; allocate takes none
	const char *account, *partition, *qos, *constraints, *reservation, *licenses, *excluded_nodes, *required_nodes,
		*dependency, *comment;
	const char *admin_comment; // as SlurmUser or root only
	int64_t cpus;              // per task; one task, one node
	int64_t memory_mb;         // always sent: without it a job takes the whole node
	const char *tres_per_node; // "gres/gpu:2"
	int64_t time_limit_min;    // 0: the partition's default
	int nice;
	bool exclusive;
	bool exclusive_user; // its nodes run no job of another user
	bool warn_usr1;      // kill_warning_signal USR1 to the batch shell
	int warn_delay_s;    // before the time limit
};
// An immediate allocation: RUNNING inside the call, or TD_THROTTLED (no room, or somebody waits before us; it leaves a
// FAILED record: never try blindly). user NULL: our own.
int td_slurm_allocate(struct td_slurm *s, const char *user, const struct td_slurm_ask *a, struct td_cancel *c,
		      int64_t *ret_job, struct td_error *err);
int td_slurm_submit(struct td_slurm *s, const char *user, const struct td_slurm_ask *a, struct td_cancel *c,
		    int64_t *ret_job, struct td_error *err);

struct td_slurm_job_node {
	char *name;
	char *gres;  // "gpu:2(IDX:0-1)" as Slurm says it; "" when none
	char *cores; // core indexes on the node, "14-15"; "" when unknown
	int64_t cpus, memory_mb;
};
struct td_slurm_job {
	int64_t id;
	uint64_t states;
	char *name, *user, *account, *partition, *qos, *admin_comment, *comment, *reason, *description, *excluded_nodes,
		*nodes_text;
	int64_t uid, start, end, submit, preempt;              // epoch seconds; 0: not set
	int64_t restarts, priority, exit_code, time_limit_min; // time_limit 0: none
	int64_t want_cpus, want_memory_mb;
	bool batch, hold;
	struct td_slurm_job_node *nodes; // in Slurm's order
	size_t n_nodes;
};
void td_slurm_job_done(struct td_slurm_job *j);
#define td_auto_job __attribute__((cleanup(td_slurm_job_done)))
int td_slurm_job(struct td_slurm *s, int64_t id, struct td_cancel *c, struct td_slurm_job *ret, struct td_error *err);
// Every job, one at a time (the list of 5,000 jobs is 38 MB: it is never held whole). `each` returns non-zero to stop
// with that code. Expensive for slurmrestd (0.8 ms CPU per job): at start, after a gap, and as a slow safety net only.
int td_slurm_jobs(struct td_slurm *s, struct td_cancel *c, int (*each)(void *ctx, const struct td_slurm_job *j),
		  void *ctx, struct td_error *err);

struct td_slurm_state {
	int64_t id;
	uint64_t states;
};
struct td_slurm_states {
	struct td_slurm_state *v;
	size_t n, cap;
};
void td_slurm_states_done(struct td_slurm_states *l);
#define td_auto_states __attribute__((cleanup(td_slurm_states_done)))
// The cheap poll (80 bytes per job). ids NULL: all jobs. Ids that Slurm does not know are absent from the answer.
int td_slurm_job_states(struct td_slurm *s, const int64_t *ids, size_t n, struct td_cancel *c,
			struct td_slurm_states *ret, struct td_error *err);

struct td_slurm_job_change { // NULL and 0 are left alone
	const char *admin_comment, *excluded_nodes, *comment;
	bool release; // hold: false
};
int td_slurm_job_update(struct td_slurm *s, int64_t id, const struct td_slurm_job_change *ch, struct td_cancel *c,
			struct td_error *err);
// Ends the job of this id if its name is `name`: slurmctld compares it in the same breath, so that an id which went to
// somebody else ends nothing (TD_CONFLICT). Always as SlurmUser or root: a DELETE that is refused for lack of rights
// freezes slurmctld (S-T1). Already ended or unknown: TD_NOT_FOUND.
int td_slurm_job_end(struct td_slurm *s, int64_t id, const char *name, struct td_cancel *c, struct td_error *err);

// ---- nodes ----
struct td_slurm_node {
	char *name, *reason, *reason_by, *comment, *features, *address, *gres, *gres_used;
	uint64_t states;
	int64_t reason_at;                                    // epoch seconds
	int64_t cpus, alloc_cpus, memory_mb, alloc_memory_mb; // alloc_* lag (S-T8): hints only
	char *partitions;                                     // "all,debug"
};
struct td_slurm_nodes {
	struct td_slurm_node *v;
	size_t n, cap;
};
void td_slurm_nodes_done(struct td_slurm_nodes *l);
#define td_auto_nodes __attribute__((cleanup(td_slurm_nodes_done)))
int td_slurm_nodes(struct td_slurm *s, struct td_cancel *c, struct td_slurm_nodes *ret, struct td_error *err);
int td_slurm_node(struct td_slurm *s, const char *name, struct td_cancel *c, struct td_slurm_nodes *ret /* one */,
		  struct td_error *err);
const struct td_slurm_node *td_slurm_node_find(const struct td_slurm_nodes *l, const char *name); // NULL when absent
// state: "DRAIN", "DOWN", or NULL (only the reason). reason may be NULL: the old one stands; control characters are
// refused.
int td_slurm_node_update(struct td_slurm *s, const char *name, const char *state, const char *reason,
			 struct td_cancel *c, struct td_error *err);
// Leaves TD_SLURM_NO_REASON, never the reason that is over: no version can clear one, and when Slurm drains a node
// itself (by what its slurmd reported) it writes its reason over this one only.
#define TD_SLURM_NO_REASON "Not responding"
int td_slurm_node_undrain(struct td_slurm *s, const char *name, struct td_cancel *c, struct td_error *err);
int td_slurm_node_delete(struct td_slurm *s, const char *name, struct td_cancel *c, struct td_error *err);
// For what has no verb here: `method` on /slurm/<version><path>, body as JSON or NULL. Appends the whole reply to ret;
// 2xx only.
int td_slurm_raw(struct td_slurm *s, const char *method, const char *path, const char *body, struct td_cancel *c,
		 struct td_buf *ret, struct td_error *err);
