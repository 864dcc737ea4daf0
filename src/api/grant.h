// The devices of a grant, as annotation TD_ANN_DEVICES says them: {"nvidia.com/gpu":"0-1","share":"50"}. Besides the
// share each key is a resource, and its value the indexes of its devices.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <yyjson.h>

// The hundredths of each device, 1 to TD_GPU_UNITS. 0: none are said, so the devices are its alone; below 0: what is said
// is none.
int td_api_grant_share(const yyjson_val *devices);
bool td_api_grant_is_share(const yyjson_val *key); // of an entry: it names no devices
bool td_api_grant_is_gpus(const yyjson_val *key);  // of an entry: neither that, nor are its indexes of network adapters
// Which of a pod's devices one of its containers gets: as many of the resource as it asks for, the lowest first, in
// the order of the spec. What an ordinary init container had, later ones have again; a sidecar keeps
// its own (as td_api_pod_request counts).
uint64_t td_api_grant_part(uint64_t mask, const yyjson_val *pod_spec, const char *container, const char *resource);
