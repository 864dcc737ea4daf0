// Parser versions of slurmrestd that have one shape: translates the structs of rest.h to their JSON and
// back. Pure: no HTTP here.
#pragma once

#include "slurm/rest.h"
#include "json/json.h"

struct td_slurm_adapter {
	// "v0.0.42", …: what it can read, the one to ask for first in front; ends with NULL.
	const char *const *versions;
	// Request bodies as JSON text. Caller frees.
	char *(*ask_body)(const struct td_slurm_ask *a, bool immediate);
	char *(*job_change_body)(const struct td_slurm_job_change *c);
	char *(*job_end_body)(int64_t id, const char *name, const struct td_slurm_signal *signal);
	char *(*node_change_body)(const char *state, const char *reason);
	char *(*node_features_body)(const char *features, const char *active);
	// Fill *ret, which the caller has zeroed and frees even on failure. TD_INVALID when the
	// value does not match its schema.
	int (*read_job)(const yyjson_val *v, struct td_slurm_job *ret, struct td_error *err);
	int (*read_node)(const yyjson_val *v, struct td_slurm_node *ret, struct td_error *err);
	// False: not a job that has a state of its own (an array task).
	bool (*read_state)(const yyjson_val *v, struct td_slurm_state *ret);
	// The same for every one; its id is that of its record.
	bool (*read_any_state)(const yyjson_val *v, struct td_slurm_state *ret);
};
extern const struct td_slurm_adapter td_slurm_v0042;
