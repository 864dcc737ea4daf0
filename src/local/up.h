// Starts the embedded plane of $TANDEM_HOME on this machine.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct td_up_opts {
	int nodes, cpus, gpus; // -1: as before; of a new home 4, 16, 8
	const char *memory;    // a quantity; NULL: as before, of a new home 32Gi
	bool no_slurm;
	int64_t wait_ms; // for each step
};

// Starts, repairs, or finds that all runs already; prints its progress and errors. Returns the exit code: 0 up, 1
// failed.
int td_up(const struct td_up_opts *o);

// Prints the objects that `up` creates, as YAML. Returns the exit code.
int td_up_print_objects(void);
