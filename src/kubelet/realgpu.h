// The machine's own NVIDIA GPUs on virtual nodes (`tandem up --gpus real`). They are shared out once, in NVML's order:
// with N for each node, node k has the machine's GPUs k·N to k·N+N-1, so no two nodes have the same one.
#pragma once

#include "checkup/checkup.h"
#include "kubelet/pods/volumes.h"
#include "oci/oci.h"

enum { TD_REALGPU_NODES = 3 * 64 + 8 }; // device nodes of one container at most

struct td_realgpu;
// TD_NOT_FOUND: NVML finds no GPUs.
int td_realgpu_new(int each, struct td_realgpu **ret, struct td_error *err);
struct td_realgpu *td_realgpu_free(struct td_realgpu *r);
int td_realgpu_count(const struct td_realgpu *r, int node);
// Fills `out` with the device files of the node's GPUs of mask: /dev/nvidia<minor>, the same as /dev/tandem-gpu<i>, by
// which Slurm counts them, and the driver's own. Returns how many. The paths live in `a`.
size_t td_realgpu_nodes(const struct td_realgpu *r, uint64_t mask, int node, struct td_arena *a,
			struct td_oci_device *out);
// CUDA_VISIBLE_DEVICES counts from 0, NVIDIA_VISIBLE_DEVICES has the GPUs' UUIDs.
void td_realgpu_env(const struct td_realgpu *r, uint64_t mask, int node, struct td_strv *env);
// Adds the driver's libraries and programs, where the loader and the shell of this root find them.
int td_realgpu_mounts(const struct td_realgpu *r, const char *rootfs, struct td_arena *a, struct td_mounts *ret,
		      struct td_error *err);
// The health of one node's GPUs: what the machine says, and on top what its file of faults injects.
struct td_checkup_backend td_realgpu_backend(struct td_realgpu *r, int node, const char *faults);
