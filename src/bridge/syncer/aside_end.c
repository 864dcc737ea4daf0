// The jobs that hold a device which is to leave service have had long enough: they are ended, so that they start
// elsewhere. Slurm's REST cannot queue a job again (S-J14); slurmd's pod on the node does that (standin/watch.h).
#include "bridge/syncer/aside.h"

#include "base/log.h"
#include "bridge/scheduler/ask.h"
#include "slurm/bound.h"

// *ret_again: it is to be queued again. What is no running job any more is nothing to do.
static int end_one(struct td_bridge *b, struct td_slurm *slurm, const struct td_slurm_job *j, bool *ret_again,
		   struct td_cancel *c, struct td_error *err)
{
	struct td_slurm_bound is = {0};
	// A pod's controller makes another one; a stand-in that is queued again would be no pod's.
	bool pod = td_asks_want_job(b->asks, j->id);
	int r = pod || !j->batch ? 0 : td_slurm_job_bound(slurm, j->id, c, &is, err);
	if (r == TD_NOT_FOUND)
		return 0;
	if (r)
		return r;
	*ret_again = is.requeue;
	if (is.requeue)
		return 0;
	td_info("job %lld: ended, because a device that it holds is to leave service", (long long)j->id);
	r = td_slurm_job_end(slurm, j->id, j->name, c, err);
	return r == TD_NOT_FOUND || r == TD_CONFLICT ? 0 : r;
}

// What the node's agent says of it may be old.
static bool runs_on(const struct td_slurm_job *j, const char *node)
{
	bool there = false;
	for (size_t i = 0; i < j->n_nodes; i++)
		there |= td_streq(j->nodes[i].name, node);
	return there && td_job_phase(j->states) == TD_PHASE_RUNNING;
}

int td_aside_end_jobs(struct td_bridge *b, struct td_slurm *slurm, const char *node, const int64_t *jobs, size_t n,
		      char **ret_wish, struct td_cancel *c, struct td_error *err)
{
	td_auto_buf struct td_buf wish = {0};
	int r = 0;
	for (size_t i = 0; i < n && !r; i++) {
		td_auto_job struct td_slurm_job j = {0};
		bool again = false;
		r = td_slurm_job(slurm, jobs[i], c, &j, err);
		if (!r && runs_on(&j, node))
			r = end_one(b, slurm, &j, &again, c, err);
		if (again && j.array && j.task >= 0)
			td_buf_printf(&wish, "%s%lld_%lld:%lld", wish.len ? " " : "", (long long)j.array,
				      (long long)j.task, (long long)j.restarts);
		else if (again)
			td_buf_printf(&wish, "%s%lld:%lld", wish.len ? " " : "", (long long)j.id,
				      (long long)j.restarts);
		r = r == TD_NOT_FOUND ? 0 : r;
	}
	*ret_wish = wish.len ? td_buf_take(&wish) : NULL;
	return r;
}
