// The role `tandem apiserver`: flags, start, stop.
#include "apiserver/srv.h"

#include "apiserver/dev.h"
#include "apiserver/ticker.h"
#include "base/file.h"
#include "base/log.h"
#include "cmd/roles.h"

#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

struct flags {
	struct td_strv listen;
	const char *pki, *db, *agent, *dev;
	enum td_log_level level;
};

static void usage(FILE *f)
{
	fputs("usage: tandem apiserver --listen ADDR:PORT [--listen …] --pki DIR --db FILE --agent-socket PATH "
	      "[--log-level "
	      "debug|info|warn|error]\n\n"
	      "The embedded Kubernetes API. `tandem up` starts it.\n\n"
	      "  --listen ADDR:PORT   address to serve HTTPS on; may be given several times\n"
	      "  --pki DIR            ca.crt, apiserver.crt, apiserver.key, sa.key\n"
	      "  --db FILE            SQLite file with every object\n"
	      "  --agent-socket PATH  the agent's unix socket: logs and exec go there\n"
	      "  --dev DIR            instead of the above: a throw-away server with all of it in DIR; see "
	      "tools/dev-apiserver\n"
	      "\nExit codes: 0 stopped by SIGTERM or SIGINT, 1 failed, 2 wrong usage.\n",
	      f);
}

// Returns 0, or an exit code + 1.
static int parse(int argc, char **argv, struct flags *f)
{
	enum { LISTEN = 1, PKI, DB, AGENT, DEV, LEVEL, HELP };
	static const struct option opts[] = {
		{"listen", 1, NULL, LISTEN}, {"pki", 1, NULL, PKI},
		{"db", 1, NULL, DB},         {"agent-socket", 1, NULL, AGENT},
		{"dev", 1, NULL, DEV},       {"log-level", 1, NULL, LEVEL},
		{"help", 0, NULL, HELP},     {0},
	};
	int c;
	optind = 0; // in tests, the roles share the getopt state of one process
	while ((c = getopt_long(argc, argv, "", opts, NULL)) != -1) {
		switch (c) {
		case LISTEN:
			td_strv_add(&f->listen, optarg);
			break;
		case PKI:
			f->pki = optarg;
			break;
		case DB:
			f->db = optarg;
			break;
		case AGENT:
			f->agent = optarg;
			break;
		case DEV:
			f->dev = optarg;
			break;
		case LEVEL: {
			int l = td_log_level_parse(optarg);
			if (l < 0) {
				fprintf(stderr, "tandem apiserver: --log-level %s: write debug, info, warn or error\n",
					optarg);
				return 3;
			}
			f->level = (enum td_log_level)l;
			break;
		}
		case HELP:
			usage(stdout);
			return 1;
		default:
			return 3;
		}
	}

	if (optind < argc) {
		fprintf(stderr, "tandem apiserver: unexpected argument \"%s\"\n", argv[optind]);
		return 3;
	}
	if (!f->dev && (!f->listen.n || !f->pki || !f->db || !f->agent)) {
		fprintf(stderr, "tandem apiserver: %s is missing; `tandem apiserver --help` says more\n",
			!f->listen.n ? "--listen"
			: !f->pki    ? "--pki"
			: !f->db     ? "--db"
				     : "--agent-socket");
		return 3;
	}

	return 0;
}

// Returns the first listening address that other hosts can reach: "10.1.0.1:6443" gives "10.1.0.1".
// NULL: there is none. The caller frees it.
static char *reachable(const struct td_strv *listen)
{
	for (size_t i = 0; i < listen->n; i++) {
		const char *s = listen->v[i], *colon = strrchr(s, ':');
		if (*s >= '1' && *s <= '9' && !td_starts(s, "127.") && colon)
			return td_strndup(s, (size_t)(colon - s));
	}
	return NULL;
}

