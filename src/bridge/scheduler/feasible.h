// On which nodes a pod may run, remembered by what of a pod counts for it (its nodeSelector, affinity, tolerations and
// other cluster; whether it asks for whole GPUs). What is remembered counts for one td_bridge.feas_gen and one set of
// Slurm's nodes. Thread-safe.
#pragma once

#include "bridge/bridge.h"

struct td_feasibles *td_feasibles_new(void);
struct td_feasibles *td_feasibles_free(struct td_feasibles *f);
// What of the pod counts, as text, with the status.autoscale of the SlurmCluster, which may be NULL. NULL: it is too long to
// be remembered. Caller frees.
char *td_feasible_kind(const struct td_object *pod, bool whole, const yyjson_val *sets);
// May the pod run on a machine that is to be made? Nothing is known of it but its size, and which taints its NodeSet
// tolerates (set: of the SlurmCluster's status.autoscale; NULL: not known): who names labels or nodes, or tolerates less,
// waits for one that is there.
bool td_feasible_to_come(const struct td_object *pod, const yyjson_val *set);
// For each node of l: may such a pod run there? NULL: not known. Caller frees.
bool *td_feasible_known(struct td_feasibles *f, const char *kind, uint64_t gen, const struct td_slurm_nodes *l);
// v has room for one more than l has nodes. gen: as it was before v was computed.
void td_feasible_learn(struct td_feasibles *f, const char *kind, uint64_t gen, const struct td_slurm_nodes *l,
		       const bool *v);
