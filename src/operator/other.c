// NodeSets whose nodes are those of another Kubernetes cluster: their links (far/far.h), and what is checked.
#include "operator/nodeset.h"

#include "api/quantity.h"
#include "far/far.h"

#include <string.h>

enum { LOOK_MS = 2000, SWEEP_TURNS = 15 };

bool td_op_other_node(const yyjson_val *node)
{
	return td_jkey(td_jget(node, "metadata.annotations"), TD_ANN_OTHER_SET);
}

void td_op_other_check(const yyjson_val *cluster, const yyjson_val *set, struct td_strv *problems)
{
	static const char *const others[] = {"hosts", "nodeSelector", "affinity", "onDemand", "tolerations"};
	static const char *const lists[] = {"spec.partitions", "spec.resourceGroups"};
	const char *name = td_jstr_or(set, "metadata.name", "");
	yyjson_val *p;
	size_t i, n;
	if (!td_api_other_cluster(set))
		return;
	for (i = 0; i < TD_LEN(others); i++) {
		td_auto_free char *path = td_asprintf("spec.%s", others[i]);
		yyjson_val *v = td_jget(set, path);
		bool says =
			yyjson_obj_size(v) || !yyjson_is_obj(v) || !strcmp(others[i], "onDemand"); // {}: all defaults
		if (v && !yyjson_is_null(v) && says)
			td_strv_addf(
				problems,
				"spec.%s: it chooses nodes of this cluster, and spec.otherCluster those of another: "
				"remove one of the two (spec.otherCluster.nodeSelector chooses there)",
				others[i]);
	}
	if (!cluster)
		return;
	for (size_t l = 0; l < TD_LEN(lists); l++)
		yyjson_arr_foreach (td_jget(cluster, lists[l]), i, n, p)
			if (td_jhas(td_jget(p, "nodeSets"), name))
				return;
	td_strv_addf(
		problems,
		"spec.otherCluster: nobody could use these nodes: only partitions that name the NodeSet have them; add "
		"a partition with nodeSets: [%s] to spec.partitions (or spec.resourceGroups) of SlurmCluster %s",
		name, td_jstr_or(cluster, "metadata.name", ""));
}

char *td_op_other_problem(struct td_op *op, const struct td_object *set)
{
	return op->far && td_api_other_cluster(set->root) ? td_far_problem(op->far, set->ns, set->name) : NULL;
}

// spec.reserve of its SlurmCluster.
static void reserve(const yyjson_val *sc, struct td_far_want *w)
{
	const yyjson_val *v = td_jget(sc, "spec.reserve");
	char num[32];
	td_quantity_milli(td_op_quantity(v, "cpu", num, "1"), &w->reserve_milli, NULL);
	td_quantity_ceil(td_op_quantity(v, "memory", num, "1Gi"), &w->reserve_memory, NULL);
}

// Nodes of a NodeSet that is gone, whose link nobody knew (this process began later).
static void sweep(struct td_op *op, struct td_cancel *c)
{
	td_auto_objects struct td_objects nodes = {0};
	td_informer_list(op->nodes, NULL, &nodes);
	for (size_t i = 0; i < nodes.n; i++) {
		const char *own = td_object_annotation(nodes.v[i], TD_ANN_OTHER_SET);
		td_auto_free char *ns = NULL, *name = NULL;
		if (!own)
			continue;
		td_key_split(own, &ns, &name);
		td_auto(td_object_unref) struct td_object *set = td_informer_get(op->nodesets, ns, name);
		const struct td_kube_delete_opts del = {.uid = nodes.v[i]->uid, .grace_s = -1};
		if (!set || !td_api_other_cluster(set->root))
			td_kube_delete(op->k, &td_nodes, NULL, nodes.v[i]->name, &del, c, NULL);
	}
}

void td_op_others_run(struct td_op *op, struct td_cancel *c)
{
	unsigned turn = 0;
	do {
		td_auto_objects struct td_objects sets = {0};
		td_informer_list(op->nodesets, NULL, &sets);
		struct td_far_want *v = td_calloc(sets.n ? sets.n : 1, sizeof(*v));
		size_t n = 0;
		for (size_t i = 0; i < sets.n; i++) {
			td_auto(td_object_unref) struct td_object *sc = td_informer_get(
				op->clusters, sets.v[i]->ns, td_jstr_or(sets.v[i]->root, "spec.clusterName", ""));
			if (!td_api_other_cluster(sets.v[i]->root) || td_object_deleting(sets.v[i]))
				continue;
			v[n] = (struct td_far_want){.set = sets.v[i]};
			reserve(sc ? sc->root : NULL, &v[n++]);
		}
		td_far_sync(op->far, v, n, c);
		free(v);
		if (turn++ % SWEEP_TURNS == 0)
			sweep(op, c);
	} while (!td_cancel_wait(c, LOOK_MS));
}
