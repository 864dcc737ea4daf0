// The partitions of a SlurmCluster: spec.partitions, and spec.resourceGroups, each of which is a
// partition of its name that holds its NodeSets alone.
//
// Slurm itself keeps accounts off a group's partition (AllowAccounts, which holds for what is below an
// account too). job_submit.lua refuses by name, at the submit, what Slurm would let wait for ever, and
// is the only guard where single users have the group: Slurm has no such list.
#pragma once

#include "slurm/conf.h"

// Adds the lines NodeSet= and PartitionName=, and every problem of them.
void td_slurm_partitions_lines(const yyjson_val *cluster, const struct td_slurm_facts *f, struct td_buf *b,
			       struct td_strv *problems);
// Adds every problem of spec.resourceGroups that is not one of a single line.
void td_slurm_partitions_check(const yyjson_val *cluster, struct td_strv *problems);
// Adds the tables that job_submit.lua reads: who may use which group, and what the default partition is.
void td_slurm_partitions_lua(const yyjson_val *cluster, const struct td_slurm_facts *f, struct td_buf *b);
// The partition of jobs that name none; NULL: Slurm has none.
const char *td_slurm_default_partition(const yyjson_val *cluster);
