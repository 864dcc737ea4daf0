// The device nodes and variables of virtual nodes' fake devices: GPUs, or what a tree of sysfs says (accels.h).
#pragma once

#include "accel/accel.h"
#include "checkup/checkup.h"
#include "oci/oci.h"
#include "json/json.h"

#include <stdint.h>

enum {
	TD_FAKEGPU_NODES = 64 * (TD_ACCEL_FILES + 1) + TD_ACCEL_SHARED, // device nodes of one container at most
	TD_FAKEGPU_CAPS = 256,                                          // capability files of a node
};

// Fills `out` with the character devices of each bit i of `mask`: /dev/tandem-gpu<i>, or the files of f (NULL: fake
// GPUs), `major`, minor node·64 + i, mode 0666; and those that all devices of f share. Returns the number of devices.
// The paths live in `a` or in f.
size_t td_fakegpu_nodes(const struct td_accel_found *f, uint64_t mask, int node, int major, struct td_arena *a,
			struct td_oci_device *out);
// The same for a node with parts of GPUs (MIG): a part's files are its GPU's, which all its parts have, and its own two.
size_t td_fakegpu_parts(const struct td_checkup_facts *f, uint64_t mask, int node, int major, struct td_arena *a,
			struct td_oci_device *out);
// Both variables have the UUIDs there, because CUDA knows a part by nothing else.
void td_fakegpu_parts_env(const struct td_checkup_facts *f, uint64_t mask, struct td_strv *env);
// Sets what programs and container runtimes read. CUDA_VISIBLE_DEVICES counts the container's devices from 0,
// NVIDIA_VISIBLE_DEVICES has their indexes on the node; other vendors' as their description says. Without devices an
// image's own word for all of them becomes that for none ("void").
void td_fakegpu_env(const struct td_accel_found *f, uint64_t mask, struct td_strv *env);
