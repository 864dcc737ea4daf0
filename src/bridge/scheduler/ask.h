// The asks that the bridge knows: one per pod UID, with what was last seen of its stand-in job.
//
// The worker that processes the ask's key writes the fields under "worker", and reads them without
// a lock. Other threads read some of them (job, know, states, nodes, devices, …) under the table's
// lock; the worker writes those under the lock, too. Anybody may write the fields under "inbox",
// under the lock. Asks are reference-counted; the table holds one reference until td_ask_forget().
//
// Times: *_ms are milliseconds, "mono" of the monotonic clock, "epoch" since 1970.
#pragma once

#include "bridge/bridge.h"
#include "bridge/scheduler/want.h"
#include "pool/preempt.h"
#include "pool/steps.h"
#include "pool/straggle.h"

#include <uthash.h>

struct td_ask_wait;
// What was said of, and done to, one pod of an ask.
struct td_ask_pod {
	char uid[40];
	char *said;        // message of the condition that was written on it
	int64_t said_ms;   // mono
	int64_t hang_said; // which stand-still was told of: when its condition became True, epoch ms; 0: none
	// How much its devices computed (straggle.c): as its agent said last, and of the time since all of its gang were
	// compared; use_slow: how often one after the other it was less than the others.
	double use_busy, use_all, use;
	bool use_fresh;
	int use_slow;
	// What its agent says of its steps (straggle.c), since when (mono), and what was seen of that.
	int64_t pace_us, pace_ms;
	struct td_pool_straggle_rank pace;
	bool bound_sent;
	unsigned ending_sent; // a bit for each enum td_pool_ending_do that was carried out
};
struct td_ask_yields {         // it makes room for another one (victim.h)
	struct td_grant grant; // what was chosen: job, start and restarts
	int64_t waiter;        // job; 0: it was not told
	int64_t told_ms;       // mono
	char *why;
};
struct td_ask_part {                  // what a gang's job has on one node
	char *node, *devices, *cores; // devices: as td_devices_text(); "?": Slurm does not name them
	int64_t cpus, memory_mb;
};
struct td_ask {
	char uid[40];
	int refs;
	char *key;                      // "ns/name"; "uid:<uid>" until a pod with this UID is seen
	UT_hash_handle hh;              // by uid
	struct td_ask *by_key, *by_job; // next in the same bucket

