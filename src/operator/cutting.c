// GPUs that are cut because somebody waits for a part (spec.gpuCutting of a NodeSet). The operator tells the nodes what the
// NodeSet allows; the bridge, which knows who waits, asks for a cut by an annotation of the Node (bridge/cuts.h); and a
// NodeAction comes of it, as if a person had made it. What is asked for is held against the NodeSet once more, so who may
// annotate Nodes can have no GPU cut where no NodeSet allows it.
#include "operator/health.h"
#include "operator/nodeset.h"

#include "api/gpuparts.h"
#include "base/log.h"
#include "slurm/hosts.h"

#include <string.h>

// requestedBy of its NodeActions. In spec.policy it says that the node was idle, so the drain is given up soon.
#define CUTTING "spec.gpuCutting"

static const yyjson_val *cutting_of(const yyjson_val *nodeset)
{
	yyjson_val *v = td_jget(nodeset, CUTTING);
	return yyjson_is_obj(v) ? v : NULL;
}

void td_op_cutting_check(const yyjson_val *nodeset, struct td_strv *problems)
{
	const char *gres = td_jstr_or(nodeset, "spec.slurm.gres", "auto");
	if (!cutting_of(nodeset))
		return;
	if (!td_streq(gres, "auto"))
		td_strv_addf(problems,
			     CUTTING
			     ": spec.slurm.gres is \"%.60s\", so Slurm would not see the parts: set that to auto, or "
			     "leave gpuCutting out",
			     gres);
	if (td_slurm_host_set(nodeset) || td_api_other_cluster(nodeset))
		td_strv_addf(problems,
			     CUTTING
			     ": the machines of %s are cut where they are: leave it out, and cut their GPUs there",
			     td_api_other_cluster(nodeset) ? "spec.otherCluster" : "spec.hosts");
}

static bool permits(const yyjson_val *cutting, const char *part)
{
	yyjson_val *list = td_jget(cutting, "parts"), *x;
	size_t i, n;
	yyjson_arr_foreach (list, i, n, x)
		if (td_streq(yyjson_get_str(x), part))
			return true;
	return !yyjson_arr_size(list);
}

void td_op_cutting_kinds(const struct td_object *set, const struct td_object *node, struct td_strv *seen,
			 struct td_strv *ret)
{
	const yyjson_val *cutting = set ? cutting_of(set->root) : NULL;
	const char *text = cutting ? td_object_annotation(node, TD_ANN_GPU_PARTS) : NULL;
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto_free char *key = text ? td_asprintf("%s %s", set->uid, text) : NULL;
	yyjson_val *x, *p;
	size_t i, n, k, m;
	struct td_api_part part;
	if (!text || td_strv_has(seen, key) || td_json_parse(text, strlen(text), &j, NULL))
		return;
	td_strv_add(seen, key);
	yyjson_arr_foreach (td_json_root(j), i, n, x)
		yyjson_arr_foreach (td_jget(x, "parts"), k, m, p)
			// It becomes a word in a program.
			if (td_api_part_read(p, &part) && permits(cutting, part.name) &&
			    !strpbrk(part.name, "\"\\\n") && !td_strv_has(ret, part.name))
				td_strv_add(ret, part.name);
}

char *td_op_cutting_text(const yyjson_val *nodeset)
{
	const yyjson_val *v = cutting_of(nodeset);
	if (!v)
		return NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_strf(d, root, "set", "%s/%s", td_jstr_or(nodeset, "metadata.namespace", ""),
		   td_jstr_or(nodeset, "metadata.name", ""));
	td_jm_int(d, root, "keepWhole", td_jint(v, "keepWhole", 1));
	td_jm_int(d, root, "idleSeconds", td_op_seconds(td_jstr_or(v, "idleTime", "10m")));
	td_jm_int(d, root, "pauseSeconds", td_op_seconds(td_jstr_or(v, "pause", "5m")));
	if (yyjson_arr_size(td_jget(v, "parts")))
		td_jm_copyval(d, root, "parts", td_jget(v, "parts"));
	return td_json_mut_text(root, NULL);
}

int td_op_row_cutting(const struct td_op_pass *p, const struct td_object *set, const struct td_op_row *x,
		      struct td_error *err)
{
	if (!x->node || x->n.host)
		return 0;
	td_auto_free char *text = x->n.matched && x->pod ? td_op_cutting_text(set->root) : NULL;
	if (td_streq(td_object_annotation(x->node, TD_ANN_GPU_CUTTING), text))
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *notes = td_jm_obj(d, root, "metadata.annotations");
	td_jm_str(d, root, "metadata.uid", x->node->uid);
	td_jm_key_set(d, notes, TD_ANN_GPU_CUTTING, text ? yyjson_mut_strcpy(d, text) : yyjson_mut_null(d));
	int r = td_kube_patch(p->op->k, TD_AT(&td_nodes, NULL, x->name), TD_PATCH_MERGE, root, p->c, NULL, err);
	return r == TD_NOT_FOUND || r == TD_CONFLICT ? 0 : r ? td_wrap(err, "annotating node %s", x->name) : 0;
}

