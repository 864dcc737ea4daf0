// Does what was decided about a NodeSet's node: its slurmd pod, its record in Slurm, its share.
#include "operator/nodeset.h"

#include "api/quantity.h"
#include "api/selector.h"
#include "base/log.h"

#include <string.h>

int td_op_share_set(struct td_op *op, const char *node, const char *value, struct td_cancel *c, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *a = td_jm_obj(d, yyjson_mut_doc_get_root(d), "metadata.annotations");
	td_jm_key_set(d, a, TD_ANN_SHARE, value ? yyjson_mut_strcpy(d, value) : yyjson_mut_null(d));
	int r = td_kube_patch(op->k, &td_nodes, NULL, node, NULL, TD_PATCH_MERGE, yyjson_mut_doc_get_root(d), c, NULL, err);
	return r ? td_wrap(err, "annotating node %s", node) : 0;
}

// What other pods on the node ask for must fit beside the share, or Slurm would give out what is taken. TD_INVALID says what is in the way.
static int others_fit(struct td_op *op, struct td_object *sc, struct td_op_row *x, struct td_cancel *c, struct td_error *err)
{
	td_auto_free char *field = td_asprintf("spec.nodeName=%s", x->name);
	td_auto_objects struct td_objects pods = {0};
	int r = td_kube_list(op->k, &td_pods, NULL, NULL, field, c, &pods, err);
	if (r)
		return r;
	int64_t cpu = 0, mem = 0, gpu = 0, all_cpu = 0, all_mem = 0;
	for (size_t i = 0; i < pods.n; i++) {
		yyjson_val *spec = td_jget(pods.v[i]->root, "spec");
		if (td_pod_ended(pods.v[i]->root) ||
		    td_streq(td_jstr(spec, "schedulerName"), td_jstr_or(sc->root, "spec.scheduler.schedulerName", "tandem")))
			continue;
		cpu += td_pod_request(spec, "cpu");
		mem += td_pod_request(spec, "memory");
		gpu += td_pod_request(spec, td_op_resource(sc->root));
	}
	yyjson_val *spec = td_jget(td_json_root(x->want), "spec"), *alloc = td_jget(x->node->root, "status.allocatable");
	cpu += td_pod_request(spec, "cpu");
	mem += td_pod_request(spec, "memory");
	td_quantity_milli(td_jstr_or(alloc, "cpu", "0"), &all_cpu, NULL);
	td_quantity_ceil(td_jstr_or(alloc, "memory", "0"), &all_mem, NULL);
	if (cpu > all_cpu - x->share.cpus * 1000)
		return td_fail(err, TD_INVALID,
			       "pods outside Slurm and slurmd request %lldm CPUs there, the reserve is %lldm: raise spec.reserve.cpu of "
			       "the SlurmCluster or move them",
			       (long long)cpu, (long long)(all_cpu - x->share.cpus * 1000));
	if (mem > all_mem - (x->share.memory_mb << 20))
		return td_fail(err, TD_INVALID,
			       "pods outside Slurm and slurmd request %lld MiB there, the reserve is %lld MiB: raise spec.reserve.memory "
			       "of the SlurmCluster or move them",
			       (long long)(mem >> 20), (long long)((all_mem >> 20) - x->share.memory_mb));
	if (gpu > 0 && x->share.gpus > 0)
		return td_fail(err, TD_INVALID, "pods outside Slurm hold %lld of %s there: they must end first", (long long)gpu,
			       td_op_resource(sc->root));
	return 0;
}

static int create(struct td_op *op, struct td_object *sc, struct td_object *set, struct td_op_row *x, struct td_cancel *c,
		  struct td_error *err)
{
	// The share first: from now on nobody else is placed on it; then what was placed before is counted.
	td_auto_free char *share = td_op_share_text(&x->share, td_op_resource(sc->root));
	int r = 0;
	const char *now = td_object_annotation(x->node, TD_ANN_SHARE);
	// A record that must stay (somebody else drained it) still gives out the old share.
	if (!td_streq(now, share) && !(now && x->n.record && x->n.record_differs))
		r = td_op_share_set(op, x->name, share, c, err);
	if (!r)
		r = others_fit(op, sc, x, c, err);
	if (r == TD_INVALID) {
		snprintf(x->why, sizeof(x->why), "%s", err->msg);
		x->n.why = x->why;
		return 0;
	}
	if (r)
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(x->want));
	r = td_kube_create(op->k, &td_pods, set->ns, yyjson_mut_doc_get_root(d), c, NULL, err);
	if (r == TD_EXISTS) // ours, and our cache a moment behind; or a stranger's pod with that name
		return 0;
	if (r == TD_INVALID) {
		snprintf(x->why, sizeof(x->why), "the slurmd pod is refused: %s", err->msg);
		x->n.why = x->why;
		return 0;
	}
	if (!r)
		td_record(op->events, set, &td_nodesets, "Normal", "Created", "slurmd pod for node %s", x->name);
	return r;
}

