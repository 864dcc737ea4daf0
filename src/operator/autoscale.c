// NodeSets whose machines a cluster autoscaler makes (docs/autoscale.md): how many nodes they have, by what the bridge says is
// wanted (the SlurmCluster's status.wanted), and the pods that ask Kubernetes for machines. What is decided is in pool/grow.h.
#include "operator/nodeset.h"

#include "pool/grow.h"
#include "slurm/tocome.h"

#include <string.h>

enum { MADE = 64 }; // pods at one pass: the next one, seconds later, makes more

bool td_op_autoscale(const yyjson_val *set)
{
	return yyjson_is_obj(td_jget(set, "spec.autoscale"));
}

void td_op_autoscale_check(const yyjson_val *set, struct td_strv *problems)
{
	static const char *const others[][2] = {
		{"spec.replicas", "the number follows from autoscale"},
		{"spec.onDemand", "autoscale brings whole machines, onDemand slurmds on machines that are there"},
		{"spec.hosts", "these machines are there"},
		{"spec.otherCluster", "its nodes are made in the other cluster"},
	};
	long long min = td_jint(set, "spec.autoscale.min", 1), max = td_jint(set, "spec.autoscale.max", 0);
	if (!td_op_autoscale(set))
		return;
	for (size_t i = 0; i < TD_LEN(others); i++)
		if (td_jget(set, others[i][0]))
			td_strv_addf(problems, "spec.autoscale: cannot be beside %s (%s): leave one of them out",
				     others[i][0], others[i][1]);
	if (max < min)
		td_strv_addf(problems, "spec.autoscale.max: %lld is less than min, which is %lld: raise it", max, min);
	td_slurm_to_come_check(set, problems);
	if (!yyjson_obj_size(td_jget(set, "spec.nodeSelector")))
		td_strv_add(problems, "spec.autoscale: needs spec.nodeSelector, the labels that the autoscaler's new "
				      "machines have: without it any machine would do");
}

bool td_op_doomed(const yyjson_val *node)
{
	static const char *const keys[] = {"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"};
	for (size_t i = 0; i < TD_LEN(keys); i++)
		if (td_jfind(td_jget(node, "spec.taints"), "key", keys[i]))
			return true;
	return false;
}

bool td_op_node_is_there(const struct td_object *node)
{
	yyjson_val *x;
	size_t i, n;
	if (!td_object_deleting(node))
		return true;
	yyjson_arr_foreach (td_jget(node->root, "metadata.finalizers"), i, n, x)
		if (!td_streq(yyjson_get_str(x), "foregroundDeletion") && !td_streq(yyjson_get_str(x), "orphan"))
			return true;
	return false;
}

void td_op_autoscale_decide(const struct td_op_pass *p, const struct td_object *set, struct td_pool_member *v, size_t n,
			    struct td_pool_policy *policy, struct td_op_scale *ret)
{
	if (!td_op_autoscale(set->root))
		return;
	yyjson_val *wanted = p->sc ? td_jfind(td_jget(p->sc->root, "status.wanted"), "nodeSet", set->name) : NULL;
	const struct td_grow_policy g = {.min = td_jint(set->root, "spec.autoscale.min", 1),
					 .max = td_jint(set->root, "spec.autoscale.max", 0),
					 .idle_s =
						 td_op_seconds(td_jstr_or(set->root, "spec.autoscale.idleTime", "10m")),
					 .wanted = td_jint(wanted, "nodes", 0),
					 .view = policy->view,
					 .now_ms = policy->now_ms};
	const struct td_grow_plan plan = td_pool_grow_set(v, n, &g);
	policy->replicas = plan.nodes;
	*ret = (struct td_op_scale){.on = true,
				    .machines = plan.machines,
				    .full = wanted && plan.nodes == g.max,
				    .why = wanted ? td_jstr_or(wanted, "reason", "") : NULL};
}

static void ask(const yyjson_val *sc, const char *resource, const struct td_op_share *s, yyjson_mut_doc *d,
		yyjson_mut_val *resources)
{
	td_jm_strf(d, resources, "requests.cpu", "%lld", s->cpus);
	td_jm_strf(d, resources, "requests.memory", "%lldMi", s->memory_mb);
	// With claims of devices (DRA) the labels alone say which machines have them.
	if (!s->gpus || td_op_dra(sc))
		return;
	td_auto_free char *gpus = td_asprintf("%lld", s->gpus);
	static const char *const both[] = {"requests", "limits"}; // as an extended resource has to be
	for (size_t i = 0; i < TD_LEN(both); i++)
		td_jm_key_str(d, td_jm_obj(d, resources, both[i]), resource, gpus);
}

