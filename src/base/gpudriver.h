// Where the files of NVIDIA's driver are: libraries that belong to the kernel module of this machine, so every container
// that computes on a GPU needs the machine's own, whatever its image brings.
#pragma once

#include "base/mem.h"

// The directory of libcuda.so.1: $TANDEM_DRIVER says it, else by the loader's cache, else one of the usual. root: "" for the machine's own. NULL:
// there is none. The caller frees it.
char *td_gpu_driver_dir(const char *root);
// Appends the driver's libraries for computing (no graphics) below dir: each name that they have, and beside it the
// file itself.
void td_gpu_driver_files(const char *dir, struct td_strv *names, struct td_strv *files);
// Appends the driver's programs, as above: nvidia-smi and those of MPS, beside the libraries' directory or in /usr/bin.
void td_gpu_driver_programs(const char *dir, struct td_strv *names, struct td_strv *files);
// Directories in which the loader of a container looks without being told, the best first. NULL ends it.
extern const char *const td_gpu_driver_places[];
