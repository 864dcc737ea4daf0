// A pod whose QOS may preempt, and for which there is no room: it takes it by two immediate
// allocations on a node that pool/ chooses (pool/preempt.h). What is known of a preemption that goes
// on is lost with the leader; the next one finds those who were told, and takes no further ones.
#pragma once

#include "bridge/scheduler/run.h"

struct td_preempts; // of the bridge: who holds what natively, and which node is whose
struct td_preempts *td_preempts_new(void);
struct td_preempts *td_preempts_free(struct td_preempts *p);

// The next step towards r->want for an ask that has no job and finds no room. TD_PREEMPT_TRY:
// r->want.on says where. TD_PREEMPT_WAIT: td_bridge_run_again() was called.
enum td_pool_preempt_do td_preempt_next(struct td_bridge_run *r);
// There seems to be room for r->want, at r->want.at. If its QOS may preempt, it is asked for only
// there: should the view be old, the refused try preempts, and the victims are looked for there.
void td_preempt_begin(struct td_bridge_run *r);
// Slurm refused the try for lack of room, which preempts. Or the ask has what it wanted, or is gone.
void td_preempt_refused(struct td_bridge *b, struct td_ask *a, const struct td_error *e);
void td_preempt_over(struct td_bridge *b, struct td_ask *a);
// Somebody may wait now: the pods are looked at that may be told of their preemption. True: there are
// such pods. Called after each look at who waits.
bool td_preempt_wake(struct td_bridge *b);
// How often the job of this bound pod is read, in ms.
int64_t td_preempt_look_ms(struct td_bridge *b, const struct td_settings *s, const struct td_ask *a);
