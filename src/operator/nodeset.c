// The nodes of a cluster's NodeSets: collects what the two sides say, lets td_op_decide choose, does it, and writes the status.
#include "operator/operator.h"

#include "api/quantity.h"
#include "api/selector.h"
#include "base/log.h"
#include "slurm/hostlist.h"

#include <string.h>

static int cmp_objects(const void *a, const void *b)
{
	return td_op_name_cmp((*(struct td_object *const *)a)->name, (*(struct td_object *const *)b)->name);
}

void td_op_sort(struct td_objects *l)
{
	if (l->n)
		qsort(l->v, l->n, sizeof(struct td_object *), cmp_objects);
}

// ---- which NodeSet a node belongs to ----
bool td_op_selects(const struct td_object *set, const struct td_object *node)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	static const char *const fields[] = {"nodeSelector", "affinity"};
	for (size_t i = 0; i < TD_LEN(fields); i++) {
		td_auto_free char *path = td_asprintf("spec.%s", fields[i]);
		td_jm_copyval(d, root, fields[i], td_jget(set->root, path));
	}
	td_op_tolerations(d, root, set->root); // a node that Slurm drains or that is not ready stays a member
	td_auto(td_json_unref) struct td_json *spec = td_json_from_mut(root);
	return td_pod_fits_node(td_json_root(spec), node->root, true, NULL);
}

static bool is_slurmd(const struct td_object *p)
{
	return td_streq(td_object_label(p, TD_OP_LABEL_NAME), "slurmd") && td_object_label(p, TD_OP_LABEL_NODESET);
}

struct td_object *td_op_claim(struct td_op *op, const struct td_object *node)
{
	td_auto_objects struct td_objects sets = {0}, pods = {0};
	td_informer_list(op->nodesets, NULL, &sets);
	td_informer_by_index(op->pods, "node", node->name, &pods);
	struct td_object *best = NULL;
	for (size_t i = 0; i < sets.n; i++) {
		struct td_object *s = sets.v[i];
		td_auto(td_object_unref) struct td_object *sc =
			td_informer_get(op->clusters, s->ns, td_jstr_or(s->root, "spec.clusterName", ""));
		if (!sc || td_object_deleting(sc) || td_object_deleting(s))
			continue;
		for (size_t k = 0; k < pods.n; k++)
			if (is_slurmd(pods.v[k]) && td_streq(pods.v[k]->ns, s->ns) &&
			    td_streq(td_object_label(pods.v[k], TD_OP_LABEL_NODESET), s->name))
				return td_object_ref(s);
		if (!td_op_selects(s, node))
			continue;
		int order = best ? strcmp(td_jstr_or(s->root, "metadata.creationTimestamp", ""),
					  td_jstr_or(best->root, "metadata.creationTimestamp", ""))
				 : -1;
		if (order < 0 || (order == 0 && strcmp(s->uid, best->uid) < 0))
			best = s;
	}
	return best ? td_object_ref(best) : NULL;
}

// ---- one NodeSet's nodes ----
struct row {
	struct td_op_node n;
	struct td_object *node, *pod;
	struct td_json *want; // the pod it should have; NULL: cannot be said
	struct td_op_share share;
	char why[256];
	char *name;
};
struct rows {
	struct row *v;
	size_t n, cap;
};

static void rows_done(struct rows *r)
{
	for (size_t i = 0; i < r->n; i++) {
		td_object_unref(r->v[i].node);
		td_object_unref(r->v[i].pod);
		td_json_unref(r->v[i].want);
		free(r->v[i].name);
	}
	free(r->v);
}

static struct row *row_of(struct rows *r, const char *name)
{
	for (size_t i = 0; i < r->n; i++)
		if (td_streq(r->v[i].name, name))
			return &r->v[i];
	if (r->n == r->cap) {
		r->cap = r->cap ? r->cap * 2 : 16;
		r->v = td_realloc(r->v, r->cap * sizeof(*r->v));
	}
	struct row *x = &r->v[r->n++];
	*x = (struct row){.name = td_strdup(name)};
	return x;
}

static int cmp_rows(const void *a, const void *b)
{
	return td_op_name_cmp(((const struct row *)a)->name, ((const struct row *)b)->name);
}

