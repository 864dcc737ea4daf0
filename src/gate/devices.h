// Devices of a node as sets of indexes in a bit mask (a node has at most 64), and the devices that
// a pod's annotations grant.
#pragma once

#include "base/err.h"
#include "json/json.h"

#include <stdint.h>

#define TD_DEV_MAX 64

// Reads "0-1,4"; "" and "-" are the empty set. TD_INVALID: malformed, or an index is not below n.
int td_dev_parse(const char *ranges, int n, uint64_t *ret, struct td_error *err);
char *td_dev_format(uint64_t mask); // "0-1,4", "-" for none; caller frees
static inline uint64_t td_dev_all(int n)
{
	return n >= TD_DEV_MAX ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
}

// What a pod may use on its node.
struct td_gate_grant {
	bool all;     // annotation tandem.dev/all-devices (slurmd): every device, held by nobody
	bool granted; // annotation tandem.dev/job-id is there: Slurm placed the pod
	int64_t job, start;
	uint64_t devices; // of tandem.dev/devices
	int share;        // of each of them, in hundredths; 0: they are its alone
};
// Reads a pod's annotations. TD_INVALID names the one that cannot be read.
int td_gate_grant_read(const yyjson_val *pod, int gpus, struct td_gate_grant *ret, struct td_error *err);
