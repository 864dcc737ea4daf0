// Writes topology.conf (topology.conf(5)) from where nodes are. Pure.
//
// Every node of the cluster is in it, because Slurm 24.11 runs nothing on a node that a topology does not
// name: those without labels are in a switch, or a block, of their own.
//
// Blocks, and nodes that register by themselves: slurmctld 24.11 does not start while a block has fewer nodes that
// it knows than the smallest block size (S-G8), and neither does slurmd, which knows no other node of that kind but its
// own (S-G9). So slurm.conf has as many nodes that never come (State=FUTURE: no job, list or command shows them), and
// every block has them too (S-G12).
#pragma once

#include "base/mem.h"
#include "json/json.h"

#include <stddef.h>

enum {
	TD_SLURM_LEVELS = 4,
	TD_SLURM_BLOCK_MAX = 4096,
	TD_SLURM_BLOCK_TIMES = 1 << 15, // a size beyond so many times the first is fatal (S-G12)
};
#define TD_SLURM_FILL "tandem-none-" // the nodes that never come: this and a number from 1 on

// Where a node is: the values of the labels, the widest first ("b0", "r1"). NULL: it lacks the label.
struct td_slurm_place {
	const char *node, *at[TD_SLURM_LEVELS];
};

// Does spec.topology.type want one?
bool td_slurm_topology(const yyjson_val *cluster);
// Are there blocks, not a tree?
bool td_slurm_topology_blocks(const yyjson_val *cluster);
// The smallest block size: spec.topology.blockSizes' first, else the number of nodes in the largest block. It is the
// most that --segment may be, and so many nodes never come.
size_t td_slurm_block_size(const yyjson_val *cluster, const struct td_slurm_place *places, size_t n, size_t levels);
// The name of the block that a node of these labels is in. NULL: in none but `elsewhere`. The caller frees it.
char *td_slurm_block_of(const struct td_slurm_place *p, size_t levels);
// Where a node's labels say that it is: at[] of *ret points into the node. labels: td_slurm_topology_labels().
void td_slurm_place_read(const yyjson_val *node, const struct td_strv *labels, struct td_slurm_place *ret);
// The labels, the widest first. Problems are added as "spec.topology.field: what is wrong; what to write".
void td_slurm_topology_labels(const yyjson_val *cluster, struct td_strv *ret, struct td_strv *problems);
// topology.conf. levels: how many of at[] count. It has a switch for each place of the narrowest level, and above
// them one for each wider place. The order of the places does not matter. The caller frees it.
char *td_slurm_topology_conf(const struct td_slurm_place *places, size_t n, size_t levels);
// The same with blocks: one for each place of the narrowest level; neighbours in the wider levels come one after the
// other, because larger block sizes join neighbours. A last size joins all, so that `scontrol show topology` shows the
// nodes that Slurm has placed (topology.sh).
char *td_slurm_blocks_conf(const yyjson_val *cluster, const struct td_slurm_place *places, size_t n, size_t levels);
