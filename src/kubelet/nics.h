// The RDMA adapters of a virtual node, which its hardware/<node>/ shows, or the machine itself with real GPUs. Whoever was
// granted one by Slurm gets its device files; these are fake, as those of GPUs are, where the GPUs are not real.
#pragma once

#include "checkup/checkup.h"
#include "kubelet/kubelet.h"
#include "oci/oci.h"

// Of all adapters of a node, and the one that they share.
enum { TD_KUBELET_NIC_FILES = (int)TD_NICS * (int)TD_NIC_FILES + 1 };

// How many adapters of a node have device files.
int td_kubelet_nics(const struct td_kubelet *a, int node);
// Device files, and where their paths live. v has room for TD_KUBELET_NIC_FILES.
struct td_kubelet_nic_files {
	struct td_arena *arena;
	struct td_oci_device *v;
	size_t n;
};
// Fills `ret` with the device files of some adapters. names: "mlx5_0,mlx5_1"; NULL: of all of them. mask: which of the
// names. TD_NOT_FOUND: the node has no such adapter (any more).
int td_kubelet_nics_devices(const struct td_kubelet *a, int node, const char *names, uint64_t mask,
			    struct td_kubelet_nic_files *ret, struct td_error *err);
