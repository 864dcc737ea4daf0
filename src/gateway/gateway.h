// The gateway: the one door for people. It serves the API /api/v1 and the page over HTTP, and does
// in Slurm and in homes what a person asks for as that person: a job is submitted with a token of
// the person's name, and a file is touched by a process that has become the person (home.h).
//
// It keeps no state of its own: keys and passwords are in one Secret, runs in their owners' homes,
// jobs in Slurm. Several may run.
//
// Files
//   main.c                     the role: options, start, end
//   door.c door.h              one request: route, who asks, limits, the record of changes
//   openapi.yaml               the API: routes and bodies; door.c serves exactly what it says
//   keys.[ch]                  keys, passwords, cookies
//   slurm.c                    the SlurmCluster, its users, the connection to slurmrestd
//   directory.[ch]             people of the directory service (LDAP)
//   home.[ch]                  asks home-io to do something in a person's home
//   home_io.c home_io.h        that process: becomes the person, shut in the home
//   home_files.c home_run.c    what it does there: chunks, files; runs
//   home_schedule.c            what it does there: what a schedule submits
//   home_made.c                what it does there: what is made once for many runs
//   path.[ch]                  which paths of people are taken
//   job.[ch]                   what a run asks for, and the jobs that this means
//   batch.[ch]                 how a job of a person reaches Slurm, or what it asks for too much
//   cause.[ch]                 why a step did not end well
//   run.c runs.[ch]            runs: submit, list, cancel; what is shown of one
//   need.[ch] env.c data.c     what a run needs first, made once: Python environments, data sets
//   schedule.[ch]              runs by the clock
//   log.c                      logs, also while they grow
//   jobs.[ch]                  the queue and the pool
//   seen.h records.c           what a look at Slurm saw
//   faults.c                   what is wrong with nodes and their devices
//   files.c                    chunks, upload, download
//   sessions.[ch]              sessions: pods of people, what is shown of them, their end
//   session_start.c            starts one
//   session_devices.c          its GPUs: a number, or a claim
//   session_files.c            the file systems of its owner's storage groups
//   session_kind.c             what may run in one: a terminal, Jupyter, any command
//   session_looks.c            where is looked for them, and how often
//   session_pass.c             the proxy in front of them
//   session_ssh.c              ssh into them
//   session_record.c           what is kept of one: it can be resumed
//   session_rules.c            what Tenants ask of their members' sessions
//   session_use.c              what they do: traffic, CPUs
//   session_figures.c          what their pods use of CPUs and GPUs, by what agents say
//   session_measures.c         the same of those on machines, by a step of the session's job
//   session_other.c            those in another cluster, and the way to them
//   session_host.c             those on machines without a kubelet: jobs
//   session_host_way.c         the way to them
//   session_lines.c lines.[ch] the ways to those that serve HTTP: many requests over one step of the job
//   session_agents.c           asks the agents of their nodes, on clusters
//   session_set.c              one of several pods, together: an endpoint with replicas
//   session_nodes.c            one over several nodes: a gang, which starts and ends as one
//   session_ways.c             how many requests wait at each of them, and which were not reached
//   replica.[ch]               which of them gets a request, and which are started or ended
//   answers.[ch]               how an endpoint answers: waiting requests, how long they take
//   account.c                  who am I, login, keys
//   usage.[ch] usage_ask.c     what people and tenants have used
//   viewer.c tenants.c         whose figures a person is shown; tenants and what they hold
//   login.c device.c oidc.[ch] login by an issuer (OpenID Connect): in a browser, by a code
//   progress.[ch]              jobs that hang, have a slow rank, or began again: since when, why, from where
//   prices.c bills.[ch]        prices, and bills of periods that are over
//   bills_ask.c                bills as people ask for them
//   hub.c hub.h                the hub of a Federation: which one, and what is known of its members
//   hub_record.c hub_call.c    records of its runs; calls of members
//   hub_place.c hub_send.c     a member is chosen for a run, and given it
//   hub_limit.c                what teams hold at all members; promises among gateways
//   hub_watch.c                runs are looked after
//   hub_show.c                 what people ask about them
//   hub_session.c              sessions at members, through the hub
//   hub_session_limit.c        what a person may have of them
//   hub_starts.c               one start of a person's after the other, at all gateways
//   hub_word.c                 members are told of limits over all of them
//   member.h member_word.c     what a member keeps of that
//   statement.[ch] member.c    how a hub proves who asks; what a member does for its hub
//   projects.c                 projects of Tenants, as their admins keep them
//   scope.[ch]                 keys of one project: what is in it
//   limits.c                   how often
//   page.c                     the page's files
#pragma once