// Reads the record again first: nobody's reason is overwritten and nobody's drain is lifted (up to that one gap; Slurm has no
// compare-and-swap).
static int change_state(struct td_op_view *v, struct td_op_row *x, struct td_cancel *c, struct td_error *err)
{
	td_auto_nodes struct td_slurm_nodes now = {0};
	int r = td_slurm_node(v->slurm, x->name, v->call, &now, err);
	if (r)
		return r;
	const struct td_slurm_node *n = td_slurm_node_find(&now, x->name);
	bool drain = n && (n->states & TD_NODE(DRAIN)), ours = drain && td_op_reason_ours(n->reason);
	v->fetched = 0; // what we have is old from here on
	if (!n)
		return 0;
	switch (x->n.act) {
	case TD_OP_DRAIN:
		return drain ? 0 : td_slurm_node_update(v->slurm, x->name, "DRAIN", x->n.why, v->call, err);
	case TD_OP_UNDRAIN:
		return ours ? td_slurm_node_undrain(v->slurm, x->name, v->call, err) : 0;
	default:
		return td_slurm_node_update(v->slurm, x->name, "DOWN", drain && !ours ? NULL : x->n.why, v->call, err);
	}
}

int td_op_row_evictable(struct td_op *op, struct td_op_view *v, struct td_op_row *x, struct td_cancel *c, struct td_error *err)
{
	bool said = x->pod && td_object_label(x->pod, TD_LABEL_EVICTABLE);
	if (!v->fresh || !x->pod || x->n.pod_deleting || said == x->n.evictable || x->n.act == TD_OP_DELETE_POD)
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "metadata.uid", x->pod->uid);
	td_jm_key_set(d, td_jm_obj(d, root, "metadata.labels"), TD_LABEL_EVICTABLE,
		      x->n.evictable ? yyjson_mut_str(d, "true") : yyjson_mut_null(d));
	int r = td_kube_patch(op->k, &td_pods, x->pod->ns, x->pod->name, NULL, TD_PATCH_MERGE, root, c, NULL, err);
	return r == TD_NOT_FOUND || r == TD_CONFLICT ? 0 : r ? td_wrap(err, "labelling pod %s/%s", x->pod->ns, x->pod->name) : 0;
}

int td_op_row_act(struct td_op *op, struct td_object *sc, struct td_object *set, struct td_op_view *v, struct td_op_row *x,
		  struct td_cancel *c, struct td_error *err)
{
	static const char *const words[] = {
		[TD_OP_NONE] = NULL,
		[TD_OP_CREATE] = NULL,
		[TD_OP_DELETE_POD] = "slurmd pod ended",
		[TD_OP_DRAIN] = "drained",
		[TD_OP_UNDRAIN] = "resumed",
		[TD_OP_SET_DOWN] = "set down, its jobs end",
		[TD_OP_DELETE_RECORD] = "record deleted",
	};
	int r = 0;
	switch (x->n.act) {
	case TD_OP_NONE:
		return 0;
	case TD_OP_CREATE:
		return create(op, sc, set, x, c, err);
	case TD_OP_DELETE_POD: {
		const struct td_delete del = {.uid = x->pod->uid, .grace_s = x->n.exists ? -1 : 0};
		r = td_kube_delete(op->k, &td_pods, set->ns, x->pod->name, &del, c, err);
		r = r == TD_NOT_FOUND ? 0 : r;
		if (!r && x->n.forgotten)
			td_op_missing_restarted(&v->missing, x->name);
		break;
	}
	case TD_OP_DELETE_RECORD:
		v->fetched = 0;
		r = td_slurm_node_delete(v->slurm, x->name, v->call, err);
		if (r && r != TD_NOT_FOUND) { // a job refers to it: it is waited for
			snprintf(x->why, sizeof(x->why), "Slurm keeps the record: %s", err->msg);
			x->n.why = x->why;
			return 0;
		}
		r = 0;
		break;
	case TD_OP_DRAIN:
	case TD_OP_UNDRAIN:
	case TD_OP_SET_DOWN:
		r = change_state(v, x, c, err);
		break;
	}
	if (r)
		return td_wrap(err, "node %s", x->name);
	td_info("NodeSet %s/%s: node %s: %s%s%s", set->ns, set->name, x->name, words[x->n.act], x->n.why ? ": " : "",
		x->n.why ? x->n.why : "");
	td_record(op->events, set, &td_nodesets, "Normal", "NodeChanged", "node %s: %s%s%s", x->name, words[x->n.act], x->n.why ? ": " : "",
		  x->n.why ? x->n.why : "");
	return 0;
}
