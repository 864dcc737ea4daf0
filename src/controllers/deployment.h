// One look at a Deployment, shared by its two files: deployment.c acts, deployment_status.c writes
// the status.
#pragma once

#include "controllers/ctl.h"

#define CTL_DESIRED "deployment.kubernetes.io/desired-replicas"
#define CTL_MAX "deployment.kubernetes.io/max-replicas"

struct roll {
	struct ctl *c;
	struct td_object *d;   // borrowed
	struct td_object *now; // the ReplicaSet of the current template, or NULL
	struct td_objects old; // other ReplicaSets, oldest first
	long long want, surge, unavailable;
	bool rolling, paused;
	// made: `now` was created in this round. found: `now` exists, and no condition tells of it
	// yet.
	bool made, found;
	bool changed;     // something was scaled in this round
	char failed[256]; // why `now` cannot be made; "": no failure
	struct td_cancel *cancel;
};
struct ctl_deployment_pods {
	struct ctl *c;
	struct td_queue *queue;
};
long long ctl_rs_spec(const struct td_object *rs); // spec.replicas; 0 if rs is NULL
// Writes the status. *again_ms: when the progress deadline has to be looked at. *ret_complete: the
// rollout is complete.
int ctl_deployment_status(struct roll *x, int64_t *again_ms, bool *ret_complete, struct td_error *err);
