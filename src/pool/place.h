// How large the placeholder of a node is to be: the pod that shows kube-scheduler what native jobs hold.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct td_pool_place { // CPU in m; memory in bytes, whole MiB
	int64_t milli, memory;
};
// native: what native jobs hold. now: what the placeholder asks for. left: what all other pods of the node leave,
// those too that are on their way. It grows into what is left only: a kubelet would put off what goes beyond, and
// might take it from a pod that comes. *ret_cut: native jobs hold more.
struct td_pool_place td_pool_place_for(struct td_pool_place native, struct td_pool_place now, struct td_pool_place left,
				       bool *ret_cut);
// A pod is to have its room first: no larger than what it leaves.
struct td_pool_place td_pool_place_shrunk(struct td_pool_place now, struct td_pool_place left);
// Does a pod have room that leaves `left`, where a kubelet may count that much for the placeholder?
bool td_pool_place_fits(struct td_pool_place counted, struct td_pool_place left);
