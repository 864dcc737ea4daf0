// The smaller decisions about an ask (steps.h).
#include "pool/steps.h"

#include "base/err.h"

enum {
	// A stand-in that runs and has not knocked by then is looked at all the same.
	KNOCK_MS = 500,
	// PrologEpilogTimeout is 60. Later, Prolog as a reason is a leftover (docs/facts/slurm.md
	// S-P2).
	PROLOG_MAX_S = 70,
	// A lone pod is looked at after this at the latest: a look is cheap, a wait is not.
	PROLOG_LONE_US = 50000,
	// So many granted asks whose nodes are being prepared are a burst.
	BURST = 4,
	// A warning that comes earlier than this is not of the time limit.
	LIMIT_NEAR_MS = 600000,
	// Slurm's nodes are settled when they have not changed for that long.
	SETTLED_MS = 3000,
	// A stand-in that was told to exit does so within that.
	STANDIN_EXIT_MS = 2000,
	// A device plugin is replaced within that. Then the grant goes back, and the pod may run
	// elsewhere.
	PLUGIN_S = 15,
	// A pending job is read again after READ_MS, or FIRST_MS while Slurm has not looked at it.
	// Where many are pending, the wait is at least PER_PENDING_MS for each of them.
	READ_MS = 10000,
	FIRST_MS = 700,
	PER_PENDING_MS = 20,
};

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

bool td_pool_fast_due(const struct td_pool_ask *a, const struct td_pool_job *j)
{
	return a->pod == TD_POD_WAITING && !a->refused &&
	       (j->know == TD_JOB_NONE || (j->know == TD_JOB_GONE && !j->unproven) ||
		(j->know == TD_JOB_READ && (!j->ours || j->is == TD_IS_ENDED)));
}

// ---- reading its job ----
enum td_pool_look_do td_pool_look(struct td_pool_look *l)
{
	bool need = l->know == TD_JOB_UNSURE || l->asked || l->changed;
	if (!need && !l->warned)
		return TD_LOOK_NOT;

	if (l->know == TD_JOB_READ && !l->asked && !l->warned && l->named) {
		// The grant is over, even if the id was another job's by then. A pod that still
		// waits may have to be submitted again, which needs a read.
		if (l->polled == TD_IS_ENDED && !l->pod_waits)
			return TD_LOOK_POLL;
		// The pod may be bound when the stand-in has knocked. A look before that would only
		// show the prolog.
		if (l->polled == TD_IS_RUNNING && l->knocks && !l->knocked) {
			l->knock_ms = l->knock_ms ? l->knock_ms : l->now_ms + KNOCK_MS;
			l->not_before_ms = l->knock_ms;
		}
	}

	l->wait_ms = l->not_before_ms - l->now_ms;
	return l->wait_ms > 0 ? TD_LOOK_LATER : TD_LOOK_READ;
}

bool td_pool_prolog_runs(bool reason, bool knocked, int64_t age_s)
{
	return reason && !knocked && age_s <= PROLOG_MAX_S;
}

enum td_pool_warning td_pool_warning(bool preempted, bool limit, int64_t left_ms)
{
	return preempted || (limit && left_ms <= 0) ? TD_WARNING_NOW
	       : limit && left_ms < LIMIT_NEAR_MS   ? TD_WARNING_LATER
						    : TD_WARNING_NONE;
}

bool td_pool_twin_better(const struct td_pool_twin *seen, const struct td_pool_twin *known, int64_t granted)
{
	if (seen->job == granted || known->job == granted)
		return seen->job == granted;
	return known->ended || (seen->runs && !known->runs);
}

// ---- when to look again ----
int64_t td_pool_backoff_ms(int fails)
{
	return fails < 3 ? 0 : fails > 10 ? 30000 : 250 << (fails - 3);
}

int64_t td_pool_prepare_ms(const struct td_pool_prepare *p)
{
	// A look transfers 8 to 14 KB (docs/facts/slurm.md S-W2). Look at a lone pod again soon;
	// when there are many, wait for each as long again as it has waited.
	if (p->batch)
		return KNOCK_MS;
	if (p->burst)
		return p->waited_ms < 30 ? 30 : p->waited_ms < 1000 ? p->waited_ms : 1000;
	return p->waits < 2 ? 4 : p->waits < 6 ? 12 : p->waits < 12 ? 50 : 250;
}

int64_t td_pool_prolog_learn(int64_t est, int64_t took, bool burst, bool looked_in_vain)
{
	// In a burst few pods should need a second look: raise the estimate quickly, lower it
	// slowly. A lone pod should not wait longer than it must, whatever the last pods of a burst
	// have taken.
	int64_t now = burst            ? (looked_in_vain ? (est + took) / 2 : est * 15 / 16)
		      : looked_in_vain ? (est * 3 + took) / 4
				       : est * 7 / 8;
	int64_t top = burst ? 1000000 : PROLOG_LONE_US;
	return now < 5000 ? 5000 : now > top ? top : now;
}

bool td_pool_burst(size_t preparing)
{
	return preparing > BURST;
}

int64_t td_pool_pending_ms(size_t pending, bool no_reason)
{
	return most((int64_t)pending * PER_PENDING_MS, no_reason ? FIRST_MS : READ_MS);
}

int64_t td_pool_refused_ms(bool outside, size_t refused)
{
	enum { STANDS_MS = 60000, OUTSIDE_MS = 4000, PER_REFUSED_MS = 50 };
	return outside ? most((int64_t)refused * PER_REFUSED_MS, OUTSIDE_MS) : STANDS_MS;
}

