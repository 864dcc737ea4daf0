// Time limits that count over all runs of a job (pool/slice.h): a job of such a QOS that was queued again
// gets what is left of its time. Limit and mark are one request to Slurm, so a bridge that dies before or
// after it leaves a job that the next one reads and decides alike.
#include "bridge/policy/policies.h"
#include "bridge/scheduler/want.h"

#include "base/log.h"
#include "pool/slice.h"
#include "slurm/history.h"

#include <inttypes.h>
#include <string.h>

// The history of one job is a call of about 5 ms.
enum { READS = 8, AGAIN_MS = 2000 };

bool td_policies_slices(const struct td_settings *s)
{
	return td_settings_total(s, NULL);
}

// What the job has now, and what slurmdbd has of it. *ret_job is filled when it returns 0.
static int look(struct td_bridge *b, struct td_slurm *slurm, const struct td_policies_known *k,
		struct td_slurm_job *ret_job, struct td_pool_slice_plan *ret, struct td_error *err)
{
	int r = td_slurm_job(slurm, k->id, b->cancel, ret_job, err);
	if (r)
		return r;
	td_auto_runs struct td_slurm_runs runs = {0};
	if ((r = td_slurm_history_job(slurm, b->o.cluster, k->id, b->cancel, &runs, err)))
		return r;

	td_auto_free struct td_pool_slice_run *v = td_calloc(runs.n + 1, sizeof(*v));
	size_t n = 0;
	for (size_t i = 0; i < runs.n; i++) {
		const struct td_slurm_run *x = &runs.v[i];
		if (x->id != k->id || strcmp(x->user, ret_job->user) != 0)
			continue;
		v[n++] = (struct td_pool_slice_run){.submit_s = x->submit,
						    .elapsed_s = x->start ? x->elapsed : 0,
						    .limit_min = x->limit_min,
						    .ended = x->end > 0};
	}
	const struct td_pool_slice f = {.restarts = ret_job->restarts,
					.limit_min = ret_job->time_limit_min,
					.mark = td_pool_slice_read(ret_job->admin_comment),
					.runs = v,
					.n_runs = n,
					.since_ms = td_now(b) - k->since_ms};
	*ret = td_pool_slice(&f);
	return 0;
}

static int slice(struct td_bridge *b, struct td_slurm *slurm, struct td_policies_known *k, struct td_error *err)
{
	struct td_pool_slice_plan p = {0};
	td_auto_job struct td_slurm_job j = {0};
	int r = look(b, slurm, k, &j, &p, err);
	if (r == TD_NOT_FOUND) { // it has just ended
		k->stale = true;
		return 0;
	}
	if (r || p.what == TD_SLICE_WAIT)
		return r;
	k->stale = true;
	if (p.what != TD_SLICE_WRITE)
		return 0;

	td_auto_free char *comment = td_pool_slice_write(&p.mark, j.admin_comment);
	const struct td_slurm_job_change ch = {
		.admin_comment = comment, .time_limit_min = p.limit_min, .no_requeue = p.last};
	r = td_slurm_job_update(slurm, k->id, &ch, b->cancel, err);
	if (!r)
		td_info("job %" PRId64 ": it has used %" PRId64 " s in %" PRId64 " runs; its time limit is now %" PRId64
			" min%s",
			k->id, p.mark.used_s, p.mark.runs, p.limit_min,
			p.last ? ", its last, and it is not queued again" : "");
	return r;
}

// Would another task get the limit, too?
static bool of_others(const struct td_policies_facts *f, const struct td_policies_known *k)
{
	for (size_t i = 0; k->shared && i < f->n; i++)
		if (f->v[i].id != k->id && f->v[i].array == k->id)
			return true;
	return false;
}

void td_policies_slices_pass(struct td_bridge *b, const struct td_settings *s, struct td_slurm *slurm,
			     struct td_policies_facts *f)
{
	size_t reads = 0;
	for (size_t i = 0; i < f->n && reads < READS && !td_cancelled(b->cancel); i++) {
		struct td_policies_known *k = &f->v[i];
		if (!k->read || k->stale || !k->batch || k->restarts <= k->counted || !k->limit_min ||
		    td_now(b) < k->again_ms || !td_settings_total(s, k->qos) || of_others(f, k))
			continue;
		reads++;
		k->again_ms = td_now(b) + AGAIN_MS;
		struct td_error e = TD_ERROR_INIT;
		if (slice(b, slurm, k, &e)) {
			td_debug("time of job %" PRId64 ": %s", k->id, e.msg);
			// A history that cannot be asked is not one that lacks runs.
			td_policies_facts_away(f, td_now(b));
			break; // one that does not answer is waited for once a pass
		}
	}
}
