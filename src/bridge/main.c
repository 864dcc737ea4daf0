// The role bridge. It leads by a Lease, fills its caches, and then runs the scheduler, the syncer,
// the knock port and the why server until it leads no longer.
#include "bridge/again.h"
#include "bridge/cuts.h"
#include "bridge/policy/policies.h"
#include "bridge/ready.h"
#include "bridge/scheduler/feasible.h"
#include "bridge/scheduler/gang.h"
#include "bridge/scheduler/orphans.h"
#include "bridge/scheduler/passes.h"
#include "bridge/scheduler/placeholder.h"
#include "bridge/scheduler/preempt.h"
#include "bridge/scheduler/ran.h"
#include "bridge/scheduler/turns.h"
#include "bridge/syncer/aside.h"
#include "bridge/syncer/count.h"
#include "bridge/syncer/entrance.h"
#include "bridge/syncer/near.h"
#include "bridge/syncer/shadow.h"

#include "api/condition.h"
#include "api/taint.h"
#include "base/log.h"
#include "base/rand.h"
#include "cmd/roles.h"
#include "kube/health.h"
#include "kube/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TD_POLICIES_DIR "/usr/lib/tandem/policies"
enum { POD_WORKERS = 8, NODE_WORKERS = 2, AGAIN_WORKERS = 2, PROLOG_US = 15000 };
// Slurm's list of nodes: of more than FEW_NODES it takes a twentieth of a core (slurm/view.h).
enum { LIST_TIMES = 20, FEW_NODES = 512, LIST_BURST = 4 };

#define DNS_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-."

static void index_uid(const struct td_object *o, struct td_strv *ret)
{
	td_strv_add(ret, o->uid);
}

static void index_node(const struct td_object *o, struct td_strv *ret)
{
	const char *n = td_jstr(o->root, "spec.nodeName");
	if (n)
		td_strv_add(ret, n);
}

// A slurmd pod need not run on the node that it serves (docs/other-cluster.md).
static const char *served(const struct td_object *slurmd)
{
	const char *n = td_object_annotation(slurmd, TD_ANN_NODE);
	return n ? n : td_jstr(slurmd->root, "spec.nodeName");
}

static void index_served(const struct td_object *o, struct td_strv *ret)
{
	const char *n = served(o);
	if (n)
		td_strv_add(ret, n);
}

// Of a Node or a pod. What happens to one there is often followed by something in Slurm.
static bool ready(const struct td_object *o)
{
	return td_condition_true(o->root, "Ready");
}

static void on_slurmd(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_bridge *b = ctx;
	const char *n = now ? served(now) : NULL;
	if (n)
		td_queue_add(b->node_queue, n);
	if (n && b->view && old && ready(old) != ready(now))
		td_slurm_view_hint(b->view, n);
}

void td_bridge_look_again(struct td_bridge *b)
{
	atomic_fetch_add(&b->feas_gen, 1);

	td_auto_objects struct td_objects pods = {0};
	if (b->pods)
		td_informer_list(b->pods, NULL, &pods);
	for (size_t i = 0; i < pods.n; i++)
		if (!td_jstr(pods.v[i]->root, "spec.nodeName")) {
			td_auto_free char *key = td_key_of(pods.v[i]);
			td_queue_add_after(b->pod_queue, key, 300); // several changes become one
		}
}

static void on_node(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_bridge *b = ctx;
	td_queue_add(b->node_queue, now ? now->name : old->name);
	if (b->view && old && now && ready(old) != ready(now))
		td_slurm_view_hint(b->view, now->name);
	if (now && td_bridge_kubelet(now))
		atomic_store(&b->kubelets, true);

	// Heartbeats change a Node all the time. Where pods may run depends only on its labels and
	// taints; cordon and Tandem's own taints do not count.
	if (old && now && td_jequal(td_jget(old->root, "metadata.labels"), td_jget(now->root, "metadata.labels")) &&
	    td_taints_same_others(old->root, now->root))
		return;

	td_bridge_look_again(b);
}

struct thread {
	pthread_t id;
	bool started;
};

static void *pods_thread(void *p)
{
	struct td_bridge *b = p;
	const struct td_controller c = {.name = "scheduler",
					.workers = POD_WORKERS,
					.queue = b->pod_queue,
					.reconcile = td_scheduler_reconcile,
					.ctx = b};
	td_controller_run(&c, b->cancel, NULL);
	return NULL;
}

