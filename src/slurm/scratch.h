// Writes what gives each job a /tmp and /dev/shm of its own (spec.scratch): the line of plugstack.conf by which
// slurmstepd loads the plug-in. Pure.
#pragma once

#include "slurm/conf.h"

bool td_slurm_scratch(const yyjson_val *cluster);
// spec.scratch.tmpMax as bytes or a share, "90%". NULL: it is neither.
char *td_slurm_scratch_most(const yyjson_val *cluster);
// Adds the line, where jobs have their own. Problems are added as "spec.scratch.field: what is wrong; what to
// write".
void td_slurm_scratch_files(const yyjson_val *cluster, struct td_slurm_files *ret, struct td_strv *problems);