#include "base/cancel.h"
#include "gateway/seen.h"
#include "kube/informer.h"
#include "slurm/rest.h"
#include "json/json.h"

#include <pthread.h>

struct td_gateway_opts {
	const char *kubeconfig, *ns, *cluster, *listen, *cert, *key, *homes, *homes_as, *empty_dirs, *metrics,
		*homes_claim, *homes_path, *usage, *agents, *image;
	bool behind_ingress; // people come by HTTPS, though there is no cert here
	int low_use_min;     // 0: no such rule for all
};

// Slurm as it was last seen, shared by all who look (jobs.c).
struct td_gateway_seen {
	int64_t good_until_ms; // mono: then somebody looks again
	int64_t at;            // slurmctld's second of the look
	int64_t since;         // its second of the last list of jobs
	struct td_gateway_pace pace;
	struct td_gateway_records jobs;
	struct td_slurm_snapshot *nodes; // sorted by name
	int refs;
};

struct td_gateway_keys;
struct td_gateway_limits;
struct td_session_traffic;
struct td_gateway_days;
struct td_gateway_directory;
struct td_oidc;
struct td_hubs;
struct td_member_words;
struct td_session_scopes;
struct td_session_ways;
struct td_session_lines;
struct td_session_looks;
struct td_session_agents;
struct td_session_measures;
struct td_gateway {
	struct td_gateway_opts o;
	struct td_kube *kube;
	struct td_informer *clusters, *restds;
	struct td_informer *nodes; // what is wrong with them; empty where the gateway may not read them
	struct td_cancel *cancel;
	struct td_gateway_keys *keys;
	struct td_gateway_limits *limits;
	struct td_session_traffic *traffic;
	struct td_session_ways *ways;
	struct td_session_lines *lines;
	struct td_session_looks *looks;
	struct td_session_agents *agents; // NULL: it is told of none (--agents)
	struct td_session_measures *measures;
	struct td_gateway_days *days;
	struct td_session_scopes *scopes; // rules of Tenants
	struct td_gateway_directory *directory;
	struct td_hubs *hubs;          // the Federation whose hub this is, and its members
	struct td_member_words *words; // what hubs say of limits here
	char *self;                    // this program

	pthread_mutex_t lock; // guards slurm, url, seen, oidc
	struct td_gateway_slurm *slurm;
	struct td_gateway_seen *seen;
	struct td_slurm_view *view; // its nodes; only who holds `looking` polls it
	int64_t ahead_s;            // by how much slurmctld's clock is ahead of ours
	struct td_oidc *oidc;       // NULL: not asked yet (oidc.c)
	pthread_mutex_t looking;    // held by the one that asks Slurm for `seen`
};

// ---- slurm.c ----
struct td_gateway_slurm {
	struct td_slurm *client;
	char *url;
	int refs;
};
// The connection. The caller unrefs it. NULL: err says why there is none now.
struct td_gateway_slurm *td_gateway_slurm(struct td_gateway *g, struct td_error *err);
struct td_gateway_slurm *td_gateway_slurm_unref(struct td_gateway_slurm *l);
TD_DEFINE_AUTO(struct td_gateway_slurm *, td_gateway_slurm_unref)

// A person: a user of the SlurmCluster, or of its directory service.
struct td_gateway_user {
	char *name, *home; // home: as the pods see it
	int64_t uid, gid;
};
void td_gateway_user_done(struct td_gateway_user *u);
#define td_auto_user __attribute__((cleanup(td_gateway_user_done)))
// TD_NOT_FOUND: the SlurmCluster has no such user, nor has its directory service; TD_DENIED: that one says
// somebody who may be nobody here; TD_TRANSIENT: it cannot be asked now.
int td_gateway_user(struct td_gateway *g, const char *name, struct td_gateway_user *ret, struct td_error *err);
// Lets go of what was seen and of the connection, at the end.
void td_gateway_seen_free(struct td_gateway *g);
// Whether slurm.conf or slurmdbd.conf of the SlurmCluster hide other people's jobs from them (PrivateData).
bool td_gateway_private(struct td_gateway *g);
