// Carries out what was decided about a node of a NodeSet: its slurmd pod, its record in Slurm, its
// share.
#include "operator/health.h"
#include "operator/nodeset.h"

#include "api/quantity.h"
#include "api/selector.h"
#include "api/taint.h"
#include "base/log.h"

#include <string.h>

int td_op_share_set(struct td_op *op, const char *node, const char *value, struct td_cancel *c, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *a = td_jm_obj(d, yyjson_mut_doc_get_root(d), "metadata.annotations");
	td_jm_key_str(d, a, TD_ANN_SHARE, value);
	int r = td_kube_patch(op->k, TD_AT(&td_nodes, NULL, node), TD_PATCH_MERGE, yyjson_mut_doc_get_root(d), c, NULL,
			      err);
	return r ? td_wrap(err, "annotating node %s", node) : 0;
}

int td_op_unshare(struct td_op *op, const struct td_object *node, struct td_cancel *c, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	yyjson_mut_val *notes = td_jm_obj(d, root, "metadata.annotations");
	td_jm_key_set(d, notes, TD_ANN_SHARE, yyjson_mut_null(d));
	td_jm_key_set(d, notes, TD_ANN_GPU_CUTTING, yyjson_mut_null(d));
	td_jm_key_set(d, notes, TD_ANN_TENANT_NAMES, yyjson_mut_null(d));
	if (td_taints_set(d, root, node->root, false, false))
		td_jm_str(d, root, "metadata.resourceVersion", node->rv);
	int r = td_kube_patch(op->k, TD_AT(&td_nodes, NULL, node->name), TD_PATCH_MERGE, root, c, NULL, err);
	return r && r != TD_NOT_FOUND ? td_wrap(err, "node %s, which left the pool", node->name) : 0;
}

// Checks that what other pods on the node request fits beside the share. Otherwise Slurm would give
// out what is taken. `pod`: its slurmd. TD_INVALID says what is in the way.
static int others_fit(const struct td_op_pass *p, const struct td_op_row *x, const yyjson_val *pod,
		      struct td_error *err)
{
	const char *resource = td_op_node_resource(p->sc->root, x->node->root);
	td_auto_free char *field = td_asprintf("spec.nodeName=%s", x->name);
	td_auto_objects struct td_objects pods = {0};
	int r = td_kube_list(p->op->k, &td_pods, NULL, NULL, field, p->c, &pods, err);
	if (r)
		return r;
	struct td_pool_reserve v = {
		.share_cpus = x->share.cpus, .share_memory_mb = x->share.memory_mb, .share_gpus = x->share.gpus};
	for (size_t i = 0; i < pods.n; i++) {
		yyjson_val *spec = td_jget(pods.v[i]->root, "spec");
		if (td_kube_pod_ended(pods.v[i]->root) ||
		    td_streq(td_jstr(spec, "schedulerName"),
			     td_jstr_or(p->sc->root, "spec.scheduler.schedulerName", "tandem")) ||
		    (td_streq(pods.v[i]->ns, p->ns) && (td_op_is_placeholder(pods.v[i]) || td_op_is_wanted(pods.v[i]))))
			continue;
		td_op_others_add(spec, resource, &v);
	}

	yyjson_val *spec = td_jget(pod, "spec"), *alloc = td_jget(x->node->root, "status.allocatable");
	if (!td_op_other_node(x->node->root)) { // that slurmd runs elsewhere
		v.others_milli += td_api_pod_request(spec, "cpu");
		v.others_memory += td_api_pod_request(spec, "memory");
	}
	td_quantity_milli(td_jstr_or(alloc, "cpu", "0"), &v.cpu_milli, NULL);
	td_quantity_ceil(td_jstr_or(alloc, "memory", "0"), &v.memory, NULL);

	enum td_pool_lack lacks = td_pool_reserve_lacks(&v);
	if ((lacks == TD_LACK_CPU || lacks == TD_LACK_MEMORY) && td_jbool(p->sc->root, "spec.shadows.enabled", false))
		lacks = v.others_gpus > 0 && v.share_gpus > 0 ? TD_LACK_DEVICES : TD_LACK_NOTHING; // Slurm is told
	switch (lacks) {
	case TD_LACK_NOTHING:
		return 0;
	case TD_LACK_CPU:
		return td_fail(err, TD_INVALID,
			       "pods outside Slurm and slurmd request %lldm CPUs there, the reserve is %lldm: raise "
			       "spec.reserve.cpu of the SlurmCluster or move them",
			       (long long)v.others_milli, (long long)(v.cpu_milli - v.share_cpus * 1000));
	case TD_LACK_MEMORY:
		return td_fail(err, TD_INVALID,
			       "pods outside Slurm and slurmd request %lld MiB there, the reserve is %lld MiB: raise "
			       "spec.reserve.memory of the SlurmCluster or move them",
			       (long long)(v.others_memory >> 20), (long long)((v.memory >> 20) - v.share_memory_mb));
	case TD_LACK_DEVICES:
		break;
	}

