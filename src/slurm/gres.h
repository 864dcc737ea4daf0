// What Slurm is told of the types of GPUs: gres.conf, what is counted, and which types there are. Pure.
#pragma once

#include "slurm/conf.h"

// Writes gres.conf. The caller frees it.
char *td_slurm_gres_conf(const struct td_slurm_facts *facts);
// Every type once, sorted.
void td_slurm_gres_types(const struct td_slurm_facts *facts, struct td_strv *ret);
// AccountingStorageTRES: "gres/gpu,gres/gpu:h100". The caller frees it.
char *td_slurm_gres_tres(const struct td_slurm_facts *facts, const char *ours);
// Writes the tables tandem_gpu_types (of machines that may be made, too) and, where GPUs are cut on demand,
// tandem_gpu_cuts, which job_submit.lua reads.
void td_slurm_gres_lua(const struct td_slurm_facts *facts, struct td_buf *ret);
