// The role gateway.
#include "gateway/bills.h"
#include "gateway/directory.h"
#include "gateway/door.h"
#include "gateway/hub.h"
#include "gateway/keys.h"
#include "gateway/member.h"
#include "gateway/schedule.h"
#include "gateway/sessions.h"

#include "base/log.h"
#include "base/options.h"
#include "cmd/roles.h"
#include "kube/health.h"
#include "kube/options.h"
#include "oidc/oidc.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

enum { BODY_MOST = 48 << 20, CONNS_MOST = 512, BODY_MS = 600000, WRITE_MS = 300000 };

static int inform(struct td_gateway *g, struct td_error *err)
{
	td_auto_free char *fields = td_asprintf("metadata.name=%s", g->o.cluster),
			  *labels = td_asprintf(TD_LABEL_NAME "=slurmrestd," TD_LABEL_CLUSTER "=%s", g->o.cluster);
	const struct td_informer_opts co = {.resource = &td_slurmclusters, .ns = g->o.ns, .fields = fields},
				      ro = {.resource = &td_pods, .ns = g->o.ns, .labels = labels};
	g->clusters = td_informer_new(g->kube, &co);
	g->restds = td_informer_new(g->kube, &ro);
	struct td_informer *const all[] = {g->clusters, g->restds};
	for (size_t i = 0; i < TD_LEN(all); i++) {
		int r = td_informer_start(all[i], g->cancel, err);
		if (r)
			return r;
	}
	// Nobody waits for it: without the right the page shows no faults, and all else works.
	g->nodes = td_informer_new(g->kube, &(const struct td_informer_opts){.resource = &td_nodes});
	int r = td_informer_start(g->nodes, g->cancel, err);
	if (r)
		return r;
	td_hubs_start(g);
	return td_informers_fill(all, TD_LEN(all), "the gateway waits", g->cancel, err);
}

static int serve(struct td_gateway *g, struct td_error *err)
{
	struct td_gateway_door *door;
	int r = td_gateway_door_new(g, &door, err);
	if (r)
		return r;
	const char *const listen[] = {g->o.listen, NULL};
	const struct td_http_server_opts o = {.listen = listen,
					      .cert_file = g->o.cert,
					      .key_file = g->o.key,
					      .max_body = BODY_MOST,
					      .max_conns = CONNS_MOST,
					      .body_ms = BODY_MS,
					      .write_ms = WRITE_MS,
					      .handler = td_gateway_handle,
					      .ctx = door};
	struct td_http_server *s;
	pthread_t clock, sessions, agents, hub[2];
	bool started = !pthread_create(&clock, NULL, td_schedule_thread, door),
	     looks = !pthread_create(&sessions, NULL, td_session_thread, door),
	     asks = g->agents && !pthread_create(&agents, NULL, td_session_agents_thread, g),
	     watches = !pthread_create(&hub[0], NULL, td_hub_watch_thread, g),
	     places = !pthread_create(&hub[1], NULL, td_hub_place_thread, g);
	r = td_http_server_new(&o, &s, err);
	if (!r) {
		td_info("serving people at %s://%s", g->o.cert ? "https" : "http", g->o.listen);
		r = td_http_server_run(s, g->cancel, err);
		td_http_server_free(s);
	}
	td_cancel_fire(g->cancel);
	if (started)
		pthread_join(clock, NULL);
	if (looks)
		pthread_join(sessions, NULL);
	g->measures = td_session_measures_free(g->measures); // its threads use all the rest
	if (asks)
		pthread_join(agents, NULL);
	if (watches)
		pthread_join(hub[0], NULL);
	if (places)
		pthread_join(hub[1], NULL);
	td_gateway_door_free(door);
	return r;
}

static int run(struct td_gateway *g, struct td_error *err)
{
	int r = td_kube_new(g->o.kubeconfig, &g->kube, err);
	if (!r)
		r = inform(g, err);
	pthread_t bills;
	bool reckons = !r && !pthread_create(&bills, NULL, td_bill_thread, g);
	if (!r)
		r = serve(g, err);
	td_cancel_fire(g->cancel);
	if (reckons)
		pthread_join(bills, NULL);
	td_informer_free(g->clusters);
	td_informer_free(g->restds);
	td_informer_free(g->nodes);
	g->hubs = td_hubs_free(g->hubs);
	g->words = td_member_words_free(g->words);
	td_gateway_seen_free(g);
	td_oidc_unref(g->oidc);
	td_kube_free(g->kube);
	return r;
}

// Keys and passwords must not go over a network in the clear.
static int check(const struct td_gateway_opts *o)
{
	if (!o->cert != !o->key)
		return td_command_wrong("gateway", "--cert and --key go together");
	if (o->usage && o->agents)
		return td_command_wrong("gateway", "give --usage, one agent for all, or --agents, one of each node");
	if (o->cert && o->behind_ingress)
		return td_command_wrong("gateway", "--behind-ingress is for a gateway without --cert");
	if (!o->cert && !o->behind_ingress && !td_starts(o->listen, "127.") && !td_starts(o->listen, "[::1]:") &&
	    !td_starts(o->listen, "unix:"))
		return td_command_wrong("gateway",
					"--listen %s is reached over the network: give --cert and --key, or listen on "
					"127.0.0.1, or say --behind-ingress where an ingress has the certificate",
					o->listen);
	return 0;
}

