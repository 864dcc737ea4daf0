// Machines that a cluster autoscaler could still make (spec.autoscale.node of a NodeSet, docs/autoscale.md), as nodes of
// slurm.conf that are down and never come: Slurm refuses a job that fits on no node that it knows, and looks at no state
// when it asks that. Pure.
#pragma once

#include "base/err.h"
#include "json/json.h"

enum { TD_SLURM_TO_COME = 1024 };               // of one NodeSet
#define TD_SLURM_TO_COME_FEATURE "machine.none" // by which their records are known

// How many such nodes the NodeSet has; 0: it does not say what a machine is like.
size_t td_slurm_to_come(const yyjson_val *set);
// Adds a line "spec.…: what; fix" for every problem of the field.
void td_slurm_to_come_check(const yyjson_val *set, struct td_strv *problems);
// The line of slurm.conf of the NodeSet's. NULL: it has none. Only what has passed the NodeSet's schema and check goes in.
// The caller frees it.
char *td_slurm_to_come_line(const yyjson_val *set);
// How much one has: CPUs, and memory in MB. False: it does not say so, or wrongly.
bool td_slurm_to_come_size(const yyjson_val *set, long long *ret_cpus, long long *ret_memory_mb);
// Adds the types of its GPUs, where it says them.
void td_slurm_to_come_types(const yyjson_val *set, struct td_strv *ret);
// True when a record's features are those of such a node.
bool td_slurm_is_to_come(const char *features);
