// The device nodes of virtual nodes' fake GPUs.
#pragma once

#include "oci/oci.h"

#include <stdint.h>

// Fills `out` with one character device per bit i of `mask`: /dev/tandem-gpu<i>, `major`, minor
// node·64 + i, mode 0666. Returns the number of devices. `out` has room for 64; the paths live in
// `a`.
size_t td_fakegpu_nodes(uint64_t mask, int node, int major, struct td_arena *a, struct td_oci_device *out);
