// Nodes whose slurmds come when Slurm asks for them, and go when it has no use for them (nodeset.h).
#include "base/names.h"
#include "pool/nodeset.h"

#include <string.h>

enum {
	// A slurmd registers within a second of its start, and never again. One that is ready for longer while Slurm
	// still waits has registered before Slurm asked.
	REGISTERS_MS = 20000,
	AGAIN_S = 60, // from when Slurm has given a node up to when it may ask for it again
};

// What Slurm itself writes then.
static const char gave_up[] = "ResumeTimeout reached";

bool td_pool_record_gave_up(const struct td_pool_record *r)
{
	return r && r->down && td_pool_reason_is(r->reason, gave_up);
}

bool td_pool_member_off(const struct td_pool_member *m)
{
	return !m->pod && (!m->record || (m->record->off && !td_pool_record_gave_up(m->record)));
}

static bool act(struct td_pool_member *m, enum td_pool_member_do a, const char *why)
{
	m->act = a;
	m->why = why;
	return true;
}

// Slurm waits for its slurmd.
static bool rise(struct td_pool_member *m, const struct td_pool_policy *p)
{
	if (!m->pod && !m->ready)
		return act(m, TD_MEMBER_NOTHING, "a job waits for it, and the Kubernetes node is not ready");
	if (!m->pod)
		return act(m, TD_MEMBER_CREATE, NULL);
	if (m->pod_ready_ms && p->now_ms - m->pod_ready_ms > REGISTERS_MS)
		return act(m, TD_MEMBER_DELETE_POD, "its slurmd registered before Slurm asked for it");
	return act(m, TD_MEMBER_NOTHING, "a job waits for its slurmd to start");
}

static bool idle(const struct td_pool_member *m, const struct td_pool_policy *p)
{
	const struct td_pool_record *r = m->record;
	int64_t since = r->busy_at > m->pod_ready_ms / 1000 ? r->busy_at : m->pod_ready_ms / 1000;
	return td_pool_member_registered(m) && !td_pool_record_busy(r) && !r->drain && !r->leaving &&
	       p->now_ms / 1000 - since >= p->idle_s;
}

bool td_pool_on_demand(struct td_pool_member *m, const struct td_pool_policy *p)
{
	const struct td_pool_record *r = m->record;
	if (!p->view)
		return m->pod ? false : act(m, TD_MEMBER_NOTHING, "waiting for Slurm's answer");
	if (!r)
		return m->pod ? false : act(m, TD_MEMBER_NOTHING, "Slurm is being told of it");
	if (td_pool_record_gave_up(r)) {
		if (m->pod)
			return act(m, TD_MEMBER_DELETE_POD, "its slurmd did not come in time");
		return p->now_ms / 1000 - r->reason_at >= AGAIN_S
			       ? act(m, TD_MEMBER_RESUME, "it may be asked for again")
			       : act(m, TD_MEMBER_NOTHING,
				     "its slurmd did not come in time; Slurm may ask for it again in a minute");
	}
	if (r->off) {
		if (m->pod)
			return act(m, TD_MEMBER_DELETE_POD, "powered down");
		if (m->record_differs && !td_pool_record_busy(r) && !r->drain)
			return act(m, TD_MEMBER_DELETE_RECORD, "updated");
		// A job that got a machine that is not there would wait in vain, while another one may be.
		bool absent = r->drain && td_pool_reason_is(r->reason, TD_REASON_ABSENT);
		return !m->ready && !r->drain ? act(m, TD_MEMBER_DRAIN, TD_REASON_ABSENT ": not ready in Kubernetes")
		       : m->ready && absent
			       ? act(m, TD_MEMBER_UNDRAIN, NULL)
			       : act(m, TD_MEMBER_NOTHING, absent ? "the Kubernetes node is not ready" : NULL);
	}
	if (r->rising)
		return rise(m, p);
	return m->pod && idle(m, p) ? act(m, TD_MEMBER_POWER_DOWN, TD_REASON_IDLE) : false;
}
