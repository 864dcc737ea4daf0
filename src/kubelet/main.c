// The role `kubelet`: flags, wiring, and the order of start and stop.
//
// Start: open the runtime, restore the pods from their records, sync the informers, open the gate,
// start the workers. Stop: the workers end; the containers go on.
#include "api/quantity.h"
#include "base/file.h"
#include "base/log.h"
#include "cmd/roles.h"
#include "gate/gate.h"
#include "gate/metrics.h"
#include "gate/parts.h"
#include "gate/telemetry.h"
#include "kube/health.h"
#include "kube/options.h"
#include "kubelet/accels.h"
#include "kubelet/frames.h"
#include "kubelet/kubelet.h"
#include "kubelet/metrics.h"
#include "kubelet/pods/filters.h"
#include "kubelet/pods/hosts.h"
#include "kubelet/pods/pod.h"
#include "kubelet/pods/sync.h"
#include "kubelet/realgpu.h"
#include "kubelet/stream/stream.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SYNC_WORKERS = 8, PROBE_WORKERS = 6 };

// ---- options ----

// False: end with *ret_exit.
static bool parse(int argc, char **argv, struct td_kubelet_opts *o, int *ret_exit)
{
	enum td_log_level level = TD_LOG_INFO;
	const struct td_option options[] = {
		{.name = "kubeconfig",
		 .value = "FILE",
		 TD_OPT_TEXT(&o->kubeconfig),
		 .required = true,
		 .help = "how to reach the API"},
		{.name = "home",
		 .value = "DIR",
		 TD_OPT_TEXT(&o->home),
		 .required = true,
		 .help = "state of the installation: pods, volumes, logs"},
		{.name = "run",
		 .value = "DIR",
		 TD_OPT_TEXT(&o->run),
		 .required = true,
		 .help = "sockets and runtime state, /run/tandem/ID"},
		{.name = "id",
		 .value = "ID",
		 TD_OPT_TEXT(&o->id),
		 .required = true,
		 .help = "six hex digits, part of every name that it makes on the machine"},
		{.name = "images",
		 .value = "DIR",
		 TD_OPT_TEXT(&o->images),
		 .required = true,
		 .help = "the image store"},
		{.name = "nodes",
		 .value = "N",
		 TD_OPT_INT(&o->nodes, 1, 64),
		 .required = true,
		 .help = "virtual nodes, 1 to 64"},
		{.name = "cpus",
		 .value = "N",
		 TD_OPT_INT(&o->cpus, 1, 4096),
		 .required = true,
		 .help = "CPUs of each node"},
		{.name = "memory",
		 .value = "Q",
		 TD_OPT_TEXT(&o->memory),
		 .required = true,
		 .help = "memory of each node, as in Kubernetes"},
		{.name = "gpus",
		 .value = "N",
		 TD_OPT_INT(&o->gpus, 0, TD_DEV_MAX),
		 .required = true,
		 .help = "GPUs of each node, fake ones"},
		{.name = "real-gpus",
		 TD_OPT_SWITCH(&o->real_gpus),
		 .help = "they are this machine's own, --gpus of them for each node as long as there are some"},
		{.name = "device-major",
		 .value = "N",
		 TD_OPT_INT(&o->device_major, 1, 4095),
		 .required = true,
		 .help = "major number of their device nodes"},
		{.name = "switch",
		 .value = "NAME",
		 TD_OPT_TEXT(&o->switch_name),
		 .required = true,
		 .help = "the pod switch, a bridge of the kernel"},
		{.name = "cidr",
		 .value = "10.X.0.1/16",
		 TD_OPT_TEXT(&o->cidr),
		 .required = true,
		 .help = "the switch's address and the pods' network"},
		{.name = "api-url",
		 .value = "URL",
		 TD_OPT_TEXT(&o->api_url),
		 .required = true,
		 .help = "the API as pods reach it"},
		TD_METRICS_OPTION(&o->metrics),
		TD_OPT_LOG_LEVEL(&level),
	};
	const struct td_command c = {
		.name = "kubelet",
		.usage = "OPTION…",
		.about = "The node agent of the embedded plane: the kubelet of N virtual nodes, and the gate in front "
			 "of their\ndevices. Started by `tandem supervise`; when it ends, containers go on, and the "
			 "next one takes them\nover. All options but --metrics and --log-level are needed; "
			 "tandem-kubelet(8) says more of them.",
		.exits = TD_ROLE_EXITS,
		.options = options,
		.n = TD_LEN(options)};
	if (!td_command_line(&c, argc, argv, NULL, ret_exit))
		return false;
	td_log_init("kubelet", level);
	return true;
}

