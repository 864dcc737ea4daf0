// How much the devices of each pod computed: added up as the checks look, told on the pod (condition
// tandem.dev/DevicesUsed, kube/service.h), and at /metrics by service. A pod is told of seldom and ever more seldom, so
// that 10,000 nodes cost the API server some writes a second (docs/operations.md). An agent that starts anew goes on from
// what the pod says. Thread-safe.
#pragma once

#include "gate/useful.h"
#include "kube/informer.h"

// Adds a part of the time of one device, in seconds, to the pod that holds it.
void td_used_add(const char *uid, const struct td_useful_part *p);
// After how long what a pod says is written anew, by how long (ms) it has been added up. Pure.
int64_t td_used_next_ms(int64_t age_ms);
struct td_used_pass {
	struct td_kube *kube;
	const struct td_objects *pods; // all of these nodes: what is not among them is forgotten
	const struct td_clock *clock;
};
// Looks at all of them once: counts by service, and writes what is due.
void td_used_look(const struct td_used_pass *p, struct td_cancel *c);
