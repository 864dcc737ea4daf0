// The role: caches, one queue keyed by SlurmCluster, leader election.
#include "operator/dataset.h"
#include "operator/health.h"
#include "operator/join.h"
#include "operator/tenant.h"

#include "base/log.h"
#include "cmd/roles.h"
#include "far/far.h"
#include "kube/health.h"
#include "kube/options.h"
#include "kube/slices.h"
#include "slurm/fabric.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void enqueue(struct td_queue *q, const char *ns, const char *cluster)
{
	if (!cluster || !*cluster)
		return;
	td_auto_free char *key = td_asprintf("%s/%s", ns, cluster);
	td_queue_add(q, key);
}

static void on_cluster(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_op *op = ctx;
	struct td_object *o = now ? now : old;
	// Our own writes of the status come back as events. Only a changed spec or a deletion
	// counts.
	if (td_op_same_spec(old, now))
		return;
	enqueue(op->q, o->ns, o->name);
	enqueue(op->tenant_q, o->ns, o->name);
}

static void on_nodeset(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_op *op = ctx;
	if (td_op_same_spec(old, now))
		return;
	if (old)
		enqueue(op->q, old->ns, td_jstr(old->root, "spec.clusterName"));
	if (now)
		enqueue(op->q, now->ns, td_jstr(now->root, "spec.clusterName"));
}

static void on_tenant(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_op *op = ctx;
	struct td_object *o = now ? now : old;
	if (td_op_groups_changed(old, now))
		enqueue(op->q, td_jstr_or(o->root, "spec.cluster.namespace", ""),
			td_jstr(o->root, "spec.cluster.name"));
}

static void on_owned(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_op *op = ctx;
	struct td_object *o = now ? now : old;
	const char *cluster = td_object_label(o, TD_LABEL_CLUSTER);
	// Nobody answers at the address of a slurmrestd that is gone, so calls to it would wait for
	// their time-out.
	if (cluster && td_streq(td_object_label(o, TD_LABEL_NAME), "slurmrestd") && old &&
	    (!now || td_object_deleting(now))) {
		td_auto_free char *key = td_asprintf("%s/%s", o->ns, cluster);
		td_op_view_abort(op, key);
	}

	const char *at = td_object_label(o, TD_LABEL_CLUSTER_NS);
	enqueue(op->q, at ? at : o->ns, cluster);
}

static void on_pod(void *ctx, struct td_object *old, struct td_object *now)
{
	// What native jobs hold changes all the time, and is the bridge's.
	if (old && now && td_op_is_placeholder(now) && td_kube_pod_ended(old->root) == td_kube_pod_ended(now->root))
		return;
	td_op_health_on_pod(ctx, old, now);
	// What a node's test does is no part of its cluster.
	if (!td_object_label(now ? now : old, TD_LABEL_ACTION_NODE))
		on_owned(ctx, old, now);
}

static void on_budget(void *ctx, struct td_object *old, struct td_object *now)
{
	// Its status changes with every pod that comes or goes, and does not matter here.
	if (!old || !now ||
	    td_jint(old->root, "metadata.generation", 0) != td_jint(now->root, "metadata.generation", -1))
		on_owned(ctx, old, now);
}

// Enqueues every cluster that has a NodeSet.
static void all_clusters(struct td_op *op)
{
	td_auto_objects struct td_objects l = {0};
	td_informer_list(op->nodesets, NULL, &l);
	for (size_t i = 0; i < l.n; i++)
		enqueue(op->q, l.v[i]->ns, td_jstr(l.v[i]->root, "spec.clusterName"));
}

// Has a node the same annotations, as far as a SlurmCluster's spec.fabric reads them?
static bool fabric_same(struct td_op *op, const struct td_object *old, const struct td_object *now)
{
	td_auto_objects struct td_objects l = {0};
	td_informer_list(op->clusters, NULL, &l);
	for (size_t i = 0; i < l.n; i++) {
		yyjson_val *x;
		size_t k, n;
		if (td_slurm_fabric_finds(l.v[i]->root) &&
		    !td_streq(td_object_annotation(old, TD_ANN_NICS), td_object_annotation(now, TD_ANN_NICS)))
			return false;
		yyjson_arr_foreach (td_jget(l.v[i]->root, "spec.fabric.variables"), k, n, x) {
			const char *key = td_jstr(x, "annotation");
			if (key && !td_streq(td_object_annotation(old, key), td_object_annotation(now, key)))
				return false;
		}
	}
	return true;
}

