// What `tandem up` waits for, in this order. Each: 0; TD_CANCELLED; TD_TRANSIENT, with words for people, when it takes
// too long or has become pointless, because a `down` came or what keeps the roles up died.
#pragma once

#include "kube/kube.h"
#include "local/instance.h"

struct td_start {
	struct td_kube *kube;
	const struct td_instance *instance;
	pid_t supervise;  // of this start: the API of another may have other keys
	int64_t since_ms; // wall clock: what was said before is not of this start; 0: it ran already
	int64_t end_ms;   // monotonic; the API has a deadline of its own
	struct td_cancel *cancel;
};
int td_start_api(const struct td_start *s, struct td_error *err);
int td_start_nodes(const struct td_start *s, struct td_error *err);
// What the NodeSet's status said before the last `down` is not so any more: says so, until the operator has looked.
int td_start_forget_slurm(const struct td_start *s, struct td_error *err);
int td_start_slurm(const struct td_start *s, struct td_error *err);
// Of anything else that failed with r: the same words when that is why, else r and its error as they are.
int td_start_failed(const struct td_start *s, int r, struct td_error *err);
