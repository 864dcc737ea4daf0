// Nodes that come on demand, in slurm.conf.
#pragma once

#include "slurm/conf.h"

// Writes the keys of Slurm's power saving, but for those that the object has (user: its slurmConf). Without
// NodeSets on demand: nothing.
void td_slurm_on_demand_lines(const yyjson_val *user, const struct td_slurm_facts *f, struct td_buf *b);
// True when the NodeSet is on demand: only partitions and groups that name it have it.
bool td_slurm_on_demand(const struct td_slurm_facts *f, const char *set);
