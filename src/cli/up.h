// tandem up --kubeconfig: Tandem on an existing cluster.
#pragma once

#include "cli/apply.h"

#include <stdint.h>

struct td_cli_up_opts {
	const char *kubeconfig, *image, *ns; // NULL: not given
	struct td_cli_agents agents;
	int64_t wait_ms; // for each step
};

// Installs Tandem, makes a first Slurm cluster, waits until Slurm has the nodes, and prints what to
// try. Returns the exit code.
int td_cli_up(const struct td_cli_up_opts *o);