	// ---- worker ----
	enum td_job_know know;
	int64_t job;     // 0: none known
	bool batch;      // a batch stand-in; else an immediate allocation
	uint64_t states; // of the last read
	// named: the job's mark has this UID. started: it was given nodes once. prolog: its reason
	// is Prolog. passed: its stand-in has knocked, so the prolog has passed. warned: its end
	// was announced.
	bool named, started, prolog, passed, warned;
	// The job's record. start, end, preempt and expect (the start that Slurm expects) are epoch
	// seconds; 0: not set.
	int64_t start, restarts, end, preempt, expect, limit_min, has_cpus, has_memory_mb;
	int64_t got_cpus; // of its node
	int64_t res_tag;  // tag of its entry in td_asks.res while a submit is under way; 0: none
	char *nodes, *devices, *cpus, *reason, *excluded, *job_user, *job_name, *qos;
	char *note;       // the admin comment that its job gets at its end, as far as is known; NULL: nothing is
	char *line;       // whose time its runs count in, as td_ran_key(); NULL: in none's, or not known
	char *user;       // Slurm user that the namespace maps to
	int64_t read_ms;  // mono: when the job was read last
	int64_t asked_ms; // mono: when the last submit was sent; older listings say nothing of it
	// Mono: the job is not read before, because a prolog takes its time. A knock overrides it.
	int64_t not_before;
	// Mono: a poll has shown the batch job running; until then the bridge waits for its knock
	// instead of reading.
	int64_t knock_ms;
	int64_t retry_ms;     // mono: no submit before
	int64_t bind_ms;      // mono: when its job's Bindings were first due (of a gang); 0: not yet
	int64_t allocated_ms; // mono: when Slurm made the allocation; 0: nothing to measure
	bool burst;           // many were being prepared at that time
	int64_t seen_ms;      // epoch: when the pod was first seen
	int64_t made_ms;      // mono: when the ask was made; its pod is older
	int64_t ended_ms;     // mono: when the stand-in was told to end; 0: it was not
	// waits: reads that still showed the prolog. fails: submits since the last Binding.
	int waits, fails;
	bool end_noted;  // its admin comment says how its pods ended
	bool cache_said; // that of an orphan: the cache has no pods of its gang (reconcile.c)
	bool admin_set, queued_said, granted_said;
	int64_t over_said;     // the job that was said to be over before its pod was bound; 0: none
	bool prefixed;         // its comment was submitted with a prefix for our plug-in (passes.h)
	struct td_ask_pod own; // of a lone pod
	// A gang (gang.h): how many members it needs, what is kept of each that is there, and what
	// its job has on each node, in Slurm's order. `devices` and `cpus` are then not set.
	size_t size;       // 0: a lone pod
	size_t now;        // so many pods it was made from: the others come later; 0: all
	size_t tasks;      // that its job has, and how many CPUs each has; 0: not known, one for each member
	int64_t task_cpus; // of the job's record
	char *roles;       // how many members each role has ("launcher=1,worker=4"); NULL: they have none
	char *later;       // what those who come later ask for, as the owner says; NULL: it says nothing
	int64_t most;      // pods that there may be, in all
	int64_t beyond;    // of a pod beyond the core of its gang: how many members that has; else 0
	struct td_ask_pod *members;
	size_t n_members;
	struct td_ask_part *parts;
	size_t n_parts;
	// Of what its members say of their steps (straggle.c): when it was judged last (mono), how often, how often one was
	// told of, and whether a node left service for it.
	int64_t pace_judged_ms;
	int pace_looks, pace_tells;
	bool pace_drained;
	bool counted;             // in td_asks.pending
	struct td_ask_wait *wait; // what it asks for, while it waits; NULL: not known (waits.c)
	// td_bridge.feas_gen for which `excluded` was computed; td_slurm_snapshot.whole for which
	// Slurm refused an immediate allocation.
	uint64_t feas_gen, no_fast_gen;
	char read_rv[24]; // resourceVersion of the pod that facts.c translated last
	// What its Binding takes from its node (counted.c): counted devices, CPU in m, bytes.
	int64_t taking, taking_milli, taking_memory;
	char *refused; // why it will never run; NULL: not refused
	char *why;     // the last decision in words, for `tandem why`

	// ---- inbox ----
	uint64_t polled; // states of the last poll
	bool look;       // the job must be read
	// A poll has shown the job absent, and the mass-vanish rule was applied to that.
	bool gone_seen;
	int64_t born_s;  // epoch seconds: when its job was submitted or started
	bool usr1;       // its stand-in was signalled USR1
	int64_t knocked; // job id whose stand-in has knocked: its prolog has passed
	struct td_ask_yields yields;
	int exit_code;     // what the stand-in exits with
	int64_t found;     // job id that a listing or a knock found for it
	int64_t listed_ms; // mono: when the last complete listing without it was asked for
};

// That an ask's job has something on a node.
struct td_ask_at {
	struct td_ask *ask;
	size_t part; // TD_ASK_LONE: a->nodes; else which of a->parts
	struct td_ask_at *next;
};
#define TD_ASK_LONE SIZE_MAX

