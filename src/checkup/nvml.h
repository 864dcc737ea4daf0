// The machine's GPUs, by NVIDIA's management library. It is loaded at run time: where it is not there,
// or finds no driver, the machine has no GPUs.
#pragma once

#include "checkup/checkup.h"

struct td_nvml;
// Returns NULL when there is no library or no driver; err says why. path NULL: libnvidia-ml.so.1.
struct td_nvml *td_nvml_open(const char *path, struct td_error *err);
struct td_nvml *td_nvml_close(struct td_nvml *n);
// Fills the GPUs. XIDs come from events; the caller may have others from the kernel's log. now_ms: monotonic.
void td_nvml_read(struct td_nvml *n, int64_t now_ms, struct td_checkup_facts *ret);
// The index of the GPU at that PCI address; -1: none.
int td_nvml_index(struct td_nvml *n, const char *pci);
// How the GPU can be cut, and cutting it (migcut.c): as `kinds` and `cut` of a backend.
int td_nvml_kinds(struct td_nvml *n, int gpu, struct td_mig_kind ret[TD_MIG_KINDS], size_t *ret_n,
		  struct td_error *err);
int td_nvml_cut(struct td_nvml *n, int gpu, const struct td_mig_wish *v, size_t n_v, struct td_error *err);
