// Devices of the pool that pods of other schedulers have, where spec.shadows lends them some (pool/lend.h decides).
//
// On virtual nodes the pod waits until root's jobs (aside.h) hold as many devices for it as it asks for; the bridge
// then tells it which, in its annotation tandem.dev/shadow-devices, and its kubelet takes these and no others. Where
// devices are given by ResourceClaims others have chosen them, and these are held.
#pragma once

#include "bridge/bridge.h"
#include "pool/lend.h"

struct td_lend {
	struct td_objects there;      // pods of others on the node; holds references
	struct td_pool_lend_pod *v;   // all of them: a pod that is left out loses its devices. Owned
	const struct td_object **pod; // of v; they point into `there`. Owned
	size_t n;
	struct td_pool_lend sum;
};
// Reads who has devices of the node, or waits for some. An error: it is not known, and nothing may be let go.
int td_lend_read(struct td_bridge *b, const struct td_settings *s, const struct td_object *node, struct td_lend *ret,
		 struct td_cancel *c, struct td_error *err);
void td_lend_done(struct td_lend *l);
// How many devices of virtual nodes this pod has from Slurm, or waits for. 0: none.
int64_t td_lend_wants(struct td_bridge *b, const struct td_settings *s, const struct td_object *node,
		      const struct td_object *pod);
// Tells a pod its devices. job, start: of the job that was made last of those that hold them (gate/table.h).
// TD_CONFLICT: it has changed since it was read.
int td_lend_tell(struct td_bridge *b, const struct td_settings *s, const struct td_object *pod, uint64_t devices,
		 const int64_t job_start[2], struct td_cancel *c, struct td_error *err);
