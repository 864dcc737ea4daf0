// Starts the embedded plane of $TANDEM_HOME on this machine.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct td_up_opts {
	// -1: as before; in a new home 4, 16 and 8.
	int nodes, cpus, gpus;
	int real; // the machine's own GPUs, that many, are shared out; 0: GPUs are fake, or as before
	// A quantity. NULL: as before; in a new home 32Gi.
	const char *memory;
	bool no_slurm;
	// The time until all is ready, without that for the images.
	int64_t wait_ms;
};

// Starts or repairs everything, or finds that all of it runs already. Prints its progress and
// errors. Returns the exit code: 0 up, 1 failed.
int td_up(const struct td_up_opts *o);

// Prints the objects that `up` creates, as YAML. Returns the exit code.
int td_up_print_objects(void);
