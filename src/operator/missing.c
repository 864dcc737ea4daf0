// Slurmds that Slurm has forgotten. Pure: the clock is the caller's.
//
// A dynamic node lives only in slurmctld's memory until the next save of its state (up to 5 s). A slurmctld that is killed before forgets
// it, and the node's slurmd, which registered once, never does so again (24.11: slurmd.c, _registration_engine; slurmctld asks only nodes
// that it knows). Nothing in Slurm 24.11 makes it: `scontrol create nodename=` makes a CLOUD node that waits for power, a reconfigure goes
// to known nodes, REST has no way to create one. A new slurmd process registers within 0.1 s, so its pod is replaced.
//
// Nothing is lost by that. Without the record slurmctld fails or requeues, when it loads its state, every job that was on the node
// ("invalid nodes"), and it would have a re-registering slurmd abort what it still runs: processes left in the old container belong to no
// job. Pods' containers live beside slurmd and are not touched.
#include "operator/operator.h"

#include <string.h>

// A slurmd that met a dying slurmctld tries again after 1, 2, 4 and 8 s: who is not there after 15 s of answers is not on his way.
// Each restart in vain doubles the wait (a full node table helps nobody), up to 8 minutes.
// A new slurmd is Ready before it has registered, so the first second of absence is no news.
enum { NEWS_MS = 1000, WAIT_MS = 15000, TRIES_MAX = 5, KEEP_MS = 3600000 };

static struct td_op_absent *entry(struct td_op_missing *m, const char *node, bool make)
{
	for (size_t i = 0; i < m->n; i++)
		if (td_streq(m->v[i].node, node))
			return &m->v[i];
	if (!make)
		return NULL;
	m->v = td_realloc(m->v, (m->n + 1) * sizeof(*m->v));
	m->v[m->n] = (struct td_op_absent){.node = td_strdup(node)};
	return &m->v[m->n++];
}

static void drop(struct td_op_missing *m, struct td_op_absent *e)
{
	free(e->node);
	free(e->pod);
	*e = m->v[--m->n];
}

int64_t td_op_missing_look(struct td_op_missing *m, const char *node, const char *pod, enum td_op_sight sight, int64_t now_ms)
{
	for (size_t i = m->n; i-- > 0;) // nodes that nobody asks about any more
		if (now_ms - m->v[i].looked > KEEP_MS)
			drop(m, &m->v[i]);
	struct td_op_absent *e = entry(m, node, sight == TD_OP_ABSENT);
	if (!e)
		return -1;
	if (sight == TD_OP_PRESENT) {
		drop(m, e);
		return -1;
	}
	e->looked = now_ms;
	if (sight != TD_OP_ABSENT || !td_streq(e->pod, pod)) {
		free(e->pod);
		e->pod = td_strdup(sight == TD_OP_ABSENT ? pod : NULL);
		e->since = now_ms;
	}
	if (sight != TD_OP_ABSENT || now_ms - e->since < NEWS_MS)
		return -1;
	int64_t left = e->since + ((int64_t)WAIT_MS << e->tries) - now_ms;
	return left > 0 ? left : 0;
}

void td_op_missing_restarted(struct td_op_missing *m, const char *node)
{
	struct td_op_absent *e = entry(m, node, false);
	if (!e)
		return;
	e->tries += e->tries < TRIES_MAX;
	free(e->pod);
	e->pod = NULL;
}

void td_op_missing_done(struct td_op_missing *m)
{
	while (m->n)
		drop(m, &m->v[m->n - 1]);
	free(m->v);
	*m = (struct td_op_missing){0};
}
