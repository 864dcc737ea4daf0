// The role bridge. It leads by a Lease, fills its caches, and then runs the scheduler, the syncer,
// the knock port and the why server until it leads no longer.
#include "bridge/scheduler/ask.h"

#include "base/log.h"
#include "base/rand.h"
#include "cmd/roles.h"
#include "kube/health.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { POD_WORKERS = 8, NODE_WORKERS = 2, PROLOG_US = 15000 };

#define DNS_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-."

static const char usage[] =
	"usage: tandem bridge --namespace NS --cluster NAME --knock ADDR:PORT [--knock-name NAME] [--kubeconfig FILE]\n"
	"                     [--why unix:PATH] [--metrics ADDR:PORT] [--empty-dirs PATH]\n"
	"                     [--jwt-key FILE [--slurmrestd URL]] [--identity NAME] [--lease-namespace NS]\n"
	"                     [--lease-duration S] [--renew-deadline S] [--retry-period S] [--log-level LEVEL]\n"
	"\n"
	"Turns pods of the SlurmCluster's scheduler into Slurm jobs and keeps both sides' nodes in step.\n"
	"\n"
	"  --knock ADDR:PORT    where stand-in jobs report; a numeric address that the nodes reach\n"
	"  --knock-name NAME    where several of us may lead: a DNS name that leads to all of them from the nodes' "
	"slurmd; stand-ins\n"
	"                       ask it when who led before does not answer (same port)\n"
	"  --why unix:PATH      answers `tandem why` there; ADDR:PORT: on the network, whoever reaches it\n"
	"  --metrics ADDR:PORT  serves /metrics, /livez and /readyz there, plain HTTP\n"
	"  --empty-dirs PATH    where pods' emptyDir volumes lie on this machine, with {uid} and {name}: reaches a "
	"slurmrestd\n"
	"                       whose SlurmCluster says spec.restApi.access socket\n"
	"  --slurmrestd URL     instead of the Ready slurmrestd pod of the cluster (tests)\n"
	"  --jwt-key FILE       instead of the Secret NAME-jwt-key\n"
	"  --identity NAME      name in the Lease (default: made of the host's name and --why)\n"
	"  --lease-namespace NS where the Lease is (default: the SlurmCluster's)\n"
	"  --lease-duration S   how long others wait for a leader that is silent (default 15s)\n"
	"  --renew-deadline S   a leader that could not renew for so long stops leading (default 10s)\n"
	"  --retry-period S     how often the Lease is renewed (default 2s)\n"
	"\n"
	"Exit codes: 0 stopped by SIGTERM or SIGINT, 1 failed, 2 wrong usage.\n";

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

static void on_slurmd(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_bridge *b = ctx;
	const char *n = now ? td_jstr(now->root, "spec.nodeName") : NULL;
	if (n)
		td_queue_add(b->node_queue, n);
}

static void on_node(void *ctx, struct td_object *old, struct td_object *now)
{
	struct td_bridge *b = ctx;
	td_queue_add(b->node_queue, now ? now->name : old->name);
	if (now && td_bridge_kubelet(now))
		atomic_store(&b->kubelets, true);

	// Heartbeats change a Node all the time. Where pods may run depends only on its labels and
	// taints; cordon and Tandem's own taint do not count.
	if (old && now && td_jequal(td_jget(old->root, "metadata.labels"), td_jget(now->root, "metadata.labels")) &&
	    td_jequal(td_jget(old->root, "spec.taints"), td_jget(now->root, "spec.taints")))
		return;

	atomic_fetch_add(&b->feas_gen, 1);

	td_auto_objects struct td_objects pods = {0};
	td_informer_list(b->pods, NULL, &pods);
	for (size_t i = 0; i < pods.n; i++)
		if (!td_jstr(pods.v[i]->root, "spec.nodeName")) {
			td_auto_free char *key = td_key_of(pods.v[i]);
			td_queue_add_after(b->pod_queue, key, 300); // several changes become one
		}
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

// The informers that depend on the settings.
static int start_informers(struct td_bridge *b, struct td_error *err)
{
	td_auto(td_settings_unref) struct td_settings *s = td_bridge_settings(b);
	td_auto_free char *fields = td_asprintf("spec.schedulerName=%s", s->scheduler),
			  *slurmds = td_asprintf(TD_LABEL_NAME "=slurmd," TD_LABEL_CLUSTER "=%s", b->o.cluster);

	const struct td_informer_opts po = {.resource = &td_pods, .fields = fields}, no = {.resource = &td_nodes},
				      so = {.resource = &td_pods, .ns = b->o.ns, .labels = slurmds};

	b->pods = td_informer_new(b->kube, &po);
	b->nodes = td_informer_new(b->kube, &no);
	b->slurmds = td_informer_new(b->kube, &so);

	td_informer_add_index(b->pods, "uid", index_uid);
	td_informer_add_index(b->pods, "node", index_node);
	td_informer_add_index(b->slurmds, "node", index_node);
	td_informer_on_change(b->pods, td_enqueue_self, b->pod_queue);
	td_informer_on_change(b->nodes, on_node, b);
	td_informer_on_change(b->slurmds, on_slurmd, b);

	int r = s->devices.dra ? td_claims_watch(b, b->cancel, err) : 0;

	struct td_informer *const all[] = {b->pods, b->nodes, b->slurmds, b->claims, b->slices, b->classes};
	size_t n = b->claims ? TD_LEN(all) : 3;
	for (size_t i = 0; i < n && !r; i++)
		r = td_informer_start(all[i], b->cancel, err);
	return r ? r : td_informers_fill(all, n, "the bridge waits", b->cancel, err);
}

// The informers that the settings and the connection to slurmrestd need.
static int start_first(struct td_bridge *b, struct td_error *err)
{
	td_auto_free char *fields = td_asprintf("metadata.name=%s", b->o.cluster),
			  *restds = td_asprintf(TD_LABEL_NAME "=slurmrestd," TD_LABEL_CLUSTER "=%s", b->o.cluster);

	const struct td_informer_opts co = {.resource = &td_slurmclusters, .ns = b->o.ns, .fields = fields},
				      ro = {.resource = &td_pods, .ns = b->o.ns, .labels = restds};

	b->clusters = td_informer_new(b->kube, &co);
	b->restds = td_informer_new(b->kube, &ro);

	struct td_informer *const all[] = {b->clusters, b->restds};
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
					       knocks_thread,
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
		b.view = td_slurm_view_new();
		b.asks = td_asks_new();

		r = run(&b, err);

		td_bridge_measure(NULL);
		td_cancel_fire(c);

		struct td_informer *const all[] = {b.claims, b.slices,  b.classes, b.pods,
						   b.nodes,  b.slurmds, b.restds,  b.clusters};
		for (size_t i = 0; i < TD_LEN(all); i++)
			td_informer_free(all[i]);

		td_knocks_free(b.knocks);
		td_recorder_free(b.recorder);
		td_queue_free(b.pod_queue);
		td_queue_free(b.node_queue);
		td_asks_free(b.asks);
		td_slurm_view_free(b.view);
	}

	td_link_unref(b.link);
	td_settings_unref(b.settings);
	td_kube_free(b.kube);
	pthread_mutex_destroy(&b.lock);
	pthread_mutex_destroy(&b.list_lock);
	close(b.poll_fd);

	return r;
}

