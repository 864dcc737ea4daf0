// The names of resources in a Tenant's quotas, and Slurm's names of them. Pure.
#pragma once

#include "json/json.h"

// Slurm's name of a resource: "cpu"; "mem" of memory; "gres/gpu" of gpu, or of nvidia.com/gpu where
// spec.scheduler.gresMap of the SlurmCluster says so; "gres/gpu:h100" of gpu:h100. The caller frees
// *ret_tres. TD_INVALID: the cluster has no such resource; err names those that it has.
// cluster NULL: what it has is not known, and nothing is refused but a name with "/".
int td_slurm_resource(const yyjson_val *cluster, const char *resource, char **ret_tres, struct td_error *err);