// ---- callbacks of the gate ----

// Does something of the holder still run on the node? A pod of the job or with the holder's UID may
// run, or processes of the job may be left in a slurmd pod. On true, `why` says what runs.
static bool holder_busy(void *ctx, int node, const struct td_holder *h, char *why, size_t n)
{
	struct td_kubelet *a = ctx;
	td_auto_pods struct td_pods all = {0};
	td_pod_table_all(a->table, &all);

	char sub[40];
	snprintf(sub, sizeof(sub), "job_%lld", (long long)h->job);
	const char *const names[] = {sub, h->sluid};

	for (size_t i = 0; i < all.n; i++) {
		struct td_pod *p = all.v[i];
		if (p->node != node)
			continue;
		bool same =
			h->job ? p->grant.job == h->job && (!h->start || !p->grant.start || p->grant.start == h->start)
			       : false;
		// Of a gang's job several pods may run here, and each holds devices of its own.
		if ((h->pod && *h->uid ? !strcmp(p->uid, h->uid) : same) && td_pod_busy(p)) {
			snprintf(why, n, "pod %s/%s still runs", p->ns, p->name);
			return true;
		}

		if (!p->slurmd || !h->job)
			continue;
		for (size_t k = 0; k < p->n_ctr; k++) {
			pthread_mutex_lock(&p->mu);
			td_auto_free char *id = p->ctr[k].wanted ? td_pod_container_id(a, p, &p->ctr[k]) : NULL;
			pthread_mutex_unlock(&p->mu);
			bool busy = false;
			struct td_error e = TD_ERROR_INIT;
			// A container that is gone has no processes. A container that cannot be
			// inspected counts as busy, because nobody knows that it is free.
			int r = 0;
			for (size_t m = 0; id && !r && !busy && m < TD_LEN(names) && *names[m]; m++)
				r = td_oci_busy(a->oci, id, names[m], &busy, &e);
			if (r && r != TD_NOT_FOUND) {
				snprintf(why, n, "cannot look into %s: %s", id, e.msg);
				return true;
			}
			if (busy) {
				snprintf(why, n, "processes of the job are left on the node");
				return true;
			}
		}
	}
	return false;
}

// Another holder has taken devices of the mask: wakes every pod of the node that had one of them.
static void holder_superseded(void *ctx, int node, uint64_t mask)
{
	struct td_kubelet *a = ctx;
	td_auto_pods struct td_pods all = {0};
	td_pod_table_all(a->table, &all);
	for (size_t i = 0; i < all.n; i++) {
		struct td_pod *p = all.v[i];
		pthread_mutex_lock(&p->mu);
		bool hit = p->node == node && (p->devices & mask);
		pthread_mutex_unlock(&p->mu);
		if (hit)
			td_queue_add(a->queue, p->uid);
	}
}