struct td_asks {
	pthread_mutex_t lock; // guards everything here and the shared fields of the asks
	struct td_ask *by_uid;
	struct td_ask_at *nodes[4096];          // buckets by node
	struct td_ask *keys[4096], *jobs[4096]; // buckets by key and by job id
	size_t pending;                         // asks whose job waits in Slurm's queue
	uint64_t pending_gen;                   // grows with every change of that set
	// Resources that Slurm gave, or was asked for, since the last look at the nodes (the fast
	// path, room.c).
	struct td_reservation {
		int64_t at_ms, cpus, memory_mb; // at_ms: mono
		int64_t gres[TD_POOL_KINDS];
		char kinds[TD_POOL_KINDS][64];
		char node[256]; // "": Slurm has not said where
		int64_t job;    // negative: a tag, while the submit is under way
	} *res;
	size_t n_res, cap_res;
	int64_t res_tag; // the last tag given out
	struct td_pool_block block;
	int64_t vain_ms; // mono: when an allocation was raised in vain; 0: none was
};
struct td_asks *td_asks_new(void);
struct td_asks *td_asks_free(struct td_asks *t);

// Returns a reference, or NULL.
struct td_ask *td_ask_get(struct td_asks *t, const char *uid);
// Returns a reference to the ask of this UID, which is made when it does not exist. A key "uid:…"
// is replaced by `key`.
struct td_ask *td_ask_ensure(struct td_asks *t, const char *uid, const char *key, bool *ret_new);
// An ask has this job. For td_slurm_view_sweep().
bool td_asks_want_job(void *asks, int64_t job);
// Both tell every ask that holds the job id what a poll said, and add the keys of these asks to
// ret. Two asks may hold one id after a rollback of slurmctld. td_asks_gone() adds an ask only the
// first time.
void td_asks_polled(struct td_asks *t, int64_t job, uint64_t states, struct td_strv *ret);
void td_asks_gone(struct td_asks *t, int64_t job, struct td_strv *ret);
// Returns a reference, or NULL.
struct td_ask *td_ask_by_job(struct td_asks *t, int64_t job);
// Fills ret with references, at most max, and returns how many.
size_t td_asks_of_key(struct td_asks *t, const char *key, struct td_ask **ret, size_t max);
// References to all asks. Caller unrefs them and frees the array.
void td_asks_all(struct td_asks *t, struct td_ask ***ret, size_t *ret_n);
// Another job id resets what was known of the last one. 0: no job.
void td_ask_set_job(struct td_asks *t, struct td_ask *a, int64_t job);
// Takes the ask out of the table.
void td_ask_forget(struct td_asks *t, struct td_ask *a);
struct td_ask *td_ask_ref(struct td_ask *a); // NULL: NULL
struct td_ask *td_ask_unref(struct td_ask *a);
TD_DEFINE_AUTO(struct td_ask *, td_ask_unref)
// Counts the ask among td_asks.pending, or no longer.
void td_ask_pending(struct td_asks *t, struct td_ask *a, bool pending);
// No Binding of its pods is on its way any more.
void td_ask_unbound(struct td_ask *a);
// The bucket of a node, in which others may be, too: see td_ask_at_node(). td_asks.lock is held.
const struct td_ask_at *td_asks_at_locked(const struct td_asks *t, const char *node);
// What the ask has on exactly this node; NULL: nothing by this entry, or it is of a lone pod (*ret_lone).
const struct td_ask_part *td_ask_at_node(const struct td_ask_at *x, const char *node, bool *ret_lone);
// Replaces a->nodes by a copy of s, under the lock.
void td_ask_set_nodes(struct td_asks *t, struct td_ask *a, const char *s);
// Replaces the parts of a gang's grant, under the lock. The ask owns v, its strings too.
void td_ask_set_parts(struct td_asks *t, struct td_ask *a, struct td_ask_part *v, size_t n);
// How many tasks its job has, or will; 0: it is a lone pod's.
static inline size_t td_ask_tasks(const struct td_ask *a)
{
	return a->size && a->tasks ? a->tasks : a->size;
}
// Replaces a string of an ask by a copy of s, under the lock.
void td_ask_str(struct td_asks *t, char **field, const char *s);

