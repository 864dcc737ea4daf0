// Where the nodes of a cluster are, from their labels. Pure.
#include "slurm/topology.h"
#include "operator/operator.h"

void td_op_places_add(struct td_op_places *p, const yyjson_val *sc, const yyjson_val *node)
{
	if (!td_slurm_topology(sc))
		return;
	td_auto_strv struct td_strv labels = {0}, none = {0};
	td_slurm_topology_labels(sc, &labels, &none);
	if (p->n == p->cap) {
		p->cap = p->cap ? p->cap * 2 : 64;
		p->v = td_realloc(p->v, p->cap * sizeof(*p->v));
	}
	struct td_slurm_place *at = &p->v[p->n++];
	*at = (struct td_slurm_place){.node = td_strdup(td_jstr(node, "metadata.name"))};
	yyjson_val *its = td_jget(node, "metadata.labels");
	for (size_t i = 0; i < labels.n && i < TD_SLURM_LEVELS; i++)
		at->at[i] = td_strdup(td_jkey_str(its, labels.v[i]));
}

void td_op_places_done(struct td_op_places *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free((char *)p->v[i].node);
		for (size_t k = 0; k < TD_SLURM_LEVELS; k++)
			free((char *)p->v[i].at[k]);
	}
	free(p->v);
	*p = (struct td_op_places){0};
}