// Of our containers only those of a slurmd pod of the node may claim devices; a process in no
// container of ours may, too. The cgroup paths tell which container asks: its id stands directly
// below our own cgroup, in every hierarchy. Deeper names are the container's own choice and prove
// nothing.
static bool may_claim(void *ctx, int node, const char *cgroups, char *why, size_t n)
{
	struct td_kubelet *a = ctx;
	td_auto_free char *ours = td_asprintf("/tandem-%s/", a->o.id);
	const char *at = strstr(cgroups, ours);
	if (!at)
		return true;
	at += strlen(ours);
	td_auto_free char *id = td_strndup(at, strcspn(at, "/\n"));
	// Match any attempt of the container, because an earlier one may still be on its way out.
	char *attempt = strrchr(id, '-');
	size_t len = attempt ? (size_t)(attempt - id) + 1 : 0;

	td_auto_pods struct td_pods all = {0};
	td_pod_table_all(a->table, &all);
	for (size_t i = 0; i < all.n; i++) {
		struct td_pod *p = all.v[i];
		for (size_t k = 0; k < p->n_ctr; k++) {
			pthread_mutex_lock(&p->mu);
			td_auto_free char *its = td_pod_container_id(a, p, &p->ctr[k]);
			pthread_mutex_unlock(&p->mu);
			if (!len || strncmp(its, id, len))
				continue;
			if (p->slurmd && p->node == node)
				return true;
			snprintf(why, n, "pod %s/%s is no slurmd of this node: only Slurm's Prolog claims devices",
				 p->ns, p->name);
			return false;
		}
	}
	snprintf(why, n, "container %.64s is of no slurmd pod of this node: only Slurm's Prolog claims devices", id);
	return false;
}

static bool arrives(void *ctx, int node)
{
	struct td_kubelet *a = ctx;
	return td_nodehealth_arrives(a->health, node);
}

static void late(void *ctx, int node)
{
	struct td_kubelet *a = ctx;
	td_held_late(&a->held, node);
}

static int preflight(void *ctx, int node, const struct td_gate_request *q, long long *ret_tries, struct td_cancel *c,
		     struct td_error *err)
{
	struct td_kubelet *a = ctx;
	return td_gate_preflight(a->health, node, q, ret_tries, c, err);
}

static int several(void *ctx, int node, const struct td_gate_request *q, char **ret, struct td_cancel *c,
		   struct td_error *err)
{
	struct td_kubelet *a = ctx;
	return td_gate_several(a->health, node, q, ret, c, err);
}

// ---- wiring ----

static void on_service(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_kubelet *a = ctx;
	td_hosts_changed(a->hosts);
}

// A NetworkPolicy or a namespace, whose labels policies select by.
static void on_policy(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_kubelet *a = ctx;
	td_filters_changed(a->filters);
}

static void on_node(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_kubelet *a = ctx;
	td_held_on_node(&a->held, old, now);
	td_pods_on_node(a, old, now);
	td_nodehealth_on_node(a->health, old, now);
}

static int parse_cidr(struct td_kubelet *a, struct td_error *err)
{
	int x, b, c, d, n = 0;
	if (sscanf(a->o.cidr, "%d.%d.%d.%d/%d%n", &x, &b, &c, &d, &a->prefix, &n) != 5 || a->o.cidr[n] || x != 10 ||
	    b < 0 || b > 255 || c != 0 || d != 1 || a->prefix != 16)
		return td_fail(err, TD_INVALID, "--cidr %s: want 10.X.0.1/16", a->o.cidr);
	a->subnet = b;
	snprintf(a->gateway, sizeof(a->gateway), "10.%d.0.1", b);
	return 0;
}

static int make_dirs(struct td_kubelet *a, struct td_error *err)
{
	const char *below_home[] = {"agent/pods", "agent/gate", "agent/hosts", "agent/volumes",
				    "log/pods",   "shared",     "pods"};
	// Close what containers made to other users of the machine: there may be files in it that
	// everybody could read (a token, a Secret), setuid programs, and the sockets that are for
	// every task. Mounts into pods do not need access to the parent directories. `shared` stays
	// open because pods see the directory itself; the home above it is closed (local/up.c).
	char *closed[] = {td_asprintf("%s/agent", a->o.home), td_asprintf("%s/pods", a->o.home),
			  td_asprintf("%s/nodes", a->o.home), td_asprintf("%s/nodes", a->o.run)};

	int r = 0;
	for (size_t i = 0; i < TD_LEN(below_home) && !r; i++) {
		td_auto_free char *d = td_asprintf("%s/%s", a->o.home, below_home[i]);
		r = td_mkdir_p(d, 0755, err);
	}

	for (int i = 0; i < a->o.nodes && !r; i++) {
		td_auto_free char *root = td_asprintf("%s/nodes/n%d/root", a->o.home, i),
				  *run = td_asprintf("%s/nodes/n%d", a->o.run, i);
		r = td_mkdir_p(root, 0755, err);
		if (!r)
			r = td_mkdir_p(run, 0755, err);
	}

	for (size_t i = 0; i < TD_LEN(closed); i++) {
		if (!r && chmod(closed[i], 0700) < 0)
			r = td_fail_errno(err, TD_INTERNAL, errno, "chmod %s", closed[i]);
		free(closed[i]);
	}
	return r;
}

