// One pass over one ask, as its files hand it on: reconcile.c leads (facts, decision, deed, again), facts.c finds out,
// act.c does.
#pragma once

#include "bridge/scheduler/ask.h"

enum {
	TD_REFUSED_AGAIN_MS = 60000, // how long a refusal stands while nothing changes
	TD_SHOW_AFTER_MS = 700,      // most have what they wait for before there is anything to say
	TD_READ_PENDING_MS = 10000,
	TD_AGAIN_MS = 50 // until the watch has told what a write met
};

struct td_run { // everything but want is the caller's
	struct td_bridge *b;
	struct td_settings *s;
	struct td_link *l; // NULL: slurmrestd cannot be reached
	struct td_ask *a;
	const struct td_object *pod; // NULL: gone
	struct td_want want;         // where wanted is set
	bool wanted, ever;           // ever: some node could take it
	int64_t *again_ms;
	struct td_cancel *c;
};
void td_run_again(struct td_run *r, int64_t ms); // at the latest; the soonest counts
enum td_pod_state td_pod_state(const struct td_object *pod);
bool td_pod_grant(const struct td_object *pod,
		  struct td_grant *ret); // the grant that the pod carries, pointing into it; false: none
// Reads the job when something says that it may have changed. *ret_wait: not yet.
int td_run_look(struct td_run *r, bool *ret_wait, struct td_error *err);
// Everything that the decision needs, pointing into the ask and the pod; on the way a waiting pod's claims lose what an
// ended grant left in them. TD_NOT_FOUND: something is waited for, err says what. TD_EXPIRED: decide again with what
// the watch tells.
int td_run_facts(struct td_run *r, struct td_pool_ask *pa, struct td_pool_job *pj, struct td_error *err);
// ---- submit.c ----
// Where a pod may run, and whether it ever could.
struct td_where {
	char *excluded; // names of Slurm's nodes that it may not run on, as a list; "": none. Owned
	enum td_pool_fit fit;
	char why[300]; // it never could
};
void td_where_done(struct td_where *w);
#define td_auto_where __attribute__((cleanup(td_where_done)))
int td_run_where(const struct td_run *r, struct td_where *ret, struct td_error *err);
int td_run_submit(struct td_run *r, bool immediate, struct td_error *err);
void td_run_mark(const struct td_run *r); // puts our mark (admin_comment) on its job unless it is there
// ---- end.c ----
int td_run_bind(struct td_run *r, struct td_error *err);
int td_run_end_job(struct td_run *r, int64_t *ret_wait_ms,
		   struct td_error *err); // 0: the job has ended, or it is decided again
int td_run_end_pod(struct td_run *r, const char *why, struct td_error *err);
// ---- show.c: condition PodScheduled=False ----
int td_run_show(struct td_run *r, const char *reason, const char *text, struct td_error *err);
// ---- act.c ----
// Does the step. *ret_go_on: look again at once.
int td_run_act(struct td_run *r, struct td_pool_step st, bool *ret_go_on, struct td_error *err);
