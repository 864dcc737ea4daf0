// What a node's gate says on its Node object: that it is stuck (annotation tandem.dev/gate-held), and who holds
// devices that shall be out of service (tandem.dev/devices-held-by). On the first the
// bridge drains the node with that reason, and resumes it when the annotation is gone. All state is
// in the annotation and in the gate's table, so a restarted agent goes on from there.
#pragma once

#include "base/names.h"
#include "gate/gate.h"
#include "kube/controller.h"

#include <pthread.h>

struct td_held {
	// The caller sets these three before td_held_run and before the gate serves.
	struct td_gate *gate;
	struct td_kube *kube;
	struct td_informer *nodes;

	struct td_queue *queue; // names of nodes
	pthread_mutex_t mu;     // guards late
	uint64_t late;          // nodes where a wait is about to fail; td_held_run looks at them
};
void td_held_init(struct td_held *h, const struct td_clock *clock);
void td_held_done(struct td_held *h);
// Somebody's wait at this node's gate is about to fail. For td_gate_opts.late.
void td_held_late(struct td_held *h, int node);
// Handler for the informer of nodes.
void td_held_on_node(void *held, struct td_object *old, struct td_object *now);
// Keeps the annotations until cancel.
int td_held_run(struct td_held *h, struct td_cancel *c, struct td_error *err);
