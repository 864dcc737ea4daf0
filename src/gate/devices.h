// Devices of a node: sets of indexes as bit masks (a node has at most 64), and what the annotations of a pod grant of
// them.
#pragma once

#include "base/err.h"
#include "json/json.h"

#include <stdint.h>

#define TD_DEV_MAX 64

// "0-1,4"; "" and "-" are none. TD_INVALID: malformed, or an index that is not below n.
int td_dev_parse(const char *ranges, int n, uint64_t *ret, struct td_error *err);
char *td_dev_format(uint64_t mask); // "0-1,4", "-" for none; caller frees
static inline uint64_t td_dev_all(int n)
{
	return n >= TD_DEV_MAX ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
}

// What a pod may touch on its node.
struct td_grant {
	bool all;     // annotation tandem.dev/all-devices: every device, held by nobody (slurmd)
	bool granted; // annotation tandem.dev/job-id is there: Slurm placed it
	int64_t job, start;
	uint64_t devices; // of tandem.dev/devices
};
int td_grant_read(const yyjson_val *pod, int gpus, struct td_grant *ret, struct td_error *err);