static bool differs(const struct td_slurm_node *r, const struct td_op_share *s)
{
	struct td_gres g[8];
	size_t n = 0;
	long long gpus = 0;
	if (r->gres && td_gres_parse(r->gres, g, TD_LEN(g), &n, NULL))
		return false; // unreadable is no reason to delete anything
	for (size_t i = 0; i < n; i++)
		if (td_streq(g[i].name, "gpu"))
			gpus += g[i].count;
	return r->cpus != s->cpus || r->memory_mb != s->memory_mb || gpus != s->gpus;
}

// The features of the wanted pod's --conf that the record lacks?
static bool lacks_features(const struct td_slurm_node *r, const yyjson_val *pod)
{
	yyjson_val *e;
	size_t i, n;
	const char *conf = "";
	yyjson_arr_foreach (td_jget(pod, "spec.containers.[0].env"), i, n, e) {
		if (td_streq(td_jstr(e, "name"), "TD_NODE_CONF"))
			conf = td_jstr_or(e, "value", "");
	}
	td_auto_strv struct td_strv words = {0}, want = {0}, have = {0};
	td_strv_split(&words, conf, ' ');
	for (i = 0; i < words.n; i++)
		if (td_starts(words.v[i], "Feature="))
			td_strv_split(&want, words.v[i] + strlen("Feature="), ',');
	td_strv_split(&have, r->features ? r->features : "", ',');
	for (i = 0; i < want.n; i++)
		if (!td_strv_has(&have, want.v[i]))
			return true;
	return false;
}

static bool has_feature(const struct td_slurm_node *r, const char *feature)
{
	td_auto_strv struct td_strv l = {0};
	td_strv_split(&l, r->features ? r->features : "", ',');
	return td_strv_has(&l, feature);
}

// Nodes that match, pods of the set, and records that carry its mark.
static void collect(struct td_op *op, struct td_object *sc, struct td_object *set, struct td_op_view *v, struct td_objects *nodes,
		    struct rows *ret)
{
	for (size_t i = 0; i < nodes->n; i++) {
		td_auto(td_object_unref) struct td_object *owner = td_op_claim(op, nodes->v[i]);
		if (!owner || !td_streq(owner->uid, set->uid))
			continue;
		struct row *x = row_of(ret, nodes->v[i]->name);
		x->n.matched = td_op_selects(set, nodes->v[i]);
	}
	td_auto_objects struct td_objects pods = {0};
	td_informer_list(op->pods, set->ns, &pods);
	for (size_t i = 0; i < pods.n; i++) {
		const char *node = td_jstr(pods.v[i]->root, "spec.nodeName");
		if (!node || !is_slurmd(pods.v[i]) || !td_streq(td_object_label(pods.v[i], TD_OP_LABEL_NODESET), set->name))
			continue;
		struct row *x = row_of(ret, node);
		td_object_unref(x->pod);
		x->pod = td_object_ref(pods.v[i]);
	}
	td_auto_free char *mark = td_slurm_set_feature(set->name);
	for (size_t i = 0; v && v->fresh && i < v->nodes.n; i++)
		if ((v->nodes.v[i].states & TD_NODE(DYNAMIC_NORM)) && has_feature(&v->nodes.v[i], mark))
			row_of(ret, v->nodes.v[i].name);
	for (size_t i = 0; i < ret->n; i++) {
		struct row *x = &ret->v[i];
		struct td_error err = TD_ERROR_INIT;
		x->node = td_informer_get(op->nodes, NULL, x->name);
		x->n.name = x->name;
		x->n.exists = x->node && !td_object_deleting(x->node);
		x->n.ready = x->node && td_op_ready(x->node);
		x->n.record = v && v->fresh ? td_slurm_node_find(&v->nodes, x->name) : NULL;
		if (x->n.matched && !sc)
			x->n.matched = false;
		if (x->n.matched) {
			if (!td_op_share_of(sc->root, set->root, x->node->root, &x->share, &err) ||
			    td_op_slurmd_pod(sc->root, set->root, x->node->root, &x->share, &x->want, &err)) {
				snprintf(x->why, sizeof(x->why), "%s", err.msg);
				x->n.refuse = x->why;
			}
			x->n.record_differs = x->n.record && x->want &&
					      (differs(x->n.record, &x->share) || lacks_features(x->n.record, td_json_root(x->want)));
		}
		if (!x->pod)
			continue;
		const char *phase = td_jstr_or(x->pod->root, "status.phase", "");
		x->n.pod = true;
		x->n.pod_ip = td_jstr_or(x->pod->root, "status.podIP", "");
		x->n.pod_deleting = td_object_deleting(x->pod);
		x->n.pod_ended = td_streq(phase, "Failed") || td_streq(phase, "Succeeded");
		x->n.pod_ready = td_op_pod_ready(x->pod);
		if (v) {
			enum td_op_sight sight = !v->fresh || !x->n.pod_ready ? TD_OP_UNSEEN : x->n.record ? TD_OP_PRESENT : TD_OP_ABSENT;
			int64_t left = td_op_missing_look(&v->missing, x->name, x->pod->uid, sight, td_mono_ms(&td_clock_system));
			x->n.missing = left >= 0;
			x->n.forgotten = left == 0;
		}
		x->n.pod_updated =
			!x->want || td_streq(td_object_annotation(x->pod, TD_OP_REVISION),
					     td_jkey_str(td_jget(td_json_root(x->want), "metadata.annotations"), TD_OP_REVISION));
		// The old record won over a new slurmd: replaced once more, unless somebody else holds the node drained. The age keeps a
		// record that never comes right from costing a pod a second.
		const struct td_slurm_node *r = x->n.record;
		int64_t born = 0;
		td_time_parse(td_jstr_or(x->pod->root, "metadata.creationTimestamp", ""), &born);
		if (x->n.record_differs && (!(r->states & TD_NODE(DRAIN)) || td_op_reason_ours(r->reason)) &&
		    td_real_ms(&td_clock_system) - born > 60000)
			x->n.pod_updated = false;
	}
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(struct row), cmp_rows);
	for (size_t i = 0; i < ret->n; i++) // the rows moved
		if (ret->v[i].n.refuse)
			ret->v[i].n.refuse = ret->v[i].why;
}