// ---- reconcile.c ----
// Reconciles the asks of one key. Called by the workers of pod_queue.
int td_scheduler_reconcile(void *bridge, const char *key, int64_t *again_ms, struct td_cancel *c, struct td_error *err);
// ---- adopt.c ----
// Reads one complete listing of Slurm's jobs into the table.
int td_scheduler_list(struct td_bridge *b, struct td_slurm *s, struct td_cancel *c, struct td_error *err);
void td_ask_foreign_free(struct td_ask_foreign *o);
// Reads a job that stands for this ask beside another one, and ends it if it still does.
void td_end_extra(struct td_bridge *b, const struct td_settings *s, struct td_slurm *slurm, int64_t job,
		  const char *uid, struct td_cancel *c);
// ---- job.c ----
// Takes a job's record over into its ask.
void td_ask_take(struct td_bridge *b, const struct td_settings *s, struct td_ask *a, const struct td_slurm_job *j);
// Reads the ask's job from Slurm. A job that Slurm does not know is no error: a->know becomes
// TD_JOB_GONE.
int td_ask_read(struct td_bridge *b, const struct td_settings *s, struct td_slurm *slurm, struct td_ask *a,
		struct td_cancel *c, struct td_error *err);
// What states mean to the pool. The prolog is not considered.
enum td_job_is td_ask_is(uint64_t states);
// The job as the pool's decision needs it. Strings of the grant point into a.
void td_ask_job(struct td_bridge *b, struct td_ask *a, bool same_spec, struct td_pool_job *ret);
// ---- waits.c ----
// Notes what the ask asks for.
void td_ask_waits_for(struct td_asks *t, struct td_ask *a, const struct td_want *w);
struct td_ask_wait *td_ask_wait_unref(struct td_ask_wait *w);
// ---- room.c: the fast path ----
// True when Slurm could start the ask now without taking anything from an ask that waits. The
// resources are then reserved in the bridge's view, under a->res_tag, and w->avoid is set.
bool td_ask_fits_now(struct td_bridge *b, const struct td_settings *s, struct td_ask *a, const struct td_object *pod,
		     struct td_want *w);
// The ask's reservation belongs to this job now. 0: it is dropped.
void td_room_given(struct td_bridge *b, struct td_ask *a, int64_t job);
// Slurm has said on which node the job runs. cpus: of a gang's job, so many CPUs of it; 0: all.
void td_room_where(struct td_bridge *b, int64_t job, const char *node, int64_t cpus);
// Slurm refused an immediate allocation: the ask is not tried again for the same state of the pool.
// raised: although it should have gone past those who wait.
void td_room_refused(struct td_bridge *b, struct td_ask *a, bool raised, const struct td_error *e);
// Refuses (TD_INVALID) a type of devices that no node has. Nothing is refused while Slurm's nodes are not known, nor what a
// GPU may be cut in: that waits (TD_NOT_FOUND; bridge/cuts.h).
struct td_want;
struct td_bridge_run;
int td_ask_types(const struct td_bridge_run *run, const struct td_object *pod, const struct td_want *w,
		 struct td_error *err);
// For each node of l: may the pod run there? Caller frees.
bool *td_room_feasible(struct td_bridge *b, const struct td_object *pod, const struct td_slurm_nodes *l);
// ---- submit.c ----
// The batch script of a stand-in. Caller frees.
char *td_bridge_standin_script(const struct td_bridge_opts *o, const char *uid, const char *token);
// ---- end.c ----
// Raises the pod's epoch, so that a Binding that an earlier leader decided on fails
// (docs/protocols.md 1.5). rv: the resourceVersion that the pod must have; NULL: any.
int td_ask_raise_epoch(struct td_bridge *b, const struct td_object *pod, const char *rv, struct td_cancel *c,
		       struct td_error *err);
