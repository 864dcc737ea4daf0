// Adapters of the network for pods on a real kubelet (docs/network.md): a device plug-in of its for tandem.dev/nic.
//
// A kubelet asks a plug-in for devices without saying which pod they are for, so the plug-in gives places ("place-7") and no
// devices. Before a container starts, the kubelet says so (PreStartContainer): now the pod-resources socket tells whose
// container has the place, and the pod's annotations which adapters Slurm gave it. Their device files are written down as a
// CDI device of the place's name, which the container runtime reads when it makes the container. What Slurm did not give,
// or what an earlier pod still has, is refused there: the kubelet tries again.
#pragma once

#include "checkup/checkup.h"
#include "gate/podres.h"
#include "kube/informer.h"

enum { TD_NICPLUG_PLACES = 64 };
struct td_nicplug {
	const char *plugins, *resources; // the kubelet's directory of plug-ins; its socket of pod-resources
	const char *cdi;                 // a directory of CDI that the container runtime reads
	struct td_informer *pods;        // of this node
	// The adapters of the node as they are now. False: they are not known.
	bool (*facts)(void *ctx, struct td_checkup_facts *ret);
	void *ctx;
	unsigned made; // how often a socket was made for the kubelet; its own, read and written atomically
};
// Serves until cancel, across restarts of the kubelet.
int td_nicplug_run(struct td_nicplug *p, struct td_cancel *c, struct td_error *err);
// Tells the kubelet of it, each time a socket was made. A thread of its own: while it is told, a kubelet asks back.
int td_nicplug_register(struct td_nicplug *p, struct td_cancel *c, struct td_error *err);

// ---- pure ----

// The adapters, of those that the pod was granted, of one of its containers. TD_DENIED: it was given none, or fewer than its
// container asks for, or it ends.
int td_nicplug_names(const yyjson_val *pod, const char *container, struct td_strv *ret, struct td_error *err);
// Who has a place: the adapter, and the pod's uid.
struct td_nicplug_for {
	const char *nic, *uid;
};
// The CDI spec of a place with that adapter. shared: with the file that all adapters share. TD_NOT_FOUND: the node has no
// such adapter (any more).
int td_nicplug_spec(const char *place, const struct td_nicplug_for *who, const struct td_checkup_facts *f, bool shared,
		    char **ret, struct td_error *err);
// Does the pod with this uid, which the kubelet gave a place, have the adapter by the place's spec? Before its own is
// written, that of the pod before lies there, and says nothing of it. uid NULL: the pod is not known, so it may.
bool td_nicplug_has(const yyjson_val *spec, const char *uid, const char *nic);
