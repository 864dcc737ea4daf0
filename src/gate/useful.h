// What devices do with their time, added up at /metrics: the part of "yield" that only telemetry knows. Slurm's
// history knows what jobs held and how they ended (`tandem usage --yield`), not whether a device computed.
#pragma once

#include "checkup/checkup.h"
#include "gate/gate.h"

struct td_jobuse;
struct td_useful {
	int64_t at_ms;          // of the last look, monotonic; 0: none
	struct td_jobuse *jobs; // NULL: they are not kept; else it outlives this
};
// A look at one node: since the last one its devices were free, or held and busy (by NVML's use), or held and idle, or
// held with a use that is not known. gate NULL: nothing is added up.
void td_useful_look(struct td_useful *u, struct td_gate *gate, int node, const struct td_checkup_facts *f,
		    int64_t now_ms);
// The share of a device's time by its use in percent (below 0 or lost: not known): each adds up to 1. Pure.
struct td_useful_part {
	double free, busy, idle, unknown;
};
struct td_useful_part td_useful_split(bool held, const struct td_checkup_gpu *gpu);
