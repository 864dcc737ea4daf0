// What spec.accounting of a SlurmCluster says to Slurm's daemons: the lines of slurm.conf that lead
// to slurmdbd. slurmdbd.conf itself is in conf.h.
#pragma once

#include "slurm/conf.h"

bool td_slurm_accounting(const yyjson_val *cluster); // is it on?
// True for a key of slurm.conf that follows from spec.accounting, while it is on.
bool td_slurm_accounting_key(const yyjson_val *cluster, const char *key);
// Does it hold jobs to the limits of accounts?
bool td_slurm_limits_enforced(const yyjson_val *cluster);
// The account of pods that are no tenant's.
const char *td_slurm_open_account(const yyjson_val *cluster);
// Adds the lines of slurm.conf; nothing when it is off.
void td_slurm_accounting_lines(const yyjson_val *cluster, struct td_buf *b);
// Adds every problem of spec.accounting.
void td_slurm_accounting_check(const yyjson_val *cluster, struct td_strv *problems);