static char *self(void)
{
	char buf[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", buf, sizeof(buf) - 1);
	buf[n > 0 ? n : 0] = '\0';
	if (td_ends(buf, " (deleted)"))
		buf[n - (ssize_t)strlen(" (deleted)")] = '\0';
	return td_strdup(buf);
}

int td_gateway_main(int argc, char **argv)
{
	struct td_gateway g = {.o = {.homes_as = "/home"}};
	enum td_log_level level = TD_LOG_INFO;
	int code;
	const struct td_option options[] = {
		{.name = "namespace",
		 .value = "NS",
		 TD_OPT_TEXT(&g.o.ns),
		 .required = true,
		 .help = "where the SlurmCluster is"},
		{.name = "cluster", .value = "NAME", TD_OPT_TEXT(&g.o.cluster), .required = true, .help = "its name"},
		{.name = "listen",
		 .value = "ADDR:PORT",
		 TD_OPT_TEXT(&g.o.listen),
		 .required = true,
		 .help = "where people reach it"},
		{.name = "cert", .value = "FILE", TD_OPT_TEXT(&g.o.cert), .help = "certificate for HTTPS (PEM)"},
		{.name = "key", .value = "FILE", TD_OPT_TEXT(&g.o.key), .help = "its key"},
		{.name = "behind-ingress",
		 TD_OPT_SWITCH(&g.o.behind_ingress),
		 .help = "plain HTTP on the network: an ingress before it has the certificate, and nobody else may "
			 "reach it"},
		{.name = "homes", .value = "DIR", TD_OPT_TEXT(&g.o.homes), .help = "where the users' homes lie here"},
		{.name = "homes-as",
		 .value = "DIR",
		 TD_OPT_TEXT(&g.o.homes_as),
		 .help = "where Slurm's pods see that directory (default /home)"},
		{.name = "homes-path",
		 .value = "DIR",
		 TD_OPT_TEXT(&g.o.homes_path),
		 .help = "where nodes have it, for the pods of sessions"},
		{.name = "homes-claim",
		 .value = "NAME",
		 TD_OPT_TEXT(&g.o.homes_claim),
		 .help = "instead: the claim that holds it, in the namespaces of sessions"},
		{.name = "image",
		 .value = "IMAGE",
		 TD_OPT_TEXT(&g.o.image),
		 .help = "Tandem's image, which brings the pods of sessions its program (default: nodes have it in "
			 "/opt/tandem)"},
		{.name = "usage",
		 .value = "URL",
		 TD_OPT_TEXT(&g.o.usage),
		 .help = "where the node agent's figures are read, such as http://127.0.0.1:7480"},
		{.name = "agents",
		 .value = "NS",
		 TD_OPT_TEXT(&g.o.agents),
		 .help = "instead, on clusters: the namespace of Tandem's agents; that of its node is asked what a "
			 "session does"},
		{.name = "low-use",
		 .value = "MINUTES",
		 TD_OPT_INT(&g.o.low_use_min, 1, 720),
		 .help = "every session ends that used less than 5 % of a CPU for so long (default: none does for "
			 "that)"},
		TD_KUBECONFIG_OPTION(&g.o.kubeconfig),
		TD_METRICS_OPTION(&g.o.metrics),
		TD_EMPTY_DIRS_OPTION(&g.o.empty_dirs),
		TD_OPT_LOG_LEVEL(&level),
	};
	const struct td_command c = {
		.name = "gateway",
		.about = "The one door for people: the page, and the API of `tandem submit` and its "
			 "like. It acts in Slurm and in homes as the person who asks.",
		.exits = TD_ROLE_EXITS,
		.options = options,
		.n = TD_LEN(options)};
	if (!td_command_line(&c, argc, argv, NULL, &code))
		return code;
	if ((code = check(&g.o)))
		return code;
	td_log_init("gateway", level);

	g.cancel = td_cancel_new();
	td_cancel_on_signals(g.cancel);
	g.keys = td_gateway_keys_new();
	g.limits = td_gateway_limits_new(&td_clock_system);
	g.traffic = td_session_traffic_new(&td_clock_system);
	g.ways = td_session_ways_new();
	g.lines = td_session_lines_new();
	g.looks = td_session_looks_new();
	g.agents = g.o.agents ? td_session_agents_new() : NULL;
	g.measures = td_session_measures_new();
	g.days = td_gateway_days_new();
	g.scopes = td_session_scopes_new();
	g.directory = td_gateway_directory_new();
	g.hubs = td_hubs_new();
	g.words = td_member_words_new();
	g.self = self();
	pthread_mutex_init(&g.lock, NULL);
	pthread_mutex_init(&g.looking, NULL);
	g.view = td_slurm_view_new();

	struct td_error err = TD_ERROR_INIT;
	struct td_health *health;
	int r = td_health_serve("gateway", g.o.metrics, &health, &err);
	if (!r)
		r = run(&g, &err);
	bool clean = td_cancelled(g.cancel) && (!r || r == TD_CANCELLED);
	if (r && !clean)
		td_err("%s", err.msg);
	td_health_end(health);
	td_gateway_keys_free(g.keys);
	td_session_lines_free(g.lines); // their threads use the limits
	td_gateway_limits_free(g.limits);
	td_session_traffic_free(g.traffic);
	td_session_looks_free(g.looks);
	td_session_agents_free(g.agents);
	td_session_measures_free(g.measures);
	td_session_ways_free(g.ways);
	td_gateway_days_free(g.days);
	td_session_scopes_free(g.scopes);
	td_gateway_directory_free(g.directory);
	td_hubs_free(g.hubs);
	td_member_words_free(g.words);
	free(g.self);
	td_cancel_unref(g.cancel);
	return clean ? 0 : 1;
}
