// Keeps on each node the copies that Datasets ask for, and tells Slurm, Kubernetes and the Datasets which nodes have
// them.
#include "operator/dataset.h"

#include "operator/nodeset.h"

#include "api/status.h"
#include "base/log.h"
#include "slurm/hostlist.h"
#include "slurm/hosts.h"

#include <string.h>

enum { SOON_MS = 300, TURNS = 4 };

// One Dataset of the cluster, and what becomes of it in this pass.
struct dataset {
	struct td_object *o;
	char *print, *problem;
	struct td_strv held;
	size_t wanted, fetching, failed;
	char said[400];
};
struct datasets {
	struct dataset *v;
	size_t n;
	struct td_objects pods; // that fetch or remove, by name: each node looks for its own
	int turns;
	bool unsettled;
};

static void sets_done(struct datasets *s)
{
	for (size_t i = 0; i < s->n; i++) {
		td_object_unref(s->v[i].o);
		free(s->v[i].print);
		free(s->v[i].problem);
		td_strv_done(&s->v[i].held);
	}
	free(s->v);
	td_objects_done(&s->pods);
}
#define auto_sets __attribute__((cleanup(sets_done)))

static int by_name(const void *a, const void *b)
{
	return strcmp((*(struct td_object *const *)a)->name, (*(struct td_object *const *)b)->name);
}

static int is_named(const void *name, const void *pod)
{
	return strcmp(name, (*(struct td_object *const *)pod)->name);
}

static void collect(const struct td_op_pass *p, struct datasets *ret)
{
	td_auto_objects struct td_objects all = {0}, pods = {0};
	td_informer_list(p->op->datasets, p->ns, &all);
	td_op_sort(&all);
	ret->v = td_calloc(all.n ? all.n : 1, sizeof(*ret->v));
	for (size_t i = 0; i < all.n; i++) {
		if (!td_streq(td_jstr(all.v[i]->root, "spec.clusterName"), p->cluster) || td_object_deleting(all.v[i]))
			continue;
		td_auto_strv struct td_strv problems = {0};
		td_auto_buf struct td_buf text = {0};
		td_op_dataset_check(all.v[i]->root, &problems);
		for (size_t k = 0; k < problems.n; k++)
			td_buf_printf(&text, "%s%s", k ? "; " : "", problems.v[k]);
		ret->v[ret->n++] = (struct dataset){.o = td_object_ref(all.v[i]),
						    .print = td_dataset_print(p->in_force, all.v[i]->root),
						    .problem = text.len ? td_strdup(td_buf_str(&text)) : NULL};
	}
	td_informer_list(p->op->pods, p->ns, &pods);
	for (size_t i = 0; i < pods.n; i++)
		if (td_streq(td_object_label(pods.v[i], TD_LABEL_NAME), TD_DATA_POD) &&
		    td_streq(td_object_label(pods.v[i], TD_LABEL_CLUSTER), p->cluster))
			td_objects_add(&ret->pods, td_object_ref(pods.v[i]));
	if (ret->pods.n)
		qsort(ret->pods.v, ret->pods.n, sizeof(*ret->pods.v), by_name);
	ret->turns = (int)td_jint(p->sc->root, "spec.datasets.parallel", TURNS);
	for (size_t i = 0; i < ret->pods.n; i++)
		ret->turns -= !td_kube_pod_ended(ret->pods.v[i]->root);
}

// What is done for one data set on one node.
struct node_copy {
	const struct td_op_pass *p;
	const struct td_object *node, *slurmd, *pod;
	struct dataset *set; // NULL: none is declared any more
	const char *name;
	char *mark;  // without the machine's start
	bool unseen; // the machine has been started since, and nobody has looked whether all of it is on the disk
};

// A mark is PRINT.START: the first letters of the boot id tell whether the machine has been started since.
enum { START_LEN = 8 };
static const char *start_of(const struct td_object *node)
{
	return td_jstr_or(node->root, "status.nodeInfo.bootID", "");
}