static void on_node(void *ctx, struct td_object *old, struct td_object *now)
{
	td_op_health_on_node(ctx, old, now);
	td_op_join_on_node(ctx, old, now);
	// Heartbeats change nothing of interest.
	if (old && now && td_jequal(td_jget(old->root, "metadata.labels"), td_jget(now->root, "metadata.labels")) &&
	    td_jequal(td_jget(old->root, "status.allocatable"), td_jget(now->root, "status.allocatable")) &&
	    td_jequal(td_jget(old->root, "status.capacity"), td_jget(now->root, "status.capacity")) &&
	    td_jequal(td_jget(old->root, "spec.taints"), td_jget(now->root, "spec.taints")) &&
	    td_op_ready(old) == td_op_ready(now) && td_object_deleting(old) == td_object_deleting(now) &&
	    td_streq(td_object_annotation(old, TD_ANN_SHARE), td_object_annotation(now, TD_ANN_SHARE)) &&
	    td_streq(td_object_annotation(old, TD_ANN_SLURMD_IMAGE), td_object_annotation(now, TD_ANN_SLURMD_IMAGE)) &&
	    td_streq(td_object_annotation(old, TD_ANN_GPU_NUMA), td_object_annotation(now, TD_ANN_GPU_NUMA)) &&
	    td_streq(td_object_annotation(old, TD_ANN_GPUS), td_object_annotation(now, TD_ANN_GPUS)) &&
	    !td_object_annotation(old, TD_ANN_GDS) == !td_object_annotation(now, TD_ANN_GDS) &&
	    !td_object_annotation(old, TD_ANN_SHADOW) == !td_object_annotation(now, TD_ANN_SHADOW) &&
	    // A new one may wait for it (nodeset_act.c).
	    (!td_object_annotation(now, TD_ANN_HOLD) || td_object_annotation(old, TD_ANN_HOLD)) &&
	    fabric_same(ctx, old, now) && td_object_deleting(old) == td_object_deleting(now))
		return;
	all_clusters(ctx);
}

static void on_slice(void *ctx, struct td_object *old, struct td_object *now)
{
	all_clusters(ctx);
}

// A claim that comes or goes decides whether the spec that names it can be used.
static void on_claim(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_op *op = ctx;
	td_auto_objects struct td_objects l = {0};
	if (old && now)
		return;
	td_informer_list(op->clusters, NULL, &l);
	for (size_t i = 0; i < l.n; i++)
		if (td_streq(l.v[i]->ns, (now ? now : old)->ns) || td_jget(l.v[i]->root, "spec.storageGroups"))
			enqueue(op->q, l.v[i]->ns, l.v[i]->name);
}

static void index_tested(const struct td_object *o, struct td_strv *ret)
{
	const char *n = td_object_label(o, TD_LABEL_ACTION_NODE);
	if (n)
		td_strv_add(ret, n);
}

static void index_node(const struct td_object *o, struct td_strv *ret)
{
	const char *n = td_op_pod_node(o);
	if (n)
		td_strv_add(ret, n);
}

