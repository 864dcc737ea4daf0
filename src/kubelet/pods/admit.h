// Does a pod fit on its node? The kubelet's last check, whoever bound the pod. Pure.
#pragma once

#include "json/json.h"

#include <stdbool.h>
#include <stdint.h>

struct td_pod_admit {
	bool granted; // by Slurm: counted against the node, else against what Slurm's share (annotation) leaves
	int64_t cpu_milli, memory; // the node's
	int pods;
	int64_t used_cpu_milli, used_memory; // of the pods of the same sort that are there
	int used_pods;                       // of all
	int64_t want_cpu_milli, want_memory;
};
// NULL: it fits. Else the reason ("OutOfcpu") and a message (caller frees).
const char *td_pod_admit(const struct td_pod_admit *x, const yyjson_val *node, char **ret_message);
int td_slurm_gpus(const yyjson_val *node); // of the share annotation: devices 0 … n-1 are Slurm's
