// A SlurmCluster: its phase and conditions, and when a new configuration may be written or put in
// force.
#pragma once

#include "pool/pool.h"

struct td_pool_cluster_facts {
	const char *problem; // of its spec, in one line; NULL: none
	bool answers;        // slurmctld answered just now
	bool in_force;       // the configuration that its spec asks for runs

	bool was_running;                      // its last phase was Running or Degraded
	long long rest, logins, logins_wanted; // slurmrestd and login pods that are Ready
	size_t nodes;                          // in its NodeSets
	long long gpus;                        // of those nodes
	bool devices_asked;                    // spec.devices does not name the default
	const char *devices;                   // the devices that were found, in words
};
struct td_pool_cluster_plan {
	const char *phase;
	struct td_pool_condition v[6]; // messages point into the facts and into `logins`
	char logins[80];
};
// Fills *ret, which must not be moved or copied afterwards.
void td_pool_cluster_decide(const struct td_pool_cluster_facts *f, struct td_pool_cluster_plan *ret);

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

enum td_pool_force { TD_FORCE_NOTHING, TD_FORCE_FIRST, TD_FORCE_RECONFIGURE };
// Says how running slurmds learn of a configuration that slurmctld runs (`runs`) and that is not in
// force yet: by one reconfigure. first: there was no configuration before, so nobody must be told.
enum td_pool_force td_pool_config_force(bool answers, bool first, bool in_force, bool runs);
