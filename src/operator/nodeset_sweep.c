// Removes what a NodeSet or a cluster that is gone has left behind.
#include "operator/nodeset.h"

#include "base/log.h"

#include <string.h>

static int pods_gone(const struct td_op_pass *p, const struct td_objects *pods, struct td_error *err)
{
	for (size_t i = 0; i < pods->n; i++) {
		const struct td_object *o = pods->v[i];
		bool wanted = td_op_is_wanted(o);
		bool owned = (!td_op_is_slurmd(o) && !wanted) ||
			     !td_streq(td_object_label(o, TD_LABEL_CLUSTER), p->cluster) || td_object_deleting(o);
		// A NodeSet that now names another cluster still owns its pods, so that a typing
		// error ends nothing.
		td_auto(td_object_unref) struct td_object *set =
			p->sc ? td_informer_get(p->op->nodesets, p->ns, td_object_label(o, TD_LABEL_NODESET)) : NULL;
		if (owned || set)
			continue;
		if (wanted) {
			int r = td_op_wanted_drop(p, o, err);
			if (r)
				return r;
			continue;
		}
		const struct td_kube_delete_opts del = {.uid = o->uid, .grace_s = -1};
		td_info("slurmd pod %s/%s belongs to no NodeSet any more: ended", p->ns, o->name);
		int r = td_kube_delete(p->op->k, &td_pods, p->ns, o->name, &del, p->c, err);
		if (r && r != TD_NOT_FOUND)
			return r;
	}

	return 0;
}

static int shares_gone(const struct td_op_pass *p, const struct td_objects *nodes, struct td_error *err)
{
	for (size_t i = 0; i < nodes->n; i++) {
		if (!td_object_annotation(nodes->v[i], TD_ANN_SHARE))
			continue;
		td_auto(td_object_unref) struct td_object *owner = td_op_claim(p->op, nodes->v[i]);
		td_auto_objects struct td_objects there = {0};
		td_informer_by_index(p->op->pods, "node", nodes->v[i]->name, &there);
		bool slurmd = false;
		for (size_t k = 0; k < there.n; k++)
			slurmd |= td_op_is_slurmd(there.v[k]);
		int r;
		if (!owner && !slurmd && (r = td_op_unshare(p->op, nodes->v[i], p->c, err)))
			return r;
	}
	return 0;
}

// Removes records of dynamic nodes with the mark of a NodeSet that is gone.
static void ghosts(const struct td_op_pass *p, const struct td_objects *pods)
{
	struct td_op_view *v = p->v;
	for (size_t i = 0; i < v->nodes.n; i++) {
		const struct td_slurm_node *n = &v->nodes.v[i];
		if (!(n->states & TD_NODE(DYNAMIC_NORM)) || !n->features)
			continue;
		td_auto_strv struct td_strv f = {0};
		td_strv_split(&f, n->features, ',');
		const char *mark = NULL;
		for (size_t k = 0; k < f.n; k++)
			if (td_starts(f.v[k], "set."))
				mark = f.v[k] + 4;
		bool known = !mark;
		for (size_t k = 0; k < p->sets->n && !known; k++)
			known = td_streq(p->sets->v[k]->name, mark);
		// A pod that is still ending keeps its record.
		for (size_t k = 0; k < pods->n && !known; k++)
			known = td_op_is_slurmd(pods->v[k]) && td_streq(td_op_pod_node(pods->v[k]), n->name);
		if (known)
			continue;

		struct td_error e = TD_ERROR_INIT;
		const struct td_pool_record record = td_op_record(n);
		int r = td_pool_ghost(&record) == TD_MEMBER_DELETE_RECORD
				? td_slurm_node_delete(v->slurm, n->name, v->call, &e)
				: td_slurm_node_update(v->slurm, n->name, "DOWN", TD_REASON_GONE, v->call, &e);
		v->fetched = 0;
		td_info("SlurmCluster %s: node %s belongs to no NodeSet any more: %s", v->key, n->name,
			r ? e.msg : "its record goes");
	}
}

int td_op_nodesets_sweep(const struct td_op_pass *p, const struct td_objects *nodes, struct td_error *err)
{
	td_auto_objects struct td_objects pods = {0};
	td_informer_list(p->op->pods, p->ns, &pods);
	int r = pods_gone(p, &pods, err);
	if (!r)
		r = shares_gone(p, nodes, err);
	if (!r && p->sc && p->v->fresh)
		ghosts(p, &pods);
	return r;
}