// The shape of a new node: that of one that is there, as far as slurmd may have it, so that it fits beside all else there;
// else what the NodeSet says.
static void shape(const struct td_op_pass *p, const yyjson_val *set, const struct td_op_rows *rows, yyjson_mut_doc *d,
		  yyjson_mut_val *resources)
{
	const struct td_op_row *of = NULL;
	for (size_t i = 0; i < rows->n; i++)
		if (rows->v[i].want && rows->v[i].node && rows->v[i].share.cpus > (of ? of->share.cpus : 0))
			of = &rows->v[i];
	if (of) {
		ask(p->sc->root, td_op_node_resource(p->sc->root, of->node->root), &of->share, d, resources);
		return;
	}
	struct td_op_share said = {0};
	struct td_op_found has = {0};
	if (!td_slurm_to_come_size(set, &said.cpus, &said.memory_mb))
		return;
	const char *gres = td_jstr(set, "spec.autoscale.node.gres");
	if (gres && !td_op_gres_read(gres, &has, NULL))
		said.gpus = has.n;
	ask(p->sc->root, td_op_node_resource(p->sc->root, NULL), &said, d, resources);
}

struct td_json *td_op_wanted_pod(const struct td_op_pass *p, const struct td_object *set, const struct td_op_rows *rows,
				 size_t at)
{
	const char *slurm = td_jstr_or(p->sc->root, "spec.slurm.image", TD_OP_SLURM_IMAGE);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d =
		td_op_template("wanted-node.yaml", {"cluster", p->cluster}, {"nodeset", set->name},
			       {"image", p->op->image ? p->op->image : slurm});
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *spec = td_jm_get(root, "spec"), *t;
	yyjson_val *secrets = td_jget(set->root, "spec.template.spec.imagePullSecrets"), *x;
	size_t i, n;
	shape(p, set->root, rows, d, td_jm_get(spec, "containers.[0].resources"));
	if (secrets)
		td_jm_copyval(d, spec, "imagePullSecrets", secrets);
	td_jm_copyval(d, spec, "nodeSelector", td_jget(set->root, "spec.nodeSelector"));
	if (td_jget(set->root, "spec.affinity"))
		td_jm_copyval(d, spec, "affinity", td_jget(set->root, "spec.affinity"));
	if (p->op->image) { // behind all others, never beside a slurmd, nor two on one node; where there is no kubelet the CPUs see to it
		td_jm_str(d, spec, "priorityClassName", TD_PRIORITY_WANTED);
		yyjson_mut_val *l =
			td_jm_arr(d, spec, "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution");
		static const char *const names[] = {"slurmd", TD_WANTED_NODE};
		for (size_t k = 0; k < TD_LEN(names); k++) {
			yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, l);
			td_jm_str(d, o, "topologyKey", "kubernetes.io/hostname");
			td_jm_obj(d, o, "namespaceSelector");
			td_jm_key_str(d, td_jm_obj(d, o, "labelSelector.matchLabels"), TD_LABEL_NAME, names[k]);
		}
	}
	// New machines are as those that are there, which may have our taints now. A cordoned one is not to be used.
	t = td_jm_arr(d, spec, "tolerations");
	td_op_tolerate(d, t, TD_TAINT_DRAIN, "NoSchedule");
	td_op_tolerate(d, t, TD_TAINT_DOWN, "NoSchedule");
	yyjson_arr_foreach (td_jget(set->root, "spec.tolerations"), i, n, x)
		yyjson_mut_arr_append(t, yyjson_val_mut_copy(d, x));
	td_jm_str(d, root, "apiVersion", "v1");
	td_jm_str(d, root, "kind", "Pod");
	td_jm_strf(d, root, "metadata.name", "%s-%s-wanted-%zu", p->cluster, set->name, at);
	td_jm_str(d, root, "metadata.namespace", set->ns);
	td_op_own(d, root, set->root, &td_nodesets);
	return td_json_from_mut(root);
}

bool td_op_is_wanted(const struct td_object *pod)
{
	return td_streq(td_object_label(pod, TD_LABEL_NAME), TD_WANTED_NODE) && td_object_label(pod, TD_LABEL_NODESET);
}

int td_op_wanted_drop(const struct td_op_pass *p, const struct td_object *o, struct td_error *err)
{
	const struct td_kube_delete_opts del = {.uid = o->uid, .grace_s = 0};
	int r = td_kube_delete(p->op->k, &td_pods, o->ns, o->name, &del, p->c, err);
	return r == TD_NOT_FOUND ? 0 : r ? td_wrap(err, "deleting pod %s/%s", o->ns, o->name) : 0;
}

