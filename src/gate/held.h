// A node whose gate is stuck says so on its Node object (annotation tandem.dev/gate-held); the bridge drains it with
// that reason, and resumes it when the annotation is gone. All state is there and in the gate's table: a restarted
// agent takes it up again.
#pragma once

#include "base/names.h"
#include "gate/gate.h"
#include "kube/controller.h"

#include <pthread.h>

struct td_held {
	struct td_gate *gate; // these three are there before td_held_run, and before the gate serves
	struct td_kube *kube;
	struct td_informer *nodes;
	struct td_queue *queue; // names of nodes
	pthread_mutex_t mu;     // guards late
	uint64_t late;          // nodes whose gate somebody has waited at in vain, until td_held_sync has looked
};
void td_held_init(struct td_held *h, const struct td_clock *clock);
void td_held_done(struct td_held *h);
// Somebody will soon have waited in vain at this node's gate: what td_gate_opts.late says.
void td_held_late(struct td_held *h, int node);
void td_held_on_node(void *held, struct td_object *old, struct td_object *now); // handler of the informer of nodes
int td_held_run(struct td_held *h, struct td_cancel *c, struct td_error *err);  // until cancel
