// What spec.preemption of a SlurmCluster says to slurmctld: the lines of slurm.conf, and which user
// may name which QOS (programs/job_submit.lua looks at each submit). The rows of the QOS themselves
// are in slurmdbd: slurm/qos.h.
#pragma once

#include "slurm/conf.h"

#define TD_SLURM_QOS_SHADOW "tandem.shadow" // of shadows (spec.shadows): nobody preempts it, and it preempts nobody
bool td_slurm_preempts(const yyjson_val *cluster); // is spec.preemption there?
// True for a key of slurm.conf that follows from spec.preemption, while it is there.
bool td_slurm_preempt_key(const yyjson_val *cluster, const char *key);
// Adds the lines of slurm.conf; nothing without spec.preemption. weighs: the object sets a weight of
// QOS itself.
void td_slurm_preempt_lines(const yyjson_val *cluster, bool weighs, struct td_buf *b);
// Adds every problem of spec.preemption.
void td_slurm_preempt_check(const yyjson_val *cluster, struct td_strv *problems);
// Adds the table that job_submit.lua reads: for each QOS of spec.preemption who may name it. Those as
// whom pods are submitted may name all: what a pod may name is the bridge's to say.
void td_slurm_preempt_lua(const yyjson_val *cluster, struct td_buf *b);
// Seconds of "30s", "5m" or "2h"; 0 for NULL and anything else.
long long td_slurm_preempt_s(const char *s);
