// The nodes of a cluster's NodeSets: collects what the two sides say, lets pool/ choose, carries it
// out, and writes the status.
#include "operator/nodeset.h"

#include "slurm/hosts.h"

#include <string.h>

// Removes the share from nodes that left, so that they get their whole allocatable back.
static int unshare_left(struct td_op *op, struct td_op_rows *rows, struct td_cancel *c, struct td_error *err)
{
	for (size_t i = 0; i < rows->n; i++) {
		struct td_op_row *x = &rows->v[i];
		int r;
		if (x->node && !x->pod && !x->n.record && !x->n.keep && td_object_annotation(x->node, TD_ANN_SHARE) &&
		    (r = td_op_unshare(op, x->node, c, err)))
			return r;
	}
	return 0;
}

int64_t td_op_seconds(const char *s)
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

// Adds what stops the whole NodeSet, in words.
static void problems_of(const struct td_op_pass *p, const struct td_object *set, const struct td_op_rows *rows,
			struct td_strv *ret)
{
	const char *cluster = td_jstr_or(set->root, "spec.clusterName", "");
	td_op_nodeset_check(set->root, ret);
	if (!p->sc)
		td_strv_addf(ret,
			     "spec.clusterName: there is no SlurmCluster \"%s\" in namespace %s; create it or correct "
			     "the name",
			     cluster, set->ns);
	else
		td_op_on_demand_check(p->sc->root, set->root, ret);
	td_slurm_hosts_check(set->root, ret);
	td_op_autoscale_check(set->root, ret);
	td_op_other_check(p->sc ? p->sc->root : NULL, set->root, ret);

	for (size_t i = 0; i < rows->n; i++) {
		const char *of = rows->v[i].pod ? td_object_label(rows->v[i].pod, TD_LABEL_CLUSTER) : NULL;
		if (of && strcmp(of, cluster) != 0) {
			td_strv_addf(ret,
				     "spec.clusterName: the nodes run for cluster \"%s\"; set it back, or delete this "
				     "NodeSet and make a new one",
				     of);
			break;
		}
	}
}

// Returns the drain timeout after which jobs are ended; -1: they never are.
static int64_t force_s(const yyjson_val *set, const char *force, const char *timeout)
{
	return td_jbool(set, force, false) ? td_op_seconds(td_jstr_or(set, timeout, "0s")) : -1;
}

static void decide(const struct td_op_pass *p, const struct td_object *set, struct td_op_rows *rows,
		   struct td_pool_set_counts *ret, struct td_op_scale *scale)
{
	const char *idle = td_jstr_or(set->root, "spec.onDemand.idleTime", "10m");
	struct td_pool_policy policy = {
		.replicas = td_jint(set->root, "spec.replicas", -1),
		.on_demand = td_op_on_demand(set->root),
		.idle_s = td_op_seconds(idle),
		.rolling = !td_streq(td_jstr(set->root, "spec.updateStrategy.type"), "OnDelete"),
		.max_unavailable = max_unavailable(set->root, rows->n),
		.update_force_s = force_s(set->root, "spec.updateStrategy.force", "spec.updateStrategy.drainTimeout"),
		.scale_force_s = force_s(set->root, "spec.scaleDown.force", "spec.scaleDown.drainTimeout"),
		.view = p->v->fresh,
		.now_ms = td_real_ms(&td_clock_system),
		.config_ms = p->sc ? td_op_config_since(p->op, p->sc, p->v) : 0,
	};
	struct td_pool_member *flat = td_calloc(rows->n ? rows->n : 1, sizeof(*flat));
	for (size_t i = 0; i < rows->n; i++)
		flat[i] = rows->v[i].n;
	td_op_autoscale_decide(p, set, flat, rows->n, &policy, scale);
	td_pool_nodeset_decide(flat, rows->n, &policy, ret);

	for (size_t i = 0; i < rows->n; i++) {
		struct td_op_row *x = &rows->v[i];
		x->n = flat[i];
		bool image = false;
		const char *waits =
			x->pod && x->n.act == TD_MEMBER_NOTHING && !x->n.why ? td_op_stuck(x->pod, &image) : NULL;
		if (waits) {
			snprintf(x->why, sizeof(x->why), "its slurmd pod %s: %s",
				 image                       ? "cannot have its image"
				 : td_op_unscheduled(x->pod) ? "waits for kube-scheduler"
							     : "does not start",
				 waits);
			x->n.why = x->why;
		}
	}

	free(flat);
}

