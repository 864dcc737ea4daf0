// Tests of idle nodes (docs/health.md, idle nodes). The operator asks on the Node (TD_ANN_PROBE), the agent tests in a
// thread of the node's own and says there what came of it (TD_ANN_PROBED). No Slurm job is needed, so nobody waits for one
// to be preempted: who comes ends the test at once. td_gate_probes_arrive() is called when a claim is in the table, before
// the gate lets anybody in, and at the start of each task, and the gate stays shut until no process of the test is left; a
// native job without devices is seen when the bridge says so on the Node, seconds later.
//
// A test that was ended says so, and is asked for again when the node has been idle for as long as before. What it finds of
// the devices is a finding like that of a test before a job. An agent that starts anew does no test that was
// begun: one that brings the machine down is not done again and again.
#pragma once

#include "gate/preflight.h"

struct td_gate_probes;
struct td_gate_probes_opts {
	struct td_kube *kube;
	struct td_informer *nodes;
	struct td_gate *gate;
	struct td_preflight *preflight;
	const struct td_clock *clock;
	const char *state;        // a directory on the node's disk
	const char *const *names; // of the nodes
	int n;
	// How many devices the node has; 0: none, or not known yet.
	int (*devices)(void *ctx, int node);
	// A device was found to be bad.
	void (*found)(void *ctx, int node);
	void *ctx;
};
struct td_gate_probes *td_gate_probes_new(const struct td_gate_probes_opts *o);
struct td_gate_probes *td_gate_probes_free(struct td_gate_probes *p); // ends those that go on
// The Node has changed: begins what is asked for, ends what is not to go on.
void td_gate_probes_on_node(struct td_gate_probes *p, int node, const struct td_object *now);
// Somebody comes: true when no test goes on there. Waits 2 s at most, for one whose processes do not die.
bool td_gate_probes_arrive(struct td_gate_probes *p, int node);
// The same for somebody who takes no device: its end is not waited for.
void td_gate_probes_beside(struct td_gate_probes *p, int node);
