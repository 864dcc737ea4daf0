// The asks that the bridge knows: one per pod UID, with what was last seen of its stand-in job.
//
// Fields under "worker" are written by the worker that processes the ask's key, under the table's lock; that worker
// reads them without it. Fields under "inbox" are written by anybody under the lock. An ask lives as long as a
// reference.
#pragma once

#include "bridge/bridge.h"
#include "bridge/scheduler/want.h"
#include "pool/steps.h"

#include <uthash.h>

struct td_ask {
	char uid[40];
	int refs;
	char *key;                      // "ns/name"; "uid:<uid>" while no pod with this UID was seen
	UT_hash_handle hh;              // by uid
	struct td_ask *by_key, *by_job; // next in the same bucket

	// ---- worker ----
	enum td_job_know know;
	int64_t job; // 0: none known
	bool batch;
	uint64_t states; // of the last read
	bool named, started, prolog, passed,
		warned; // named: the job carries this UID; passed: its stand-in knocked, so the prolog has passed
	int64_t start, restarts, end, preempt, expect, limit_min, has_cpus, has_memory_mb;
	int64_t res_tag; // of its reservation; 0: none
	char *nodes, *devices, *cpus, *reason, *excluded, *job_user, *job_name;
	char *user;           // that the mapping gives
	int64_t read_ms;      // mono: when the job was read last
	int64_t asked_ms;     // mono: when the last submit was sent (for listings: what was listed before says nothing)
	int64_t not_before;   // mono: do not read before (a prolog takes its time); a knock goes before it
	int64_t knock_ms;     // mono, of a batch job that a poll showed running: until then its knock is waited for
	int64_t retry_ms;     // mono: do not submit again before
	int64_t allocated_ms; // mono, of an allocation: to learn how long a prolog takes
	bool burst;           // it was one of many then
	int64_t seen_ms;      // epoch: when the pod was seen first
	int64_t ended_ms;     // mono: when the stand-in was told to end
	int waits, fails;
	bool admin_set, bound_sent, pod_end_sent, queued_said;
	bool counted; // among t->pending
	uint64_t feas_gen, no_fast_gen;
	char read_rv[24]; // the pod's version that was read, and, where it is refused, found wrong
	int64_t taking;   // counted devices that its Binding takes from its node (counted.c)
	char *refused;    // why it will never run; NULL: not refused
	char *said;       // condition text on the pod
	int64_t said_ms;
	char *why; // for `tandem why`: the last decision's words

	// ---- inbox ----
	uint64_t polled; // states of the last poll
	bool look;       // the job must be read
	bool gone_seen;  // a poll showed it absent, and the mass-vanish rule has been applied
	int64_t born_s;  // epoch: when its job was submitted or started
	bool usr1;
	int64_t knocked; // job id whose stand-in knocked: its prolog has passed
	int exit_code;
	int64_t found;     // job id that a listing found for it
	int64_t listed_ms; // mono: the last complete listing that did not have it was asked for at this time
};

struct td_asks {
	pthread_mutex_t lock; // guards everything here and the asks' shared fields
	struct td_ask *by_uid;
	struct td_ask *keys[4096], *jobs[4096]; // buckets by key and by job id
	size_t pending;                         // asks whose job waits in Slurm's queue
	// Resources that were given since the last look at the nodes (the fast path).
	struct td_reservation {
		int64_t at_ms, cpus, memory_mb;
		int64_t gres[TD_POOL_KINDS];
		char kinds[TD_POOL_KINDS][64];
		char node[256]; // "": not known yet
		int64_t job;    // negative: a tag, while the submit is on its way
	} *res;
	size_t n_res, cap_res;
	int64_t res_tag;
	struct td_pool_block block;
};
struct td_asks *td_asks_new(void);
struct td_asks *td_asks_free(struct td_asks *t);

struct td_ask *td_ask_get(struct td_asks *t, const char *uid); // a reference, or NULL
struct td_ask *td_ask_ensure(struct td_asks *t, const char *uid, const char *key,
			     bool *ret_new);    // a reference; a "uid:" key is replaced
bool td_asks_want_job(void *asks, int64_t job); // for td_slurm_view_sweep
// What a poll said of a job, to every ask that holds its id (after a rollback there may be two): their keys go to ret.
// Absent: only when that is new.
void td_asks_polled(struct td_asks *t, int64_t job, uint64_t states, struct td_strv *ret);
void td_asks_gone(struct td_asks *t, int64_t job, struct td_strv *ret);
struct td_ask *td_ask_by_job(struct td_asks *t, int64_t job);                               // a reference, or NULL
size_t td_asks_of_key(struct td_asks *t, const char *key, struct td_ask **ret, size_t max); // references
void td_asks_all(struct td_asks *t, struct td_ask ***ret, size_t *ret_n); // references; caller frees the array
void td_ask_set_job(struct td_asks *t, struct td_ask *a, int64_t job);
void td_ask_forget(struct td_asks *t, struct td_ask *a);
struct td_ask *td_ask_unref(struct td_ask *a);
TD_DEFINE_AUTO(struct td_ask *, td_ask_unref)
void td_ask_pending(struct td_asks *t, struct td_ask *a, bool pending); // counts it
void td_ask_str(struct td_asks *t, char **field, const char *s);        // replaces under the lock