static int serve(struct flags *f, struct td_cancel *cancel, struct td_error *err)
{
	td_auto_free char *pki = f->dev ? td_asprintf("%s/pki", f->dev) : td_strdup(f->pki);
	td_auto_free char *db = f->dev ? td_asprintf("%s/state.db", f->dev) : td_strdup(f->db);
	td_auto_free char *agent = f->dev && !f->agent ? td_asprintf("%s/agent.sock", f->dev) : td_strdup(f->agent);
	int rc;

	if (f->dev && (rc = td_dev_pki(f->dev, err)) < 0)
		return rc;
	if (!f->listen.n)
		td_strv_add(&f->listen, "127.0.0.1:0");

	td_auto_free char *cert = td_asprintf("%s/apiserver.crt", pki), *key = td_asprintf("%s/apiserver.key", pki),
			  *ca = td_asprintf("%s/ca.crt", pki), *sa = td_asprintf("%s/sa.key", pki);
	td_auto_buf struct td_buf sa_key = {0};
	if ((rc = td_file_read(sa, 4096, &sa_key, err)) < 0)
		return td_wrap(err, "reading the key of tokens");

	struct td_srv s = {
		.clock = &td_clock_system, .agent_socket = agent, .sa_key = sa_key.s, .sa_key_len = sa_key.len};
	td_auto(td_store_close) struct td_store *store = NULL;
	if ((rc = td_store_open(db, 0, 0, &store, err)) < 0)
		return rc;
	s.store = store;
	if ((rc = td_srv_bootstrap(&s, err)) < 0)
		return rc;
	s.rbac = td_rbac_cache_new(store);
	s.reg = td_registry_new(store);

	const struct td_http_server_opts o = {
		.listen = (const char *const *)f->listen.v,
		.cert_file = cert,
		.key_file = key,
		.client_ca_file = ca,
		.max_body = TD_BODY_MAX,
		.handler = td_srv_handle,
		.refused = td_srv_refused,
		.ctx = &s,
	};

	struct td_http_server *http = NULL;
	rc = td_http_server_new(&o, &http, err);
	if (rc == 0 && f->dev)
		rc = td_dev_kubeconfigs(f->dev, td_http_server_port(http), err);
	td_auto_free char *address = reachable(&f->listen);
	if (rc == 0) {
		s.address = address;
		s.port = td_http_server_port(http);
		rc = td_srv_bootstrap_api(&s, err);
	}

	if (rc == 0) {
		struct td_store_stats st;
		td_store_stats(store, &st);
		td_info("serving %llu objects at revision %llu on port %d", (unsigned long long)st.objects,
			(unsigned long long)td_store_revision(store), td_http_server_port(http));
		__atomic_store_n(&s.ready, true, __ATOMIC_RELEASE);
		struct td_ticker *t = td_ticker_start(&s, cancel);
		rc = td_http_server_run(http, cancel, err);
		td_cancel_fire(cancel); // ends the ticker, also when the server ended by itself
		td_ticker_join(t);
	}

	td_http_server_free(http);
	td_registry_free(s.reg);
	td_rbac_cache_free(s.rbac);

	return rc;
}

int td_apiserver_main(int argc, char **argv)
{
	struct flags f = {.level = TD_LOG_INFO};
	int code = parse(argc, argv, &f);
	if (code) {
		td_strv_done(&f.listen);
		return code - 1;
	}
	td_log_init("apiserver", f.level);

	// With a thread per connection, a heap per thread would keep the memory of every busy
	// moment: two heaps are enough.
	mallopt(M_ARENA_MAX, 2);
	td_auto(td_cancel_unref) struct td_cancel *cancel = td_cancel_new();
	td_cancel_on_signals(cancel);
	struct td_error err = TD_ERROR_INIT;
	int rc = serve(&f, cancel, &err);
	td_strv_done(&f.listen);
	if (rc < 0 && rc != TD_CANCELLED) {
		td_err("%s", err.msg);
		return 1;
	}

	return 0;
}
