// Machines that run slurmd themselves (spec.hosts of a NodeSet), as the operator and `tandem host` both
// read them. Pure.
#pragma once

#include "base/err.h"
#include "json/json.h"

enum { TD_SLURM_HOSTS = 4096 }; // in one NodeSet

// True when the NodeSet is one of such machines: it has the field, even when that names none.
bool td_slurm_host_set(const yyjson_val *set);
// Fills ret, which must be empty, with their names, each once. TD_INVALID says what cannot be read; ret has all the others.
int td_slurm_hosts(const yyjson_val *set, struct td_strv *ret, struct td_error *err);
bool td_slurm_host_in(const yyjson_val *set, const char *name);
// Adds a line "spec.…: what; fix" for every problem of the field and of those beside it.
void td_slurm_hosts_check(const yyjson_val *set, struct td_strv *problems);
// Returns what the machine's slurmd tells slurmctld of it (--conf). Only what has passed the NodeSet's schema
// and check goes in. The caller frees it.
char *td_slurm_host_conf(const yyjson_val *set, long long cpus, long long memory_mb);
