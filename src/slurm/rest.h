// The client of slurmrestd, Slurm's REST API. An adapter (vtable) translates for the parser versions
// of it that have one shape; the only one is that of v0.0.42 to v0.0.44. It asks for the first of
// them that slurmrestd has, and finds another one by itself when slurmrestd is replaced. Thread-safe.
//
// A call succeeded when Slurm did what the call promises, not when HTTP says 200: a submit that
// answers 200 without a job id failed, and one that answers 500 with a job id succeeded
// (docs/facts/slurm.md S-T3, S-T4).
//
// Errors:
//   TD_NOT_FOUND         there is no such job or node
//   TD_DENIED            Slurm does not permit it
//   TD_INVALID           Slurm refused it for good; err has Slurm's words
//   TD_THROTTLED         a limit, or no room: try later
//   TD_CONFLICT          the state changed meanwhile: read it again
//   TD_UNAUTHENTICATED   the token was refused; after HTTP 511 a fresh one was refused, too
//   TD_UNSUPPORTED       slurmrestd has no such request, or none of the parser versions
//   TD_TRANSIENT         surely not done
//   TD_UNCERTAIN         may be done: look before you repeat it
// err->detail is Slurm's error number (slurm_errno.h of 24.11) where Slurm gave one.
//
// A reply owns its strings; its *_done function frees them.
#pragma once

#include "base/cancel.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "slurm/states.h"

// Slurm's error numbers that callers tell apart.
enum {
	TD_SLURM_ERR_USER = 2010,    // ESLURM_USER_ID_MISSING: nobody of this number asks (S-A5)
	TD_SLURM_ERR_NOT_TOP = 2013, // ESLURM_NOT_TOP_PRIORITY: another job waits before this one
	TD_SLURM_ERR_CONFIG = 2014,  // ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE: no node has that
	TD_SLURM_ERR_NO_NODE = 2018, // ESLURM_INVALID_NODE_NAME
	TD_SLURM_ERR_ACCOUNT = 2045, // ESLURM_INVALID_ACCOUNT: the user is not in it
	TD_SLURM_ERR_POLICY = 2050,  // ESLURM_ACCOUNTING_POLICY: a limit of its account or QOS
	TD_SLURM_ERR_QOS = 2066,     // ESLURM_INVALID_QOS
};

struct td_slurm;
struct td_slurm_opts {
	const char *url; // "http://10.77.0.5:6820", or a socket: "unix:/var/lib/…/rest.sock"
	const void *key; // jwt_hs256.key, raw bytes; copied
	size_t key_len;
	const char *user;             // root or SlurmUser, for calls without a user; NULL: "root"
	int token_life_s;             // 0: 1200
	int64_t timeout_ms;           // per call; 0: 15,000
	const struct td_clock *clock; // NULL: the system's
};
// Does not connect yet, but opens the directory of a socket: TD_TRANSIENT when it does not exist.
int td_slurm_new(const struct td_slurm_opts *o, struct td_slurm **ret, struct td_error *err);
struct td_slurm *td_slurm_free(struct td_slurm *s);
TD_DEFINE_AUTO(struct td_slurm *, td_slurm_free)
// Ends the calls that are under way, and every later one, as if slurmrestd had closed the
// connection.
void td_slurm_stop(struct td_slurm *s);
const char *td_slurm_url(const struct td_slurm *s);
// Did a call fail because no answer came, or none that can be read? err names an address then, which helps in a log only:
// say to people that Slurm does not answer. false where Slurm answered, whatever it said.
bool td_slurm_is_silence(const struct td_error *err);
// Was the token of the last call refused? The key may be another one since: read it again.
bool td_slurm_is_refused(const struct td_slurm *s);
enum td_slurm_op {
	TD_SLURM_OTHER,
	TD_SLURM_ALLOCATE,
	TD_SLURM_SUBMIT,
	TD_SLURM_JOB_UPDATE,
	TD_SLURM_JOB_END,
	TD_SLURM_NODE_UPDATE,
	TD_SLURM_NODE_DELETE,
	TD_SLURM_JOB,
	TD_SLURM_JOB_STATES,
	TD_SLURM_NODES,
	TD_SLURM_NODE,
	TD_SLURM_ACCOUNTING, // accounts.h
	TD_SLURM_OPS,
};
// "job-allocate" and the like: the label of the operation's metrics, and part of the names of its
// fault points.
const char *td_slurm_op_name(enum td_slurm_op op);
// 0 when slurmctld answers and accepts the token. It asks for the state of a job, because /ping
// also answers 200 to a bad token (S-T2).
int td_slurm_check(struct td_slurm *s, struct td_cancel *c, struct td_error *err);