// ---- doing it ----
static int annotate(struct td_op *op, const char *node, const char *value, struct td_cancel *c, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *a = td_jm_obj(d, yyjson_mut_doc_get_root(d), "metadata.annotations");
	td_jm_key_set(d, a, TD_OP_SHARE, value ? yyjson_mut_strcpy(d, value) : yyjson_mut_null(d));
	int r = td_kube_patch(op->k, &td_nodes, NULL, node, NULL, TD_PATCH_MERGE, yyjson_mut_doc_get_root(d), c, NULL, err);
	return r ? td_wrap(err, "annotating node %s", node) : 0;
}

// What other pods on the node ask for must fit beside the share, or Slurm would give out what is taken. TD_INVALID says what is in the way.
static int others_fit(struct td_op *op, struct td_object *sc, struct row *x, struct td_cancel *c, struct td_error *err)
{
	td_auto_free char *field = td_asprintf("spec.nodeName=%s", x->name);
	td_auto_objects struct td_objects pods = {0};
	int r = td_kube_list(op->k, &td_pods, NULL, NULL, field, c, &pods, err);
	if (r)
		return r;
	int64_t cpu = 0, mem = 0, gpu = 0, all_cpu = 0, all_mem = 0;
	for (size_t i = 0; i < pods.n; i++) {
		const char *phase = td_jstr_or(pods.v[i]->root, "status.phase", "");
		yyjson_val *spec = td_jget(pods.v[i]->root, "spec");
		if (td_streq(phase, "Failed") || td_streq(phase, "Succeeded") ||
		    td_streq(td_jstr(spec, "schedulerName"), td_jstr_or(sc->root, "spec.scheduler.schedulerName", "tandem")))
			continue;
		cpu += td_pod_request(spec, "cpu");
		mem += td_pod_request(spec, "memory");
		gpu += td_pod_request(spec, "nvidia.com/gpu");
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
		return td_fail(err, TD_INVALID, "pods outside Slurm hold %lld GPUs there: they must end first", (long long)gpu);
	return 0;
}

static int create(struct td_op *op, struct td_object *sc, struct td_object *set, struct row *x, struct td_cancel *c, struct td_error *err)
{
	// The share first: from now on nobody else is placed on it; then what was placed before is counted.
	td_auto_free char *share = td_op_share_text(&x->share);
	int r = 0;
	const char *now = td_object_annotation(x->node, TD_OP_SHARE);
	// A record that must stay (somebody else drained it) still gives out the old share.
	if (!td_streq(now, share) && !(now && x->n.record && x->n.record_differs))
		r = annotate(op, x->name, share, c, err);
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
static int change_state(struct td_op_view *v, struct row *x, struct td_cancel *c, struct td_error *err)
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
		return ours ? td_slurm_node_update(v->slurm, x->name, "UNDRAIN", NULL, v->call, err) : 0;
	default:
		return td_slurm_node_update(v->slurm, x->name, "DOWN", drain && !ours ? NULL : x->n.why, v->call, err);
	}
}