bool td_op_cutting_soon(const struct td_object *action)
{
	return td_streq(td_jstr(action->root, "spec.policy"), CUTTING);
}

// Why it may not be; NULL: it may. The caller frees it.
static char *refusal(const struct td_op_node *n, const struct td_object *set, const yyjson_val *want)
{
	const yyjson_val *cutting = set ? cutting_of(set->root) : NULL;
	struct td_error e = TD_ERROR_INIT;
	yyjson_val *x;
	size_t i, m;
	if (!cutting)
		return td_strdup("the node's NodeSet has no " CUTTING);
	for (i = 0; i < n->acts.n; i++)
		if (!td_op_act_over(n->acts.v[i]))
			return td_asprintf("NodeAction %s is not over", n->acts.v[i]->name);
	if (td_object_annotation(n->node, TD_ANN_HOLD))
		return td_strdup("the node is out of service");
	yyjson_arr_foreach (td_jget(want, "parts"), i, m, x)
		if (!yyjson_is_str(x) || !permits(cutting, yyjson_get_str(x)))
			return td_asprintf(CUTTING ".parts of the NodeSet does not allow %.40s",
					   yyjson_is_str(x) ? yyjson_get_str(x) : "what is no name");
	return td_op_cut_check(n->node, want, &e) ? td_strdup(e.msg) : NULL;
}

// The name of the NodeAction that comes of a wish. Until the wish is taken away it is the same: whoever carries on after a
// crash makes no second one, and does not refuse the wish because of the first. The caller frees it.
static char *name_of(const struct td_op_node *n, const char *text)
{
	const char *was = td_object_annotation(n->node, TD_ANN_GPU_CUT_AT);
	td_auto_free char *key = td_asprintf("%s %s %s", n->node->uid, was ? was : "", text),
			  *hash = td_op_hash(key, strlen(key));
	return td_asprintf("%.200s-cut-gpu-%.8s", n->name, hash);
}

bool td_op_cutting_made(const struct td_objects *acts, const char *name)
{
	for (size_t i = 0; i < acts->n; i++)
		if (td_streq(acts->v[i]->name, name))
			return true;
	return false;
}

static int make(struct td_op_node *n, const struct td_object *set, const yyjson_val *want, const char *name,
		struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "apiVersion", "tandem.dev/v1alpha1");
	td_jm_str(d, root, "kind", "NodeAction");
	td_jm_str(d, root, "metadata.name", name);
	td_jm_str(d, root, "spec.node", n->name);
	td_jm_str(d, root, "spec.action", td_pool_act_name(TD_ACT_CUT));
	if (td_jget(want, "gpu"))
		td_jm_int(d, root, "spec.gpu", td_jint(want, "gpu", 0));
	if (yyjson_arr_size(td_jget(want, "parts")))
		td_jm_copyval(d, root, "spec.parts", td_jget(want, "parts"));
	td_jm_strf(d, root, "spec.requestedBy", "NodeSet %.100s", set->name);
	td_jm_strf(d, root, "spec.reason", "%.199s", td_jstr_or(want, "for", ""));
	if (!td_jbool(want, "jobs", false))
		td_jm_str(d, root, "spec.policy", CUTTING);
	int r = td_kube_create(n->op->k, &td_nodeactions, NULL, root, n->c, NULL, err);
	if (!r)
		td_info("node %s: cut-gpu: %s", n->name, td_jstr_or(want, "for", ""));
	return r && r != TD_EXISTS
		       ? td_wrap(err, "creating the NodeAction for node %s that the bridge asks for", n->name)
		       : 0;
}

int td_op_cutting_take(struct td_op_node *n, struct td_error *err)
{
	const char *text = td_object_annotation(n->node, TD_ANN_GPU_CUT);
	if (!text)
		return 0;
	td_auto(td_json_unref) struct td_json *j = NULL;
	td_auto(td_object_unref) struct td_object *set = td_op_claim(n->op, n->node);
	bool bad = td_json_parse(text, strlen(text), &j, NULL);
	td_auto_free char *name = name_of(n, text);
	bool made = td_op_cutting_made(&n->acts, name);
	td_auto_free char *why = made ? NULL : bad ? td_strdup("it is no JSON") : refusal(n, set, td_json_root(j));
	if (why)
		td_kube_record(n->op->events, TD_ABOUT(n->node, &td_nodes), "Warning", "CutRefused",
			       "annotation " TD_ANN_GPU_CUT ": %s", why);
	int r = why || made ? 0 : make(n, set, td_json_root(j), name, err);
	if (r)
		return r;
	td_auto_free char *now = td_asprintf("%lld", (long long)(td_real_ms(&td_clock_system) / 1000));
	const char *const notes[][2] = {{TD_ANN_GPU_CUT, NULL}, {TD_ANN_GPU_CUT_AT, now}, {0}};
	return td_op_health_note(n, notes, err);
}
