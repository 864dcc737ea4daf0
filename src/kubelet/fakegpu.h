// The device nodes of virtual nodes' fake GPUs.
#pragma once

#include "oci/oci.h"
#include "json/json.h"

#include <stdint.h>

// Fills `out` with one character device per bit i of `mask`: /dev/tandem-gpu<i>, `major`, minor
// node·64 + i, mode 0666. Returns the number of devices. `out` has room for 64; the paths live in
// `a`.
size_t td_fakegpu_nodes(uint64_t mask, int node, int major, struct td_arena *a, struct td_oci_device *out);
// Which of a pod's devices one of its containers gets: as many as it asks for, the lowest first, in
// the order of the spec. What an ordinary init container had, later ones have again; a sidecar keeps
// its own (as td_api_pod_request counts).
uint64_t td_fakegpu_share(uint64_t mask, const yyjson_val *pod_spec, const char *container);
// Sets what CUDA programs and container runtimes read: CUDA_VISIBLE_DEVICES counts the container's
// devices from 0, NVIDIA_VISIBLE_DEVICES has their indexes on the node. Without devices an image's
// own NVIDIA_VISIBLE_DEVICES becomes "void".
void td_fakegpu_env(uint64_t mask, struct td_strv *env);
