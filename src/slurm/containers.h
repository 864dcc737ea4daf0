// Writes what turns on containers in jobs (spec.containers): plugstack.conf, by which Slurm loads the plug-in,
// and containers.conf, which the nodes read (src/spank/settings.h). Pure.
#pragma once

#include "slurm/conf.h"

bool td_slurm_containers(const yyjson_val *cluster);
// The name of its pull secret. cluster NULL: it is not there yet, but is called `name`. The caller frees it.
char *td_slurm_pull_secret(const yyjson_val *cluster, const char *name);
// Bytes of "200Gi", "1.5Ti" or "1000000". -1: it is none.
long long td_slurm_bytes(const char *size);
// Adds both files, where containers are turned on. The site's own plugstack.conf, if it was added before, keeps
// its lines behind ours. Problems are added as "spec.containers.field: what is wrong; what to write".
void td_slurm_containers_files(const yyjson_val *cluster, struct td_slurm_files *ret, struct td_strv *problems);