// Says on the pod whether it may be evicted; without Slurm's answer what was said stands.
static int mark_evictable(struct td_op *op, struct td_op_view *v, struct row *x, struct td_cancel *c, struct td_error *err)
{
	bool said = x->pod && td_object_label(x->pod, TD_OP_EVICTABLE);
	if (!v->fresh || !x->pod || x->n.pod_deleting || said == x->n.evictable || x->n.act == TD_OP_DELETE_POD)
		return 0;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_jm_str(d, root, "metadata.uid", x->pod->uid);
	td_jm_key_set(d, td_jm_obj(d, root, "metadata.labels"), TD_OP_EVICTABLE,
		      x->n.evictable ? yyjson_mut_str(d, "true") : yyjson_mut_null(d));
	int r = td_kube_patch(op->k, &td_pods, x->pod->ns, x->pod->name, NULL, TD_PATCH_MERGE, root, c, NULL, err);
	return r == TD_NOT_FOUND || r == TD_CONFLICT ? 0 : r ? td_wrap(err, "labelling pod %s/%s", x->pod->ns, x->pod->name) : 0;
}

static int perform(struct td_op *op, struct td_object *sc, struct td_object *set, struct td_op_view *v, struct row *x, struct td_cancel *c,
		   struct td_error *err)
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

// A node that left gets its whole allocatable back.
static int unshare_left(struct td_op *op, struct rows *rows, struct td_cancel *c, struct td_error *err)
{
	for (size_t i = 0; i < rows->n; i++) {
		struct row *x = &rows->v[i];
		int r;
		if (x->node && !x->pod && !x->n.record && !x->n.keep && td_object_annotation(x->node, TD_OP_SHARE) &&
		    (r = annotate(op, x->name, NULL, c, err)) && r != TD_NOT_FOUND)
			return r;
	}
	return 0;
}

// ---- status ----
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

