// The device nodes of virtual nodes' fake GPUs.
#pragma once

#include "oci/oci.h"

#include <stdint.h>

// Device nodes for the mask: character, `major`, minor node·64+i, /dev/tandem-gpu<i>, 0666. Returns how many; out has
// room for 64; paths live in `a`.
size_t td_fakegpu_nodes(uint64_t mask, int node, int major, struct td_arena *a, struct td_oci_device *out);
