// The role `agent`: flags, wiring, order of start and stop.
//
// Start: read the table from disk, fill the informers, tell the table of pods that have grants,
// open the gate. Nobody is answered before that.
#include "base/file.h"
#include "base/log.h"
#include "cmd/roles.h"
#include "gate/agent.h"
#include "gate/metrics.h"
#include "gate/parts.h"
#include "gate/podbeats.h"
#include "gate/podcpu.h"
#include "gate/podhangs.h"
#include "gate/profiles.h"
#include "gate/telemetry.h"
#include "kube/health.h"
#include "kube/options.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { LOCK_MS = 200 };

// False: end with *ret_exit.
static bool parse(int argc, char **argv, struct td_gate_agent_opts *o, int *ret_exit)
{
	enum td_log_level level = TD_LOG_INFO;
	const struct td_option options[] = {
		{.name = "node",
		 .value = "NAME",
		 TD_OPT_TEXT(&o->node),
		 .required = true,
		 .help = "this node's name in Kubernetes and in Slurm"},
		{.name = "devices",
		 .value = "N",
		 TD_OPT_INT(&o->devices, 0, 64),
		 .required = true,
		 .help = "how many device indexes the node has, 0 to 64"},
		TD_KUBECONFIG_OPTION(&o->kubeconfig),
		{.name = "state",
		 .value = "DIR",
		 TD_OPT_TEXT(&o->state),
		 .help = "keeps the table of holders (default /var/lib/tandem-agent)"},
		{.name = "run",
		 .value = "DIR",
		 TD_OPT_TEXT(&o->run),
		 .help = "where its sockets are (default /run/tandem)"},
		{.name = "cgroups",
		 .value = "DIR",
		 TD_OPT_TEXT(&o->cgroups),
		 .help = "the node's cgroups (default /sys/fs/cgroup)"},
		{.name = "pod-logs",
		 .value = "DIR",
		 TD_OPT_TEXT(&o->pod_logs),
		 .help = "the kubelet's logs of pods (default /var/log/pods): of pods that say there\nthat they go on; "
			 "\"\": they are not read"},
		{.name = "kubelet",
		 .value = "URL",
		 TD_OPT_TEXT(&o->url),
		 .help = "this node's kubelet (default: as the Node's status says);\nnone: do not ask it"},
		{.name = "kubelet-ca",
		 .value = "FILE",
		 TD_OPT_TEXT(&o->ca),
		 .help = "its certificates (default: the API server's)"},
		{.name = "checks",
		 .value = "DIR",
		 TD_OPT_TEXT(&o->checks),
		 .help = "a site's own checks of the node: programs"},
		{.name = "actions",
		 .value = "DIR",
		 TD_OPT_TEXT(&o->actions),
		 .help = "programs that a NodeAction may run here"},
		{.name = "accelerators",
		 .value = "DIR",
		 TD_OPT_TEXT(&o->accelerators),
		 .help = "a site's own descriptions of accelerators: YAML files"},
		{.name = "profiles",
		 .value = "DIR",
		 TD_OPT_TEXT(&o->profiles),
		 .help = "a site's profiles of system calls (seccomp), for --profiles-to"},
		{.name = "profiles-to",
		 .value = "DIR",
		 TD_OPT_TEXT(&o->profiles_to),
		 .help = "the kubelet's directory of profiles"},
		{.name = "kubelet-dir",
		 .value = "DIR",
		 TD_OPT_TEXT(&o->kubelet_dir),
		 .help = "where the kubelet's sockets pod-resources/kubelet.sock and\ndevice-plugins/kubelet.sock are: "
			 "which "
			 "pod has which device"},
		{.name = "cdi",
		 .value = "DIR",
		 TD_OPT_TEXT(&o->cdi),
		 .help = "a directory of CDI of the container runtime's: pods get the\nadapters of the network that "
			 "Slurm "
			 "gave them (with --kubelet-dir)"},
		{.name = "hardware",
		 .value = "DIR",
		 TD_OPT_TEXT(&o->hardware),
		 .help = "reads DIR/sys and DIR/proc in place of the machine's, to try\nwhat this one has not"},
		{.name = "reboot",
		 .value = "HOW",
		 TD_OPT_TEXT(&o->reboot),
		 .help = "how the node is rebooted when a NodeAction says so:\nnone (default), systemd, or a program's "
			 "path"},
		{.name = "reset-program",
		 .value = "PATH",
		 TD_OPT_TEXT(&o->reset_program),
		 .help = "resets a GPU; it gets the GPU's index, or nothing: all"},
		TD_METRICS_OPTION(&o->metrics),
		TD_OPT_LOG_LEVEL(&level),
	};
	const struct td_command c = {.name = "agent",
				     .about = "The gate on one node of a real cluster, beside its kubelet: no process "
					      "starts on a device before\nthe last process of its last holder is gone. "
					      "tandem-agent(8) says what each option is.",
				     .exits = TD_ROLE_EXITS,
				     .options = options,
				     .n = TD_LEN(options)};
	if (!td_command_line(&c, argc, argv, NULL, ret_exit))
		return false;
	if (strcmp(o->reboot, "none") != 0 && strcmp(o->reboot, "systemd") != 0 && o->reboot[0] != '/') {
		*ret_exit = td_command_wrong("agent", "--reboot is \"%s\": give none, systemd or a program's path",
					     o->reboot);
		return false;
	}
	if (!*o->node || strlen(o->node) > 253 || strpbrk(o->node, "/, ")) {
		*ret_exit =
			td_command_wrong("agent", "--node is \"%s\": give the name of this Kubernetes node", o->node);
		return false;
	}

	if (!o->profiles != !o->profiles_to) {
		*ret_exit = td_command_wrong("agent", "--profiles and --profiles-to go together");
		return false;
	}
	if (o->cdi && !o->kubelet_dir) {
		*ret_exit = td_command_wrong("agent", "--cdi needs --kubelet-dir");
		return false;
	}
	td_log_init("agent", level);
	return true;
}

