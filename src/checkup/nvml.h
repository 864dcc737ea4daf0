// The machine's GPUs, by NVIDIA's management library. It is loaded at run time: where it is not there,
// or finds no driver, the machine has no GPUs.
#pragma once

#include "checkup/checkup.h"

struct td_nvml;
// Returns NULL when there is no library or no driver; err says why. path NULL: libnvidia-ml.so.1.
struct td_nvml *td_nvml_open(const char *path, struct td_error *err);
struct td_nvml *td_nvml_close(struct td_nvml *n);
// Fills the GPUs. XIDs come from events; the caller may have others from the kernel's log.
void td_nvml_read(struct td_nvml *n, struct td_checkup_facts *ret);
// The index of the GPU at that PCI address; -1: none.
int td_nvml_index(struct td_nvml *n, const char *pci);