static int mark(const struct node_copy *x, const char *value, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_auto_free char *key = td_asprintf(TD_ANN_DATA_PREFIX "%s", x->name),
			  *text = value ? td_asprintf("%s.%.*s", value, START_LEN, start_of(x->node)) : NULL;
	yyjson_mut_val *a = td_jm_obj(d, root, "metadata.annotations"), *l = td_jm_obj(d, root, "metadata.labels");
	td_jm_key_set(d, a, key, text ? yyjson_mut_strcpy(d, text) : yyjson_mut_null(d));
	td_jm_key_set(d, l, key, td_pool_data_held(value) ? yyjson_mut_strcpy(d, value) : yyjson_mut_null(d));
	int r = td_kube_patch(x->p->op->k, TD_AT(&td_nodes, NULL, x->node->name), TD_PATCH_MERGE, root, x->p->c, NULL,
			      err);
	return r == TD_NOT_FOUND ? 0 : r ? td_wrap(err, "marking node %s", x->node->name) : 0;
}

static int begin(const struct node_copy *x, bool removes, struct td_error *err)
{
	const struct td_op_dataset_pod want = {.cluster = x->p->in_force,
					       .slurmd = x->slurmd->root,
					       .dataset = removes ? NULL : x->set->o->root,
					       .name = x->name,
					       .node = x->node->name,
					       .print = removes ? "" : x->set->print};
	td_auto(td_json_unref) struct td_json *pod = td_op_dataset_pod(&want);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(pod));
	int r = td_kube_create(x->p->op->k, &td_pods, x->p->ns, yyjson_mut_doc_get_root(d), x->p->c, NULL, err);
	// The one before it is not gone yet.
	return r == TD_EXISTS ? 0
	       : r            ? td_wrap(err, "creating the pod of data set %s on %s", x->name, x->node->name)
			      : 0;
}

static int end_pod(const struct node_copy *x, struct td_error *err)
{
	const struct td_kube_delete_opts del = {.uid = x->pod->uid, .grace_s = -1};
	int r = td_object_deleting(x->pod)
			? 0
			: td_kube_delete(x->p->op->k, &td_pods, x->pod->ns, x->pod->name, &del, x->p->c, err);
	return r == TD_NOT_FOUND || r == TD_CONFLICT ? 0 : r;
}

static enum td_data_pod state_of(const struct td_object *pod, int64_t *ret_ended_ms)
{
	if (!pod)
		return TD_DATA_POD_NONE;
	if (!td_kube_pod_ended(pod->root))
		return TD_DATA_POD_RUNS;
	yyjson_val *end = td_jget(pod->root, "status.containerStatuses.[0].state.terminated");
	int64_t at = 0, now = td_real_ms(&td_clock_system);
	td_time_parse(td_jstr_or(end, "finishedAt", td_jstr_or(pod->root, "metadata.creationTimestamp", "")), &at);
	*ret_ended_ms = now - at;
	return td_streq(td_jstr(pod->root, "status.phase"), "Succeeded") ? TD_DATA_POD_DONE
	       : td_jint(end, "exitCode", 1) == TD_DATA_WRONG_CODE       ? TD_DATA_POD_WRONG
									 : TD_DATA_POD_FAILED;
}

static bool has_feature(const struct td_slurm_node *n, const char *name)
{
	td_auto_strv struct td_strv l = {0};
	td_auto_free char *f = td_asprintf(TD_DATA_FEATURE "%s", name);
	td_strv_split(&l, n->features ? n->features : "", ',');
	return td_strv_has(&l, f);
}

static void count(struct dataset *s, const struct node_copy *x, const struct td_pool_data *f)
{
	if (!s)
		return;
	s->wanted += f->want != NULL;
	s->fetching += f->pod == TD_DATA_POD_RUNS && *f->pod_for;
	if (f->want && f->mark && !strcmp(f->mark, f->want))
		td_strv_add(&s->held, x->node->name);
	if (!f->want || (f->pod != TD_DATA_POD_FAILED && f->pod != TD_DATA_POD_WRONG))
		return;
	s->failed++;
	const char *said = td_jstr(x->pod->root, "status.containerStatuses.[0].state.terminated.message");
	snprintf(s->said, sizeof(s->said), "%s: %s", x->node->name,
		 said && *said ? said : "it did not come to its end");
}