static bool arrives(void *ctx, int node)
{
	struct td_gate_agent *a = ctx;
	return td_nodehealth_arrives(a->health, node);
}

static void late(void *ctx, int node)
{
	struct td_gate_agent *a = ctx;
	td_held_late(&a->held, node);
}

static int preflight(void *ctx, int node, const struct td_gate_request *q, long long *ret_tries, struct td_cancel *c,
		     struct td_error *err)
{
	struct td_gate_agent *a = ctx;
	return td_gate_preflight(a->health, node, q, ret_tries, c, err);
}

static int several(void *ctx, int node, const struct td_gate_request *q, char **ret, struct td_cancel *c,
		   struct td_error *err)
{
	struct td_gate_agent *a = ctx;
	return td_gate_several(a->health, node, q, ret, c, err);
}

static void on_node(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_gate_agent *a = ctx;
	td_held_on_node(&a->held, old, now);
	td_nodehealth_on_node(a->health, old, now);
}

// Waits until no other agent of this node runs: one that is being replaced may still answer for a
// moment, and two agents would have two tables.
static int lock_state(struct td_gate_agent *a, struct td_error *err)
{
	int r = td_mkdir_p(a->o.state, 0700, err);
	if (r)
		return r;
	td_auto_free char *path = td_asprintf("%s/lock", a->o.state);
	a->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (a->lock < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "open %s", path);

	for (bool said = false; flock(a->lock, LOCK_EX | LOCK_NB) < 0; said = true) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return td_fail_errno(err, TD_INTERNAL, errno, "lock %s", path);
		if (!said)
			td_info("agent: another one holds %s: waiting until it ends", path);
		// Poll, because a flock() that waits could not be cancelled.
		if (td_cancel_wait(a->cancel, LOCK_MS))
			return td_fail(err, TD_CANCELLED, "stopped");
	}

	return 0;
}

static int boot_id(struct td_buf *ret, struct td_error *err)
{
	int r = td_file_read("/proc/sys/kernel/random/boot_id", 128, ret, err);
	if (!r && ret->len && ret->s[ret->len - 1] == '\n')
		ret->s[--ret->len] = '\0';
	return r;
}

static int setup(struct td_gate_agent *a, struct td_error *err)
{
	enum td_cg_state seen;
	td_auto_buf struct td_buf boot = {0};
	// The name is no pod's uid. This only tries whether cgroups can be read.
	int r = td_cg_pod(a->o.cgroups, a->o.node, &seen, err);
	if (r)
		return td_wrap(err, "--cgroups");
	r = lock_state(a, err);
	if (!r)
		r = boot_id(&boot, err);
	if (!r)
		r = td_kube_new(a->o.kubeconfig, &a->kube, err);
	if (r)
		return r;

	struct td_gate_opts g = {.dir = a->o.state,
				 .node = &(struct td_gate_site){a->o.node, a->o.run},
				 .nodes = 1,
				 .devices = a->o.devices,
				 .clock = a->clock,
				 .busy = td_gate_agent_busy,
				 .superseded = td_gate_agent_superseded,
				 .late = late,
				 .arrives = arrives,
				 .may_claim = td_gate_agent_may_claim,
				 .preflight = preflight,
				 .several = several,
				 .ctx = a,
				 .boot = td_buf_str(&boot)};
	a->since_ms = td_mono_ms(a->clock);
	return td_gate_new(&g, &a->gate, err);
}

