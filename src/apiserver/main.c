// The role `tandem apiserver`: flags, start, stop.
#include "apiserver/srv.h"

#include "apiserver/dev.h"
#include "apiserver/ticker.h"
#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "cmd/roles.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

struct flags {
	struct td_strv listen;
	const char *pki, *db, *agent, *other, *dev;
	enum td_log_level level;
};

// False: end with *ret_exit.
static bool parse(int argc, char **argv, struct flags *f, int *ret_exit)
{
	const struct td_option options[] = {
		{.name = "listen",
		 .value = "ADDR:PORT",
		 TD_OPT_LIST(&f->listen),
		 .help = "address to serve HTTPS on; may be given several times"},
		{.name = "pki",
		 .value = "DIR",
		 TD_OPT_TEXT(&f->pki),
		 .help = "ca.crt, apiserver.crt, apiserver.key, sa.key"},
		{.name = "db", .value = "FILE", TD_OPT_TEXT(&f->db), .help = "SQLite file with every object"},
		{.name = "agent-socket",
		 .value = "PATH",
		 TD_OPT_TEXT(&f->agent),
		 .help = "the agent's unix socket: logs and exec go there"},
		{.name = "other-socket",
		 .value = "PATH",
		 TD_OPT_TEXT(&f->other),
		 .help = "the operator's: those of pods in other clusters go there"},
		{.name = "dev",
		 .value = "DIR",
		 TD_OPT_TEXT(&f->dev),
		 .help = "instead of the above: a throw-away server with all of it in DIR;\nsee tools/dev-apiserver"},
		TD_OPT_LOG_LEVEL(&f->level),
	};
	const struct td_command c = {.name = "apiserver",
				     .usage = "--listen ADDR:PORT --pki DIR --db FILE\n"
					      "                        --agent-socket PATH\n"
					      "       tandem apiserver --dev DIR",
				     .about = "The embedded Kubernetes API. `tandem up` starts it.",
				     .exits = TD_ROLE_EXITS,
				     .options = options,
				     .n = TD_LEN(options)};
	if (!td_command_line(&c, argc, argv, NULL, ret_exit))
		return false;

	if (f->dev || (f->listen.n && f->pki && f->db && f->agent))
		return true;
	*ret_exit = td_command_wrong("apiserver", "%s is missing",
				     !f->listen.n ? "--listen"
				     : !f->pki    ? "--pki"
				     : !f->db     ? "--db"
						  : "--agent-socket");
	return false;
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

	if (f->dev && (rc = td_srv_dev_pki(f->dev, err)) < 0)
		return rc;
	if (!f->listen.n)
		td_strv_add(&f->listen, "127.0.0.1:0");

	td_auto_free char *cert = td_asprintf("%s/apiserver.crt", pki), *key = td_asprintf("%s/apiserver.key", pki),
			  *ca = td_asprintf("%s/ca.crt", pki), *sa = td_asprintf("%s/sa.key", pki);
	td_auto_buf struct td_buf sa_key = {0};
	if ((rc = td_file_read(sa, 4096, &sa_key, err)) < 0)
		return td_wrap(err, "reading the key of tokens");

	struct td_srv s = {.clock = &td_clock_system,
			   .agent_socket = agent,
			   .other_socket = f->other,
			   .sa_key = sa_key.s,
			   .sa_key_len = sa_key.len};
	td_auto(td_store_close) struct td_store *store = NULL;
	if ((rc = td_store_open(db, 0, 0, &store, err)) < 0)
		return rc;
	s.store = store;
	if ((rc = td_srv_bootstrap(&s, err)) < 0)
		return rc;
	s.rbac = td_rbac_cache_new(store);
	s.people = td_srv_people_new(store, s.clock);
	s.reg = td_registry_new(store);

	const struct td_http_server_opts o = {
		.listen = (const char *const *)f->listen.v,
		.cert_file = cert,
		.key_file = key,
		.client_ca_file = ca,
		.max_body = TD_BODY_MAX,
		.header_ms = 32000, // as the real one: a Java program on a busy machine takes longer than 10 s
		.handler = td_srv_handle,
		.refused = td_srv_refused,
		.ctx = &s,
	};

	struct td_http_server *http = NULL;
	rc = td_http_server_new(&o, &http, err);
	if (rc == 0 && f->dev)
		rc = td_srv_dev_kubeconfigs(f->dev, td_http_server_port(http), err);
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
	td_srv_people_free(s.people);

	return rc;
}

int td_apiserver_main(int argc, char **argv)
{
	struct flags f = {.level = TD_LOG_INFO};
	int code;
	if (!parse(argc, argv, &f, &code)) {
		td_strv_done(&f.listen);
		return code;
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
