// The test of real GPUs, by CUDA's driver, which is loaded at run time: memory is filled and read back, and every
// multiprocessor computes what is known to the last bit. It runs in a process of its own (`tandem gpu-test`), because a
// sick GPU may never answer.
#pragma once

#include "checkup/checkup.h"

// Exit codes of `tandem gpu-test`: nothing was computed; and so it is, because they are parts of GPUs (MIG).
enum { TD_CUDA_NOT_TESTED = 3, TD_CUDA_PARTS = 4 };

struct td_cuda_result {
	char name[64];
	uint64_t memory; // bytes that were written and read back
	uint64_t operations;
	double seconds;
	uint32_t wrong; // cells and chains that were not what they must be
};
struct td_cuda;
// NULL: there is no library, or no driver; err says why. path NULL: libcuda.so.1. The devices are numbered as NVML
// numbers them: CUDA_DEVICE_ORDER is set in this process, and CUDA_VISIBLE_DEVICES taken out.
struct td_cuda *td_cuda_open(const char *path, struct td_error *err);
struct td_cuda *td_cuda_close(struct td_cuda *c);
int td_cuda_count(const struct td_cuda *c);
// The device with this PCI address, as checkup.h has it; below 0: CUDA does not see it. A GPU that is lost has a number
// of NVML's and none of CUDA's, and those behind it have other ones.
int td_cuda_at(const struct td_cuda *c, const char *pci);
// Tests one device for about so long. An error says that it did not even compute: what CUDA says of it.
int td_cuda_test(struct td_cuda *c, int device, int64_t ms, struct td_cuda_result *ret, struct td_error *err);
