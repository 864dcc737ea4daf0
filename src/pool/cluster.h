// A SlurmCluster: its phase and conditions, and when a new configuration may be written or put in
// force.
#pragma once

#include "pool/pool.h"

struct td_pool_cluster_facts {
	const char *problem;           // of its spec, in one line; NULL: none
	bool absent;                   // it is only that other objects are not there yet
	const char *trying;            // a new configuration is being tried, in words; NULL: none is
	bool answers;                  // slurmctld answered just now
	long long ctlds, ctlds_wanted; // slurmctld pods that are Ready
	const char *ctld_why;          // why one of them does not start; NULL: nothing is known
	bool in_force;                 // the configuration that its spec asks for runs

	bool was_running;                      // its last phase was Running or Degraded
	long long rest, logins, logins_wanted; // slurmrestd and login pods that are Ready
	const char *login_why;                 // why a login pod does not start; NULL: nothing is known
	size_t nodes;                          // in its NodeSets
	long long gpus;                        // of those nodes
	bool devices_asked;                    // spec.devices does not name the default
	const char *devices;                   // the devices that were found, in words
	bool accounting;                       // its spec turns it on
	long long dbds;                        // slurmdbd pods that are Ready
	bool preempts;                         // its spec declares QOS that preempt
	bool qos_known;                        // they were looked at in slurmdbd
	const char *qos_problem;               // why they are not as declared; NULL: they are
	bool policies;                         // its spec has policies
	const char *policy_problem;            // what is wrong with those that fail; NULL: none does
	bool planes;                           // its spec names planes of its network
	const char *plane_problem;             // which interfaces are not as it says; NULL: none is
	const char *login_failed;              // which services, or sshd, have failed in login pods; NULL: none has
	bool login_unknown;                    // the API has not said it yet
	const char *storage_left; // why not all who may have file systems of storage groups; NULL: all have
	bool api_asked;           // its spec asks for what an older Kubernetes does not serve
	const char *api_lacks;    // what of that is not served, and what follows; NULL: all is
};
struct td_pool_cluster_plan {
	const char *phase;
	struct td_pool_condition v[15]; // messages point into the facts, into `logins` and `ctlds`
	size_t n;                       // the last one is Ready
	char logins[480], ctlds[480];
};
// Fills *ret, which must not be moved or copied afterwards.
void td_pool_cluster_decide(const struct td_pool_cluster_facts *f, struct td_pool_cluster_plan *ret);

// Does what a probe that fails every TD_LOGIN_PROBE_MS said so long ago (age_ms), for the count-th time, hold still? A
// kubelet lets 25 events about an object out at once, and then one in five minutes (client-go, EventSourceObjectSpamFilter).
enum { TD_LOGIN_PROBE_MS = 10000 };
bool td_pool_login_fails(long long count, int64_t age_ms);

// A first configuration that is written a moment before the nodes come would be replaced at once,
// so it waits for them a little. A slurmctld that is just starting loses a SIGTERM (seen with
// 24.11: its pod then takes the whole grace period to end), so it is left alone until it answers.
struct td_pool_config_facts {
	bool exists;     // a configuration is written
	bool same;       // and it is the wanted one
	size_t nodes;    // that the wanted one would hold
	int64_t seen_ms; // for how long we know the cluster
	bool answered;   // slurmctld has answered us before
	int64_t ctld_ms; // age of the youngest slurmctld pod; -1: there is none
};
// True when the configuration must not be written yet.
bool td_pool_config_waits(const struct td_pool_config_facts *f);

// A configuration is tried before it is written: a pod starts the image's own slurmctld with it.
// Not tried is what has passed before; nodes that come and go change no outcome.
struct td_pool_trial_facts {
	bool tried;        // the configuration that is written passed with the same print
	bool pod;          // a pod tries it
	bool deleting;     // and is about to go
	bool ended;        // and its slurmctld has ended or was given up
	int code;          // with this (trial.sh)
	int64_t ended_ms;  // so long ago
	const char *stuck; // why it cannot start (its image); NULL: nothing is known to be in the way
};
enum td_pool_trial {
	TD_TRIAL_PASSED,  // write the configuration
	TD_TRIAL_START,   // make the pod
	TD_TRIAL_WAIT,    // for the pod
	TD_TRIAL_STUCK,   // as WAIT; but somebody must be told why
	TD_TRIAL_REFUSED, // the configuration is wrong, until it changes
	TD_TRIAL_AGAIN,   // delete the pod: another try may end otherwise
};
enum {
	TD_TRIAL_STARTS,
	TD_TRIAL_FAILS,
	TD_TRIAL_TIMEOUT,
	TD_TRIAL_OTHER_RELEASE,
	TD_TRIAL_OLDER,
	TD_TRIAL_TOO_NEW
}; // codes of trial.sh
enum td_pool_trial td_pool_trial_decide(const struct td_pool_trial_facts *f);
const char *td_pool_trial_name(enum td_pool_trial t); // "refused"

enum td_pool_force { TD_FORCE_NOTHING, TD_FORCE_FIRST, TD_FORCE_WAIT, TD_FORCE_SEEN };
// Says how a configuration that is not in force yet comes in force: slurmctld's pod has been told of it
// (`told`), has slurmctld read it anew, which hands it to the slurmds, and then a slurmd has it (`seen`).
// first: there was no configuration before, so nobody must be told.
struct td_pool_force_facts {
	bool answers, first, in_force, told, seen;
};
enum td_pool_force td_pool_config_force(const struct td_pool_force_facts *f);