static int settle(struct datasets *all, struct node_copy *x, bool changeable, struct td_error *err)
{
	const struct td_slurm_node *rec = td_slurm_node_find(&x->p->v->nodes, x->node->name);
	const char *boot = x->mark ? strchr(x->mark, '.') : NULL;
	bool wants = x->set && td_dataset_wants(x->set->o->root, td_jget(x->node->root, "metadata.labels"));
	struct td_pool_data f = {.want = wants ? x->set->print : NULL, .ready = td_op_ready(x->node)};
	f.verify = x->unseen = boot && strncmp(boot + 1, start_of(x->node), START_LEN) != 0;
	if (boot)
		x->mark[boot - x->mark] = '\0';
	f.mark = x->mark;
	f.pod = state_of(x->pod, &f.ended_ms);
	f.pod_for = x->pod ? td_object_annotation(x->pod, TD_ANN_DATA_PRINT) : "";
	f.pod_for = f.pod_for ? f.pod_for : "";
	f.free = x->p->v->fresh &&
		 (!rec || ((rec->states & TD_NODE(IDLE)) && !rec->alloc_cpus && !has_feature(rec, x->name)));
	count(x->set, x, &f);
	if (!changeable)
		return 0;

	enum td_data_act act = td_pool_data_next(&f, &all->turns);
	all->unsettled |= act != TD_DATA_NOTHING || f.pod != TD_DATA_POD_NONE || (f.mark && !td_pool_data_held(f.mark));
	switch (act) {
	case TD_DATA_NOTHING:
		return 0;
	case TD_DATA_MARK_FETCHING:
		return mark(x, TD_DATA_FETCHING, err);
	case TD_DATA_MARK_HELD:
		td_info("node %s holds data set %s/%s", x->node->name, x->p->ns, x->name);
		return mark(x, f.want, err);
	case TD_DATA_MARK_GONE:
		return mark(x, TD_DATA_GONE, err);
	case TD_DATA_UNMARK:
		td_info("data set %s/%s is removed from node %s", x->p->ns, x->name, x->node->name);
		return mark(x, NULL, err);
	case TD_DATA_START:
		return begin(x, false, err);
	case TD_DATA_REMOVE:
		return begin(x, true, err);
	case TD_DATA_END_POD:
		return end_pod(x, err);
	}
	return 0;
}

static const struct td_object *pod_of(const struct datasets *all, const char *cluster, const char *name,
				      const char *node)
{
	if (!all->pods.n)
		return NULL;
	td_auto_free char *pod = td_op_dataset_pod_name(cluster, name, node);
	struct td_object *const *at = bsearch(pod, all->pods.v, all->pods.n, sizeof(*all->pods.v), is_named);
	return at ? *at : NULL;
}

static struct dataset *set_of(struct datasets *all, const char *name)
{
	for (size_t i = 0; i < all->n; i++)
		if (td_streq(all->v[i].o->name, name))
			return &all->v[i];
	return NULL;
}

// Tells Slurm what the node holds.
static int features(const struct td_op_pass *p, const struct td_object *node, const struct td_strv *held,
		    struct td_error *err)
{
	struct td_op_view *v = p->v;
	const struct td_slurm_node *rec = v->fresh ? td_slurm_node_find(&v->nodes, node->name) : NULL;
	if (!rec)
		return 0;
	td_auto_free char *can = td_dataset_features(rec->features, held),
			  *has = td_dataset_features(rec->active, held);
	if (!can && !has)
		return 0;
	int r = td_slurm_node_features(v->slurm, node->name, can ? can : rec->features, has ? has : rec->active,
				       v->call, err);
	v->fetched = 0;
	return r == TD_NOT_FOUND ? 0 : r;
}

