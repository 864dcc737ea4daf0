// What a NodeSet or a cluster left that is gone.
#include "operator/nodeset.h"

#include "base/log.h"

#include <string.h>

int td_op_nodesets_sweep(struct td_op *op, struct td_object *sc, const char *ns, const char *cluster, struct td_op_view *v,
			 struct td_objects *sets, struct td_objects *nodes, struct td_cancel *c, struct td_error *err)
{
	td_auto_objects struct td_objects pods = {0};
	td_informer_list(op->pods, ns, &pods);
	for (size_t i = 0; i < pods.n; i++) {
		bool owned = !td_op_is_slurmd(pods.v[i]) || !td_streq(td_object_label(pods.v[i], TD_LABEL_CLUSTER), cluster) ||
			     td_object_deleting(pods.v[i]);
		// A NodeSet that names another cluster now still owns its pods: a slip of the pen ends nothing.
		td_auto(td_object_unref) struct td_object *set =
			sc ? td_informer_get(op->nodesets, ns, td_object_label(pods.v[i], TD_LABEL_NODESET)) : NULL;
		owned |= set != NULL;
		if (owned)
			continue;
		const struct td_delete del = {.uid = pods.v[i]->uid, .grace_s = -1};
		td_info("slurmd pod %s/%s belongs to no NodeSet any more: ended", ns, pods.v[i]->name);
		int r = td_kube_delete(op->k, &td_pods, ns, pods.v[i]->name, &del, c, err);
		if (r && r != TD_NOT_FOUND)
			return r;
	}
	for (size_t i = 0; i < nodes->n; i++) {
		if (!td_object_annotation(nodes->v[i], TD_ANN_SHARE))
			continue;
		td_auto(td_object_unref) struct td_object *owner = td_op_claim(op, nodes->v[i]);
		td_auto_objects struct td_objects there = {0};
		td_informer_by_index(op->pods, "node", nodes->v[i]->name, &there);
		bool slurmd = false;
		for (size_t k = 0; k < there.n; k++)
			slurmd |= td_op_is_slurmd(there.v[k]);
		int r;
		if (!owner && !slurmd && (r = td_op_share_set(op, nodes->v[i]->name, NULL, c, err)) && r != TD_NOT_FOUND)
			return r;
	}
	// Ghosts: dynamic nodes that carry the mark of a NodeSet which is not there any more.
	for (size_t i = 0; sc && v->fresh && i < v->nodes.n; i++) {
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
		for (size_t k = 0; k < sets->n && !known; k++)
			known = td_streq(sets->v[k]->name, mark);
		for (size_t k = 0; k < pods.n && !known; k++) // its pod is still ending
			known = td_op_is_slurmd(pods.v[k]) && td_streq(td_op_pod_node(pods.v[k]), n->name);
		if (known)
			continue;
		struct td_error e = TD_ERROR_INIT;
		int r = n->states & TD_NODE(DOWN) ? td_slurm_node_delete(v->slurm, n->name, v->call, &e)
						  : td_slurm_node_update(v->slurm, n->name, "DOWN", TD_REASON_GONE, v->call, &e);
		v->fetched = 0;
		td_info("SlurmCluster %s: node %s belongs to no NodeSet any more: %s", v->key, n->name, r ? e.msg : "its record goes");
	}
	return 0;
}
