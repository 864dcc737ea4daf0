// The table of slurmds that Slurm may have forgotten, and since when each is missed. pool/nodeset.h
// says what follows from it.
#include "operator/operator.h"

#include <string.h>

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

int64_t td_op_missing_look(struct td_op_missing *m, const char *node, const char *pod, enum td_pool_sight sight,
			   int64_t now_ms)
{
	for (size_t i = m->n; i-- > 0;)
		if (td_pool_absence_old(&m->v[i].a, now_ms))
			drop(m, &m->v[i]);
	struct td_op_absent *e = entry(m, node, sight == TD_SIGHT_ABSENT);
	if (!e)
		return -1;
	bool absent = sight == TD_SIGHT_ABSENT, other = !td_streq(e->pod, pod);
	int64_t left = td_pool_absence_look(&e->a, sight, other, now_ms);
	if (sight == TD_SIGHT_PRESENT) {
		drop(m, e);
	} else if (!absent || other) {
		free(e->pod);
		e->pod = td_strdup(absent ? pod : NULL);
	}
	return left;
}

void td_op_missing_restarted(struct td_op_missing *m, const char *node)
{
	struct td_op_absent *e = entry(m, node, false);
	if (!e)
		return;
	td_pool_absence_restarted(&e->a);
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