// ---- claims_write.c: ResourceClaims (docs/design/0011-dra.md) ----
struct td_claims;
// Makes the informers of claims, slices and classes, when the API server serves them.
int td_claims_watch(struct td_bridge *b, struct td_cancel *c, struct td_error *err);
// What the pod's claims ask for, as td_claims_read(); nothing for a pod without claims.
int td_ask_claims(struct td_bridge *b, const struct td_settings *s, const struct td_object *pod, struct td_claims *ret,
		  struct td_error *err);
// How many devices they ask for; 0 when that is not known.
long long td_ask_claimed(struct td_bridge *b, const struct td_settings *s, const struct td_object *pod);
// Before the Binding: allocates the pod's claims to exactly the devices of the grant and reserves
// them for the pod. TD_THROTTLED: the node's devices are not published now. TD_EXPIRED: decide
// again after the next watch event. TD_NOT_FOUND, TD_INVALID: the grant cannot be used; err says
// why.
int td_ask_claims_give(struct td_bridge *b, const struct td_settings *s, struct td_ask *a, const struct td_object *pod,
		       struct td_cancel *c, struct td_error *err);
// For a waiting pod without a grant: clears what an earlier grant left in its claims. TD_EXPIRED as
// above.
int td_ask_claims_back(struct td_bridge *b, const struct td_object *pod, struct td_cancel *c, struct td_error *err);
// ---- claims_held.c ----
// An index function: "driver/pool/device" of what the claim has and takes.
void td_claims_by_device(const struct td_object *claim, struct td_strv *ret);
// TD_THROTTLED: a claim that has the device is reserved for another pod that still is there.
struct td_dra_device;
int td_claims_free(struct td_bridge *b, const struct td_settings *s, const struct td_object *pod,
		   const struct td_dra_device *d, struct td_cancel *c, struct td_error *err);
// ---- counted.c ----
// Before a Binding on a real kubelet: has the node CPUs, memory and a place for the pod, beside all
// pods that are there? Slurm knows nothing of pods that others placed, and the kubelet would fail
// ours for good. Codes as td_ask_counted_room(); TD_EXPIRED: the node's placeholder becomes smaller first.
int td_ask_kubelet_room(struct td_bridge *b, struct td_ask *a, const struct td_object *pod, struct td_cancel *c,
			struct td_error *err);
// Before the Binding of a pod with counted devices: has the kubelet of its node as many as the pod
// asks for, beside the other pods there? A kubelet that has not would fail the pod. TD_THROTTLED:
// not now. TD_NOT_FOUND: not for a while, so the grant is of no use.
int td_ask_counted_room(struct td_bridge *b, const struct td_settings *s, struct td_ask *a, const struct td_object *pod,
			struct td_error *err);
// ---- show.c ----
// What a pod whose job is queued says about it. Caller frees.
char *td_ask_waits_text(const struct td_ask *a, int64_t now_s);

// ---- knocks ----
// Opens the knock port. NULL on failure.
struct td_knocks *td_knocks_new(struct td_bridge *b, const char *listen, struct td_error *err);
// Serves it until cancel.
int td_knocks_run(struct td_knocks *k, struct td_cancel *c, struct td_error *err);
struct td_knocks *td_knocks_free(struct td_knocks *k);
// Tells the stand-in of `job` to exit with `code`. False: it is not connected.
bool td_knocks_end(struct td_knocks *k, int64_t job, int code);
// Is the stand-in of this job and ask connected? It may have knocked before anybody knew of its ask.
bool td_knocks_has(struct td_knocks *k, int64_t job, const char *uid);
// Tells it that its job is not wanted any more. Nothing happens when it is not connected.
void td_knocks_gone(struct td_knocks *k, int64_t job);
// For how many ms a stand-in that is not connected may still be on its way here from the previous
// leader.
int64_t td_knocks_settle(const struct td_knocks *k, int64_t now);
// The token of an ask's stand-in: 32 hex digits.
void td_knock_token(const struct td_link *l, const char *uid, char ret[33]);