static void *nodes_thread(void *p)
{
	struct td_bridge *b = p;
	const struct td_controller c = {.name = "syncer",
					.workers = NODE_WORKERS,
					.queue = b->node_queue,
					.reconcile = td_syncer_reconcile,
					.ctx = b};
	td_controller_run(&c, b->cancel, NULL);
	return NULL;
}

static void *agains_thread(void *p)
{
	struct td_bridge *b = p;
	const struct td_controller c = {.name = "jobs queued again",
					.workers = AGAIN_WORKERS,
					.queue = b->again_queue,
					.reconcile = td_agains_reconcile,
					.ctx = b};
	td_controller_run(&c, b->cancel, NULL);
	return NULL;
}

static void *entrance_thread(void *p)
{
	struct td_bridge *b = p;
	const struct td_controller c = {.name = "pods at the entrance",
					.workers = 1, // what one was promised, the next one must see
					.queue = td_entrance_queue(b),
					.reconcile = td_entrance_reconcile,
					.ctx = b};
	td_controller_run(&c, b->cancel, NULL);
	return NULL;
}

static void *knocks_thread(void *p)
{
	struct td_bridge *b = p;
	td_knocks_run(b->knocks, b->cancel, NULL);
	return NULL;
}

static void *why_thread(void *p)
{
	struct td_bridge *b = p;
	struct td_error e = TD_ERROR_INIT;
	if (td_why_run(b, b->cancel, &e) && e.code != TD_CANCELLED) {
		td_err("%s", e.msg);
		td_cancel_fire(b->cancel);
	}
	return NULL;
}

// Waits for the settings: they say which pods are Slurm's.
static int first_settings(struct td_bridge *b, struct td_error *err)
{
	bool said = false;
	for (;;) {
		struct td_error e = TD_ERROR_INIT;
		int r = td_bridge_connect(b, &e);
		td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
		if (s)
			return 0;
		if (r && !said) {
			td_info("%s", e.msg);
			said = true;
		}
		if (td_cancel_wait(b->cancel, 200))
			return td_fail(err, TD_CANCELLED, "cancelled");
	}
}

// Others place pods, too: what those take there a grant cannot have where the kubelet is its own
// (counted.c), and Slurm is told of it where spec.shadows says so.
static void others(struct td_bridge *b, const char *scheduler)
{
	td_auto_free char *fields = td_asprintf("spec.schedulerName!=%s,spec.nodeName!=", scheduler);
	const struct td_informer_opts o = {.resource = &td_pods, .fields = fields};
	b->others = td_informer_new(b->kube, &o);
	td_informer_add_index(b->others, "node", index_node);
	td_informer_add_index(b->others, "anti", td_near_index);
	td_informer_on_change(b->others, td_shadow_on_pod, b);
}

// The informers that depend on the settings.
static int start_informers(struct td_bridge *b, struct td_error *err)
{
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	td_auto_free char *fields = td_asprintf("spec.schedulerName=%s", s->scheduler),
			  *waiting = td_asprintf("spec.schedulerName!=%s,spec.nodeName=,status.phase=Pending",
						 s->scheduler),
			  *slurmds = td_asprintf(TD_LABEL_NAME "=slurmd," TD_LABEL_CLUSTER "=%s", b->o.cluster),
			  *places = td_asprintf(TD_LABEL_NAME "=" TD_PLACEHOLDER "," TD_LABEL_CLUSTER "=%s",
						b->o.cluster);

	const struct td_informer_opts uo = {.resource = &td_pods, .fields = waiting, .name = "unplaced"};
	const struct td_informer_opts po = {.resource = &td_pods, .fields = fields}, no = {.resource = &td_nodes},
				      so = {.resource = &td_pods, .ns = b->o.ns, .labels = slurmds},
				      ho = {.resource = &td_pods,
					    .ns = b->o.ns,
					    .labels = places,
					    .name = "placeholders"};

	b->pods = td_informer_new(b->kube, &po);
	b->nodes = td_informer_new(b->kube, &no);
	b->slurmds = td_informer_new(b->kube, &so);
	b->placeholders = td_informer_new(b->kube, &ho);
	b->unplaced = td_informer_new(b->kube, &uo);

	td_informer_add_index(b->pods, "uid", index_uid);
	td_informer_add_index(b->pods, "node", index_node);
	td_informer_add_index(b->nodes, TD_CUTS_INDEX, td_cuts_index);
	td_informer_add_index(b->slurmds, "node", index_served);
	td_informer_add_index(b->placeholders, "node", index_node);
	td_informer_add_index(b->pods, "gang", td_gang_index);
	td_informer_add_index(b->pods, "job", td_turns_index);
	td_informer_on_change(b->pods, td_gang_on_pod, b->pod_queue);
	td_informer_on_change(b->pods, td_bridge_measure_ready, b);
	td_informer_on_change(b->nodes, on_node, b);
	td_informer_on_change(b->slurmds, on_slurmd, b);
	td_informer_on_change(b->placeholders, on_slurmd, b);
	td_informer_add_index(b->unplaced, "shadow-node", td_entrance_index);
	td_informer_add_index(b->unplaced, "anti", td_near_index);
	td_informer_add_index(b->pods, "anti", td_near_index);
	td_informer_on_change(b->unplaced, td_syncer_unplaced, b);
	td_informer_on_change(b->unplaced, td_entrance_on_pod, b);

	int r = s->devices.dra ? td_claims_watch(b, b->cancel, err) : 0;
	if (!r)
		r = td_informer_start(b->nodes, b->cancel, err);
	if (!r)
		r = td_informers_fill(&b->nodes, 1, "the bridge waits", b->cancel, err);
	if (!r)
		others(b, s->scheduler);

	struct td_informer *const all[] = {b->pods,   b->slurmds, b->placeholders, b->unplaced,
					   b->others, b->claims,  b->slices,       b->classes};
	struct td_informer *some[TD_LEN(all)];
	size_t n = 0;
	for (size_t i = 0; i < TD_LEN(all); i++)
		if (all[i])
			some[n++] = all[i];
	for (size_t i = 0; i < n && !r; i++)
		r = td_informer_start(some[i], b->cancel, err);
	return r ? r : td_informers_fill(some, n, "the bridge waits", b->cancel, err);
}

