// The kubelet's last check, whoever bound the pod: does the pod fit on its node? Pure.
#pragma once

#include "json/json.h"

#include <stdbool.h>
#include <stdint.h>

struct td_pod_admit {
	// Granted by Slurm? Then the pod counts against the whole node, otherwise against what
	// Slurm's share (an annotation of the node) leaves.
	bool granted;
	int64_t cpu_milli, memory; // of the node
	int pods;
	// Sums over the admitted pods of the same sort (granted or not).
	int64_t used_cpu_milli, used_memory;
	int used_pods; // number of admitted pods of both sorts
	int64_t want_cpu_milli, want_memory;
};
// Returns NULL if the pod fits, otherwise the reason ("OutOfcpu") and a message (caller frees).
const char *td_pod_admit(const struct td_pod_admit *x, const yyjson_val *node, char **ret_message);
// Of a pod that does not fit: may it wait there until Slurm has given its room up to it (spec.shadows)?
bool td_pod_awaits_shadow(const struct td_pod_admit *x, const yyjson_val *node);
// Does a shadow hold devices for pods of this namespace, which may wait for them?
bool td_pod_awaits_devices(const yyjson_val *node, const char *ns);
// Number of GPUs in Slurm's share of the node: devices 0 … n-1 are Slurm's.
int td_kubelet_slurm_gpus(const yyjson_val *node, const char *resource);