// ---- jobs ----
// What a job asks for. NULL and 0 are not sent.
struct td_slurm_ask {
	const char *name, *script; // script: of a batch job; not sent by td_slurm_allocate()
	const char *account, *partition, *qos, *constraints, *reservation, *licenses, *excluded_nodes, *required_nodes,
		*dependency, *comment;
	const char *admin_comment; // only SlurmUser and root may set it
	// The owner's number, where it is known: without, 24.11 makes a job of nobody's of a name that
	// slurmctld does not know yet (S-A5); with it, that is TD_DENIED with detail TD_SLURM_ERR_USER.
	int64_t uid;
	// 0: one task on one node. Else so many tasks on as many nodes as Slurm likes, each with `cpus`
	// and tres_per_task; memory_mb is then of one task, and is sent per CPU, because a node gets as
	// many tasks as fit there.
	int64_t tasks;
	int64_t most_nodes; // with tasks: on at most so many; 0: any number
	bool alone;         // with tasks: each on a node of its own
	int64_t segment;    // nodes of a segment, which lies in one block (topology/block); 0: none
	int64_t cpus;       // of one task; 0: 1
	// Per node. Always sent, because a job without it takes all memory (S-T10).
	int64_t memory_mb;
	const char *tres_per_node; // "gres/gpu:2"; with `tasks` it is sent as tres_per_task
	int64_t time_limit_min;    // 0: the partition's default
	int64_t begin;             // epoch seconds: it does not start before; 0: at once. Only td_slurm_submit().
	int nice;
	int64_t priority; // fixed, whatever Slurm would compute; only of an operator; 0: not sent
	bool no_limit;    // of time
	bool exclusive;
	bool exclusive_user; // its nodes run no job of another user
	// Signal USR1 to the batch shell (kill_warning_signal) before time limit and preemption.
	bool warn_usr1;
	int warn_delay_s; // so long before the time limit
};
// Both submit a job. user: who owns it; NULL: the client's own user. td_slurm_allocate() makes an
// immediate allocation, which is RUNNING when the call returns (S-I1; an exception is S-T15).
// TD_THROTTLED: there is no room, or another job waits before it. A refused one leaves a FAILED job
// record (S-I4): do not try blindly.
int td_slurm_allocate(struct td_slurm *s, const char *user, const struct td_slurm_ask *a, struct td_cancel *c,
		      int64_t *ret_job, struct td_error *err);
int td_slurm_submit(struct td_slurm *s, const char *user, const struct td_slurm_ask *a, struct td_cancel *c,
		    int64_t *ret_job, struct td_error *err);

struct td_slurm_job_node {
	char *name;
	char *gres;  // as Slurm writes it, "gpu:2(IDX:0-1)"; "": none
	char *cores; // core indexes on the node, "14-15"; "": unknown
	int64_t cpus, memory_mb;
};
struct td_slurm_job {
	int64_t id;
	uint64_t states;
	char *name, *user, *account, *partition, *qos, *admin_comment, *comment, *reason, *description, *excluded_nodes,
		*nodes_text;
	int64_t uid, start, end, submit, preempt, eligible;    // times: epoch seconds; 0: not set. eligible: its begin
	int64_t restarts, priority, exit_code, time_limit_min; // time_limit_min 0: no limit
	int64_t exit_signal;                                   // what ended its script; 0: none
	int64_t want_cpus, want_memory_mb, want_nodes;
	// What else it asks for, as a look at who waits needs it; 0 and "": not said.
	int64_t want_tasks, want_tasks_per_node, want_cpus_per_task, want_memory_per_cpu_mb;
	char *required_nodes, *tres_per_node, *tres_per_job, *tres_per_task, *tres_per_socket;
	char *shared; // "none": whole nodes
	int64_t nice;
	char *tres_req, *tres_alloc; // "cpu=2,mem=100M,node=1,billing=2,gres/gpu=4"; "": none
	// array: the id of its array; 0: it is in none. task: its index there; -1: this record stands for
	// all tasks that wait, which `tasks` lists ("2-5%2").
	int64_t array, task;
	char *tasks;
	bool batch, hold;
	struct td_slurm_job_node *nodes; // in Slurm's order; none before it was given nodes
	size_t n_nodes;
};
void td_slurm_job_done(struct td_slurm_job *j);
#define td_auto_job __attribute__((cleanup(td_slurm_job_done)))
int td_slurm_job(struct td_slurm *s, int64_t id, struct td_cancel *c, struct td_slurm_job *ret, struct td_error *err);
// The records of a job: one; or of an array each task that has begun, and one for all that wait.
struct td_slurm_job_list {
	struct td_slurm_job *v;
	size_t n;
};
void td_slurm_job_list_done(struct td_slurm_job_list *l);
#define td_auto_job_list __attribute__((cleanup(td_slurm_job_list_done)))
int td_slurm_job_records(struct td_slurm *s, int64_t id, struct td_cancel *c, struct td_slurm_job_list *ret,
			 struct td_error *err);
