// What is seen of the pods of an agent's nodes: how much their devices computed (used.h), and pods that make no progress
// (docs/health.md): this looks at those of its nodes that the HealthPolicy names, or that ask
// for it themselves, and says in the condition tandem.dev/Hangs what it sees. The bridge decides whether the job of
// the pod hangs, because a gang hangs only as a whole (bridge/scheduler/hang.c). What was seen before is not durable:
// an agent that starts anew waits from then on.
#pragma once

#include "gate/gate.h"
#include "gate/nodehealth.h"
#include "kube/informer.h"

#include <sys/types.h>

struct td_podhangs_signs {
	int64_t cpu_us; // that its processes have used; -1: not known
	int64_t output; // anything that changes when it writes; -1: not known
};
struct td_podhangs {
	struct td_kube *kube;
	struct td_informer *pods, *nodes;
	struct td_gate *gate;
	struct td_nodehealth *health; // what the devices do
	const struct td_clock *clock;
	// What a pod that runs on this node shows.
	void (*look)(void *ctx, int node, const struct td_object *pod, struct td_podhangs_signs *ret);
	// Opens the newest log of that container, in which the pod may say its beats (podbeats.h). -1: there is none.
	int (*log)(void *ctx, const struct td_object *pod, const char *container);
	// Lists the processes of its containers, at most max. Returns how many.
	size_t (*pids)(void *ctx, const struct td_object *pod, pid_t *v, size_t max);
	// In which functions they are (podframes.h), or what was missing; "": nothing to say. NULL: nobody knows.
	void (*frames)(void *ctx, const struct td_object *pod, char *ret, size_t size);
	void *ctx;
};
// Looks at them until the cancel has fired.
int td_podhangs_run(const struct td_podhangs *h, struct td_cancel *c, struct td_error *err);
