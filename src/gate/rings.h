// Tests of several idle nodes together (docs/health.md, idle nodes). The operator asks on the Node that leads
// (TD_ANN_PROBE_TOGETHER); `watch` in its slurmd pod is told of it at its next look, and does it (standin/rings.c). It says
// `rung` before each step, and is refused when somebody has come to one of the nodes that this agent sees; of the others the
// operator takes the wish back. No device is held and nobody waits: what goes on is one exchange of data, some seconds at most.
#pragma once

#include "gate/gate.h"
#include "kube/kube.h"

struct td_gate_rings;
struct td_gate_rings_opts {
	struct td_kube *kube;
	const struct td_clock *clock;
	const char *const *names; // of the nodes
	int n;
};
struct td_gate_rings *td_gate_rings_new(const struct td_gate_rings_opts *o);
struct td_gate_rings *td_gate_rings_free(struct td_gate_rings *r);
// The Node has changed: keeps what is wanted, forgets what is not any more.
void td_gate_rings_on_node(struct td_gate_rings *r, int node, const struct td_object *now);
// Somebody comes to the node.
void td_gate_rings_arrive(struct td_gate_rings *r, int node);
// "ring=ID:KIB:LEAST:PERCENT:n0,n1", once for each test; NULL: none is to begin. The caller frees it.
char *td_gate_rings_ask(struct td_gate_rings *r, int node);
// What `watch` says of it. TD_CONFLICT: it is not to go on. What came of it is written on the Node.
int td_gate_rings_said(struct td_gate_rings *r, int node, const struct td_gate_request *q, struct td_cancel *c,
		       struct td_error *err);
