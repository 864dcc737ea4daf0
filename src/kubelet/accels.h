// What accelerators a virtual node has (accel/accel.h). A home's hardware/<node>/ is what the node sees of its machine:
// what is found below its sys/ is its own, else it has fake GPUs. Their device nodes are fake all the same.
#pragma once

#include "accel/accel.h"
#include "kubelet/kubelet.h"

// Looks at all nodes, and writes for the TaskProlog of their jobs which variables they have.
int td_kubelet_accels_open(struct td_kubelet *a, struct td_error *err);
void td_kubelet_accels_close(struct td_kubelet *a);
// What was found on a node; NULL: nothing, its GPUs are fake or NVML's.
const struct td_accel_found *td_kubelet_accel(const struct td_kubelet *a, int node);
// What its pods ask for: "nvidia.com/gpu".
const char *td_kubelet_resource(const struct td_kubelet *a, int node);
// The other resources that a node of this home may have had before. Caller frees.
void td_kubelet_resources_not(const struct td_kubelet *a, int node, struct td_strv *ret);