// Whether a list of tasks, as Slurm writes it ("0-3,7,10-20:2%4"), has this one.
bool td_slurm_tasks_has(const char *tasks, int64_t task);
// How many tasks such a list has.
int64_t td_slurm_tasks_count(const char *tasks);
struct td_slurm_state {
	int64_t id;
	uint64_t states;
	bool part; // a task of an array, or a part of a heterogeneous job; only in a list of all
};
struct td_slurm_states {
	struct td_slurm_state *v;
	size_t n, cap;
};
void td_slurm_states_done(struct td_slurm_states *l);
#define td_auto_states __attribute__((cleanup(td_slurm_states_done)))
// The cheap poll (80 bytes a job; S-W1). ids NULL: all jobs. Ids that Slurm does not know are
// absent from the answer.
int td_slurm_job_states(struct td_slurm *s, const int64_t *ids, size_t n, struct td_cancel *c,
			struct td_slurm_states *ret, struct td_error *err);
// The same of all jobs, sorted, with array tasks and parts of heterogeneous jobs, each under the id that its record
// has: tasks of an array that wait have one record, that of the array, and come once.
int td_slurm_job_states_all(struct td_slurm *s, struct td_cancel *c, struct td_slurm_states *ret, struct td_error *err);
// What a list of TRES has of one ("cpu", "mem" in MB, "gres/gpu"); 0: nothing, or it cannot be read.
int64_t td_slurm_tres_of(const char *list, const char *name);

// A change of a job. NULL and false change nothing.
struct td_slurm_job_change {
	// excluded_nodes "" clears the list (S-J7).
	const char *admin_comment, *excluded_nodes, *comment;
	bool release; // a held job
	int nice;     // below 0 it raises the job (S-J5); 0 counts with nice_too
	bool nice_too;
	// Added to the priority of a job that waits, beside all that Slurm computes; 0 with site: nothing (S-Q9).
	bool site;
	int64_t site_factor;
	int64_t time_limit_min; // 0: stays
	int64_t begin;          // epoch seconds: it does not start before; 0: stays
	bool no_requeue;        // it ends when it is preempted or its node fails
};
int td_slurm_job_update(struct td_slurm *s, int64_t id, const struct td_slurm_job_change *ch, struct td_cancel *c,
			struct td_error *err);
// Ends the job with this id if its name is `name`. slurmctld itself compares the name as it ends
// the job, so an id that went to another job ends nothing (TD_CONFLICT; S-J13). Always sent as
// SlurmUser or root: a DELETE that is refused for lack of rights freezes slurmctld (S-T1).
// TD_NOT_FOUND: the job has ended already, or is unknown.
//
// td_slurm_job_signal() sends it a signal instead, with the same guard: to all processes of its steps, as scancel does, or
// to its script alone (S-E11).
struct td_slurm_signal {
	const char *name; // "USR1"
	bool batch;       // to its script alone
};
int td_slurm_job_signal(struct td_slurm *s, int64_t id, const char *name, const struct td_slurm_signal *signal,
			struct td_cancel *c, struct td_error *err);
int td_slurm_job_end(struct td_slurm *s, int64_t id, const char *name, struct td_cancel *c, struct td_error *err);

