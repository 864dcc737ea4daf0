// The status of a NodeSet.
#include "operator/nodeset.h"

#include <string.h>

int td_op_nodeset_status(struct td_op *op, struct td_object *set, struct td_op_rows *rows, const struct td_op_counts *k,
			 const struct td_op_view *v, const char *problem, struct td_cancel *c, struct td_error *err)
{
	yyjson_val *old = td_jget(set->root, "status");
	long long gen = td_jint(set->root, "metadata.generation", 0);
	int64_t now = td_real_ms(&td_clock_system);
	bool fresh = v && v->fresh;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_int(d, root, "observedGeneration", gen);
	const struct {
		const char *name;
		long long n;
		bool slurm; // only Slurm can say: without an answer the last one stands
	} counts[] = {{"desired", k->desired, false},   {"matched", k->matched, false},
		      {"assigned", k->assigned, false}, {"ready", k->ready, true},
		      {"updated", k->updated, false},   {"running", k->running, false},
		      {"idle", k->idle, true},          {"allocated", k->allocated, true},
		      {"draining", k->draining, true},  {"drained", k->drained, true},
		      {"down", k->down, true}};
	for (size_t i = 0; i < TD_LEN(counts); i++)
		td_jm_int(d, root, counts[i].name, counts[i].slurm && !fresh ? td_jint(old, counts[i].name, 0) : counts[i].n);
	yyjson_mut_val *nodes = td_jm_arr(d, root, "nodes");
	const char *waits = NULL, *waits_for = NULL;
	td_auto_buf struct td_buf turn = {0};
	td_buf_printf(&turn, "%s; out of service:", td_op_turn);
	for (size_t i = 0, named = 0; i < rows->n; i++)
		if (rows->v[i].n.keep && !td_op_available(&rows->v[i].n) && named++ < 8)
			td_buf_printf(&turn, " %s", rows->v[i].name);
	long long outdated = 0;
	bool refused = false;
	for (size_t i = 0; i < rows->n; i++) {
		struct td_op_row *x = &rows->v[i];
		refused |= x->n.keep && x->n.refuse;
		yyjson_mut_val *o = yyjson_mut_obj(d);
		td_jm_str(d, o, "name", x->name);
		if (x->pod)
			td_jm_str(d, o, "pod", x->pod->name);
		td_jm_str(d, o, "state", x->n.record ? td_node_words(x->n.record->states) : fresh ? "none" : "unknown");
		if (x->n.record && x->n.record->reason && *x->n.record->reason &&
		    (x->n.record->states & (TD_NODE(DRAIN) | TD_NODE(DOWN) | TD_NODE(FAIL))))
			td_jm_str(d, o, "reason", x->n.record->reason);
		td_jm_bool(d, o, "updated", x->n.pod && x->n.pod_updated);
		bool waiting = x->n.act == TD_OP_NONE || x->n.act == TD_OP_CREATE || x->n.act == TD_OP_DELETE_RECORD;
		if (x->n.why && waiting) {
			const char *why = x->n.why == td_op_turn ? td_buf_str(&turn) : x->n.why;
			td_jm_str(d, o, "message", why);
			if (!waits) {
				waits = why;
				waits_for = x->name;
			}
		}
		outdated += x->n.keep && x->n.pod && !x->n.pod_updated;
		yyjson_mut_arr_append(nodes, o);
	}
	yyjson_mut_val *cs = td_jm_arr(d, root, "conditions");
	td_op_condition(d, cs, old, "SpecValid", problem ? "False" : "True", problem ? "Invalid" : "Valid",
			problem ? problem : "every field can be used", gen, now);
	td_auto_free char *text = waits ? td_asprintf("%lld of %lld nodes are ready; %s: %s", k->ready, k->desired, waits_for, waits)
					: td_asprintf("%lld of %lld nodes are ready", k->ready, k->desired);
	bool ready = !problem && !refused && fresh && k->ready == k->desired && k->desired == k->assigned;
	td_op_condition(d, cs, old, "Ready", ready ? "True" : "False",
			problem  ? "Invalid"
			: !v     ? "NoCluster"
			: !fresh ? "NoAnswer"
			: ready  ? "Ready"
				 : "NotReady",
			problem       ? problem
			: !v || fresh ? text
				      : "slurmctld does not answer",
			gen, now);
	bool progressing = outdated || k->assigned != k->desired;
	td_op_condition(d, cs, old, "Progressing", progressing ? "True" : "False",
			outdated      ? "Updating"
			: progressing ? "Scaling"
				      : "Settled",
			outdated      ? "slurmd pods are being replaced"
			: progressing ? "slurmd pods come or go"
				      : "nothing is changing",
			gen, now);
	return td_op_status_write(op, &td_nodesets, set, d, c, err);
}
