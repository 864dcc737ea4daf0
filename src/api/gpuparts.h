// One entry of "parts" in the Node annotation TD_ANN_GPU_PARTS (base/names.h).
#pragma once

#include "json/json.h"

struct td_api_part {
	const char *name; // points into the entry
	int size;         // slices of memory, 1 to 32
	uint32_t at;      // a bit for each where it may begin
	int most;         // of them on one GPU; 0: no limit
};
// False: it is none.
bool td_api_part_read(const yyjson_val *entry, struct td_api_part *ret);
