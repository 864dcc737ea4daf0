// tandem node admit and dismiss: machines that run their own slurmd (host.h).
#pragma once

#include "cli/remote.h"

struct td_cli_hosts {
	struct td_remote remote;
	const char *nodeset, *login; // one of both: NAMESPACE/NAME of the NodeSet, or of a SlurmCluster
	const char *output;
	bool wait; // of dismiss: until they are out
};
bool td_cli_hosts_verb(const char *word);
// hosts: a hostlist. Returns the exit code.
int td_cli_hosts_run(const struct td_cli_hosts *q, const char *verb, const char *hosts);