	return td_fail(err, TD_INVALID, "pods outside Slurm hold %lld of %s there: they must end first",
		       (long long)v.others_gpus, resource);
}

// Says on the row what stands in the way for now. That is no failure.
static int waits(struct td_op_row *x, const char *prefix, const struct td_error *err)
{
	snprintf(x->why, sizeof(x->why), "%s%s", prefix, err->msg);
	x->n.why = x->why;
	return 0;
}

// A node that is to be tested before it takes work must be out of service before its slurmd is there, and where Slurm does
// not know it yet, slurmd registers it drained (slurmd.sh). *ret_held: it does. TD_THROTTLED: not yet.
static int held_first(const struct td_op_pass *p, const struct td_op_row *x, bool *ret_held, struct td_error *err)
{
	td_auto_policy struct td_op_policy policy;
	td_op_policy_load(p->op, &policy);
	if (policy.dry_run || !td_op_health_new(&policy, x->node))
		return 0;
	if (!td_object_annotation(x->node, TD_ANN_HOLD))
		return td_fail(err, TD_THROTTLED, "it is new and is to be tested: first it is taken out of service");
	*ret_held = true;
	return 0;
}

static int create(const struct td_op_pass *p, struct td_object *set, struct td_op_row *x, struct td_error *err)
{
	// The share comes first: from then on no other pod is placed on it. Then count what was
	// placed before.
	td_auto_free char *share = td_op_share_text(&x->share, td_op_node_resource(p->sc->root, x->node->root));
	struct td_error e = TD_ERROR_INIT;
	int r = 0;
	const char *now = td_object_annotation(x->node, TD_ANN_SHARE);
	// A record that must stay, because somebody else drained it, still gives out the old share.
	if (!td_streq(now, share) && !(now && x->n.record && x->n.record_differs))
		r = td_op_share_set(p->op, x->name, share, p->c, &e);
	td_auto(td_json_unref) struct td_json *pod = NULL;
	if (!r)
		r = td_op_row_pod(p, set, x, &pod, &e);
	if (!r)
		r = others_fit(p, x, td_json_root(pod), &e);
	bool held = false;
	if (!r)
		r = held_first(p, x, &held, &e);
	if (r == TD_INVALID || r == TD_THROTTLED)
		return waits(x, "", &e);
	if (!r) {
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(pod));
		if (held) { // it is no part of its revision
			yyjson_mut_val *env = yyjson_mut_arr_add_obj(
				d, td_jm_arr(d, yyjson_mut_doc_get_root(d), "spec.containers.[0].env"));
			td_jm_str(d, env, "name", "TD_HELD");
			td_jm_str(d, env, "value", TD_REASON_NEW);
		}
		r = td_kube_create(p->op->k, &td_pods, set->ns, yyjson_mut_doc_get_root(d), p->c, NULL, &e);
		// It is ours and our cache is a moment behind, or a stranger's pod has that name.
		if (r == TD_EXISTS)
			return 0;
		if (r == TD_INVALID)
			return waits(x, "the slurmd pod is refused: ", &e);
	}

	if (r) {
		if (err)
			*err = e;
		return r;
	}
	td_kube_record(p->op->events, TD_ABOUT(set, &td_nodesets), "Normal", "Created", "slurmd pod for node %s",
		       x->name);
	return 0;
}

// Changes the record's state. Reads it again first, so that nobody's reason is overwritten and
// nobody's drain is lifted, up to that one gap: Slurm has no compare-and-swap.
static int change_state(struct td_op_view *v, struct td_op_row *x, struct td_error *err)
{
	td_auto_nodes struct td_slurm_nodes now = {0};
	int r = td_slurm_node(v->slurm, x->name, v->call, &now, err);
	if (r)
		return r;
	const struct td_slurm_node *n = td_slurm_node_find(&now, x->name);
	struct td_pool_record record = n ? td_op_record(n) : (struct td_pool_record){0};
	v->fetched = 0; // what we have read is old from here on
	bool reason;
	switch (td_pool_member_write(x->n.act, n ? &record : NULL, &reason)) {
	case TD_WRITE_NOTHING:
		return 0;
	case TD_WRITE_DRAIN:
		return td_slurm_node_update(v->slurm, x->name, "DRAIN", reason ? x->n.why : NULL, v->call, err);
	case TD_WRITE_UNDRAIN:
		return td_slurm_node_undrain(v->slurm, x->name, v->call, err);
	case TD_WRITE_POWER_DOWN: // as soon as it may: a job that came a moment ago is not lost
		return td_slurm_node_update(v->slurm, x->name, "POWER_DOWN,POWER_DRAIN", x->n.why, v->call, err);
	case TD_WRITE_RESUME:
		return td_slurm_node_update(v->slurm, x->name, "RESUME", NULL, v->call, err);
	case TD_WRITE_DOWN:
		break;
	}

	return td_slurm_node_update(v->slurm, x->name, "DOWN", reason ? x->n.why : NULL, v->call, err);
}