int td_op_reconcile(void *ctx, const char *key, int64_t *again_ms, struct td_cancel *c, struct td_error *err)
{
	struct td_op *op = ctx;
	unsigned news = atomic_load(&op->news); // before the caches are read
	td_auto_free char *ns = NULL, *name = NULL;
	td_key_split(key, &ns, &name);
	td_auto(td_object_unref) struct td_object *sc = td_informer_get(op->clusters, ns, name);
	if (sc && td_object_deleting(sc))
		sc = td_object_unref(sc);
	td_auto_objects struct td_objects all = {0}, sets = {0};
	td_informer_list(op->nodesets, ns, &all);
	td_op_sort(&all);
	for (size_t i = 0; i < all.n; i++)
		if (td_streq(td_jstr(all.v[i]->root, "spec.clusterName"), name))
			td_objects_add(&sets, td_object_ref(all.v[i]));

	struct td_op_view *v = td_op_view_of(op, key);
	if (sc && td_streq(v->uid, sc->uid) && td_op_look_quiet(op, sc, v, news, again_ms, c))
		return 0;
	td_op_look_begin(v, news);
	if (sc && !td_streq(v->uid, sc->uid)) {
		// It is another object of the same name: nothing that we know of the old one holds.
		free(v->uid);
		v->uid = td_strdup(sc->uid);
		free(v->active);
		v->active = NULL;
		v->first_seen = 0;
		v->qos.gen = 0;
		v->known = false;
		td_slurm_nodes_done(&v->nodes);
	}

	int r = 0, r2;
	int64_t due = 0; // in ms: when something is due by the clock
	struct td_error e = TD_ERROR_INIT;
	if (sc) {
		r = td_op_cluster_sync(op, sc, v, &sets, c, err);
		if (!r && op->per_cluster)
			r = td_op_per_cluster_sync(op, sc, v, c, err);
		td_op_view_refresh(op, sc, v, 50, c);
	} else if (op->per_cluster) {
		r = td_op_per_cluster_gone(op, ns, name, c, err);
	}

	td_auto(td_json_unref) struct td_json *in_force = sc ? td_op_in_force(op, sc) : NULL;
	const struct td_op_pass pass = {op, sc, ns, name, v, &sets, c, td_json_root(in_force)};
	r2 = td_op_nodesets_sync(&pass, again_ms, &e);
	if (!r && r2) {
		r = r2;
		if (err)
			*err = e;
	}
	r2 = td_op_datasets_sync(&pass, &due, &e);
	if (!r && r2) {
		r = r2;
		if (err)
			*err = e;
	}
	if (sc) {
		td_op_qos_sync(v, sc, &due);
		r2 = td_op_keys_sync(op, sc, v, &due, c, &e);
		if (!r && r2) {
			r = r2;
			if (err)
				*err = e;
		}
		r2 = td_op_people_ensure(op, sc, c, &e);
		if (!r && r2) {
			r = r2;
			if (err)
				*err = e;
		}
		r2 = td_op_cluster_status(op, sc, v, c, &e);
		if (!r && r2) {
			r = r2;
			if (err)
				*err = e;
		}
	}

	if (op->per_cluster && (r2 = td_op_pools_sync(op, c, &e)) && !r) {
		r = r2;
		if (err)
			*err = e;
	}

	td_op_look_end(v, !r, due, again_ms);
	if (!sc)
		*again_ms = 0;
	return r == TD_CANCELLED && !td_cancelled(c) ? TD_TRANSIENT : r;
}

// A thread that passes the operator's end on to calls that wait for Slurm.
struct stopper {
	struct td_op *op;
	struct td_cancel *c, *done;
};
static void *pass_on(void *arg)
{
	struct stopper *s = arg;
	struct pollfd p[2] = {{td_cancel_fd(s->c), POLLIN, 0}, {td_cancel_fd(s->done), POLLIN, 0}};
	while (!td_cancelled(s->c) && !td_cancelled(s->done))
		poll(p, 2, -1);
	td_op_view_abort(s->op, NULL);
	return NULL;
}

static void *run_health(void *arg)
{
	struct stopper *s = arg;
	struct td_error err = TD_ERROR_INIT;
	int r = td_op_health_run(s->op, s->c, &err);
	if (r && r != TD_CANCELLED)
		td_err("health: %s", err.msg);
	return NULL;
}

static void *joins(void *arg)
{
	struct stopper *s = arg;
	td_op_join_run(s->op, s->done);
	return NULL;
}

static void *others(void *arg)
{
	struct stopper *s = arg;
	td_op_others_run(s->op, s->done);
	return NULL;
}

static void *tenants(void *arg)
{
	struct stopper *s = arg;
	td_op_tenants_run(s->op, s->done);
	return NULL;
}

// Is the resource among those of this path of the API?
static int listed(struct td_kube *k, const char *path, const char *resource, bool *ret, struct td_cancel *c,
		  struct td_error *err)
{
	td_auto(td_json_unref) struct td_json *j = NULL;
	int r = td_kube_raw(k, "GET", path, NULL, c, &j, err);
	if (r)
		return r;
	*ret = td_jfind(td_jget(td_json_root(j), "resources"), "name", resource) != NULL;
	return 0;
}

int td_op_core_served(struct td_kube *k, const char *resource, bool *ret, struct td_cancel *c, struct td_error *err)
{
	return listed(k, "/api/v1", resource, ret, c, err);
}

