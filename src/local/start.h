// What `tandem up` waits for, in this order. Each function returns 0, TD_CANCELLED, or TD_TRANSIENT
// with a message for people: the step took too long, or it has become pointless because a `down`
// came or the supervise died.
#pragma once

#include "kube/kube.h"
#include "local/instance.h"

struct td_local_start {
	struct td_kube *kube;
	const struct td_instance *instance;
	// The supervise of this start. The API of another one may have other keys.
	pid_t supervise;
	// Wall clock: reports from before this time are not about this start; 0: it ran already.
	int64_t since_ms;
	int64_t end_ms; // monotonic; the API has its own deadline
	struct td_cancel *cancel;
};
// Waits until the API server is ready. When time is up, err holds the server's last logged error.
int td_local_start_api(const struct td_local_start *s, struct td_error *err);
// Waits until as many nodes as the instance has are Ready and have renewed their Leases.
int td_local_start_nodes(const struct td_local_start *s, struct td_error *err);
// Resets the counts in the NodeSet's status, which are from before the last `down`, until the
// operator has looked.
int td_local_start_forget_slurm(const struct td_local_start *s, struct td_error *err);
// Waits until Slurm has all nodes, be they idle, allocated or drained.
int td_local_start_slurm(const struct td_local_start *s, struct td_error *err);
// For any other failure r: when the supervise has ended, that is the reason, and err says so.
// Otherwise r and err stay as they are.
int td_local_start_failed(const struct td_local_start *s, int r, struct td_error *err);
