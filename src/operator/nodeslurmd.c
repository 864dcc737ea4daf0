// A slurmd that gets another image: which it may get, and whether it has it. The pod is replaced by whoever keeps the
// NodeSet (nodeset.c), because the node is out of service and the Node says another image.
#include "operator/health.h"

#include "operator/nodeset.h"
#include "slurm/hosts.h"

#include <string.h>

struct td_object *td_op_slurmd_cluster(struct td_op *op, const struct td_object *node, struct td_object **ret_set)
{
	td_auto(td_object_unref) struct td_object *set = td_op_claim(op, node);
	*ret_set = NULL;
	if (!set || td_slurm_host_set(set->root) || td_api_other_cluster(set->root))
		return NULL;
	struct td_object *sc = td_informer_get(op->clusters, set->ns, td_jstr_or(set->root, "spec.clusterName", ""));
	if (sc)
		*ret_set = td_object_ref(set);
	return sc;
}

int td_op_slurmd_check(struct td_op *op, const struct td_object *node, const char *image, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *set = NULL, *sc = td_op_slurmd_cluster(op, node, &set);
	if (!sc)
		return td_fail(err, TD_INVALID,
			       "no NodeSet of a SlurmCluster has a slurmd pod on node %s, so it has no image "
			       "to change",
			       node->name);
	td_auto(td_json_unref) struct td_json *now = td_op_in_force(op, sc);
	const char *all = td_jstr_or(td_json_root(now), "spec.slurm.image", TD_OP_SLURM_IMAGE),
		   *old = td_jstr(td_json_root(now), "spec.slurm.slurmdImage");
	if (image && !td_streq(image, all) && !td_streq(image, old))
		return td_fail(
			err, TD_INVALID,
			"spec.slurmImage: slurmds of SlurmCluster %s/%s may have its spec.slurm.image (%s)%s%s%s, "
			"and not \"%.100s\"",
			sc->ns, sc->name, all, old ? " or its slurmdImage (" : "", old ? old : "", old ? ")" : "",
			image);
	if (td_streq(td_jstr(set->root, "spec.updateStrategy.type"), "OnDelete"))
		return td_fail(err, TD_INVALID,
			       "spec.updateStrategy.type of NodeSet %s/%s is OnDelete, so nobody would replace its "
			       "slurmd: write RollingUpdate, the upgrade paces it",
			       set->ns, set->name);
	const yyjson_val *its = td_jfind(td_jget(set->root, "spec.template.spec.containers"), "name", "slurmd");
	if (td_jstr(its, "image"))
		return td_fail(
			err, TD_INVALID,
			"spec.template of NodeSet %s/%s has an image of its own for slurmd (%s): take it away, or "
			"change it there",
			set->ns, set->name, td_jstr(its, "image"));
	return 0;
}

bool td_op_slurmd_anew(struct td_op_node *n, const struct td_object *slurmd, const char *image)
{
	struct td_op *op = n->op;
	td_auto(td_object_unref) struct td_object *set = NULL, *sc = td_op_slurmd_cluster(op, n->node, &set);
	struct td_op_found gpus;
	struct td_op_share share;
	struct td_error why = TD_ERROR_INIT;
	if (!sc || !slurmd || td_object_deleting(slurmd) || !td_op_gpus(op, sc->root, n->node, &gpus, &why))
		return false;
	td_auto(td_json_unref) struct td_json *in_force = td_op_in_force(op, sc), *want = NULL;
	// It may be ready before Slurm has heard of it: the test waits for that.
	return td_streq(td_op_slurmd_image(td_json_root(in_force), n->node->root), image) &&
	       td_op_share_of(sc->root, set->root, n->node->root, &gpus, &share, &why) &&
	       !td_op_slurmd_pod(td_json_root(in_force), set->root, n->node->root, &share, op->image, &want, &why) &&
	       td_streq(td_object_annotation(slurmd, TD_ANN_REVISION),
			td_jkey_str(td_jget(td_json_root(want), "metadata.annotations"), TD_ANN_REVISION));
}