// ---- nodes ----
struct td_slurm_node {
	char *name, *reason, *reason_by, *comment, *features, *address, *gres, *gres_used;
	char *arch;  // "x86_64"; "": its slurmd never said
	int release; // of its slurmd: 2411; 0: it never said
	uint64_t states;
	int64_t reason_at; // epoch seconds
	int64_t busy_at;   // when a job was on it last, or it came, epoch seconds; 0: not known
	// alloc_* lag, so they are hints (S-T8).
	int64_t cpus, alloc_cpus, memory_mb, alloc_memory_mb; // what jobs may have, and have
	int64_t kept_cpus, kept_memory_mb; // what they may not: CpuSpecList, CoreSpecCount, MemSpecLimit
	int64_t sockets;                   // 0: not known
	char *partitions;                  // "all,debug"
	char *active;                      // those of its features that jobs can ask for now
	int64_t seen_ms;                   // mono: when it was asked for by itself (view.h); 0: it was not
};
struct td_slurm_nodes {
	struct td_slurm_node *v;
	size_t n, cap;
	uint64_t print; // of their names and GRES, of which two lists with one print have the same; 0: not known
	int64_t at;     // slurmctld's clock as it made the list, epoch seconds; 0: not known
	char *release;  // of slurmrestd: "24.11.5"; "": not said
};
void td_slurm_nodes_done(struct td_slurm_nodes *l);
#define td_auto_nodes __attribute__((cleanup(td_slurm_nodes_done)))
// Copies a list.
void td_slurm_nodes_copy(const struct td_slurm_nodes *l, struct td_slurm_nodes *ret);
// Puts the one node of `one` in the place of the node of that name; what was there is in `one` afterwards. Nothing
// happens where there is none.
void td_slurm_nodes_put(struct td_slurm_nodes *l, struct td_slurm_nodes *one);
// How many nodes there may be: their list is waited for so much longer than other answers. By the thread that reads it.
void td_slurm_expect(struct td_slurm *s, size_t nodes);
// Reads all nodes, sorted by name.
int td_slurm_nodes(struct td_slurm *s, struct td_cancel *c, struct td_slurm_nodes *ret, struct td_error *err);
// Has any node changed at or after `since` (slurmctld's clock, epoch seconds)? Costs no list (S-W4).
int td_slurm_nodes_changed(struct td_slurm *s, int64_t since, struct td_cancel *c, bool *ret, struct td_error *err);
// Reads one node into ret->v[0].
int td_slurm_node(struct td_slurm *s, const char *name, struct td_cancel *c, struct td_slurm_nodes *ret,
		  struct td_error *err);
// Points into l, which is sorted by name. NULL: absent.
const struct td_slurm_node *td_slurm_node_find(const struct td_slurm_nodes *l, const char *name);
// Whether each node of l is among the names; those that there are not are left out. Caller frees.
bool *td_slurm_nodes_in(const struct td_slurm_nodes *l, const struct td_strv *names);
// state: "DRAIN" or "DOWN", or several with commas between them; NULL: only the reason changes.
// reason NULL: the old one stays.
// TD_INVALID for a reason with control characters.
int td_slurm_node_update(struct td_slurm *s, const char *name, const char *state, const char *reason,
			 struct td_cancel *c, struct td_error *err);
// Lifts the drain and sets the reason TD_REASON_NONE. Refused (2028) while the node's registration is invalid; the
// reason is set nevertheless.
int td_slurm_node_undrain(struct td_slurm *s, const char *name, struct td_cancel *c, struct td_error *err);
// Sets a node's features, comma lists: those that it can have, and those of them that it has now. They
// outlive a reconfiguration, and go when its record is made anew.
int td_slurm_node_features(struct td_slurm *s, const char *name, const char *features, const char *active,
			   struct td_cancel *c, struct td_error *err);
int td_slurm_node_delete(struct td_slurm *s, const char *name, struct td_cancel *c, struct td_error *err);
// For requests without a function of their own: `method` on /slurm/<version><path>, with a JSON
// body or NULL. Appends the whole reply to ret when its status is 2xx.
int td_slurm_raw(struct td_slurm *s, const char *method, const char *path, const char *body, struct td_cancel *c,
		 struct td_buf *ret, struct td_error *err);