int td_op_autoscale_act(const struct td_op_pass *p, struct td_object *set, const struct td_op_rows *rows,
			const struct td_op_scale *s, struct td_error *err)
{
	td_auto_strv struct td_strv names = {0};
	long long have = 0, made = 0;
	for (size_t i = 0; i < rows->wanted.n; i++) {
		const struct td_object *o = rows->wanted.v[i];
		td_strv_add(&names, o->name);
		if (td_object_deleting(o))
			continue;
		// One that has a place says that the machine is there. Its room is slurmd's.
		bool over = have >= s->machines || td_jstr(o->root, "spec.nodeName") || td_kube_pod_ended(o->root);
		int r = over ? td_op_wanted_drop(p, o, err) : 0;
		if (r)
			return r;
		have += !over;
	}
	for (size_t at = 0; have < s->machines && made < MADE && p->sc; at++) {
		td_auto_free char *name = td_asprintf("%s-%s-wanted-%zu", p->cluster, set->name, at);
		if (td_strv_has(&names, name))
			continue;
		td_auto(td_json_unref) struct td_json *pod = td_op_wanted_pod(p, set, rows, at);
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(pod));
		int r = td_kube_create(p->op->k, &td_pods, set->ns, yyjson_mut_doc_get_root(d), p->c, NULL, err);
		if (r && r != TD_EXISTS)
			return td_wrap(err, "creating pod %s/%s", set->ns, name);
		if (!r)
			td_kube_record(p->op->events, TD_ABOUT(set, &td_nodesets), "Normal", "MachineWanted",
				       "a machine is asked for by pod %s: %s", name,
				       s->why ? s->why : "there are fewer than spec.autoscale.min");
		have++;
		made++;
	}
	return 0;
}

void td_op_autoscale_status(const struct td_op_scale *s, yyjson_mut_doc *d, yyjson_mut_val *status,
			    struct td_pool_set_conditions *c, char *text, size_t len)
{
	if (!s->on)
		return;
	td_jm_int(d, status, "wantedMachines", s->machines);
	if (s->machines)
		snprintf(text, len, "%lld machine%s asked for: %s", s->machines, s->machines == 1 ? " is" : "s are",
			 s->why ? s->why : "there are fewer than spec.autoscale.min");
	else if (s->full)
		snprintf(text, len, "there are spec.autoscale.max nodes; %s", s->why);
	else
		snprintf(text, len, "%s", s->why ? s->why : "nobody waits for a node");
	c->v[c->n++] = (struct td_pool_condition){"Growing", s->machines ? TD_STATUS_TRUE : TD_STATUS_FALSE,
						  s->machines ? (s->why ? "JobsWait" : "BelowMinimum")
						  : s->full   ? "AtMaximum"
						  : s->why    ? "NodesComing"
							      : "Enough",
						  text};
}

void td_op_autoscale_told(struct td_op *op, const struct td_object *sc, yyjson_mut_doc *d, yyjson_mut_val *status)
{
	yyjson_val *wanted = td_jget(sc->root, "status.wanted"); // the bridge's
	if (wanted)
		yyjson_mut_obj_add_val(d, status, "wanted", yyjson_val_mut_copy(d, wanted));
	td_auto_objects struct td_objects sets = {0};
	td_informer_list(op->nodesets, sc->ns, &sets);
	td_op_sort(&sets);
	yyjson_mut_val *list = NULL;
	for (size_t i = 0; i < sets.n; i++) {
		const yyjson_val *set = sets.v[i]->root;
		if (!td_op_autoscale(set) || td_object_deleting(sets.v[i]) ||
		    !td_streq(td_jstr(set, "spec.clusterName"), sc->name))
			continue;
		list = list ? list : td_jm_arr(d, status, "autoscale");
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, o, "nodeSet", sets.v[i]->name);
		td_jm_int(d, o, "max", td_jint(set, "spec.autoscale.max", 0));
		yyjson_val *x;
		size_t k, n;
		yyjson_arr_foreach (td_jget(set, "spec.tolerations"), k, n, x)
			if (td_jstr(x, "key") && !td_streq(td_jstr(x, "effect"), "PreferNoSchedule"))
				yyjson_mut_arr_add_strcpy(d, td_jm_arr(d, o, "taints"), td_jstr(x, "key"));
	}
}