// The informers that the settings and the connection to slurmrestd need.
static int start_first(struct td_bridge *b, struct td_error *err)
{
	td_auto_free char *fields = td_asprintf("metadata.name=%s", b->o.cluster),
			  *restds = td_asprintf(TD_LABEL_NAME "=slurmrestd," TD_LABEL_CLUSTER "=%s", b->o.cluster),
			  *ctlds = td_asprintf(TD_LABEL_NAME "=slurmctld," TD_LABEL_CLUSTER "=%s", b->o.cluster);

	const struct td_informer_opts co = {.resource = &td_slurmclusters, .ns = b->o.ns, .fields = fields},
				      ro = {.resource = &td_pods, .ns = b->o.ns, .labels = restds},
				      to = {.resource = &td_pods, .ns = b->o.ns, .labels = ctlds},
				      eo = {.resource = &td_tenants};

	b->clusters = td_informer_new(b->kube, &co);
	b->restds = td_informer_new(b->kube, &ro);
	b->ctlds = td_informer_new(b->kube, &to);
	b->tenants = td_informer_new(b->kube, &eo);
	td_informer_on_change(b->ctlds, td_bridge_on_ctld, b);

	struct td_informer *const all[] = {b->clusters, b->restds, b->ctlds, b->tenants};
	for (size_t i = 0; i < TD_LEN(all); i++) {
		int r = td_informer_start(all[i], b->cancel, err);
		if (r)

			return r;
	}
	return td_informers_fill(all, TD_LEN(all), "the bridge waits", b->cancel, err);
}

// Leads until cancel.
static int run(struct td_bridge *b, struct td_error *err)
{
	int r = start_first(b, err);
	if (!r)
		r = first_settings(b, err);
	if (!r)
		r = start_informers(b, err);
	if (!r) {
		b->knocks = td_knocks_new(b, b->o.knock, err);
		if (!b->knocks)
			r = err->code;
	}

	if (r)
		return r;

	td_info("leading for SlurmCluster %s/%s", b->o.ns, b->o.cluster);
	td_bridge_measure(b);

	static void *(*const fns[])(void *) = {td_bridge_connect_thread,
					       td_bridge_jobs_thread,
					       td_bridge_nodes_thread,
					       td_bridge_list_thread,
					       pods_thread,
					       nodes_thread,
					       agains_thread,
					       entrance_thread,
					       knocks_thread,
					       td_policies_thread,
					       td_bridge_ends_thread,
					       why_thread};
	struct thread t[TD_LEN(fns)] = {0};

	for (size_t i = 0; i < TD_LEN(fns); i++) {
		t[i].started = pthread_create(&t[i].id, NULL, fns[i], b) == 0;
		if (!t[i].started)
			td_cancel_fire(b->cancel);
	}

	td_cancel_wait(b->cancel, -1);
	for (size_t i = 0; i < TD_LEN(fns); i++)
		if (t[i].started)
			pthread_join(t[i].id, NULL);

	return 0;
}