int td_op_mutates(struct td_kube *k, bool *ret, struct td_cancel *c, struct td_error *err)
{
	static const char *const paths[] = {"/apis/admissionregistration.k8s.io/v1",
					    "/apis/admissionregistration.k8s.io/v1beta1"};
	*ret = false;
	for (size_t i = 0; i < TD_LEN(paths) && !*ret; i++) {
		int r = listed(k, paths[i], "mutatingadmissionpolicies", ret, c, err);
		if (r && r != TD_NOT_FOUND)
			return r;
	}
	return 0;
}

char *td_op_api_lacks(const struct td_op *op, const yyjson_val *sc, bool *ret_asked)
{
	bool places = td_jbool(sc, "spec.placeholders.enabled", false),
	     shadows = td_jbool(sc, "spec.shadows.enabled", false);
	td_auto_buf struct td_buf b = {0};
	*ret_asked = op->image && (places || shadows); // the embedded plane needs none of them
	if (!*ret_asked)
		return NULL;
	if (places && !op->resize)
		td_buf_puts(&b, "spec.placeholders has no effect: the API server does not serve pods/resize "
				"(Kubernetes 1.33 and newer do)");
	if (shadows && !op->mutates)
		td_buf_printf(
			&b,
			"%sspec.shadows: the API server serves no MutatingAdmissionPolicy (Kubernetes 1.36 does, "
			"1.34 and 1.35 when told to), so a pod of a namespace with the label " TD_LABEL_SHADOW_GATE
			" is refused unless its template has schedulingGates: [{name: " TD_GATE_SHADOW "}]",
			b.len ? "; " : "");
	return b.len ? td_buf_take(&b) : NULL;
}

