// How a job is made that holds something of a node for nobody's use (hold.h).
#include "bridge/syncer/hold.h"

#include "slurm/preempt.h"
#include "slurm/qos.h"

#include <string.h>

// Where others may be preempted, nobody preempts such a job, and it preempts nobody. Makes the QOS when it is
// not there. *ret NULL: none is needed.
static int qos(const struct td_hold *h, const char **ret, struct td_cancel *c, struct td_error *err)
{
	*ret = NULL;
	if (!h->s->n_qos)
		return 0;
	const struct td_slurm_qos q = {.name = (char[]){TD_SLURM_QOS_SHADOW},
				       .description = (char[]){"what pods of other schedulers hold"}};
	int r = atomic_load(&h->b->hold_qos) ? 0 : td_slurm_qos_write(h->slurm, &q, c, err);
	if (r)
		return r;
	atomic_store(&h->b->hold_qos, true);
	*ret = TD_SLURM_QOS_SHADOW;
	return 0;
}

int td_hold_submit(const struct td_hold *h, enum td_hold_is *ret_is, int64_t *ret_job, struct td_cancel *c,
		   struct td_error *err)
{
	td_auto_free char *mark = td_asprintf("%s%s/%s", h->mark, h->s->cluster_uid, h->n->name);
	struct td_slurm_ask a = {.name = h->name,
				 .script = "#!/bin/sh\nexec sleep infinity\n",
				 .partition = h->n->partitions && *h->n->partitions ? h->n->partitions : NULL,
				 .required_nodes = h->n->name,
				 .dependency = h->dependency,
				 .comment = mark,
				 .admin_comment = mark,
				 .tres_per_node = h->gres,
				 .cpus = h->cpus,
				 .memory_mb = h->memory_mb,
				 .no_limit = true,
				 .priority = h->priority};
	*ret_is = TD_HOLD_NOT_NOW;
	int r = qos(h, &a.qos, c, err);
	if (r)
		return r;
	if (!td_lease_holds())
		return td_fail(err, TD_CANCELLED, "another leads now");

	int64_t job = 0;
	r = h->at_once ? td_slurm_allocate(h->slurm, NULL, &a, c, &job, err)
		       : td_slurm_submit(h->slurm, NULL, &a, c, &job, err);
	if (!r && !td_lease_holds()) // who leads now may have it already (docs/protocols.md 4)
		r = td_fail(err, TD_CANCELLED, "another leads now");

	if (!r) {
		*ret_is = TD_HOLD_MADE;
		*ret_job = job;
	} else if (r == TD_UNCERTAIN || r == TD_CANCELLED) {
		*ret_is = TD_HOLD_UNSURE;
	} else if (r == TD_THROTTLED || r == TD_INVALID || r == TD_DENIED) {
		*ret_is = TD_HOLD_REFUSED;
	}
	if (*ret_is == TD_HOLD_UNSURE) {
		td_bridge_want_list(h->b, 0);
		td_bridge_want_list(h->b, 5000); // finds a submit that lands after the first listing
	}
	return r;
}

const char *td_hold_node(const struct td_settings *s, const struct td_slurm_job *j, const char *mark)
{
	if (!j->admin_comment || !td_starts(j->admin_comment, mark))
		return NULL;
	const char *uid = j->admin_comment + strlen(mark);
	size_t n = strlen(s->cluster_uid);
	return !strncmp(uid, s->cluster_uid, n) && uid[n] == '/' && uid[n + 1] ? uid + n + 1 : NULL;
}