static int one_node(const struct td_op_pass *p, struct datasets *all, const struct td_object *slurmd,
		    const struct td_object *node, struct td_error *err)
{
	td_auto_strv struct td_strv names = {0}, held = {0};
	for (size_t i = 0; i < all->n; i++)
		td_strv_add(&names, all->v[i].o->name);
	yyjson_val *k, *v;
	size_t i, n;
	yyjson_obj_foreach (td_jget(node->root, "metadata.annotations"), i, n, k, v) {
		const char *key = yyjson_get_str(k);
		if (td_starts(key, TD_ANN_DATA_PREFIX) && !td_strv_has(&names, key + strlen(TD_ANN_DATA_PREFIX)))
			td_strv_add(&names, key + strlen(TD_ANN_DATA_PREFIX));
	}

	bool mounted = td_op_dataset_mounted(p->in_force, slurmd->root);
	int first = 0;
	for (i = 0; i < names.n; i++) {
		td_auto_free char *key = td_asprintf(TD_ANN_DATA_PREFIX "%s", names.v[i]);
		const char *text = td_object_annotation(node, key);
		td_auto_free char *now = text ? td_strdup(text) : NULL;
		struct node_copy x = {p,
				      node,
				      slurmd,
				      pod_of(all, p->cluster, names.v[i], node->name),
				      set_of(all, names.v[i]),
				      names.v[i],
				      now,
				      false};
		struct td_error e = TD_ERROR_INIT;
		int r = settle(all, &x, mounted && td_jget(p->sc->root, "spec.datasets") && !(x.set && x.set->problem),
			       &e);
		if (mounted && td_pool_data_held(now) && !x.unseen)
			td_strv_add(&held, names.v[i]);
		if (r && !first) {
			first = r;
			if (err)
				*err = e;
		}
	}
	struct td_error e = TD_ERROR_INIT;
	int r = features(p, node, &held, &e);
	if (r && !first) {
		first = r;
		if (err)
			*err = e;
	}
	return first;
}

// Pods that have removed a copy which nobody declares any more: with the node's mark goes what led to them.
static int sweep(const struct td_op_pass *p, struct datasets *all, struct td_error *err)
{
	int first = 0;
	for (size_t i = 0; i < all->pods.n; i++) {
		const struct td_object *pod = all->pods.v[i];
		const char *name = td_object_annotation(pod, TD_ANN_DATASET), *at = td_jstr(pod->root, "spec.nodeName");
		td_auto(td_object_unref) struct td_object *node =
			at && name ? td_informer_get(p->op->nodes, NULL, at) : NULL;
		td_auto_free char *key = td_asprintf(TD_ANN_DATA_PREFIX "%s", name ? name : "");
		if (!td_kube_pod_ended(pod->root) || !name || set_of(all, name) ||
		    (node && td_object_annotation(node, key)))
			continue;
		const struct node_copy x = {.p = p, .pod = pod};
		struct td_error e = TD_ERROR_INIT;
		int r = end_pod(&x, &e);
		if (r && !first) {
			first = r;
			if (err)
				*err = e;
		}
	}
	return first;
}

static int status(const struct td_op_pass *p, struct dataset *s, struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_auto_free char *nodes = td_hostlist_write(&s->held), *text = NULL;
	bool on = td_jget(p->sc->root, "spec.datasets"), ready = on && !s->problem && s->held.n == s->wanted;
	td_auto_free char *said = td_text_clean(s->said); // it was cut, perhaps within a letter
	const char *message = !on          ? "spec.datasets of the SlurmCluster is not set, so nodes hold no copies"
			      : s->problem ? s->problem
					   : said;
	td_jm_int(d, root, "nodesReady", (long long)s->held.n);
	td_jm_int(d, root, "nodesWanted", (long long)s->wanted);
	td_jm_int(d, root, "nodesFetching", (long long)s->fetching);
	td_jm_int(d, root, "nodesFailed", (long long)s->failed);
	td_jm_str(d, root, "nodes", nodes);
	td_jm_str(d, root, "message", message);
	text = td_asprintf("%zu of %zu nodes hold it", s->held.n, s->wanted);
	const struct td_pool_condition c = {"Ready", ready ? "True" : "False",
					    ready        ? "Held"
					    : !on        ? "TurnedOff"
					    : s->problem ? "Invalid"
					    : s->failed  ? "Failed"
							 : "Fetching",
					    *message ? message : text};
	td_op_conditions(d, td_jm_arr(d, root, "conditions"), td_jget(s->o->root, "status"), &c, 1,
			 td_jint(s->o->root, "metadata.generation", 0));
	td_op_status_found(p->op, s->o, d);
	return td_op_status_write(p->op, &td_datasets, s->o, d, p->c, err);
}

