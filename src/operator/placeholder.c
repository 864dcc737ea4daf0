// The placeholder pods of spec.placeholders: one beside each slurmd, which owns it. What native jobs
// hold on the node is asked of Kubernetes by it, so that kube-scheduler gives that to nobody else.
// slurmd's own pod cannot say it: pods with claims cannot be resized. The bridge resizes them.
#include "operator/nodeset.h"

#include "base/log.h"

#include <string.h>

struct td_json *td_op_placeholder_pod(const yyjson_val *sc, const yyjson_val *nodeset, const yyjson_val *slurmd,
				      const char *node, const char *image)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d =
		td_op_template("placeholder.yaml", {"cluster", td_jstr_or(sc, "metadata.name", "")},
			       {"nodeset", td_jstr_or(nodeset, "metadata.name", "")}, {"node", node},
			       {"priority", TD_PRIORITY_SLURM}, {"image", image});
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	yyjson_val *secrets = td_jget(slurmd, "spec.imagePullSecrets");
	if (secrets)
		td_jm_copyval(d, root, "spec.imagePullSecrets", secrets);
	td_op_tolerations(d, td_jm_get(root, "spec"), nodeset);
	td_jm_str(d, root, "apiVersion", "v1");
	td_jm_str(d, root, "kind", "Pod");
	td_jm_strf(d, root, "metadata.name", "%s" TD_PLACEHOLDER_SUFFIX, td_jstr_or(slurmd, "metadata.name", ""));
	td_jm_str(d, root, "metadata.namespace", td_jstr_or(slurmd, "metadata.namespace", ""));
	td_op_own(d, root, slurmd, &td_pods);
	return td_json_from_mut(root);
}

bool td_op_is_placeholder(const struct td_object *pod)
{
	return td_streq(td_object_label(pod, TD_LABEL_NAME), TD_PLACEHOLDER) && td_object_label(pod, TD_LABEL_NODESET);
}

static int delete(const struct td_op_pass *p, const struct td_object *o, struct td_error *err)
{
	const struct td_kube_delete_opts del = {.uid = o->uid, .grace_s = -1};
	int r = td_kube_delete(p->op->k, &td_pods, o->ns, o->name, &del, p->c, err);
	return r == TD_NOT_FOUND ? 0 : r ? td_wrap(err, "deleting pod %s/%s", o->ns, o->name) : 0;
}

// Says once that the API cannot do it.
static bool served(const struct td_op_pass *p)
{
	struct td_op *op = p->op;
	if (!op->resize && !p->v->resize_said) {
		p->v->resize_said = true;
		td_kube_record(op->events, TD_ABOUT(p->sc, &td_slurmclusters), "Warning", "NotServed",
			       "spec.placeholders has no effect: the API server does not serve pods/resize "
			       "(Kubernetes 1.33 and newer do)");
	}
	return op->resize;
}

int td_op_row_placeholder(const struct td_op_pass *p, struct td_object *set, const struct td_op_row *x,
			  struct td_error *err)
{
	if (!p->op->image || !p->sc || !x->pod || td_api_other_cluster(set->root))
		return 0;

	td_auto_free char *name = td_asprintf("%s" TD_PLACEHOLDER_SUFFIX, x->pod->name);
	td_auto(td_object_unref) struct td_object *have = td_informer_get(p->op->pods, x->pod->ns, name);
	bool want = td_jbool(p->sc->root, "spec.placeholders.enabled", false) && served(p);

	if (have) {
		yyjson_val *owner = td_object_owner(have);
		// That of an earlier slurmd goes with it.
		bool ours = td_streq(td_jstr(owner, "uid"), x->pod->uid);
		bool over = !want || td_kube_pod_ended(have->root);
		return ours && over && !td_object_deleting(have) ? delete (p, have, err) : 0;
	}

	const char *node = td_jstr(x->pod->root, "spec.nodeName");
	if (!want || !node || td_object_deleting(x->pod) || !td_streq(td_jstr(x->pod->root, "status.phase"), "Running"))
		return 0;

	td_auto(td_json_unref) struct td_json *pod =
		td_op_placeholder_pod(p->sc->root, set->root, x->pod->root, node, p->op->image);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(pod));
	int r = td_kube_create(p->op->k, &td_pods, x->pod->ns, yyjson_mut_doc_get_root(d), p->c, NULL, err);
	return r == TD_EXISTS ? 0 : r ? td_wrap(err, "creating pod %s/%s", x->pod->ns, name) : 0;
}