int64_t td_pool_never_ms(enum td_pool_fit fit, int64_t nodes_same_ms)
{
	int64_t left = SETTLED_MS - nodes_same_ms;
	return left > 0 ? left : fit == TD_FIT_NO_NODES ? 1000 : 0;
}

// ---- what answers and devices mean ----
enum td_pool_submitted td_pool_submitted(int code, bool immediate)
{
	if (!code)
		return TD_SUBMITTED;
	if (immediate && (code == TD_THROTTLED || code == TD_INVALID))
		return TD_SUBMITTED_QUEUE;
	return code == TD_INVALID || code == TD_DENIED ? TD_SUBMITTED_NEVER
	       : code == TD_THROTTLED                  ? TD_SUBMITTED_LATER
						       : TD_SUBMITTED_FAIL;
}

enum td_pool_devices td_pool_devices(int code)
{
	return !code                  ? TD_DEVICES_THERE
	       : code == TD_EXPIRED   ? TD_DEVICES_AGAIN
	       : code == TD_THROTTLED ? TD_DEVICES_WAIT
	       : code == TD_NOT_FOUND ? TD_DEVICES_GIVE_BACK
	       : code == TD_INVALID   ? TD_DEVICES_REFUSE
				      : TD_DEVICES_FAIL;
}

int td_pool_counted(const struct td_pool_counted *c)
{
	return c->offer < 0 || c->want <= c->offer - c->used ? 0 : c->age_s <= PLUGIN_S ? TD_THROTTLED : TD_NOT_FOUND;
}

// ---- binding ----
bool td_pool_fence_ended(bool own, const struct td_grant *had, const struct td_pool_job *j)
{
	return own || j->know != TD_JOB_READ || !j->ours || j->is != TD_IS_RUNNING || td_grant_differs(had, &j->grant);
}

enum td_pool_rebind td_pool_rebind(bool same_uid, bool ending, bool bound, bool same_epoch)
{
	return !same_uid || ending || bound ? TD_REBIND_OVER : same_epoch ? TD_REBIND_AGAIN : TD_REBIND_LOST;
}

// ---- the end of a pod and of its job ----
enum td_pool_end_do td_pool_end_job(const struct td_pool_end *e, const struct td_pool_job *j, int64_t *ret_ms,
				    bool *ret_fence)
{
	*ret_ms = 0;
	*ret_fence = false;

	// Slurm compares the name as it ends the job, and the name holds the ask's UID, so a read
	// adds no certainty. A read is needed when the job's owner gave it another name, and when
	// an earlier leader could still bind the pod: then it matters whether the job is running.
	if (!e->read && (e->unbound || !e->named))
		return TD_END_READ;
	if (j->know != TD_JOB_READ || !j->ours || j->is == TD_IS_ENDED)
		return !e->pod || j->know == TD_JOB_GONE || !j->ours ? TD_END_AGAIN : TD_END_FORGET;

	*ret_fence = e->unbound && j->is == TD_IS_RUNNING;
	if (e->unbound || !e->batch || j->is != TD_IS_RUNNING)
		return TD_END_CANCEL;
	if (e->told_ms < 0 && !e->tried)
		return TD_END_TELL;

	// A knock of the stand-in ends this wait early.

	*ret_ms = e->told_ms < 0 ? e->settle_ms : STANDIN_EXIT_MS - e->told_ms;

	return *ret_ms > 0 ? TD_END_WAIT : TD_END_CANCEL;
}

enum td_pool_ending_do td_pool_ending(const struct td_pool_ending *e, int64_t *ret_ms)
{
	enum { SLACK_MS = 15000 }; // for a kubelet that is busy

	*ret_ms = 0;
	if (!e->bound)
		return TD_ENDING_FAIL;
	if (!e->node_ready)
		return TD_ENDING_DELETE;
	if (e->asked_ms < 0)
		return TD_ENDING_ASK;
	int64_t left = e->grace_s * 1000 + SLACK_MS - e->asked_ms;
	*ret_ms = left > 0 ? left : 0;
	return left > 0 ? TD_ENDING_WAIT : TD_ENDING_DELETE;
}

const char *td_pool_ending_name(enum td_pool_ending_do d)
{
	static const char *const names[] = {"fail", "ask", "wait", "delete"};
	return (size_t)d < sizeof(names) / sizeof(names[0]) ? names[d] : "?";
}

int64_t td_pool_end_grace_s(bool bound, int64_t own, int64_t at_most)
{
	return !bound ? 0 : own < at_most ? own : at_most;
}

int64_t td_pool_end_signal_s(int64_t asked, int64_t own, int64_t at_most)
{
	int64_t kept = own < at_most / 3 ? own : at_most / 3;
	return asked < at_most - kept ? asked : at_most - kept;
}

// ---- the whole pool ----
bool td_pool_gate_alarm(size_t held, size_t nodes)
{
	return held > 2 && held * 5 > nodes;
}

enum td_pool_loss_do td_pool_loss(const struct td_pool_loss *l)
{
	if (!l->vanished)
		return TD_LOSS_BACK;
	if (l->accepted)
		return TD_LOSS_NOTHING;
	if (!l->lost)
		return TD_LOSS_BEGIN;
	return l->confirmed || l->since_ms > TD_POOL_LOST_MS ? TD_LOSS_ACCEPT : TD_LOSS_NOTHING;
}
