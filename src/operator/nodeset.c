// The nodes of a cluster's NodeSets: collects what the two sides say, lets td_op_decide choose, does it, and writes the status.
#include "operator/nodeset.h"

#include <string.h>

// A node that left gets its whole allocatable back.
static int unshare_left(struct td_op *op, struct td_op_rows *rows, struct td_cancel *c, struct td_error *err)
{
	for (size_t i = 0; i < rows->n; i++) {
		struct td_op_row *x = &rows->v[i];
		int r;
		if (x->node && !x->pod && !x->n.record && !x->n.keep && td_object_annotation(x->node, TD_ANN_SHARE) &&
		    (r = td_op_share_set(op, x->name, NULL, c, err)) && r != TD_NOT_FOUND)
			return r;
	}
	return 0;
}

static int64_t seconds(const char *s)
{
	if (!s)
		return -1;
	td_auto_free char *t = td_strdup(s);
	size_t n = strlen(t);
	long long v;
	if (!n)
		return -1;
	char unit = t[n - 1];
	t[n - 1] = '\0';
	return td_parse_i64(t, &v) && v >= 0 ? v * (unit == 'h' ? 3600 : unit == 'm' ? 60 : 1) : -1;
}

static long long max_unavailable(const yyjson_val *set, size_t nodes)
{
	const char *s = td_jstr(set, "spec.updateStrategy.maxUnavailable");
	long long v = td_jint(set, "spec.updateStrategy.maxUnavailable", 1);
	if (s) {
		v = atoll(s);
		if (td_ends(s, "%"))
			v = (long long)nodes * v / 100;
	}
	return v < 1 ? 1 : v;
}

static int one(struct td_op *op, struct td_object *sc, struct td_object *set, struct td_op_view *v, struct td_objects *nodes,
	       bool *unsettled, struct td_cancel *c, struct td_error *err)
{
	td_auto_strv struct td_strv problems = {0};
	td_op_nodeset_check(set->root, &problems);
	if (!sc)
		td_strv_addf(&problems, "spec.clusterName: there is no SlurmCluster \"%s\" in namespace %s; create it or correct the name",
			     td_jstr_or(set->root, "spec.clusterName", ""), set->ns);
	td_auto_rows struct td_op_rows rows = {0};
	td_op_rows_collect(op, sc, set, v, nodes, &rows);
	struct td_op_counts k = {0};
	struct td_op_node *flat = td_calloc(rows.n ? rows.n : 1, sizeof(*flat));
	for (size_t i = 0; i < rows.n; i++)
		flat[i] = rows.v[i].n;
	const struct td_op_policy p = {
		.replicas = td_jint(set->root, "spec.replicas", -1),
		.rolling = !td_streq(td_jstr(set->root, "spec.updateStrategy.type"), "OnDelete"),
		.max_unavailable = max_unavailable(set->root, rows.n),
		.update_force_s = td_jbool(set->root, "spec.updateStrategy.force", false)
					  ? seconds(td_jstr_or(set->root, "spec.updateStrategy.drainTimeout", "0s"))
					  : -1,
		.scale_force_s = td_jbool(set->root, "spec.scaleDown.force", false)
					 ? seconds(td_jstr_or(set->root, "spec.scaleDown.drainTimeout", "0s"))
					 : -1,
		.view = v && v->fresh,
		.now_s = td_real_ms(&td_clock_system) / 1000,
	};
	for (size_t i = 0; i < rows.n; i++) {
		const char *of = rows.v[i].pod ? td_object_label(rows.v[i].pod, TD_LABEL_CLUSTER) : NULL;
		if (of && !td_streq(of, td_jstr(set->root, "spec.clusterName"))) {
			td_strv_addf(&problems,
				     "spec.clusterName: the nodes run for cluster \"%s\"; set it back, or delete this NodeSet and make a "
				     "new one",
				     of);
			break;
		}
	}
	td_op_decide(flat, rows.n, &p, &k);
	for (size_t i = 0; i < rows.n; i++)
		rows.v[i].n = flat[i];
	free(flat);
	for (size_t i = 0; i < rows.n; i++) {
		struct td_op_row *x = &rows.v[i];
		const char *waits = x->pod && x->n.act == TD_OP_NONE && !x->n.why ? td_op_unscheduled(x->pod) : NULL;
		if (waits) {
			snprintf(x->why, sizeof(x->why), "its slurmd pod waits for kube-scheduler: %s", waits);
			x->n.why = x->why;
		}
	}
	// A spec with problems changes nothing: what runs goes on running. One failing node does not hold up the others.
	int first = 0;
	struct td_error first_err = TD_ERROR_INIT;
	for (size_t i = 0; i < rows.n && sc; i++) {
		struct td_error e = TD_ERROR_INIT;
		int r = td_op_row_evictable(op, v, &rows.v[i], c, &e);
		if (!r && problems.n == 0) {
			r = td_op_row_act(op, sc, set, v, &rows.v[i], c, &e);
			*unsettled |= rows.v[i].n.act != TD_OP_NONE || rows.v[i].n.why;
		}
		if (r && !first) {
			first = r;
			first_err = e;
		}
	}
	*unsettled |= k.ready != k.desired;
	int r = problems.n || !sc ? 0 : unshare_left(op, &rows, c, err);
	if (r)
		return r;
	td_auto_buf struct td_buf text = {0};
	for (size_t i = 0; i < problems.n; i++)
		td_buf_printf(&text, "%s%s", i ? "; " : "", problems.v[i]);
	r = td_op_nodeset_status(op, set, &rows, &k, sc ? v : NULL, problems.n ? td_buf_str(&text) : NULL, c, err);
	if (!first)
		return r;
	if (err)
		*err = first_err;
	return first;
}

int td_op_nodesets_sync(struct td_op *op, struct td_object *sc, const char *ns, const char *cluster, struct td_op_view *v,
			struct td_objects *sets, int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	td_auto_objects struct td_objects nodes = {0};
	td_informer_list(op->nodes, NULL, &nodes);
	td_op_sort(&nodes);
	bool unsettled = false;
	int first = 0;
	struct td_error first_err = TD_ERROR_INIT;
	for (size_t i = 0; i < sets->n; i++) {
		struct td_error e = TD_ERROR_INIT;
		int r = td_object_deleting(sets->v[i]) ? 0 : one(op, sc, sets->v[i], v, &nodes, &unsettled, c, &e);
		if (r && !first) {
			first = r;
			first_err = e;
		}
	}
	int r = td_op_nodesets_sweep(op, sc, ns, cluster, v, sets, &nodes, c, err);
	int64_t now = td_mono_ms(&td_clock_system), quiet = now - v->changed;
	// Slurm tells nobody when a node changes: looked at often while something moves, and never so often that looking is the load.
	int64_t ms = unsettled || !v->fresh ? (quiet < 30000 ? 100 : 1000) : quiet < 15000 ? 1000 : 2000;
	*again_ms = ms > v->cost * 20 ? ms : v->cost * 20;
	if (first) {
		if (err)
			*err = first_err;
		return first;
	}
	return r;
}
