// Which native jobs are kept apart in the network they share (spec.jobNetwork of a SlurmCluster). Pure.
#pragma once

#include "json/json.h"

enum td_jobnetwork { TD_JOBNETWORK_NONE, TD_JOBNETWORK_USERS, TD_JOBNETWORK_ACCOUNTS };
enum td_jobnetwork td_slurm_jobnetwork(const yyjson_val *cluster);
// Adds problems as "spec.jobNetwork.field: what is wrong; what to write".
void td_slurm_jobnetwork_check(const yyjson_val *cluster, struct td_strv *problems);
