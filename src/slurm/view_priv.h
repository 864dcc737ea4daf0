// The view's own parts.
#pragma once

#include "slurm/view.h"

#include <pthread.h>

struct td_slurm_watched {
	int64_t job;
	uint64_t states;
	int64_t unwanted_ms; // since when nobody wants it; 0: it is wanted
	// The round in which the watch began. The reply of that round may say nothing about the
	// job.
	uint64_t since;
	bool asked; // polled in the present round
};
struct td_slurm_view {
	pthread_mutex_t lock;       // guards all below
	struct td_slurm_watched *v; // sorted by job
	size_t n, cap;
	uint64_t round; // of the polls of jobs
	struct td_slurm_snapshot *snap;
	struct td_slurm_nodes_pace nodes; // of the thread that polls them, as the next four
	struct td_slurm_list_pace paced;
	struct td_slurm_pace lists; // how long they took
	int64_t due_ms;             // mono: no list before
	size_t cursor;              // of the nodes that are read in turn
	struct td_strv hints;       // nodes that may have changed
	uint64_t stir;
	size_t waiting; // other jobs that wait, and the fingerprint of their ids
	uint64_t print;
	size_t others[TD_PHASE_FLAG]; // jobs that are not watched, by phase
	struct td_slurm_states last;  // they, sorted, as of the last poll of those that wait
	bool listed;                  // there was one
};