// True when something of the node goes on by time as well, or its act may have to be taken again. A slurmd that Slurm does
// not know counts the time from the first look on.
static bool moves(const struct td_op_row *x, bool force)
{
	const struct td_pool_member *m = &x->n;
	return m->act != TD_MEMBER_NOTHING || m->missing || m->record_differs || (m->why && force) ||
	       (m->pod_ready && !x->slurm);
}

// One reconcile of one NodeSet. names: of Tenants; NULL: none.
static int one(const struct td_op_pass *p, struct td_object *set, const struct td_objects *nodes, const char *names,
	       struct td_op_demand *demand, bool *unsettled, struct td_error *err)
{
	td_auto_rows struct td_op_rows rows = {0};
	td_op_rows_collect(p, set, nodes, &rows);
	td_auto_strv struct td_strv problems = {0};
	problems_of(p, set, &rows, &problems);
	struct td_pool_set_counts k;
	struct td_op_scale scale = {0};
	decide(p, set, &rows, &k, &scale);

	// A spec with problems changes nothing: what runs goes on running. A node that fails does
	// not hold up the others.
	bool force = td_jbool(set->root, "spec.updateStrategy.force", false) ||
		     td_jbool(set->root, "spec.scaleDown.force", false);
	p->v->looked.moving |= td_op_on_demand(set->root) || td_api_other_cluster(set->root) || scale.on;
	int first = 0;
	struct td_error first_err = TD_ERROR_INIT;
	for (size_t i = 0; i < rows.n && p->sc; i++) {
		struct td_error e = TD_ERROR_INIT;
		int r = td_op_row_evictable(p, &rows.v[i], &e);
		if (!r && problems.n == 0) {
			r = td_op_row_act(p, set, &rows.v[i], &e);
			*unsettled |= rows.v[i].n.act != TD_MEMBER_NOTHING || rows.v[i].n.why;
			p->v->looked.moving |= moves(&rows.v[i], force);
		}
		if (!r)
			r = td_op_row_placeholder(p, set, &rows.v[i], &e);
		if (!r && problems.n == 0)
			r = td_op_row_cutting(p, set, &rows.v[i], &e);
		if (!r && problems.n == 0)
			r = td_op_row_tenants(p, &rows.v[i], names, &e);
		if (r && !first) {
			first = r;
			first_err = e;
		}
	}

	if (problems.n == 0 && p->sc) {
		struct td_error e = TD_ERROR_INIT;
		int r = td_op_autoscale_act(p, set, &rows, &scale, &e);
		if (r && !first) {
			first = r;
			first_err = e;
		}
	}

	*unsettled |= k.ready != k.desired;
	if (problems.n == 0)
		td_op_on_demand_note(set, &rows, demand);
	int r = problems.n || !p->sc ? 0 : unshare_left(p->op, &rows, p->c, err);
	if (r)
		return r;

	td_auto_buf struct td_buf text = {0};
	for (size_t i = 0; i < problems.n; i++)
		td_buf_printf(&text, "%s%s", i ? "; " : "", problems.v[i]);
	if (problems.n)
		scale = (struct td_op_scale){0}; // nothing is asked for
	const struct td_op_said_of said = {&k, &scale, problems.n ? td_buf_str(&text) : NULL};
	r = td_op_nodeset_status(p, set, &rows, &said, err);
	if (!first)
		return r;
	if (err)
		*err = first_err;
	return first;
}

int td_op_nodesets_sync(const struct td_op_pass *p, int64_t *again_ms, struct td_error *err)
{
	td_auto_objects struct td_objects nodes = {0};
	td_informer_list(p->op->nodes, NULL, &nodes);
	td_op_sort(&nodes);
	td_auto_free char *names = td_op_tenant_names(p->op, p->ns, p->cluster);
	td_auto_demand struct td_op_demand demand = {0};
	bool unsettled = false;
	int first = 0;
	struct td_error first_err = TD_ERROR_INIT;
	for (size_t i = 0; i < p->sets->n; i++) {
		struct td_error e = TD_ERROR_INIT;
		int r = td_object_deleting(p->sets->v[i])
				? 0
				: one(p, p->sets->v[i], &nodes, names, &demand, &unsettled, &e);
		if (r && !first) {
			first = r;
			first_err = e;
		}
	}

	p->v->looked.unsettled = unsettled;
	td_op_wishes_forget(p->v, false);
	int r = td_op_nodesets_sweep(p, &nodes, err);
	if (!r && !first)
		r = td_op_on_demand_tell(p, &demand, err);
	*again_ms = td_pool_nodeset_again_ms(unsettled, p->v->fresh, td_mono_ms(&td_clock_system) - p->v->changed,
					     p->v->cost);
	if (first) {
		if (err)
			*err = first_err;
		return first;
	}
	return r;
}