static int lead(void *ctx, struct td_cancel *c, struct td_error *err)
{
	struct td_op *op = ctx;
	td_info("leading");
	bool served = false;
	int r = td_dra_served(op->k, &served, c, err);
	if (!r && op->image)
		r = td_op_core_served(op->k, "pods/resize", &op->resize, c, err);
	if (!r && op->image)
		r = td_op_mutates(op->k, &op->mutates, c, err);
	if (r)
		return r;
	op->stopping = false;
	op->q = td_queue_new(&td_clock_system);
	op->health = td_queue_new(&td_clock_system);
	op->tenant_q = td_queue_new(&td_clock_system);
	op->joins = td_queue_new(&td_clock_system);
	const struct {
		struct td_informer **slot;
		struct td_informer_opts o;
		void (*news)(void *, struct td_object *, struct td_object *); // NULL: a whole look is not made of it
		void (*fn)(void *, struct td_object *, struct td_object *);
	} table[] = {
		{&op->clusters, {&td_slurmclusters, NULL, NULL, NULL}, td_op_news_spec, on_cluster},
		{&op->nodesets, {&td_nodesets, NULL, NULL, NULL}, td_op_news_spec, on_nodeset},
		{&op->upgrades, {&td_nodeupgrades, NULL, NULL, NULL}, NULL, td_op_upgrade_on_change},
		{&op->nodes, {&td_nodes, NULL, NULL, NULL}, td_op_news_node, on_node},
		{&op->datasets, {&td_datasets, NULL, NULL, NULL}, td_op_news_spec, td_op_on_dataset},
		{&op->pods, {&td_pods, NULL, TD_LABEL_CLUSTER, NULL}, td_op_news_pod, on_pod},
		{&op->configmaps, {&td_configmaps, NULL, TD_LABEL_CLUSTER, NULL}, td_op_news_any, on_owned},
		{&op->site, {&td_configmaps, NULL, TD_LABEL_SITE, NULL}, td_op_news_any, td_op_on_site},
		{&op->secrets, {&td_secrets, NULL, TD_LABEL_CLUSTER, NULL}, td_op_news_any, on_owned},
		{&op->services, {&td_services, NULL, TD_LABEL_CLUSTER, NULL}, td_op_news_any, on_owned},
		{&op->statefulsets, {&td_statefulsets, NULL, TD_LABEL_CLUSTER, NULL}, td_op_news_any, on_owned},
		{&op->deployments, {&td_deployments, NULL, TD_LABEL_CLUSTER, NULL}, td_op_news_any, on_owned},
		{&op->actions, {&td_nodeactions, NULL, NULL, NULL}, td_op_news_any, td_op_health_on_action},
		{&op->policies, {&td_healthpolicies, NULL, NULL, NULL}, NULL, td_op_health_on_policy},
		{&op->budgets, {&td_pdbs, NULL, TD_LABEL_CLUSTER, NULL}, td_op_news_budget, on_budget},
		{&op->claims, {&td_pvcs, NULL, NULL, NULL}, td_op_news_claim, on_claim},
		{&op->tenants, {&td_tenants, NULL, NULL, NULL}, td_op_news_spec, on_tenant},
		// These two only where the API serves resource.k8s.io/v1.
		{&op->templates, {&td_resourceclaimtemplates, NULL, TD_LABEL_CLUSTER, NULL}, td_op_news_any, on_owned},
		{&op->slices, {&td_resourceslices, NULL, NULL, NULL}, td_op_news_any, on_slice},
	};
	struct td_informer *informers[TD_LEN(table)];
	const size_t n = TD_LEN(table) - (served ? 0 : 2);
	// Ends the informers, also when one of them could not start.
	td_auto(td_cancel_unref) struct td_cancel *stop = td_cancel_new();
	for (size_t i = 0; i < n; i++)
		informers[i] = *table[i].slot = td_informer_new(op->k, &table[i].o);
	td_informer_add_index(op->pods, "node", index_node);
	td_informer_add_index(op->pods, "tested", index_tested);
	td_informer_add_index(op->actions, "node", td_op_health_index);
	if (served)
		td_informer_add_index(op->slices, "node", td_dra_index_node);
	for (size_t i = 0; i < n; i++) {
		if (table[i].news) // first: what fn queues must find it
			td_informer_on_change(informers[i], table[i].news, op);
		td_informer_on_change(informers[i], table[i].fn, op);
		if (!r)
			r = td_informer_start(informers[i], stop, err);
	}

	op->events = td_recorder_new(op->k, "tandem-operator");
	op->far = td_far_new(op->k, op->events, &op->streams);
	if (!r)
		r = td_informers_fill(informers, n, "the operator waits", c, err);
	if (!r) {
		td_auto_objects struct td_objects l = {0};
		td_informer_list(op->clusters, NULL, &l);
		for (size_t i = 0; i < l.n; i++)
			enqueue(op->q, l.v[i]->ns, l.v[i]->name);
		all_clusters(op);
		const struct td_controller ctl = {"slurmcluster", 2, op->q, td_op_reconcile, op};
		struct stopper s = {op, c, stop};
		pthread_t t, h, u, j, o;
		bool passed = !pthread_create(&t, NULL, pass_on, &s),
		     health = !pthread_create(&h, NULL, run_health, &s), more = !pthread_create(&u, NULL, tenants, &s),
		     other = !pthread_create(&o, NULL, others, &s),
		     join = op->image && !pthread_create(&j, NULL, joins, &s);
		td_op_measure(op);
		r = td_controller_run(&ctl, c, err);
		td_op_measure(NULL);
		td_cancel_fire(stop);
		if (passed)
			pthread_join(t, NULL);
		if (health)
			pthread_join(h, NULL);
		if (more)
			pthread_join(u, NULL);
		if (join)
			pthread_join(j, NULL);
		if (other)
			pthread_join(o, NULL);
	}

	td_cancel_fire(stop);
	// In reverse order: handlers look into the caches that come before their own.
	for (size_t i = n; i--;)
		*table[i].slot = td_informer_free(informers[i]);
	td_op_views_free(op);
	td_op_statuses_free(op);
	op->far = td_far_free(op->far);
	op->events = td_recorder_free(op->events);
	op->q = td_queue_free(op->q);
	op->health = td_queue_free(op->health);
	td_objects_done(&op->deleted);
	op->tenant_q = td_queue_free(op->tenant_q);
	op->joins = td_queue_free(op->joins);
	return r;
}

// Waits for the API, which may start together with us. It is found within 50 ms after it is up; a
// failed attempt for the lease would cost seconds.
static int wait_api(struct td_kube *k, const struct td_lease_opts *l, struct td_cancel *c, struct td_error *err)
{
	for (int64_t ms = 20;; ms = ms < 500 ? ms + 10 : 500) {
		int r = td_kube_get(k, &td_leases, l->ns, l->name, c, NULL, err);
		if (r != TD_TRANSIENT && r != TD_UNCERTAIN)
			return 0;
		if (td_cancel_wait(c, ms))
			return td_fail(err, TD_CANCELLED, "cancelled");
	}
}

