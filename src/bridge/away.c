// slurmctld is away: nothing is asked of Slurm that would only wait, and its return is met at once.
//
// slurmrestd does not say that slurmctld is gone. It goes on trying the address of a pod that is no
// longer there, and a call waits for that until its own time is over. So two things end this state:
// a poll of jobs that succeeds, and the pod of slurmctld, which says when the next one is there.
#include "bridge/scheduler/ask.h"

#include "api/condition.h"
#include "base/log.h"

static bool serves(const struct td_object *pod)
{
	return pod && !td_object_deleting(pod) && td_condition_true(pod->root, "Ready");
}

void td_bridge_on_ctld(void *bridge, struct td_object *old, struct td_object *now)
{
	struct td_bridge *b = bridge;
	if (serves(old) && !serves(now))
		atomic_store(&b->away, true);
	if (!serves(old) && serves(now)) // calls that wait for the one before it end now
		atomic_store(&b->relink, true);
}

bool td_bridge_away(struct td_bridge *b, bool away)
{
	return atomic_exchange(&b->away, away) != away;
}

enum { OLD_MS = 5000 };

bool td_bridge_sees(struct td_bridge *b, const struct td_slurm_snapshot *s)
{
	return s && td_slurm_snapshot_late(s, td_now(b)) <= OLD_MS && !(s->gap_ms && atomic_load(&b->away));
}
