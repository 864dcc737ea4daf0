// CPU time of the pods of sessions on this node, at /metrics, by which gateways know those that do nothing
// (gateway/session_agents.c). It is read from the node's cgroups when somebody asks, so nobody needs a right at
// the kubelet. Other pods are not shown: a node with none of sessions pays nothing.
#pragma once

#include "kube/informer.h"

struct td_podcpu {
	struct td_informer *pods; // of this node
	const char *cgroups;      // as td_cg_pod_cpu() takes it
};
// /metrics shows them from now on; NULL: no more, and nobody uses the last one when it returns. Copies p.
void td_podcpu_show(const struct td_podcpu *p);
