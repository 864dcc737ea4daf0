// The pod that tests a node (programs/nodetest.sh): reserves it in Slurm, runs a job there, gives it back.
#include "operator/health.h"

#include "base/log.h"
#include "pool/aside.h"
#include "pool/figures.h"
#include "slurm/nics.h"

#include <string.h>

char *td_op_test_name(const struct td_object *slurmd, const char *uid)
{
	return td_asprintf("%s-test-%.8s", td_object_label(slurmd, TD_LABEL_CLUSTER), uid);
}

// slurmctld's pod of the cluster, which has Slurm's image on its node.
static struct td_object *controller(struct td_op *op, const char *ns, const char *cluster)
{
	td_auto_objects struct td_objects l = {0};
	td_informer_list(op->pods, ns, &l);
	for (size_t i = 0; i < l.n; i++)
		if (td_streq(td_object_label(l.v[i], TD_LABEL_NAME), "slurmctld") &&
		    td_streq(td_object_label(l.v[i], TD_LABEL_CLUSTER), cluster) && !td_object_deleting(l.v[i]))
			return td_object_ref(l.v[i]);
	return NULL;
}

static long long gpus_of(const struct td_object *node, const yyjson_val *sc)
{
	const char *share = td_object_annotation(node, TD_ANN_SHARE);
	struct td_op_share s;
	return share && td_op_share_parse(share, td_op_node_resource(sc, node->root), &s) ? s.gpus : 0;
}

// Which of its devices are tested, "0,2,3": those that are out of service one by one are not.
static char *tested(const struct td_object *node, long long gpus)
{
	uint64_t out;
	td_auto_buf struct td_buf t = {0};
	if (!td_pool_aside_read(td_object_annotation(node, TD_ANN_DEVICES_OUT), &out))
		out = 0; // the bridge says so
	for (int i = 0; i < gpus && i < TD_ASIDE_MAX; i++)
		if (!(out >> i & 1))
			td_buf_printf(&t, "%s%d", t.len ? "," : "", i);
	return td_strdup(td_buf_str(&t));
}

// Nodes of one group are to be equal: as many CPUs, the same devices by number and type.
static char *group_of(const struct td_object *node)
{
	td_auto_buf struct td_buf b = {0};
	const char *share = td_object_annotation(node, TD_ANN_SHARE);
	td_buf_printf(&b, "%s %s", td_jstr_or(node->root, "status.nodeInfo.architecture", ""), share ? share : "");
	td_buf_printf(&b, " %s", td_jstr_or(node->root, "status.capacity.cpu", ""));
	yyjson_obj_iter it = yyjson_obj_iter_with(td_jget(node->root, "status.capacity"));
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));)
		if (strchr(yyjson_get_str(k), '/'))
			td_buf_printf(&b, " %s=%s", yyjson_get_str(k), yyjson_get_str(yyjson_obj_iter_get_val(k)));
	return td_buf_take(&b);
}

// What the last test of a node that passed measured, by its NodeActions, each 0 where that is not known.
static void figures_of(struct td_op *op, const char *node, double ret[TD_FIGURES])
{
	td_auto_objects struct td_objects acts = {0};
	int64_t last = 0, at;
	memset(ret, 0, sizeof(*ret) * TD_FIGURES);
	td_informer_by_index(op->actions, "node", node, &acts);
	for (size_t i = 0; i < acts.n; i++) {
		const char *text = td_jstr(acts.v[i]->root, "status.measured");
		td_auto(td_json_unref) struct td_json *j = NULL;
		if (!text || !td_streq(td_jstr(acts.v[i]->root, "status.phase"), "Succeeded") ||
		    td_time_parse(td_jstr_or(acts.v[i]->root, "status.finishedAt", ""), &at) || at < last ||
		    td_json_parse(text, strlen(text), &j, NULL) || !yyjson_is_num(td_jget(td_json_root(j), "gflops")))
			continue;
		last = at;
		for (int k = 0; k < TD_FIGURES; k++) {
			yyjson_val *x = td_jget(td_json_root(j), td_pool_figure_names[k]);
			ret[k] = yyjson_is_num(x) ? yyjson_get_num(x) : 0;
		}
	}
}

