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
#include "kube/health.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { LOCK_MS = 200 };

static const char help[] =
	"usage: tandem agent --node NAME --devices N [--kubeconfig F] [--state DIR] [--run DIR] [--cgroups DIR]\n"
	"                    [--kubelet URL] [--kubelet-ca F] [--metrics ADDR:PORT] [--log-level LEVEL]\n\n"
	"The gate on one node of a real cluster, beside its kubelet: no process starts on a device before the last "
	"process of its\n"
	"last holder is gone. tandem-agent(8) says what each flag is.\n\n"
	"Exit codes: 0 stopped by SIGTERM or SIGINT, 1 failed, 2 wrong usage.\n";

static int parse(int argc, char **argv, struct td_gate_agent_opts *o, struct td_error *err)
{
	static const struct option longs[] = {{"node", 1, 0, 0},
					      {"kubeconfig", 1, 0, 1},
					      {"state", 1, 0, 2},
					      {"run", 1, 0, 3},
					      {"cgroups", 1, 0, 4},
					      {"kubelet", 1, 0, 5},
					      {"kubelet-ca", 1, 0, 6},
					      {"metrics", 1, 0, 7},
					      {"devices", 1, 0, 8},
					      {"log-level", 1, 0, 'l'},
					      {0}};
	const char *devices = NULL, **const to[] = {&o->node, &o->kubeconfig, &o->state,   &o->run, &o->cgroups,
						    &o->url,  &o->ca,         &o->metrics, &devices};
	opterr = 0;
	optind = 1;
	for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
		if (c == 'l') {
			int level = td_log_level_parse(optarg);
			if (level < 0)
				return td_fail(err, TD_INVALID, "--log-level %s: write debug, info, warn or error",
					       optarg);
			td_log_init("agent", (enum td_log_level)level);
			continue;
		}
		if (c < 0 || c >= (int)TD_LEN(to))
			return td_fail(err, TD_INVALID, "unknown flag \"%s\", or its value is missing",
				       argv[optind - 1]);
		*to[c] = optarg;
	}

	long long n;
	if (optind < argc)
		return td_fail(err, TD_INVALID, "unexpected \"%s\"", argv[optind]);
	if (!o->node || !*o->node || strlen(o->node) > 253 || strpbrk(o->node, "/, "))
		return td_fail(err, TD_INVALID, "--node: the name of this Kubernetes node is needed");
	if (!devices || !td_parse_i64(devices, &n) || n < 0 || n > 64)
		return td_fail(err, TD_INVALID, "--devices %s: how many device indexes the node has, 0 to 64",
			       devices ? devices : "is missing");
	o->devices = (int)n;
	return 0;
}

static void late(void *ctx, int node)
{
	struct td_gate_agent *a = ctx;
	td_held_late(&a->held, node);
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
				 .may_claim = td_gate_agent_may_claim,
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
	td_informer_on_change(a->nodes, td_held_on_node, &a->held);
	a->held.gate = a->gate;
	a->held.kube = a->kube;
	a->held.nodes = a->nodes;

	struct td_informer *v[] = {a->pods, a->nodes};
	int r = 0;
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

static int serve(struct td_gate_agent *a, struct td_error *err)
{
	int r = start_informers(a, err);
	if (!r)
		r = learn_all(a, err);
	if (r)
		return r;

	struct td_part parts[] = {{"gate", run_gate, a}, {"grants", run_grants, a}, {"held", run_held, a}};
	r = td_parts_start(parts, TD_LEN(parts), a->cancel, err);
	td_health_set("start", r ? "a part could not start" : NULL);
	td_gate_measure(a->gate); // not before: it reads the informers
	if (!r)
		td_info("agent: the gate of node %s is open: %d devices, table %s/%s.json", a->o.node, a->o.devices,
			a->o.state, a->o.node);
	td_parts_join(parts, TD_LEN(parts));
	td_gate_measure(NULL);
	return r;
}

static void teardown(struct td_gate_agent *a)
{
	td_cancel_fire(a->cancel);
	td_informer_free(a->pods);
	td_informer_free(a->nodes);
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
	struct td_gate_agent a = {
		.clock = &td_clock_system,
		.o = {.state = "/var/lib/tandem-agent", .run = "/run/tandem", .cgroups = "/sys/fs/cgroup"},
		.lock = -1,
		.mu = PTHREAD_MUTEX_INITIALIZER,
		.ask = PTHREAD_MUTEX_INITIALIZER};
	struct td_error err = TD_ERROR_INIT;
	td_log_init("agent", TD_LOG_INFO);
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--help")) {
			fputs(help, stdout);
			return 0;
		}
	if (parse(argc, argv, &a.o, &err)) {
		fprintf(stderr, "tandem agent: %s\n%s", err.msg, help);
		return 2;
	}

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
