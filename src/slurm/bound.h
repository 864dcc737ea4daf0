// What binds a job to its place, beside what struct td_slurm_job has of it: whoever would queue a job again
// so that it starts elsewhere looks here first.
#pragma once

#include "slurm/rest.h"

struct td_slurm_bound {
	bool requeue;     // it may be queued again
	bool tied;        // it has a reservation, or is part of a heterogeneous job: others cannot have its place
	bool bound;       // it wants features or a reservation, or is part of a heterogeneous job
	int64_t eligible; // since when it may start, epoch seconds; 0: not known
};
// Where it wants to be, in words. Strings are never NULL.
struct td_slurm_wishes {
	char *features;    // "a&b"
	char *reservation; // its name
	char *reserved;    // the nodes of that
};
void td_slurm_wishes_done(struct td_slurm_wishes *w);
#define td_auto_wishes __attribute__((cleanup(td_slurm_wishes_done)))
// Reads one job, and its reservation.
int td_slurm_job_wishes(struct td_slurm *s, int64_t id, struct td_cancel *c, struct td_slurm_wishes *ret,
			struct td_error *err);
// Reads one job.
int td_slurm_job_bound(struct td_slurm *s, int64_t id, struct td_cancel *c, struct td_slurm_bound *ret,
		       struct td_error *err);