// For td_lease_run(): everything from here to its return belongs to one lead.
static int lead(void *ctx, struct td_cancel *c, struct td_error *err)
{
	const struct td_bridge_opts *o = ctx;
	struct td_bridge b = {.o = *o, .clock = &td_clock_system, .poll_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	if (b.poll_fd < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "eventfd");

	pthread_mutex_init(&b.lock, NULL);
	pthread_mutex_init(&b.list_lock, NULL);
	atomic_store(&b.prolog_us[0], PROLOG_US);
	atomic_store(&b.prolog_us[1], PROLOG_US);
	atomic_store(&b.feas_gen, 1);
	b.cancel = c;

	int r = td_kube_new(o->kubeconfig, &b.kube, err);
	if (!r) {
		b.recorder = td_recorder_new(b.kube, "tandem-bridge");
		b.pod_queue = td_queue_new(b.clock);
		b.node_queue = td_queue_new(b.clock);
		b.again_queue = td_queue_new(b.clock);
		b.view = td_slurm_view_new();
		td_slurm_view_paced(b.view, &(struct td_slurm_list_pace){LIST_TIMES, 0, FEW_NODES, LIST_BURST});
		b.asks = td_asks_new();
		b.waiting_others = td_others_new();
		b.feasibles = td_feasibles_new();
		b.groups = td_groups_new();
		b.preempts = td_preempts_new();
		b.readies = td_readies_new();
		b.places = td_places_new();
		b.asides = td_asides_new();
		b.shadows = td_shadows_new();
		b.entrance = td_entrance_new(b.clock);
		b.counts = td_counts_new();
		b.orphans = td_orphans_new();
		b.policies = td_policies_new();
		b.agains = td_agains_new();
		b.cuts = td_cuts_new();
		b.ran = td_ran_new();

		r = run(&b, err);

		td_bridge_measure(NULL);
		td_cancel_fire(c);

		struct td_informer *const all[] = {b.others,  b.placeholders, b.unplaced, b.claims,  b.slices,
						   b.classes, b.pods,         b.nodes,    b.slurmds, b.ctlds,
						   b.restds,  b.clusters,     b.tenants};
		for (size_t i = 0; i < TD_LEN(all); i++)
			td_informer_free(all[i]);

		td_knocks_free(b.knocks);
		td_recorder_free(b.recorder);
		td_queue_free(b.pod_queue);
		td_queue_free(b.node_queue);
		td_queue_free(b.again_queue);
		b.waiting_others = td_others_free(b.waiting_others);
		b.feasibles = td_feasibles_free(b.feasibles);
		b.groups = td_groups_free(b.groups);
		b.preempts = td_preempts_free(b.preempts);
		b.readies = td_readies_free(b.readies);
		b.places = td_places_free(b.places);
		b.asides = td_asides_free(b.asides);
		b.shadows = td_shadows_free(b.shadows);
		b.entrance = td_entrance_free(b.entrance);
		b.counts = td_counts_free(b.counts);
		b.orphans = td_orphans_free(b.orphans);
		b.policies = td_policies_free(b.policies);
		b.agains = td_agains_free(b.agains);
		b.cuts = td_cuts_free(b.cuts);
		b.ran = td_ran_free(b.ran);
		td_asks_free(b.asks);
		td_ask_foreign_free(b.foreign);
		td_slurm_view_free(b.view);
	}

	td_link_unref(b.link);
	td_settings_unref(b.settings);
	td_strv_done(&b.known_users);
	td_kube_free(b.kube);
	pthread_mutex_destroy(&b.lock);
	pthread_mutex_destroy(&b.list_lock);
	close(b.poll_fd);

	return r;
}

// What the table of options cannot say. 0, or an exit code.
static int check(const struct td_bridge_opts *o)
{
	const char *name = o->knock_name; // it goes into a script
	struct td_error err = TD_ERROR_INIT;

	if (name && (!*name || strlen(name) >= 254 || strspn(name, DNS_CHARS) != strlen(name)))
		return td_command_wrong("bridge", "--knock-name \"%s\" is not a DNS name", name);
	if (!strrchr(o->knock, ':'))
		return td_command_wrong("bridge", "--knock \"%s\" is not ADDR:PORT", o->knock);

	if (td_lease_check(&o->lease, &err))
		return td_command_wrong("bridge", "%s", err.msg);
	if (o->slurmrestd && !o->jwt_key)
		return td_command_wrong("bridge", "--slurmrestd needs --jwt-key");

	return 0;
}

// False: end with *ret_exit.
static bool parse(int argc, char **argv, struct td_bridge_opts *o, int *ret_exit)
{
	enum td_log_level level = TD_LOG_INFO;
	const struct td_option options[] = {
		{.name = "namespace",
		 .value = "NS",
		 TD_OPT_TEXT(&o->ns),
		 .required = true,
		 .help = "where the SlurmCluster is"},
		{.name = "cluster", .value = "NAME", TD_OPT_TEXT(&o->cluster), .required = true, .help = "its name"},
		{.name = "knock",
		 .value = "ADDR:PORT",
		 TD_OPT_TEXT(&o->knock),
		 .required = true,
		 .help = "where stand-in jobs report; a numeric address that the nodes reach"},
		{.name = "knock-name",
		 .value = "NAME",
		 TD_OPT_TEXT(&o->knock_name),
		 .help = "where several of us may lead: a DNS name that leads to all of them from the\nnodes' slurmd; "
			 "stand-ins ask it when who led before does not answer\n(same port)"},
		TD_KUBECONFIG_OPTION(&o->kubeconfig),
		{.name = "why",
		 .value = "unix:PATH",
		 TD_OPT_TEXT(&o->why),
		 .help = "answers `tandem why` there; ADDR:PORT: on the network, whoever reaches it"},
		TD_METRICS_OPTION(&o->metrics),
		TD_EMPTY_DIRS_OPTION(&o->empty_dirs),
		{.name = "policies",
		 .value = "DIR",
		 TD_OPT_TEXT(&o->policies),
		 .help = "where the site's own policies lie (default " TD_POLICIES_DIR ")"},
		{.name = "own-kubelet",
		 TD_OPT_SWITCH(&o->own_kubelet),
		 .help = "the nodes' kubelet is Tandem's own, which acquires a pod's devices itself:\nallocations have "
			 "no "
			 "prolog (as the operator without --image sets it up)"},
		{.name = "slurmrestd",
		 .value = "URL",
		 TD_OPT_TEXT(&o->slurmrestd),
		 .help = "instead of the Ready slurmrestd pod of the cluster (tests)"},
		{.name = "jwt-key",
		 .value = "FILE",
		 TD_OPT_TEXT(&o->jwt_key),
		 .help = "instead of the Secret NAME-jwt-key"},
		TD_LEASE_OPTIONS(&o->lease, "the SlurmCluster's", "made of the host's name and --why"),
		TD_OPT_LOG_LEVEL(&level),
	};
	const struct td_command c = {.name = "bridge",
				     .about = "Turns pods of the SlurmCluster's scheduler into Slurm jobs and keeps "
					      "both sides' nodes in step.",
				     .exits = TD_ROLE_EXITS,
				     .options = options,
				     .n = TD_LEN(options)};
	if (!td_command_line(&c, argc, argv, NULL, ret_exit))
		return false;
	*ret_exit = check(o);
	if (!*ret_exit)
		td_log_init("bridge", level);
	return !*ret_exit;
}

int td_bridge_main(int argc, char **argv)
{
	struct td_bridge_opts o = {.policies = TD_POLICIES_DIR};
	int code;
	if (!parse(argc, argv, &o, &code))
		return code;
	struct td_cancel *cancel = td_cancel_new();
	td_cancel_on_signals(cancel);

	char host[128] = "", uuid[TD_UUID_LEN];
	gethostname(host, sizeof(host) - 1);

	// Each instance has its own why socket, and `tandem supervise` starts it only when the one
	// before is dead. So the socket names the instance: after a restart it need not wait for
	// its own old Lease.
	td_auto_free char *id = td_asprintf("%s-%s", host, o.why ? o.why : td_uuid(uuid)),
			  *lease = td_asprintf("tandem-bridge-%s", o.cluster);

	if (o.lease.ns) { // there the Leases of several namespaces' clusters meet
		free(lease);
		lease = td_asprintf("tandem-bridge-%s.%s", o.ns, o.cluster);
	} else {
		o.lease.ns = o.ns;
	}

	o.lease.name = lease;
	if (!o.lease.identity)
		o.lease.identity = id;

	struct td_error err = TD_ERROR_INIT;
	td_auto(td_kube_free) struct td_kube *k = NULL;
	struct td_health *health;

	int r = td_health_serve("bridge", o.metrics, &health, &err);
	if (!r)
		r = td_kube_new(o.kubeconfig, &k, &err);
	if (!r)
		r = td_lease_run(k, &o.lease, cancel, lead, &o, &err);

	bool clean = td_cancelled(cancel);
	if (r && !clean)
		td_err("%s", err.msg);

	td_health_end(health);
	td_cancel_unref(cancel);
	return clean ? 0 : 1;
}