double td_op_test_links(const yyjson_val *node)
{
	td_auto_nics struct td_slurm_nics l = {0};
	double sum = 0;
	td_slurm_nics_read(NULL, node, &l);
	for (size_t i = 0; i < l.n; i++)
		if (l.v[i].active && l.v[i].rate > 0)
			sum += (double)l.v[i].rate;
	return sum;
}

void td_op_test_wants(const struct td_pool_figure_want want[TD_FIGURES], const int percent[TD_FIGURES],
		      const size_t others[TD_FIGURES], struct td_buf *ret)
{
	for (int k = 0; k < TD_FIGURES; k++) {
		const struct td_pool_figure_want *w = &want[k];
		// Whoever has an older program measures less, and is compared in what it says.
		const int must = w->floor || k == TD_FIGURE_GFLOPS;
		if (w->least <= 0)
			continue;
		td_buf_printf(ret, "%s%s %.2f %d ", ret->len ? "\n" : "", td_pool_figure_names[k], w->least, must);
		if (w->floor)
			td_buf_printf(ret, "the least that the policy allows");
		else
			td_buf_printf(ret, "%d %% of %.2f, the median of %zu other node%s of its group", percent[k],
				      w->median, others[k], others[k] == 1 ? "" : "s");
	}
}

// What this node must reach; NULL: nothing is compared. One look at all nodes and their acts for each test. Caller frees.
static char *least_of(const struct td_op_node *n)
{
	if (!n->policy.figures)
		return NULL;
	td_auto_objects struct td_objects l = {0};
	td_informer_list(n->op->nodes, NULL, &l);
	td_auto_free double *v = td_calloc((l.n + 1) * TD_FIGURES, sizeof(*v));
	td_auto_free char *group = group_of(n->node);
	size_t k[TD_FIGURES] = {0};
	for (size_t i = 0; i < l.n; i++) {
		td_auto_free char *its = group_of(l.v[i]);
		double measured[TD_FIGURES];
		if (strcmp(its, group) != 0 || !strcmp(l.v[i]->name, n->name))
			continue;
		figures_of(n->op, l.v[i]->name, measured);
		for (int f = 0; f < TD_FIGURES; f++)
			if (measured[f] > 0)
				v[(size_t)f * (l.n + 1) + k[f]++] = measured[f];
	}
	struct td_pool_figure_want want[TD_FIGURES];
	for (int f = 0; f < TD_FIGURES; f++)
		td_pool_figures_want(v + (size_t)f * (l.n + 1), k[f], n->policy.figures_percent[f],
				     n->policy.figures_nodes, n->policy.figures_floor[f], &want[f]);
	td_auto_buf struct td_buf text = {0};
	td_op_test_wants(want, n->policy.figures_percent, k, &text);
	return text.len ? td_buf_take(&text) : NULL;
}

