// A SlurmCluster: its phase and conditions, and when a new configuration may be written.
#pragma once

#include "pool/pool.h"

struct td_pool_cluster_facts {
	const char *problem;                   // of its spec, in one line; NULL: none
	bool answers;                          // slurmctld, just now
	bool in_force;                         // the configuration that its spec asks for is the one that is run
	bool was_running;                      // its last phase was Running or Degraded
	long long rest, logins, logins_wanted; // Ready pods
	size_t nodes;                          // of its NodeSets
	long long gpus;                        // that those have
	bool devices_asked;                    // spec.devices names something else than the default
	const char *devices;                   // what was found, in words
};
struct td_pool_cluster_plan {
	const char *phase;
	struct td_pool_condition v[6];
	char logins[80]; // what messages may point into
};
void td_pool_cluster_decide(const struct td_pool_cluster_facts *f, struct td_pool_cluster_plan *ret);

// A first configuration that comes a moment before the nodes would be replaced at once, so it waits for them a little.
// And a slurmctld that is just starting loses a SIGTERM (24.11: seen; its pod then takes the whole grace period to
// end), so it is left alone until it answers.
struct td_pool_config_facts {
	bool exists;     // a configuration is written
	bool same;       // … and it is the wanted one
	size_t nodes;    // that it would hold
	int64_t seen_ms; // for how long we know the cluster
	bool answered;   // slurmctld has answered us
	int64_t ctld_ms; // how old the youngest slurmctld pod is; -1: there is none
};
bool td_pool_config_waits(const struct td_pool_config_facts *f);
// slurmctld runs a configuration that running slurmds do not know yet: they take it over by a reconfigure, once. first:
// there was none before, so there is nobody to tell.
enum td_pool_force { TD_FORCE_NOTHING, TD_FORCE_FIRST, TD_FORCE_RECONFIGURE };
enum td_pool_force td_pool_config_force(bool answers, bool first, bool in_force, bool runs);
