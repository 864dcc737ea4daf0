// spec.fabric of a SlurmCluster: what a node's network is called, as variables of the jobs and pods there. Pure.
#pragma once

#include "slurm/hostlist.h"
#include "json/json.h"

// One variable on one node.
struct td_slurm_variable {
	const char *name; // points into the spec
	char *value;
	bool per_device; // a list, the i-th for the device of index i
};
struct td_slurm_variables {
	struct td_slurm_variable v[32];
	size_t n;
};
void td_slurm_variables_done(struct td_slurm_variables *l);
#define td_auto_variables __attribute__((cleanup(td_slurm_variables_done)))
// Finds the variables of a node, from its labels and annotations. fabric: spec.fabric, may be NULL. What a node does not
// say, or says in other characters than a name of the network has, is left out: there the variable is not set.
void td_slurm_fabric_read(const yyjson_val *fabric, const yyjson_val *node, struct td_slurm_variables *ret);
// The value for who has these devices: with per_device theirs, each once. NULL: none. The caller frees it.
char *td_slurm_variable_value(const struct td_slurm_variable *v, const struct td_ranges *devices);
// Adds every problem of spec.fabric.
void td_slurm_fabric_check(const yyjson_val *cluster, struct td_strv *problems);
// Appends a node's lines of the table that task-prolog.sh reads: "NODE NAME VALUE", or "NODE NAME @ VALUE" per device.
void td_slurm_fabric_lines(const yyjson_val *cluster, const yyjson_val *node, struct td_buf *ret);
