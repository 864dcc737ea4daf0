// Writes what puts native jobs under their project's filter of system calls (Tenant spec.seccompProfile): the line of
// plugstack.conf by which slurmstepd loads the plug-in. Pure.
#pragma once

#include "slurm/conf.h"

// Projects have accounts where there is accounting; elsewhere nothing is added.
void td_slurm_filter_files(const yyjson_val *cluster, struct td_slurm_files *ret);
