// Where the nodes of a cluster are, from their labels or from their fabric. Pure.
#include "slurm/topology.h"
#include "operator/operator.h"
#include "slurm/ibnet.h"
#include "slurm/lldp.h"
#include "slurm/nics.h"

// Adapters of other planes hang at other switches.
static void ids(const yyjson_val *sc, const yyjson_val *node, struct td_strv *ret)
{
	td_auto_nics struct td_slurm_nics l = {0};
	td_slurm_nics_read(td_jget(sc, "spec.fabric"), node, &l);
	for (size_t i = 0; i < l.n; i++) {
		if (!td_streq(l.v[i].plane, l.gpu_plane ? "gpu" : NULL))
			continue;
		if (l.v[i].guid)
			td_strv_add(ret, l.v[i].guid);
		if (l.v[i].interface && l.gpu_plane)
			td_strv_addf(ret, "@%s", l.v[i].interface);
	}
	if (l.gpu_plane && l.n)
		td_strv_add(ret, "@"); // where none is of that plane, none counts
}

void td_op_places_add(struct td_op_places *p, const yyjson_val *sc, const char *name, const yyjson_val *node)
{
	if (!td_slurm_topology(sc))
		return;
	td_auto_strv struct td_strv labels = {0}, none = {0};
	td_slurm_topology_labels(sc, &labels, &none);
	if (p->n == p->cap) {
		p->cap = p->cap ? p->cap * 2 : 64;
		p->v = td_realloc(p->v, p->cap * sizeof(*p->v));
		p->ids = td_realloc(p->ids, p->cap * sizeof(*p->ids));
	}
	p->ids[p->n] = (struct td_strv){0};
	struct td_slurm_place *at = &p->v[p->n++];
	*at = (struct td_slurm_place){.node = td_strdup(name)};
	if (td_jget(sc, "spec.topology.fabric")) {
		ids(sc, node, &p->ids[p->n - 1]);
		return;
	}
	struct td_slurm_place its;
	td_slurm_place_read(node, &labels, &its);
	for (size_t i = 0; i < TD_SLURM_LEVELS; i++)
		at->at[i] = its.at[i] ? td_strdup(its.at[i]) : NULL;
}

void td_op_places_find(struct td_op_places *p, const yyjson_val *sc, const struct td_slurm_facts *texts,
		       struct td_strv *problems)
{
	yyjson_val *ref = td_jget(sc, "spec.topology.fabric");
	const char *text = ref && td_slurm_topology(sc) ? td_slurm_text(texts, ref) : NULL;
	td_auto(td_slurm_ibnet_free) struct td_slurm_ibnet *net = NULL;
	struct td_error err = TD_ERROR_INIT;
	size_t found;
	if (!text)
		return; // that it is not there was said
	if (td_slurm_lldp_is(text) ? td_slurm_lldp_read(text, p->v, p->ids, p->n, &net, &err)
				   : td_slurm_ibnet_read(text, &net, &err))
		td_strv_addf(problems, "spec.topology.fabric: key %s of ConfigMap %s: %s", td_jstr(ref, "key"),
			     td_jstr(ref, "configMap"), err.msg);
	else
		p->levels = td_slurm_ibnet_places(net, p->v, p->ids, p->n, &found);
}

void td_op_places_done(struct td_op_places *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free((char *)p->v[i].node);
		for (size_t k = 0; k < TD_SLURM_LEVELS; k++)
			free((char *)p->v[i].at[k]);
		td_strv_done(&p->ids[i]);
	}
	free(p->v);
	free(p->ids);
	*p = (struct td_op_places){0};
}