static int start_informers(struct td_gate_agent *a, struct td_error *err)
{
	td_auto_free char *on = td_asprintf("spec.nodeName=%s", a->o.node),
			  *self = td_asprintf("metadata.name=%s", a->o.node);
	a->pods = td_informer_new(a->kube, &(struct td_informer_opts){.resource = &td_pods, .fields = on});
	a->nodes = td_informer_new(a->kube, &(struct td_informer_opts){.resource = &td_nodes, .fields = self});
	td_informer_add_index(a->pods, "uid", td_gate_agent_uid_index);
	td_informer_add_index(a->pods, "job", td_gate_agent_job_index);
	td_informer_on_change(a->pods, td_gate_agent_on_pod, a);
	td_informer_on_change(a->nodes, on_node, a);
	int r = td_gate_agent_health_open(a, err);
	a->held.gate = a->gate;
	a->held.kube = a->kube;
	a->held.nodes = a->nodes;

	struct td_informer *v[] = {a->pods, a->nodes};
	for (size_t i = 0; i < TD_LEN(v) && !r; i++)
		r = td_informer_start(v[i], a->cancel, err);
	if (r)
		return r;
	return td_informers_fill(v, TD_LEN(v), "agent: the gate stays closed", a->cancel, err);
}

// Tells the gate of every pod that has a grant.
static int learn_all(struct td_gate_agent *a, struct td_error *err)
{
	td_auto_objects struct td_objects l = {0};
	td_informer_list(a->pods, NULL, &l);
	int r = 0;
	for (size_t i = 0; i < l.n && !r; i++) {
		td_auto_free char *key = td_key_of(l.v[i]);
		int64_t again = 0;
		r = td_gate_agent_grant_sync(a, key, &again, a->cancel, err);
	}
	return r;
}

// ---- threads ----

static int run_gate(void *ctx, struct td_error *err)
{
	struct td_gate_agent *a = ctx;
	return td_gate_serve(a->gate, a->cancel, err);
}
static int run_grants(void *ctx, struct td_error *err)
{
	struct td_gate_agent *a = ctx;
	struct td_controller c = {
		.name = "grants", .workers = 1, .queue = a->grants, .reconcile = td_gate_agent_grant_sync, .ctx = a};
	return td_controller_run(&c, a->cancel, err);
}
static int run_held(void *ctx, struct td_error *err)
{
	struct td_gate_agent *a = ctx;
	return td_held_run(&a->held, a->cancel, err);
}
static struct td_object *pod_of(void *ctx, const char *uid)
{
	struct td_gate_agent *a = ctx;
	td_auto_objects struct td_objects l = {0};
	td_informer_by_index(a->pods, "uid", uid, &l);
	return l.n ? td_object_ref(l.v[0]) : NULL;
}

static struct td_object *node_of(void *ctx, const char *name)
{
	struct td_gate_agent *a = ctx;
	return td_informer_get(a->nodes, NULL, name);
}

static int run_health(void *ctx, struct td_error *err)
{
	struct td_gate_agent *a = ctx;
	return td_nodehealth_run(a->health, a->cancel, err);
}

static int run_profiles(void *ctx, struct td_error *err)
{
	struct td_gate_agent *a = ctx;
	td_auto_free char *list = td_asprintf("%s/profiles", a->o.state);
	const struct td_profiles p = {a->o.profiles, a->o.profiles_to, list};
	return td_profiles_run(&p, a->cancel, err);
}

static bool facts_now(void *ctx, struct td_checkup_facts *ret)
{
	struct td_gate_agent *a = ctx;
	return td_nodehealth_facts(a->health, 0, ret);
}
static int run_nics(void *ctx, struct td_error *err)
{
	struct td_gate_agent *a = ctx;
	return td_nicplug_run(&a->nics, a->cancel, err);
}
static int run_nics_register(void *ctx, struct td_error *err)
{
	struct td_gate_agent *a = ctx;
	return td_nicplug_register(&a->nics, a->cancel, err);
}