static int write_status(struct td_op *op, struct td_object *set, struct rows *rows, const struct td_op_counts *k,
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
		struct row *x = &rows->v[i];
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

static int one(struct td_op *op, struct td_object *sc, struct td_object *set, struct td_op_view *v, struct td_objects *nodes,
	       bool *unsettled, struct td_cancel *c, struct td_error *err)
{
	td_auto_strv struct td_strv problems = {0};
	td_op_nodeset_check(set->root, &problems);
	if (!sc)
		td_strv_addf(&problems, "spec.clusterName: there is no SlurmCluster \"%s\" in namespace %s; create it or correct the name",
			     td_jstr_or(set->root, "spec.clusterName", ""), set->ns);
	__attribute__((cleanup(rows_done))) struct rows rows = {0};
	collect(op, sc, set, v, nodes, &rows);
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
		const char *of = rows.v[i].pod ? td_object_label(rows.v[i].pod, TD_OP_LABEL_CLUSTER) : NULL;
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
	// A spec with problems changes nothing: what runs goes on running. One failing node does not hold up the others.
	int first = 0;
	struct td_error first_err = TD_ERROR_INIT;
	for (size_t i = 0; i < rows.n && sc; i++) {
		struct td_error e = TD_ERROR_INIT;
		int r = mark_evictable(op, v, &rows.v[i], c, &e);
		if (!r && problems.n == 0) {
			r = perform(op, sc, set, v, &rows.v[i], c, &e);
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
	r = write_status(op, set, &rows, &k, sc ? v : NULL, problems.n ? td_buf_str(&text) : NULL, c, err);
	if (!first)
		return r;
	if (err)
		*err = first_err;
	return first;
}

// Pods, shares and records whose NodeSet or cluster is gone.
static int sweep(struct td_op *op, struct td_object *sc, const char *ns, const char *cluster, struct td_op_view *v, struct td_objects *sets,
		 struct td_objects *nodes, struct td_cancel *c, struct td_error *err)
{
	td_auto_objects struct td_objects pods = {0};
	td_informer_list(op->pods, ns, &pods);
	for (size_t i = 0; i < pods.n; i++) {
		bool owned = !is_slurmd(pods.v[i]) || !td_streq(td_object_label(pods.v[i], TD_OP_LABEL_CLUSTER), cluster) ||
			     td_object_deleting(pods.v[i]);
		// A NodeSet that names another cluster now still owns its pods: a slip of the pen ends nothing.
		td_auto(td_object_unref) struct td_object *set =
			sc ? td_informer_get(op->nodesets, ns, td_object_label(pods.v[i], TD_OP_LABEL_NODESET)) : NULL;
		owned |= set != NULL;
		if (owned)
			continue;
		const struct td_delete del = {.uid = pods.v[i]->uid, .grace_s = -1};
		td_info("slurmd pod %s/%s belongs to no NodeSet any more: ended", ns, pods.v[i]->name);
		int r = td_kube_delete(op->k, &td_pods, ns, pods.v[i]->name, &del, c, err);
		if (r && r != TD_NOT_FOUND)
			return r;
	}
	for (size_t i = 0; i < nodes->n; i++) {
		if (!td_object_annotation(nodes->v[i], TD_OP_SHARE))
			continue;
		td_auto(td_object_unref) struct td_object *owner = td_op_claim(op, nodes->v[i]);
		td_auto_objects struct td_objects there = {0};
		td_informer_by_index(op->pods, "node", nodes->v[i]->name, &there);
		bool slurmd = false;
		for (size_t k = 0; k < there.n; k++)
			slurmd |= is_slurmd(there.v[k]);
		int r;
		if (!owner && !slurmd && (r = annotate(op, nodes->v[i]->name, NULL, c, err)) && r != TD_NOT_FOUND)
			return r;
	}
	// Ghosts: dynamic nodes that carry the mark of a NodeSet which is not there any more.
	for (size_t i = 0; sc && v->fresh && i < v->nodes.n; i++) {
		const struct td_slurm_node *n = &v->nodes.v[i];
		if (!(n->states & TD_NODE(DYNAMIC_NORM)) || !n->features)
			continue;
		td_auto_strv struct td_strv f = {0};
		td_strv_split(&f, n->features, ',');
		const char *mark = NULL;
		for (size_t k = 0; k < f.n; k++)
			if (td_starts(f.v[k], "set."))
				mark = f.v[k] + 4;
		bool known = !mark;
		for (size_t k = 0; k < sets->n && !known; k++)
			known = td_streq(sets->v[k]->name, mark);
		for (size_t k = 0; k < pods.n && !known; k++) // its pod is still ending
			known = is_slurmd(pods.v[k]) && td_streq(td_jstr(pods.v[k]->root, "spec.nodeName"), n->name);
		if (known)
			continue;
		struct td_error e = TD_ERROR_INIT;
		int r = n->states & TD_NODE(DOWN) ? td_slurm_node_delete(v->slurm, n->name, v->call, &e)
						  : td_slurm_node_update(v->slurm, n->name, "DOWN", TD_OP_REASON_GONE, v->call, &e);
		v->fetched = 0;
		td_info("SlurmCluster %s: node %s belongs to no NodeSet any more: %s", v->key, n->name, r ? e.msg : "its record goes");
	}
	return 0;
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
	int r = sweep(op, sc, ns, cluster, v, sets, &nodes, c, err);
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