static int open_runtime(struct td_kubelet *a, struct td_error *err)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0)
		return td_fail(err, TD_INTERNAL, "read /proc/self/exe");
	self[n] = '\0';

	td_auto_free char *state = td_asprintf("%s/runc", a->o.run), *pods = td_asprintf("%s/pods", a->o.home),
			  *cg = td_asprintf("/tandem-%s", a->o.id),
			  *init = td_asprintf("%s/opt/tandem-standin", a->o.run);
	if (!td_path_exists(init))
		return td_fail(err, TD_NOT_FOUND, "%s is not there: `tandem up` puts the stand-in program into --run",
			       init);

	struct td_oci_opts o = {
		.state_dir = state, .pods_dir = pods, .cgroup = cg, .init_path = init, .self_path = self};
	return td_oci_new(&o, &a->oci, err);
}

static int open_gate(struct td_kubelet *a, struct td_error *err)
{
	td_auto_free char *dir = td_asprintf("%s/agent/gate", a->o.home);
	td_auto_free struct td_gate_site *node = td_calloc((size_t)a->o.nodes, sizeof(*node));

	td_auto_strv struct td_strv text = {0};
	for (int i = 0; i < a->o.nodes; i++) {
		td_strv_addf(&text, "n%d", i);
		td_strv_addf(&text, "%s/nodes/n%d", a->o.run, i);
	}

	int devices = a->o.gpus;
	for (int i = 0; i < a->o.nodes; i++)
		devices = td_kubelet_gpus(a, i) > devices ? td_kubelet_gpus(a, i) : devices;
	for (int i = 0; i < a->o.nodes; i++)
		node[i] = (struct td_gate_site){text.v[2 * i], text.v[2 * i + 1]};

	struct td_gate_opts g = {.dir = dir,
				 .node = node,
				 .nodes = a->o.nodes,
				 .devices = devices,
				 .clock = a->clock,
				 .busy = holder_busy,
				 .superseded = holder_superseded,
				 .late = late,
				 .arrives = arrives,
				 .may_claim = may_claim,
				 .preflight = preflight,
				 .several = several,
				 .ctx = a};
	return td_gate_new(&g, &a->gate, err);
}

static int setup(struct td_kubelet *a, struct td_error *err)
{
	int r = parse_cidr(a, err);
	if (!r && (r = td_quantity_ceil(a->o.memory, &a->memory_bytes, err)))
		td_wrap(err, "--memory");
	if (!r)
		r = make_dirs(a, err);
	if (!r)
		r = open_runtime(a, err);
	if (!r && a->o.real_gpus && (r = td_realgpu_new(a->o.gpus, &a->real, err)))
		td_wrap(err, "--real-gpus");
	if (!r)
		r = td_kubelet_accels_open(a, err);
	if (!r)
		r = td_net_switch_ensure(a->o.switch_name, a->o.cidr, err);
	if (!r)
		r = td_kube_new(a->o.kubeconfig, &a->kube, err);
	if (r)
		return r;

	a->table = td_pod_table_new();
	a->queue = td_queue_new(a->clock);
	a->probes = td_queue_new(a->clock);
	td_held_init(&a->held, a->clock);
	a->recorder = td_recorder_new(a->kube, "kubelet");
	a->hosts = td_hosts_new(a);
	a->filters = td_filters_new(a);

	r = td_watch_new(a->queue, &a->watch, err);
	if (!r)
		r = td_pods_restore(a, err);
	if (r)
		return r;
	return open_gate(a, err);
}

