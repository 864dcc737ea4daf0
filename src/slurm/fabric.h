// spec.fabric of a SlurmCluster: what a node's network is called, as variables of the jobs and pods there. Pure.
#pragma once

#include "slurm/hostlist.h"
#include "json/json.h"

// One variable on one node.
struct td_slurm_variable {
	const char *name; // points into the spec
	char *value;
	bool per_device; // a list, the i-th for the device of index i
	char *prefix;    // per_device: comes before it; NULL: nothing
	char *every;     // per_device: the list for who has no devices; NULL: there the variable is not set
	bool per_nic;    // per_device, and the devices are the adapters that Slurm gives out
};
struct td_slurm_variables {
	struct td_slurm_variable v[40];
	size_t n;
};
void td_slurm_variables_done(struct td_slurm_variables *l);
#define td_auto_variables __attribute__((cleanup(td_slurm_variables_done)))
// Does spec.fabric set variables; is something made of the adapters that agents find? cluster: the SlurmCluster.
bool td_slurm_fabric(const yyjson_val *cluster);
bool td_slurm_fabric_finds(const yyjson_val *cluster);
// Finds the variables of a node, from its labels and annotations, and from the adapters that its agent found (slurm/nics.h).
// With spec.fabric.planes.gpu those that NCCL, Gloo, UCX and Open MPI read are among them, unless the spec has its own.
// fabric: spec.fabric, may be NULL. What a node does not say, or says in other characters than a name of the network has,
// is left out: there the variable is not set.
void td_slurm_fabric_read(const yyjson_val *fabric, const yyjson_val *node, struct td_slurm_variables *ret);
// The value for who has these devices and adapters (indexes of Slurm's): with per_device theirs, each once, or what is of
// no device for who has none. NULL: none. The caller frees it.
char *td_slurm_variable_value(const struct td_slurm_variable *v, const struct td_ranges *devices,
			      const struct td_ranges *nics);
// Adds every problem of spec.fabric.
void td_slurm_fabric_check(const yyjson_val *cluster, struct td_strv *problems);
// Appends a node's lines, "WHO NAME VALUE", or per device "WHO NAME @PREFIX LIST", with one more list where those without
// devices have one. Of adapters that Slurm gives out it is %PREFIX in the place of @PREFIX, and each word of
// the list has before it the number of its device file, "4/mlx5_0": tasks know theirs by these.
void td_slurm_fabric_lines(const char *who, const yyjson_val *cluster, const yyjson_val *node, struct td_buf *ret);
// The table that task-prolog.sh reads: "NODE #KIND" for each node that has variables, then the lines of each kind.
// Nodes of one kind share its lines, because a ConfigMap holds 1 MiB and these are some hundred bytes. All zero: empty.
struct td_slurm_fabric_table {
	struct td_buf nodes, lines;
	struct td_slurm_fabric_kind *kinds;
};
void td_slurm_fabric_add(struct td_slurm_fabric_table *t, const yyjson_val *cluster, const yyjson_val *node);
char *td_slurm_fabric_text(const struct td_slurm_fabric_table *t); // the caller frees it
void td_slurm_fabric_done(struct td_slurm_fabric_table *t);
#define td_auto_fabric __attribute__((cleanup(td_slurm_fabric_done)))