int td_operator_main(int argc, char **argv)
{
	const char *conf = NULL, *metrics = NULL;
	enum td_log_level level = TD_LOG_INFO;
	struct td_op op = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct td_lease_opts lease = {.ns = "kube-system", .name = "tandem-operator"};
	struct td_error err = TD_ERROR_INIT;
	int code;
	const struct td_option options[] = {
		TD_KUBECONFIG_OPTION(&conf),
		{.name = "image",
		 .value = "IMAGE",
		 TD_OPT_TEXT(&op.image),
		 .help = "Tandem's own image: on kubelets, slurmd pods take tandem-standin from it\n(without: "
			 "embedded, where the agent shows it to them)"},
		TD_EMPTY_DIRS_OPTION(&op.empty_dirs),
		{.name = "per-cluster",
		 .value = "FILE",
		 TD_OPT_TEXT(&op.per_cluster),
		 .help = "what each SlurmCluster gets besides Slurm (its bridge), as YAML;\ntandem-operator(8)"},
		{.name = "own-namespace",
		 .value = "NS",
		 TD_OPT_TEXT(&op.own_ns),
		 .help = "where Tandem itself runs, for --per-cluster"},
		{.name = "streams",
		 .value = "ADDR:PORT",
		 TD_OPT_TEXT(&op.streams.listen),
		 .help = "serves logs and exec of pods in other clusters there, as a kubelet; unix:PATH\nfor an API "
			 "server that has asked who may"},
		{.name = "streams-address",
		 .value = "ADDR",
		 TD_OPT_TEXT(&op.streams.address),
		 .help = "how the API server reaches ADDR:PORT: an IP address or a name"},
		{.name = "streams-pki",
		 .value = "DIR",
		 TD_OPT_TEXT(&op.streams.pki),
		 .help = "tls.crt and tls.key for it; where there are none, they are made there"},
		TD_METRICS_OPTION(&metrics),
		TD_LEASE_OPTIONS(&lease, "kube-system", "the host's name"),
		TD_OPT_LOG_LEVEL(&level),
	};
	const struct td_command command = {.name = "operator",
					   .about = "Keeps what SlurmCluster and NodeSet objects ask for. One of "
						    "several leads: Lease tandem-operator.",
					   .exits = TD_ROLE_EXITS,
					   .options = options,
					   .n = TD_LEN(options)};
	if (!td_command_line(&command, argc, argv, NULL, &code))
		return code;
	if (!op.per_cluster != !op.own_ns)
		return td_command_wrong("operator", "--per-cluster and --own-namespace go together");
	bool net = op.streams.listen && !td_starts(op.streams.listen, "unix:");
	if (net != (op.streams.address != NULL) || net != (op.streams.pki != NULL))
		return td_command_wrong("operator",
					"--streams ADDR:PORT, --streams-address and --streams-pki go together");
	if (td_lease_check(&lease, &err))
		return td_command_wrong("operator", "%s", err.msg);
	td_log_init("operator", level);

	char host[256] = "tandem";
	gethostname(host, sizeof(host) - 1);
	td_auto(td_cancel_unref) struct td_cancel *cancel = td_cancel_new();
	td_cancel_on_signals(cancel);

	if (!lease.identity)
		lease.identity = host;
	struct td_health *health;
	int r = td_health_serve("operator", metrics, &health, &err);
	if (!r)
		r = td_kube_new(conf, &op.k, &err);
	if (!r)
		td_health_set("lease", "the API server was not reached yet");
	while (!r && !td_cancelled(cancel)) {
		if ((r = wait_api(op.k, &lease, cancel, &err)))
			break;
		r = td_lease_run(op.k, &lease, cancel, lead, &op, &err);
		if (r == TD_CONFLICT) { // the lease is lost: stand for election again
			td_warn("%s", err.msg);
			r = 0;
		}
	}

	td_health_end(health);
	td_kube_free(op.k);
	if (r && r != TD_CANCELLED) {
		td_err("%s", err.msg);
		return 1;
	}
	return 0;
}