static int start_informers(struct td_kubelet *a, struct td_error *err)
{
	const struct {
		struct td_informer **i;
		const struct td_gvr *gvr;
		void (*fn)(void *, struct td_object *, struct td_object *);
	} all[] = {{&a->nodes, &td_nodes, NULL},
		   {&a->services, &td_services, on_service},
		   {&a->policies, &td_networkpolicies, on_policy},
		   {&a->namespaces, &td_namespaces, on_policy},
		   {&a->configmaps, &td_configmaps, td_pods_on_config},
		   {&a->secrets, &td_secrets, td_pods_on_config},
		   {&a->pods, &td_pods, td_pods_on_change}};
	struct td_informer *v[TD_LEN(all)];

	for (size_t i = 0; i < TD_LEN(all); i++) {
		struct td_informer_opts o = {.resource = all[i].gvr};
		v[i] = *all[i].i = td_informer_new(a->kube, &o);
		if (all[i].fn)
			td_informer_on_change(v[i], all[i].fn, a);
	}

	td_informer_on_change(a->nodes, on_node, a);
	a->held.gate = a->gate;
	a->held.kube = a->kube;
	a->held.nodes = a->nodes;

	td_kubelet_health_open(a);
	int r = 0;
	for (size_t i = 0; i < TD_LEN(all) && !r; i++)
		r = td_informer_start(v[i], a->cancel, err);
	return r ? r : td_informers_fill(v, TD_LEN(all), "the kubelet waits", a->cancel, err);
}

static int run_gate(void *ctx, struct td_error *err)
{
	struct td_kubelet *a = ctx;
	return td_gate_serve(a->gate, a->cancel, err);
}
static int run_hosts(void *ctx, struct td_error *err)
{
	struct td_kubelet *a = ctx;
	return td_hosts_run(a->hosts, a->cancel, err);
}
static int run_filters(void *ctx, struct td_error *err)
{
	struct td_kubelet *a = ctx;
	return td_filters_run(a->filters, a->cancel, err);
}
static int run_nodes(void *ctx, struct td_error *err)
{
	struct td_kubelet *a = ctx;
	return td_kubelet_nodes_run(a, a->cancel, err);
}
static int run_stream(void *ctx, struct td_error *err)
{
	struct td_kubelet *a = ctx;
	return td_stream_run(a, a->cancel, err);
}
static int run_sync(void *ctx, struct td_error *err)
{
	struct td_kubelet *a = ctx;
	struct td_controller c = {
		.name = "pods", .workers = SYNC_WORKERS, .queue = a->queue, .reconcile = td_pod_sync, .ctx = a};
	return td_controller_run(&c, a->cancel, err);
}
static int run_held(void *ctx, struct td_error *err)
{
	struct td_kubelet *a = ctx;
	return td_held_run(&a->held, a->cancel, err);
}
static struct td_object *pod_of(void *ctx, const char *uid)
{
	struct td_kubelet *a = ctx;
	td_auto(td_pod_unref) struct td_pod *p = td_pod_table_get(a->table, uid);
	td_auto(td_object_unref) struct td_object *o = p ? td_informer_get(a->pods, p->ns, p->name) : NULL;
	return o && !strcmp(o->uid, uid) ? td_steal(o) : NULL;
}

static struct td_object *node_of(void *ctx, const char *name)
{
	struct td_kubelet *a = ctx;
	return td_informer_get(a->nodes, NULL, name);
}

static int run_health(void *ctx, struct td_error *err)
{
	struct td_kubelet *a = ctx;
	return td_kubelet_health_run(a, a->cancel, err);
}
static int run_hangs(void *ctx, struct td_error *err)
{
	struct td_kubelet *a = ctx;
	const struct td_podhangs h = {
		a->kube,        a->pods,         a->nodes,          a->gate, a->health, a->clock, td_kubelet_progress,
		td_kubelet_log, td_kubelet_pids, td_kubelet_frames, a};
	return td_podhangs_run(&h, a->cancel, err);
}
static int run_probes(void *ctx, struct td_error *err)
{
	struct td_kubelet *a = ctx;
	struct td_controller c = {
		.name = "probes", .workers = PROBE_WORKERS, .queue = a->probes, .reconcile = td_probe_sync, .ctx = a};
	return td_controller_run(&c, a->cancel, err);
}