int td_op_test_begin(struct td_op_node *n, const struct td_object *slurmd, const char *uid, struct td_error *err)
{
	const char *cluster = td_object_label(slurmd, TD_LABEL_CLUSTER);
	td_auto(td_object_unref) struct td_object *ctld = controller(n->op, slurmd->ns, cluster),
						  *sc = td_informer_get(n->op->clusters, slurmd->ns, cluster);
	if (!ctld || !sc)
		return td_fail(err, TD_TRANSIENT, "SlurmCluster %s/%s has no slurmctld now", slurmd->ns, cluster);
	const long long n_gpus = gpus_of(n->node, sc->root);
	td_auto_free char *name = td_op_test_name(slurmd, uid), *gpus = td_asprintf("%lld", n_gpus),
			  *devices = tested(n->node, n_gpus), *ms = td_asprintf("%lld", n->policy.test_ms),
			  *least = least_of(n), *links = td_asprintf("%.2f", td_op_test_links(n->node->root));
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d =
		td_op_template("nodetest.yaml", {"name", name}, {"namespace", slurmd->ns}, {"cluster", cluster},
			       {"node", n->name}, {"program", td_op_program("nodetest.sh")}, {"gpus", gpus},
			       {"tested", devices}, {"ms", ms}, {"least", least ? least : ""}, {"links", links},
			       {"image", td_jstr_or(ctld->root, "spec.containers.[0].image", TD_OP_SLURM_IMAGE)});
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *each = td_jm_get(root, "each"), *c, *key, *v;
	static const char *const lists[] = {"spec.initContainers", "spec.containers"};
	for (size_t l = 0; l < TD_LEN(lists); l++) {
		size_t i, m, k, o;
		yyjson_mut_arr_foreach (td_jm_get(root, lists[l]), i, m, c)
			yyjson_mut_obj_foreach (each, k, o, key, v)
				td_jm_key_set(d, c, yyjson_mut_get_str(key), yyjson_mut_val_mut_copy(d, v));
	}
	td_jm_del(root, "each");
	td_op_munge_add(d, td_jm_get(root, "spec"), sc->root,
			td_jstr_or(ctld->root, "spec.containers.[0].image", TD_OP_SLURM_IMAGE));
	td_jm_str(d, root, "spec.nodeName", td_jstr(ctld->root, "spec.nodeName"));
	td_op_own(d, root, sc->root, &td_slurmclusters);
	int r = td_kube_create(n->op->k, &td_pods, slurmd->ns, root, n->c, NULL, err);
	if (r == TD_EXISTS)
		return 0;
	if (!r)
		td_info("node %s: pod %s/%s tests it", n->name, slurmd->ns, name);
	return r ? td_wrap(err, "creating pod %s/%s", slurmd->ns, name) : 0;
}

// The end of the i-th init container; NULL: it has not ended.
static const yyjson_val *init_end(const struct td_object *pod, const char *name)
{
	return td_jget(td_jfind(td_jget(pod->root, "status.initContainerStatuses"), "name", name), "state.terminated");
}

static bool pod_ended(const struct td_object *pod)
{
	return td_kube_pod_ended(pod->root);
}

enum td_act_test td_op_test_state(const struct td_object *pod, const char **ret_said)
{
	const yyjson_val *reserve = init_end(pod, "reserve"), *test = init_end(pod, "test");
	const char *said = td_jstr(test, "message");
	if (said && td_starts(said, "failed: ")) {
		*ret_said = said + strlen("failed: ");
		return TD_TEST_FAILED;
	}
	if (said && td_starts(said, "passed: ")) {
		*ret_said = said + strlen("passed: ");
		// It is everybody's when the reservation is gone.
		return pod_ended(pod) ? TD_TEST_PASSED : TD_TEST_RESERVED;
	}
	if (pod_ended(pod) || td_object_deleting(pod)) {
		*ret_said = td_jstr(reserve, "message");
		return *ret_said ? TD_TEST_FAILED : TD_TEST_LOST;
	}
	return reserve && !td_jint(reserve, "exitCode", 1) ? TD_TEST_RESERVED : TD_TEST_RESERVES;
}

int td_op_test_sweep(struct td_op_node *n, struct td_error *err)
{
	td_auto_objects struct td_objects l = {0};
	td_informer_by_index(n->op->pods, "tested", n->name, &l);
	for (size_t i = 0; i < l.n; i++) {
		bool wanted = false;
		for (size_t k = 0; k < n->acts.n; k++) {
			td_auto_free char *of = td_asprintf("-test-%.8s", n->acts.v[k]->uid);
			wanted |= !td_op_act_over(n->acts.v[k]) && td_ends(l.v[i]->name, of);
		}
		if (wanted || !pod_ended(l.v[i]) || td_object_deleting(l.v[i]))
			continue;
		const struct td_kube_delete_opts del = {.uid = l.v[i]->uid, .grace_s = 0, .propagation = "Background"};
		int r = td_kube_delete(n->op->k, &td_pods, l.v[i]->ns, l.v[i]->name, &del, n->c, err);
		if (r && r != TD_NOT_FOUND && r != TD_CONFLICT)
			return r;
	}
	return 0;
}