// ---- reconcile.c ----
int td_scheduler_reconcile(void *bridge, const char *key, int64_t *again_ms, struct td_cancel *c, struct td_error *err);
// ---- adopt.c: one complete listing of Slurm's jobs ----
int td_scheduler_list(struct td_bridge *b, struct td_slurm *s, struct td_cancel *c, struct td_error *err);
// Ends a job that stands for this ask beside another one, after a fresh read.
void td_end_extra(struct td_bridge *b, const struct td_settings *s, struct td_slurm *slurm, int64_t job,
		  const char *uid, struct td_cancel *c);
// ---- job.c: reading the job of an ask ----
void td_ask_take(struct td_bridge *b, const struct td_settings *s, struct td_ask *a, const struct td_slurm_job *j);
int td_ask_read(struct td_bridge *b, const struct td_settings *s, struct td_slurm *slurm, struct td_ask *a,
		struct td_cancel *c, struct td_error *err);
enum td_job_is td_ask_is(uint64_t states); // what they mean to the pool, the prolog aside
// What the pool's decision needs. The grant's strings point into a.
void td_ask_job(struct td_bridge *b, struct td_ask *a, bool same_spec, struct td_pool_job *ret);
// ---- room.c: the fast path ----
// Slurm could start it now and nobody waits before it; then the resources are reserved in our view (a->res_tag).
bool td_ask_fits_now(struct td_bridge *b, const struct td_settings *s, struct td_ask *a, const struct td_object *pod,
		     const struct td_want *w);
void td_room_given(struct td_bridge *b, struct td_ask *a, int64_t job); // the reservation is this job's; 0: nobody's
void td_room_where(struct td_bridge *b, int64_t job, const char *node); // Slurm said where
void td_room_refused(struct td_bridge *b, struct td_ask *a,
		     const struct td_error *e); // not again for the same state of the pool
bool *td_room_feasible(struct td_bridge *b, const struct td_object *pod, const struct td_slurm_nodes *l);
// ---- submit.c ----
// The batch script of a stand-in. Caller frees.
char *td_standin_script(const struct td_bridge_opts *o, const char *uid, const char *token);
// ---- end.c ----
// Any write to the pod makes a stale leader's Binding fail; this one says why. rv NULL: whatever it is.
int td_ask_raise_epoch(struct td_bridge *b, const struct td_object *pod, const char *rv, struct td_cancel *c,
		       struct td_error *err);
// ---- claims_write.c: ResourceClaims (docs/design/0011-dra.md) ----
struct td_claims;
int td_claims_watch(struct td_bridge *b, struct td_cancel *c,
		    struct td_error *err); // makes their informers, where the API serves them
// What the pod's claims ask for, as td_claims_read; nothing for a pod without claims.
int td_ask_claims(struct td_bridge *b, const struct td_settings *s, const struct td_object *pod, struct td_claims *ret,
		  struct td_error *err);
long long td_ask_claimed(struct td_bridge *b, const struct td_settings *s,
			 const struct td_object *pod); // their devices, 0 when not known
// Before the Binding: its claims hold exactly the devices of the grant, and are reserved for it. TD_THROTTLED: the
// node's devices are not published now; TD_EXPIRED: decide again with what the watch tells; TD_NOT_FOUND, TD_INVALID:
// the grant cannot be used, err says why.
int td_ask_claims_give(struct td_bridge *b, const struct td_settings *s, struct td_ask *a, const struct td_object *pod,
		       struct td_cancel *c, struct td_error *err);
// A waiting pod without a grant: what a grant before left in its claims is taken out. TD_EXPIRED as above.
int td_ask_claims_back(struct td_bridge *b, const struct td_object *pod, struct td_cancel *c, struct td_error *err);
// ---- counted.c ----
// Before the Binding of a pod whose devices are counted: its node's kubelet has as many as it asks for beside the other
// pods there, or it would fail the pod. TD_THROTTLED: not now; TD_NOT_FOUND: not for a while, the grant is of no use.
int td_ask_counted_room(struct td_bridge *b, const struct td_settings *s, struct td_ask *a, const struct td_object *pod,
			struct td_error *err);
// ---- show.c ----
char *td_ask_waits_text(const struct td_ask *a, int64_t now_s); // caller frees

// ---- knocks ----
struct td_knocks *td_knocks_new(struct td_bridge *b, const char *listen, struct td_error *err); // NULL on failure
int td_knocks_run(struct td_knocks *k, struct td_cancel *c, struct td_error *err);
struct td_knocks *td_knocks_free(struct td_knocks *k);
// Tells the stand-in of `job` to exit with `code`; false: it is not connected.
bool td_knocks_end(struct td_knocks *k, int64_t job, int code);
void td_knocks_gone(struct td_knocks *k, int64_t job);
// ms for which a stand-in that is not connected may still be on its way here from the bridge that led before.
int64_t td_knocks_settle(const struct td_knocks *k, int64_t now);
// The token of an ask's stand-in: 32 hex digits.
void td_knock_token(const struct td_link *l, const char *uid, char ret[33]);