// Machines that run slurmd themselves fetch their copies and tell Slurm (cli/host_data.c): here they are counted.
static void machines(const struct td_op_pass *p, struct datasets *all)
{
	td_auto_objects struct td_objects sets = {0};
	td_informer_list(p->op->nodesets, p->ns, &sets);
	td_op_sort(&sets);
	for (size_t i = 0; i < sets.n; i++) {
		const struct td_object *set = sets.v[i];
		td_auto_strv struct td_strv names = {0};
		if (!td_slurm_host_set(set->root) || !td_streq(td_jstr(set->root, "spec.clusterName"), p->cluster))
			continue;
		td_slurm_hosts(set->root, &names, NULL);
		for (size_t k = 0; k < names.n; k++) {
			const struct td_slurm_node *rec = td_slurm_node_find(&p->v->nodes, names.v[k]);
			for (size_t d = 0; rec && d < all->n; d++) {
				struct dataset *s = &all->v[d];
				if (!td_dataset_wants_host(s->o->root, names.v[k], set->name))
					continue;
				s->wanted++;
				if (has_feature(rec, s->o->name))
					td_strv_add(&s->held, names.v[k]);
				else if (!*s->said)
					snprintf(s->said, sizeof(s->said),
						 "%s does not hold it yet: `tandem host` fetches it there, and says in "
						 "its log what is in the way",
						 names.v[k]);
			}
		}
	}
}

int td_op_datasets_sync(const struct td_op_pass *p, int64_t *again_ms, struct td_error *err)
{
	if (!p->sc || !p->in_force)
		return 0;
	auto_sets struct datasets all = {0};
	td_auto_objects struct td_objects pods = {0};
	collect(p, &all);
	td_informer_list(p->op->pods, p->ns, &pods);
	td_op_sort(&pods);
	int first = 0;
	for (size_t i = 0; i < pods.n; i++) {
		const char *name = td_op_is_slurmd(pods.v[i]) ? td_op_pod_node(pods.v[i]) : NULL;
		if (!name || !td_streq(td_object_label(pods.v[i], TD_LABEL_CLUSTER), p->cluster))
			continue;
		td_auto(td_object_unref) struct td_object *node = td_informer_get(p->op->nodes, NULL, name);
		struct td_error e = TD_ERROR_INIT;
		int r = node ? one_node(p, &all, pods.v[i], node, &e) : 0;
		if (r && !first) {
			first = r;
			if (err)
				*err = e;
		}
	}
	struct td_error swept = TD_ERROR_INIT;
	int left = sweep(p, &all, &swept);
	if (left && !first) {
		first = left;
		if (err)
			*err = swept;
	}
	machines(p, &all);
	for (size_t i = 0; i < all.n; i++) {
		struct td_error e = TD_ERROR_INIT;
		int r = status(p, &all.v[i], &e);
		if (r && r != TD_NOT_FOUND && !first) {
			first = r;
			if (err)
				*err = e;
		}
	}
	// Copies may come for days, and each look asks Slurm for all nodes: it is never so often that it is the load.
	int64_t least = td_pool_nodeset_again_ms(true, p->v->fresh, 0, p->v->cost),
		soon = least > SOON_MS ? least : SOON_MS;
	if (all.unsettled && (*again_ms <= 0 || *again_ms > soon))
		*again_ms = soon;
	return first;
}

void td_op_on_dataset(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_op *op = ctx;
	struct td_object *const both[] = {old, now};
	if (td_op_same_spec(old, now))
		return;
	for (size_t i = 0; i < TD_LEN(both); i++) {
		td_auto_free char *key =
			both[i] ? td_asprintf("%s/%s", both[i]->ns, td_jstr_or(both[i]->root, "spec.clusterName", ""))
				: NULL;
		if (key)
			td_queue_add(op->q, key);
	}
}
