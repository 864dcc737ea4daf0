// What an agent shows of its nodes' devices at /metrics: what the checks read, and who holds each device.
#pragma once

#include "gate/gate.h"
#include "gate/nodehealth.h"

struct td_telemetry {
	struct td_nodehealth *health;
	struct td_gate *gate;
	// The pod with that uid; NULL: it is not known. The caller unrefs it.
	struct td_object *(*pod)(void *ctx, const char *uid);
	// The Node of that name; NULL: it is not known. The caller unrefs it.
	struct td_object *(*node)(void *ctx, const char *name);
	void *ctx;
};
// /metrics shows these from now on; t NULL: no more, and nobody uses the last ones when it returns. Copies t.
void td_gate_telemetry(const struct td_telemetry *t);
enum { TD_TELEMETRY_NAME = 254 };
// The Tenant of a holder on that node, by its Slurm account: that of the pod's grant, or what Prolog said of a native job.
// An account that is no Tenant's is called by its own name. "": it is not known.
void td_telemetry_tenant(const struct td_holder *h, const char *node, char ret[TD_TELEMETRY_NAME]);
