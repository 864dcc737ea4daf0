// Writes topology.conf (topology.conf(5)) from where nodes are. Pure.
//
// Every node of the cluster is in it, because Slurm 24.11 runs nothing on a node that a topology does not
// name: those without labels are in a switch of their own. Trees only: slurmctld 24.11 does not start with
// topology/block while a block's nodes have not registered (fatal "children count lower than
// bblock_node_cnt"), and Tandem's nodes register by themselves; their slurmds do not start with it at all (S-G9).
#pragma once

#include "base/mem.h"
#include "json/json.h"

#include <stddef.h>

enum { TD_SLURM_LEVELS = 4 };

// Where a node is: the values of the labels, the widest first ("b0", "r1"). NULL: it lacks the label.
struct td_slurm_place {
	const char *node, *at[TD_SLURM_LEVELS];
};

// Does spec.topology.type want one?
bool td_slurm_topology(const yyjson_val *cluster);
// The labels, the widest first. Problems are added as "spec.topology.field: what is wrong; what to write".
void td_slurm_topology_labels(const yyjson_val *cluster, struct td_strv *ret, struct td_strv *problems);
// topology.conf. levels: how many of at[] count. It has a switch for each place of the narrowest level, and above
// them one for each wider place. The order of the places does not matter. The caller frees it.
char *td_slurm_topology_conf(const struct td_slurm_place *places, size_t n, size_t levels);
