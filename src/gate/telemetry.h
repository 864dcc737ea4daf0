// What an agent shows of its nodes' devices at /metrics: what the checks read, and who holds each device.
#pragma once

#include "gate/gate.h"
#include "gate/nodehealth.h"

struct td_telemetry {
	struct td_nodehealth *health;
	struct td_gate *gate;
	// The pod with that uid; NULL: it is not known. The caller unrefs it.
	struct td_object *(*pod)(void *ctx, const char *uid);
	void *ctx;
};
// /metrics shows these from now on; t NULL: no more, and nobody uses the last ones when it returns. Copies t.
void td_gate_telemetry(const struct td_telemetry *t);
// The Slurm account of a holder: that of the pod's grant, or what Prolog said of a native job; "": it is not known.
void td_telemetry_account(const struct td_holder *h, char ret[64]);