static void progress(void *ctx, int node, const struct td_object *pod, struct td_podhangs_signs *ret)
{
	struct td_gate_agent *a = ctx;
	*ret = (struct td_podhangs_signs){-1, td_podlog_output(a->o.pod_logs, pod)};
	(void)td_cg_pod_cpu(a->o.cgroups, pod->uid, &ret->cpu_us, NULL);
}
static int pod_log(void *ctx, const struct td_object *pod, const char *container)
{
	const struct td_gate_agent *a = ctx;
	return td_podlog_open(a->o.pod_logs, pod, container);
}
static size_t pod_pids(void *ctx, const struct td_object *pod, pid_t *v, size_t max)
{
	const struct td_gate_agent *a = ctx;
	return td_cg_pod_pids(a->o.cgroups, pod->uid, v, max);
}
static int run_hangs(void *ctx, struct td_error *err)
{
	struct td_gate_agent *a = ctx;
	const struct td_podhangs h = {a->kube,  a->pods, a->nodes, a->gate, a->health, a->clock,
				      progress, pod_log, pod_pids, NULL,    a};
	return td_podhangs_run(&h, a->cancel, err);
}

static int serve(struct td_gate_agent *a, struct td_error *err)
{
	int r = start_informers(a, err);
	if (!r)
		r = learn_all(a, err);
	if (r)
		return r;

	struct td_gate_part parts[8] = {{"gate", run_gate, a},
					{"grants", run_grants, a},
					{"held", run_held, a},
					{"health", run_health, a},
					{"hangs", run_hangs, a}};
	size_t n = 5;
	if (a->o.profiles)
		parts[n++] = (struct td_gate_part){"profiles", run_profiles, a};
	td_auto_free char *plugins = td_asprintf("%s/device-plugins", a->o.kubelet_dir ? a->o.kubelet_dir : ""),
			  *resources = td_asprintf("%s/pod-resources/kubelet.sock",
						   a->o.kubelet_dir ? a->o.kubelet_dir : "");
	a->nics = (struct td_nicplug){plugins, resources, a->o.cdi, a->pods, facts_now, a, 0};
	if (a->o.cdi) {
		parts[n++] = (struct td_gate_part){"adapters", run_nics, a};
		parts[n++] = (struct td_gate_part){"adapters-register", run_nics_register, a};
	}
	r = td_parts_start(parts, n, a->cancel, err);
	td_health_set("start", r ? "a part could not start" : NULL);
	td_gate_measure(a->gate); // not before: it reads the informers
	td_gate_telemetry(&(struct td_telemetry){a->health, a->gate, pod_of, node_of, a});
	td_podcpu_show(&(struct td_podcpu){a->pods, a->o.cgroups, a->o.kubelet_dir ? resources : NULL, facts_now, a,
					   a->cancel});
	if (!r)
		td_info("agent: the gate of node %s is open: %d devices, table %s/%s.json", a->o.node, a->o.devices,
			a->o.state, a->o.node);
	td_parts_join(parts, n);
	td_podcpu_show(NULL);
	td_gate_telemetry(NULL);
	td_gate_measure(NULL);
	return r;
}

static void teardown(struct td_gate_agent *a)
{
	td_cancel_fire(a->cancel);
	td_informer_free(a->pods);
	td_informer_free(a->nodes);
	td_gate_agent_health_close(a);
	td_gate_free(a->gate);
	td_queue_free(a->grants);
	td_held_done(&a->held);
	td_kube_free(a->kube);
	td_cancel_unref(a->cancel);
	if (a->lock >= 0)
		close(a->lock);
	pthread_mutex_destroy(&a->mu);
	pthread_mutex_destroy(&a->ask);
}

int td_agent_main(int argc, char **argv)
{
	struct td_gate_agent a = {.clock = &td_clock_system,
				  .o = {.state = "/var/lib/tandem-agent",
					.run = "/run/tandem",
					.cgroups = "/sys/fs/cgroup",
					.pod_logs = "/var/log/pods",
					.reboot = "none"},
				  .lock = -1,
				  .mu = PTHREAD_MUTEX_INITIALIZER,
				  .ask = PTHREAD_MUTEX_INITIALIZER};
	struct td_error err = TD_ERROR_INIT;
	int code;
	if (!parse(argc, argv, &a.o, &code))
		return code;

	// The threads do little. An arena for each would be most of our memory.
	mallopt(M_ARENA_MAX, 2);
	a.cancel = td_cancel_new();
	td_cancel_on_signals(a.cancel);
	a.grants = td_queue_new(a.clock);
	td_held_init(&a.held, a.clock);

	struct td_health *health = NULL;
	td_health_set("start", "it fills its caches");
	int r = td_health_serve("agent", a.o.metrics, &health, &err);
	if (!r)
		r = setup(&a, &err);
	if (!r)
		r = serve(&a, &err);

	bool stopped = r == TD_CANCELLED;
	if (r && !stopped)
		td_err("agent: %s", err.msg);
	td_health_end(health);
	teardown(&a);
	return r && !stopped ? 1 : 0;
}
