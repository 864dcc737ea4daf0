// One reconcile of one ask, as its files hand it on: reconcile.c runs the loop, facts.c reads,
// act.c acts.
#pragma once

#include "bridge/scheduler/ask.h"

enum {
	TD_REFUSED_AGAIN_MS = 60000, // how long a refusal stands while nothing changes
	TD_SHOW_AFTER_MS = 700,      // most pods start before a condition would be of use
	TD_READ_PENDING_MS = 10000,
	TD_AGAIN_MS = 50 // time for the watch to deliver what a write has met
};

// Why a pod ends that makes room (victim.h).
struct td_victim {
	int64_t waiter;  // job
	const char *why; // "job 30 has room, which …"
	int64_t grace_s;
};
struct td_bridge_run { // the caller fills everything but want, wanted and ever
	struct td_bridge *b;
	struct td_settings *s;
	struct td_link *l; // NULL: slurmrestd cannot be reached
	struct td_ask *a;
	// NULL: gone. Of a gang: the member that is acted on, else any that waits.
	const struct td_object *pod;
	struct td_ask_pod *p;           // of this pod; never NULL
	struct td_gang_run *gang;       // gang.h; NULL: a lone pod, or one member that is acted on
	const char *hangs;              // why it ends before its grant does; NULL: the grant has ended
	const struct td_victim *yields; // it ends because it makes room; NULL: it does not
	bool remove;                    // an end deletes the pod, so that its owner makes another one
	// Of a pod beyond the core of its gang: the core, what the pod may do (enum td_pool_beyond_do) and the
	// gang's name in its namespace.
	const struct td_gang_core *core;
	int beyond;
	const char *gang_name;
	// What the pod gets of the grant; NULL: all of it.
	const struct td_gang_seat *seat;
	char net[24];        // id of its private network, whose policy is made (private.h); "": none, or not yet
	struct td_want want; // valid when wanted is set
	bool wanted, ever;   // ever: some node could take the pod
	const char *unfit;   // what of the node that was granted is nothing for the pod; NULL: nothing, or not known
	int64_t *again_ms;
	struct td_cancel *c;
};
// Reconcile the key again after ms at the latest. Of several calls the soonest counts.
void td_bridge_run_again(struct td_bridge_run *r, int64_t ms);
// Takes what a listing has found for this ask.
void td_bridge_run_intake(struct td_bridge_run *r);
// The exit code of the pod for sacct: the first of its containers' that is not 0.
int td_bridge_run_exit_code(const struct td_object *pod);
enum td_pool_pod_state td_pod_state(const struct td_object *pod);
// True when its agent failed the pod because its devices were another job's, and nobody has said yet why.
bool td_bridge_superseded(const struct td_object *pod);
// The grant that the pod carries; strings point into the pod. False: it carries none.
bool td_bridge_pod_grant(const struct td_object *pod, struct td_grant *ret);
// Reads the job when something says that it may have changed. *ret_wait: it is too early;
// td_bridge_run_again() was called.
int td_bridge_run_look(struct td_bridge_run *r, bool *ret_wait, struct td_error *err);
// Collects everything that the decision needs; strings point into the ask and the pod. On the way
// it clears what an ended grant left in the claims of a waiting pod. TD_NOT_FOUND: the pod waits
// for something that err names. TD_EXPIRED: decide again after the next watch event.
int td_bridge_run_facts(struct td_bridge_run *r, struct td_pool_ask *pa, struct td_pool_job *pj, struct td_error *err);
// Do two hostlists name the same nodes?
bool td_bridge_run_same_names(const char *x, const char *y);
// ---- submit.c ----
// Where a pod may run, and whether any node could ever take it.
struct td_where {
	char *excluded; // hostlist of Slurm's nodes on which it may not run; "": none. Owned
	enum td_pool_fit fit;
	char why[300];  // when no node could ever take it
	int64_t fewest; // of a gang that is to be packed: on so many nodes at most; else 0
};
void td_where_done(struct td_where *w);
#define td_auto_where __attribute__((cleanup(td_where_done)))
int td_bridge_run_where(const struct td_bridge_run *r, struct td_where *ret, struct td_error *err);
// Submits r->want: as an immediate allocation, or as a batch job. A submit that may have happened
// makes the ask's job TD_JOB_UNSURE and asks for listings (docs/protocols.md 1.3).
int td_bridge_run_submit(struct td_bridge_run *r, bool immediate, struct td_error *err);
// ---- owner.c ----
// Whose the jobs of this run's pods are: their person's where they have one, and only one. False: nobody's, as
// td_settings_owner_of().
bool td_owner_of(const struct td_bridge_run *r, struct td_owner *ret);
// The person of an ask whose pods are known; NULL: there is none, or they are several. Caller frees.
char *td_owner_person(struct td_bridge *b, const char *uid, const char *key);
// Whose jobs an ask may have that was found again, while its pod waits: its comment alone says nothing.
void td_owner_read(struct td_bridge_run *r);
// Looks whose a new job became. TD_DENIED with detail TD_SLURM_ERR_USER: not the pod's user's; it was ended.
int td_owner_check(struct td_bridge_run *r, int64_t job, struct td_error *err);
// Before a submit: ends the job that the ask has, if it is nobody's. An earlier bridge did not come to it, or its reply
// was lost.
void td_owner_leave(struct td_bridge_run *r);
// ---- submit.c ----
// Writes the mark (admin_comment) on the ask's job unless it is there.
void td_bridge_run_mark(const struct td_bridge_run *r);
// ---- straggle.c ----
// Of a gang of three pods or more: tells of one whose devices compute less than those of the others, twice one after the
// other, where a HealthPolicy looks for stragglers.
void td_bridge_run_straggle(struct td_bridge_run *r);
// ---- notes.c ----
// The mark (admin_comment) of the ask's job, with what it says of its pods (pool/notes.h); end: how they ended, too.
// Caller frees.
char *td_ask_mark(const struct td_bridge_run *r, bool end);
// Pods that run: keeps what they say, because a pod that is deleted is gone before its job ends.
void td_ask_note_use(const struct td_bridge_run *r);
// Before the job ends: writes that, once, if there is something to say. One request for a job whose devices were
// measured, or whose pod got devices at once and ended by itself; a reply that is lost loses the figures of this job only.
void td_ask_note_end(const struct td_bridge_run *r);
// ---- end.c ----
// Sends the Binding (docs/protocols.md 1.7).
int td_bridge_run_bind(struct td_bridge_run *r, struct td_error *err);
// Takes the next steps to end the job. 0 with *ret_wait_ms set: wait that long for its stand-in. 0
// without: the job has ended, or the ask must be decided again.
int td_bridge_run_end_job(struct td_bridge_run *r, int64_t *ret_wait_ms, struct td_error *err);
// Ends the pod, because its grant has ended: its kubelet fails it (docs/protocols.md 1.8).
int td_bridge_run_end_pod(struct td_bridge_run *r, const char *why, struct td_error *err);
// What the pod's kubelet was told of that, the annotation tandem.dev/ended. NULL: nothing that can be read. Caller unrefs.
struct td_json *td_bridge_pod_ended(const struct td_object *pod);
// ---- hang.c ----
// Tells of pods of which their agents say that they make no progress, and ends them where the policy says so. Of a gang
// all must be still: who waits for another one does nothing either.
int td_bridge_run_hang(struct td_bridge_run *r, struct td_error *err);
// ---- show.c ----
// Writes the condition PodScheduled=False.
int td_bridge_run_show(struct td_bridge_run *r, const char *reason, const char *text, struct td_error *err);
// True when the pod shows this text as why it is not scheduled.
bool td_bridge_run_says(const struct td_object *pod, const char *text);
// ---- act.c ----
// Carries out the step. *ret_go_on: look and decide again at once.
int td_bridge_run_act(struct td_bridge_run *r, struct td_pool_step st, bool *ret_go_on, struct td_error *err);
