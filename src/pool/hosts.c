// Machines that run their own slurmd: only Slurm's record of them is Tandem's (nodeset.h).
//
// The machine starts and ends its slurmd itself (`tandem host`), when it reads that it is a member. So what is
// decided here is when no job is left on one that is no member any more, and then its record goes: a slurmd
// registers once, and does not come back by itself.
#include "pool/nodeset.h"

#include "base/names.h"

#include <stddef.h>

static void act(struct td_pool_member *m, enum td_pool_member_do a, const char *why)
{
	m->act = a;
	m->why = why;
}

static void leave(struct td_pool_member *m, const struct td_pool_policy *p)
{
	const struct td_pool_record *r = m->record;
	bool ours = r && r->drain && td_pool_reason_is(r->reason, TD_REASON_SCALE_IN);
	if (!r || !p->view)
		return;
	if (!r->drain && (td_pool_record_busy(r) || !r->down))
		act(m, TD_MEMBER_DRAIN, TD_REASON_SCALE_IN);
	else if (!td_pool_record_busy(r))
		act(m, TD_MEMBER_DELETE_RECORD, NULL);
	else if (p->scale_force_s >= 0 && ours && p->now_ms / 1000 - r->reason_at >= p->scale_force_s)
		act(m, TD_MEMBER_SET_DOWN, TD_REASON_SCALE_IN);
	else
		act(m, TD_MEMBER_NOTHING, "draining: waiting for its jobs to end");
}

void td_pool_host_decide(struct td_pool_member *m, const struct td_pool_policy *p)
{
	const struct td_pool_record *r = m->record;
	act(m, TD_MEMBER_NOTHING, NULL);
	m->expected = m->keep && p->config_ms;
	if (!m->keep)
		leave(m, p);
	// A slurmd that takes over an older configuration has other devices than slurmctld expects a moment later.
	else if (!r && p->view && !m->expected)
		act(m, TD_MEMBER_NOTHING, "waits for the configuration that names it");
	else if (!r && p->view)
		act(m, TD_MEMBER_NOTHING, "its slurmd has not registered: does `tandem host` run there?");
	// It was taken out, and is a member again.
	else if (r && !r->bad && r->drain && td_pool_reason_owner(r->reason) == TD_OWNER_OPERATOR)
		act(m, TD_MEMBER_UNDRAIN, NULL);
}
