// What accelerators a virtual node has (accel/accel.h). A home's hardware/<node>/ is what the node sees of its machine:
// what is found below its sys/ is its own, else it has fake GPUs. Their device nodes are fake all the same.
#pragma once

#include "accel/accel.h"
#include "accel/gds.h"
#include "checkup/checkup.h"
#include "kubelet/kubelet.h"
#include "kubelet/pods/volumes.h"
#include "oci/oci.h"

// Where a node's machine is looked at: with real GPUs they all share this one (""). Caller frees.
char *td_kubelet_machine(const struct td_kubelet *a, int node);
// Looks at all nodes, and writes for the TaskProlog of their jobs which variables they have.
int td_kubelet_accels_open(struct td_kubelet *a, struct td_error *err);
void td_kubelet_accels_close(struct td_kubelet *a);
// What was found on a node; NULL: nothing, its GPUs are fake or NVML's.
const struct td_accel_found *td_kubelet_accel(const struct td_kubelet *a, int node);
// What a node has where GPUs are cut in parts (MIG; its file hardware/<node>/mig, or the machine itself); NULL: none is.
const struct td_checkup_facts *td_kubelet_parts(const struct td_kubelet *a, int node);
// What a node has of GPUDirect Storage; NULL: not all that it takes.
const struct td_gds *td_kubelet_gds(const struct td_kubelet *a, int node);
enum { TD_KUBELET_GDS_FILES = TD_GDS_FILES };
// Fills `out` with its device files; on virtual nodes they are fake. Returns how many. The paths live in `arena`.
size_t td_kubelet_gds_devices(const struct td_kubelet *a, int node, struct td_arena *arena, struct td_oci_device *out);
// Adds what its library reads of the machine, read-only, where nothing else is mounted: /run/udev, /etc/cufile.json.
int td_kubelet_gds_mounts(const struct td_kubelet *a, int node, struct td_arena *arena, struct td_mounts *ret,
			  struct td_error *err);
// What its pods ask for: "nvidia.com/gpu".
const char *td_kubelet_resource(const struct td_kubelet *a, int node);
// The other resources that a node of this home may have had before. Caller frees.
void td_kubelet_resources_not(const struct td_kubelet *a, int node, struct td_strv *ret);