static int serve(struct td_kubelet *a, struct td_error *err)
{
	int r = start_informers(a, err);
	if (r)
		return r;

	td_auto_pods struct td_pods all = {0};
	td_pod_table_all(a->table, &all);
	// No informer reports a pod that the API no longer has, so enqueue every restored pod.
	for (size_t i = 0; i < all.n; i++)
		td_queue_add(a->queue, all.v[i]->uid);

	struct td_gate_part parts[] = {{"gate", run_gate, a},      {"hosts", run_hosts, a},   {"stream", run_stream, a},
				       {"probes", run_probes, a},  {"pods", run_sync, a},     {"nodes", run_nodes, a},
				       {"held", run_held, a},      {"health", run_health, a}, {"hangs", run_hangs, a},
				       {"filters", run_filters, a}};

	r = td_parts_start(parts, TD_LEN(parts), a->cancel, err);
	td_gate_telemetry(&(struct td_telemetry){a->health, a->gate, pod_of, node_of, a});
	td_info("kubelet: %d nodes, %zu pods taken over", a->o.nodes, all.n);
	td_health_set("start", r ? "a part could not start" : NULL);
	td_parts_join(parts, TD_LEN(parts));
	td_gate_telemetry(NULL);
	return r;
}

static void teardown(struct td_kubelet *a)
{
	td_cancel_fire(a->cancel);

	struct td_informer *v[] = {a->pods,    a->nodes,    a->services,  a->configmaps,
				   a->secrets, a->policies, a->namespaces};
	for (size_t i = 0; i < TD_LEN(v); i++)
		td_informer_free(v[i]);

	pthread_mutex_lock(&a->hooks_mu); // hooks see the cancel and end
	while (a->hooks)
		pthread_cond_wait(&a->hooks_idle, &a->hooks_mu);
	pthread_mutex_unlock(&a->hooks_mu);

	td_kubelet_health_close(a);
	td_kubelet_accels_close(a);
	a->real = td_realgpu_free(a->real);
	if (a->watch)
		td_watch_free(a->watch);
	td_recorder_free(a->recorder);
	td_gate_free(a->gate);
	td_hosts_free(a->hosts);
	td_filters_free(a->filters);
	td_pod_table_free(a->table);
	if (a->queue)
		td_queue_free(a->queue);
	td_held_done(&a->held);
	if (a->probes)
		td_queue_free(a->probes);
	td_kube_free(a->kube);
	if (a->oci)
		td_oci_free(a->oci);
	td_cancel_unref(a->cancel);
}

int td_kubelet_main(int argc, char **argv)
{
	struct td_kubelet a = {.clock = &td_clock_system,
			       .hooks_mu = PTHREAD_MUTEX_INITIALIZER,
			       .admit_mu = PTHREAD_MUTEX_INITIALIZER,
			       .hooks_idle = PTHREAD_COND_INITIALIZER};
	struct td_error err = TD_ERROR_INIT;

	int code;
	if (!parse(argc, argv, &a.o, &code))
		return code;

	// There are many threads that do little. One malloc arena for each would be most of the
	// process's memory.
	mallopt(M_ARENA_MAX, 2);
	a.cancel = td_cancel_new();
	td_cancel_on_signals(a.cancel);

	struct td_health *health;
	td_health_set("start", "it takes over what runs, and fills its caches");
	// Health and metrics are shown under the name "agent", the same as on a cluster, so that
	// alerts and the dashboard find every gate under one name.
	int r = td_health_serve("agent", a.o.metrics, &health, &err);
	if (!r)
		r = setup(&a, &err);
	if (!r) {
		td_kubelet_measure(&a);
		td_gate_measure(a.gate);
		r = serve(&a, &err);
		td_gate_measure(NULL);
		td_kubelet_measure(NULL);
	}

	bool stopped = r == TD_CANCELLED;
	if (r && !stopped)
		td_err("kubelet: %s", err.msg);
	td_health_end(health);
	teardown(&a);
	return r && !stopped ? 1 : 0;
}
