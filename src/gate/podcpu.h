// CPU time of the pods of sessions on this node, at /metrics, by which gateways know those that do nothing
// (gateway/session_agents.c). It is read from the node's cgroups when somebody asks, so nobody needs a right at
// the kubelet. Other pods are not shown: a node with none of sessions pays nothing.
//
// Where a device plug-in gives GPUs, the kubelet is asked which ones a session's pod has (podres.h), and what they do is
// shown, too.
#pragma once

#include "checkup/checkup.h"
#include "kube/informer.h"

struct td_podcpu {
	struct td_informer *pods; // of this node
	const char *cgroups;      // as td_cg_pod_cpu() takes it
	const char *resources;    // the kubelet's socket of pod-resources; NULL: it is not asked
	// The GPUs of the node as they are now. False: they are not known.
	bool (*facts)(void *ctx, struct td_checkup_facts *ret);
	void *ctx;
	struct td_cancel *cancel; // ends a wait for the kubelet
};
// /metrics shows them from now on; NULL: no more, and nobody uses the last one when it returns. Copies p.
void td_podcpu_show(const struct td_podcpu *p);
