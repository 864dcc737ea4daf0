// Nodes on demand: what Slurm is told of them (nodeset.h). What is done with each of them is decided as for
// every node (pool/ondemand.c).
#include "operator/nodeset.h"

bool td_op_on_demand(const yyjson_val *set)
{
	return yyjson_is_obj(td_jget(set, "spec.onDemand"));
}

void td_op_on_demand_check(const yyjson_val *cluster, const yyjson_val *set, struct td_strv *problems)
{
	static const char *const lists[] = {"spec.partitions", "spec.resourceGroups"};
	const char *name = td_jstr_or(set, "metadata.name", "");
	yyjson_val *p, *s;
	size_t i, n, k, m;
	if (!td_op_on_demand(set))
		return;
	for (size_t l = 0; l < TD_LEN(lists); l++)
		yyjson_arr_foreach (td_jget(cluster, lists[l]), i, n, p)
			yyjson_arr_foreach (td_jget(p, "nodeSets"), k, m, s)
				if (td_streq(yyjson_get_str(s), name))
					return;
	td_strv_addf(problems,
		     "spec.onDemand: nobody could use these nodes: only partitions that name a NodeSet on demand "
		     "have its nodes; add \"%s\" to nodeSets of one of spec.partitions (or spec.resourceGroups) "
		     "of SlurmCluster %s",
		     name, td_jstr_or(cluster, "metadata.name", ""));
}

void td_op_demand_done(struct td_op_demand *d)
{
	td_buf_done(&d->lines);
}

void td_op_on_demand_note(const struct td_object *set, const struct td_op_rows *rows, struct td_op_demand *ret)
{
	if (!td_op_on_demand(set->root))
		return;
	for (size_t i = 0; i < rows->n; i++) {
		const struct td_op_row *x = &rows->v[i];
		const char *conf = x->want ? x->want->conf : NULL;
		if (x->n.keep && conf)
			td_buf_printf(&ret->lines, "%s %s\n", x->name, conf);
	}
}

int td_op_on_demand_tell(const struct td_op_pass *p, const struct td_op_demand *d, struct td_error *err)
{
	if (!p->sc)
		return 0;
	td_auto_free char *name = td_asprintf("%s-on-demand", p->cluster);
	td_auto(td_object_unref) struct td_object *live = td_informer_get(p->op->configmaps, p->ns, name);
	if (!live && !d->lines.len)
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *o =
		td_op_template("on-demand.yaml", {"name", name}, {"namespace", p->ns}, {"cluster", p->cluster},
			       {"nodes", td_buf_str(&d->lines)});
	yyjson_mut_val *root = yyjson_mut_doc_get_root(o);
	td_op_own(o, root, p->sc->root, &td_slurmclusters);
	struct td_op_want w = {.gvr = &td_configmaps, .obj = td_json_from_mut(root)};
	int r = td_op_ensure(p->op, &w, p->c, err);
	td_json_unref(w.obj);
	return r;
}

void td_op_on_demand_facts(const struct td_objects *sets, struct td_strv *names, int64_t *ret_start_s)
{
	*ret_start_s = 0;
	for (size_t i = 0; i < sets->n; i++) {
		const yyjson_val *set = sets->v[i]->root;
		int64_t s = td_op_seconds(td_jstr_or(set, "spec.onDemand.startTimeout", "10m"));
		if (!td_op_on_demand(set))
			continue;
		td_strv_add(names, sets->v[i]->name);
		if (s > *ret_start_s)
			*ret_start_s = s;
	}
}