int td_op_row_evictable(const struct td_op_pass *p, struct td_op_row *x, struct td_error *err)
{
	bool said = x->pod && td_object_label(x->pod, TD_LABEL_EVICTABLE);
	if (!p->v->fresh || !x->pod || x->n.pod_deleting || said == x->n.evictable || x->n.act == TD_MEMBER_DELETE_POD)
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "metadata.uid", x->pod->uid);
	td_jm_key_set(d, td_jm_obj(d, root, "metadata.labels"), TD_LABEL_EVICTABLE,
		      x->n.evictable ? yyjson_mut_str(d, "true") : yyjson_mut_null(d));
	int r = td_kube_patch(p->op->k, TD_AT(&td_pods, x->pod->ns, x->pod->name), TD_PATCH_MERGE, root, p->c, NULL,
			      err);
	return r == TD_NOT_FOUND || r == TD_CONFLICT ? 0
	       : r                                   ? td_wrap(err, "labelling pod %s/%s", x->pod->ns, x->pod->name)
						     : 0;
}

int td_op_row_act(const struct td_op_pass *p, struct td_object *set, struct td_op_row *x, struct td_error *err)
{
	static const char *const words[] = {
		[TD_MEMBER_NOTHING] = NULL,
		[TD_MEMBER_CREATE] = NULL,
		[TD_MEMBER_DELETE_POD] = "slurmd pod ended",
		[TD_MEMBER_DRAIN] = "drained",
		[TD_MEMBER_UNDRAIN] = "resumed",
		[TD_MEMBER_SET_DOWN] = "set down, its jobs end",
		[TD_MEMBER_DELETE_RECORD] = "record deleted",
		[TD_MEMBER_POWER_DOWN] = "powered down",
		[TD_MEMBER_RESUME] = "resumed",
	};
	struct td_op_view *v = p->v;
	struct td_error e = TD_ERROR_INIT;
	int r = 0;
	switch (x->n.act) {
	case TD_MEMBER_NOTHING:
		return 0;
	case TD_MEMBER_CREATE:
		return create(p, set, x, err);
	case TD_MEMBER_DELETE_POD: {
		const struct td_kube_delete_opts del = {.uid = x->pod->uid, .grace_s = x->n.exists ? -1 : 0};
		r = td_kube_delete(p->op->k, &td_pods, set->ns, x->pod->name, &del, p->c, &e);
		r = r == TD_NOT_FOUND ? 0 : r;
		if (!r && x->n.forgotten)
			td_op_missing_restarted(&v->missing, x->name);
		break;
	}
	case TD_MEMBER_DELETE_RECORD:
		v->fetched = 0;
		r = td_slurm_node_delete(v->slurm, x->name, v->call, &e);
		// Slurm refuses while a job refers to the record: wait for the job.
		if (r && r != TD_NOT_FOUND)
			return waits(x, "Slurm keeps the record: ", &e);
		r = 0;
		break;
	case TD_MEMBER_DRAIN:
	case TD_MEMBER_UNDRAIN:
	case TD_MEMBER_SET_DOWN:
	case TD_MEMBER_POWER_DOWN:
	case TD_MEMBER_RESUME:
		r = change_state(v, x, &e);
		break;
	}
	if (r) {
		td_wrap(&e, "node %s", x->name);
		if (err)
			*err = e;
		return r;
	}

	const char *why = x->n.why ? x->n.why : "", *colon = x->n.why ? ": " : "";
	td_info("NodeSet %s/%s: node %s: %s%s%s", set->ns, set->name, x->name, words[x->n.act], colon, why);
	td_kube_record(p->op->events, TD_ABOUT(set, &td_nodesets), "Normal", "NodeChanged", "node %s: %s%s%s", x->name,
		       words[x->n.act], colon, why);
	return 0;
}
