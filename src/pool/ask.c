// The next step of one ask (docs/protocols.md 1). t/scenarios/ask.txt shows every case.
#include "pool/pool.h"

#include <string.h>

static bool same(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

const char *td_grant_differs(const struct td_grant *a, const struct td_grant *b)
{
	return a->job != b->job                ? "job id"
	       : !same(a->ask, b->ask)         ? "ask"
	       : a->start != b->start          ? "start time"
	       : a->restarts != b->restarts    ? "restart count"
	       : !same(a->nodes, b->nodes)     ? "nodes"
	       : !same(a->devices, b->devices) ? "devices"
					       : NULL;
}

bool td_pool_mass_vanish(size_t gone, size_t watched)
{
	return gone >= 5 && gone * 5 > watched;
}

static struct td_pool_step step(enum td_pool_do what, const char *why)
{
	return (struct td_pool_step){what, why};
}

static bool alive(const struct td_pool_job *j)
{
	return j->know == TD_JOB_READ && j->ours && j->is != TD_IS_ENDED;
}

// The step for a job that nobody wants any more.
static struct td_pool_step release(const struct td_pool_job *j, const char *why)
{
	if (j->know == TD_JOB_UNSURE)
		return step(TD_DO_LOOK, "its job must be found before it can be ended");
	if (alive(j))
		return step(TD_DO_END_JOB, why);
	return step(TD_DO_FORGET, "nothing is left of it");
}

static struct td_pool_step submit(const struct td_pool_ask *a, const char *why)
{
	if (a->takes)
		return step(TD_DO_NOTHING, "its room is being taken from others");
	return step(a->fits_now ? TD_DO_ALLOCATE : TD_DO_SUBMIT, why);
}

static struct td_pool_step waiting(const struct td_pool_ask *a, const struct td_pool_job *j)
{
	if (j->know == TD_JOB_UNSURE)
		return step(TD_DO_LOOK, "its job is not known for sure");
	if (a->refused)
		return alive(j) ? step(TD_DO_END_JOB, "it is refused") : step(TD_DO_REFUSE, "it is refused");
	if (j->know == TD_JOB_NONE)
		return submit(a, "it has no job");
	if (j->know == TD_JOB_GONE)
		return a->lost_state ? step(TD_DO_SHOW, "Slurm may have lost its state") : submit(a, "its job is gone");
	if (!j->ours)
		return submit(a, "the job of this id is another's now");
	switch (j->is) {
	case TD_IS_PENDING:
		return j->same_spec ? step(TD_DO_SHOW, "it waits in Slurm's queue")
				    : step(TD_DO_UPDATE, "its excluded nodes changed");
	case TD_IS_STARTING:
		return step(TD_DO_WAIT, "granted: its node is being prepared");
	case TD_IS_RUNNING:
		if (j->warned)
			return step(TD_DO_END_JOB, "granted, and about to be taken away");
		// Either our read of the job is old, or slurmctld came back with an older state.
		if (a->fenced)
			return step(TD_DO_END_JOB, "the devices of its grant went on to another job");
		if (!a->node_fits)
			return step(TD_DO_END_JOB, "the pod may not run on the node it was granted");
		// Seen after a restart of slurmctld, until the nodes have registered again.
		if (a->short_of)
			return a->waited ? step(TD_DO_END_JOB, "Slurm does not name all devices of its grant")
					 : step(TD_DO_WAIT, "Slurm does not name all devices of its grant yet");
		return step(TD_DO_BIND, "granted");
	case TD_IS_LOST:
		return step(TD_DO_END_JOB, "its job does not run as granted");
	case TD_IS_ENDED:
		// scancel of a waiting stand-in means the same as kubectl delete of the pod. A job
		// that had started and was cancelled was more likely ended by a failed prolog: try
		// again.
		if (j->cancelled && !j->started)
			return step(TD_DO_END_POD, "its job was cancelled");
		return submit(a, "its job ended before the pod was bound");
	case TD_IS_UNKNOWN:
		break;
	}

	return step(TD_DO_NOTHING, "its job's state is not known");
}

static struct td_pool_step bound(const struct td_pool_ask *a, const struct td_pool_job *j)
{
	if (!a->has_grant)
		return release(j, "the pod was bound without a grant");
	if (j->know == TD_JOB_UNSURE || j->know == TD_JOB_NONE)
		return step(TD_DO_LOOK, "its job is not known for sure");
	if (j->know == TD_JOB_GONE)
		return a->lost_state ? step(TD_DO_NOTHING, "Slurm may have lost its state")
				     : step(TD_DO_END_POD, "its job is gone");
	if (!j->ours)
		return a->lost_state ? step(TD_DO_NOTHING, "Slurm may have lost its state")
				     : step(TD_DO_END_POD, "the job of this id is another's now");
	switch (j->is) {
	case TD_IS_RUNNING:
		if (td_grant_differs(&a->grant, &j->grant))
			return step(TD_DO_END_POD, "its grant changed");
		return j->warned ? step(TD_DO_END_POD, "its job is about to be taken away")
				 : step(TD_DO_NOTHING, "it runs");
	case TD_IS_STARTING:
		// After a restart of slurmctld the reason Prolog stays for ever. A job that started
		// anew shows a grant that differs.
		return td_grant_differs(&a->grant, &j->grant) ? step(TD_DO_END_POD, "its grant changed")
							      : step(TD_DO_NOTHING, "it runs");
	case TD_IS_PENDING:
		return a->lost_state ? step(TD_DO_NOTHING, "Slurm may have lost its state")
				     : step(TD_DO_END_POD, "its job was requeued");
	case TD_IS_LOST:
		return step(TD_DO_END_POD, "its job does not run as granted");
	case TD_IS_ENDED:
		return step(TD_DO_END_POD, "its job ended");
	case TD_IS_UNKNOWN:
		break;
	}

	return step(TD_DO_NOTHING, "its job's state is not known");
}

struct td_pool_step td_pool_reconcile_ask(const struct td_pool_ask *a, const struct td_pool_job *job)
{
	struct td_pool_job seen = *job;
	const struct td_pool_job *j = &seen;
	if (seen.know == TD_JOB_GONE && seen.unproven) {
		// It still counts as ours, in an unknown state.
		seen.know = TD_JOB_READ;
		seen.is = TD_IS_UNKNOWN;
		seen.ours = true;
	}

	switch (a->pod) {
	case TD_POD_GONE:
		return release(j, "its pod is gone");
	case TD_POD_DONE:
		// The agent saw the end of the grant before we did. It means the same whoever saw
		// it.
		if (a->superseded && j->know != TD_JOB_UNSURE && !alive(j) && !a->lost_state)
			return step(TD_DO_END_POD, "its devices went on to another job");
		return release(j, "its pod is done");
	case TD_POD_WAITING:
		return waiting(a, j);
	case TD_POD_BOUND:
		return bound(a, j);
	case TD_POD_LEAVING:
		// The job stays until the pod is gone, because its containers may still run on the
		// devices.

		return step(TD_DO_NOTHING, "the pod is ending");
	}

	return step(TD_DO_NOTHING, "");
}

const char *td_pool_do_name(enum td_pool_do d)
{
	static const char *const names[] = {"nothing", "allocate", "submit",  "look",    "show",   "wait",
					    "update",  "bind",     "end-job", "end-pod", "refuse", "forget"};
	return (size_t)d < sizeof(names) / sizeof(names[0]) ? names[d] : "?";
}