// 0: go on; 1: help was printed; 2: wrong usage, which was printed.
static int flags(int argc, char **argv, struct td_bridge_opts *o, int *ret_level)
{
	const char **const to[] = {&o->kubeconfig, &o->ns,         &o->cluster, &o->knock,    &o->why,
				   &o->metrics,    &o->slurmrestd, &o->jwt_key, &o->identity, &o->empty_dirs};
	static const struct option longs[] = {{"kubeconfig", 1, 0, 0},
					      {"namespace", 1, 0, 1},
					      {"cluster", 1, 0, 2},
					      {"knock", 1, 0, 3},
					      {"why", 1, 0, 4},
					      {"metrics", 1, 0, 5},
					      {"slurmrestd", 1, 0, 6},
					      {"jwt-key", 1, 0, 7},
					      {"identity", 1, 0, 8},
					      {"empty-dirs", 1, 0, 9},
					      {"lease-duration", 1, 0, 10},
					      {"renew-deadline", 1, 0, 11},
					      {"retry-period", 1, 0, 12},
					      {"lease-namespace", 1, 0, 13},
					      {"knock-name", 1, 0, 14},
					      {"log-level", 1, 0, 'l'},
					      {"help", 0, 0, 'h'},
					      {0}};

	int *const times[] = {&o->lease.duration_s, &o->lease.renew_s, &o->lease.retry_s};
	struct td_error err = TD_ERROR_INIT;

	for (int c, i; (c = getopt_long(argc, argv, "h", longs, &i)) >= 0;) {
		if (c == 'h')
			return fputs(usage, stdout), 1;
		if (c >= 10 && c <= 12) {
			if (td_lease_flag(longs[i].name, optarg, times[c - 10], &err))
				return fprintf(stderr, "tandem bridge: %s\n", err.msg), 2;
			continue;
		}
		if (c == 13) {
			o->lease.ns = optarg;
			continue;
		}
		if (c == 14) { // it goes into a shell script: only the characters of a DNS name
			o->knock_name = optarg;
			if (*optarg && strlen(optarg) < 254 && strspn(optarg, DNS_CHARS) == strlen(optarg))
				continue;
			return fprintf(stderr, "tandem bridge: --knock-name \"%s\" is not a DNS name\n", optarg), 2;
		}
		if (c == 'l' && (*ret_level = td_log_level_parse(optarg)) >= 0)
			continue;
		if (c >= (int)TD_LEN(to)) {
			fputs(usage, stderr);
			return 2;
		}
		*to[c] = optarg;
	}

	if (optind < argc) {
		fprintf(stderr, "tandem bridge: what is \"%s\"?\n%s", argv[optind], usage);
		return 2;
	}

	if (!o->ns || !o->cluster || !o->knock) {
		fprintf(stderr, "tandem bridge: --namespace, --cluster and --knock are needed\n%s", usage);
		return 2;
	}

	if (!strrchr(o->knock, ':')) {
		fprintf(stderr, "tandem bridge: --knock \"%s\" is not ADDR:PORT\n", o->knock);
		return 2;
	}

	if (td_lease_check(&o->lease, &err))
		return fprintf(stderr, "tandem bridge: %s\n", err.msg), 2;

	if (o->slurmrestd && !o->jwt_key) {
		fputs("tandem bridge: --slurmrestd needs --jwt-key\n", stderr);
		return 2;
	}

	return 0;
}

int td_bridge_main(int argc, char **argv)
{
	struct td_bridge_opts o = {0};
	int level = TD_LOG_INFO, r = flags(argc, argv, &o, &level);
	if (r)
		return r == 1 ? 0 : 2;

	td_log_init("bridge", (enum td_log_level)level);
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
	o.lease.identity = o.identity ? o.identity : id;

	struct td_error err = TD_ERROR_INIT;
	td_auto(td_kube_free) struct td_kube *k = NULL;
	struct td_health *health;

	r = td_health_serve("bridge", o.metrics, &health, &err);
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
