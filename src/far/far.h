// Another Kubernetes cluster whose nodes are nodes of this pool: a NodeSet with spec.otherCluster (docs/other-cluster.md).
//
// A link per NodeSet is what a kubelet is for a node of one's own, for all nodes that its nodeSelector selects there. It
// makes a Node here for each of them, with what pool/far.h says that it offers, and keeps the Node's Lease as long as the
// other cluster answers. A pod that the bridge has bound to such a Node gets its copy there; how the copy is, is shown on
// the pod. All state is in the two APIs: the copy's name is made of the pod's UID, its labels say whose it is, and after a
// restart every copy and every pod is looked at again. The operator's leader runs the links.
//
// Cost: a watch of all nodes and one of all pods there, a watch of the pods here with the NodeSet's label and one of its
// Nodes; a Lease per node each 10 s; a small request there each 5 s; three or four writes here and two there per pod; a
// read here each 15 s per ConfigMap or Secret in use, and two requests there when it has changed.
//
// Files
//   far.h links.c     the links of all NodeSets: they begin and end as these do
//   link.[ch]         one link: its clients, caches, workers and its clock
//   node.c            the Nodes here
//   pod.c             one pod and its copy
//   refs.[ch]         the ConfigMaps and Secrets that a pod names, and their names there (pure)
//   sources.c         these themselves: they go along, follow, and are removed
//   copy.[ch]         the copy of a pod: what may go there, and what is made of it (pure)
//   face.[ch] who.c   logs, exec, attach and port-forward of the copies, as a kubelet serves them, and who may
//   config.c          the kubeconfig in a Secret
#pragma once

#include "kube/controller.h"

struct td_far;
// What a NodeSet wants. Strings are copied.
struct td_far_want {
	struct td_object *set;
	int64_t reserve_milli,
		reserve_memory; // of each node: what Slurm does not give out (its SlurmCluster's spec.reserve)
};
// Where logs, exec, attach and port-forward of pods there are served, as a kubelet serves those of its node.
struct td_far_streams {
	// "unix:PATH": to an API server that has asked who may; "ADDR:PORT": to one that comes as it comes to kubelets.
	// NULL: nowhere.
	const char *listen;
	const char *address; // of ADDR:PORT, as the Nodes say it: an IP address or a DNS name; NULL with unix:
	const char *pki;     // a directory with tls.crt and tls.key; without these they are made there
};
// streams outlives it.
struct td_far *td_far_new(struct td_kube *here, struct td_recorder *events, const struct td_far_streams *streams);
// Begins the links that are wanted and not there, changes those that differ, and ends those that are not wanted: a link
// whose NodeSet is gone first removes its pods there and its Nodes here. Blocks for the time of a few requests per link
// that begins or ends.
void td_far_sync(struct td_far *f, const struct td_far_want *v, size_t n, struct td_cancel *c);
// What is wrong with the link of a NodeSet, in one line; NULL: nothing. The caller frees it. Any thread.
char *td_far_problem(struct td_far *f, const char *ns, const char *set);
struct td_far *td_far_free(struct td_far *f); // ends the links; their pods and Nodes stay. NULL ok

// ---- config.c ----

// Makes a client of a kubeconfig that somebody wrote into a Secret. TD_INVALID names the field that is missing or that
// names a file or a program of this machine: these are ours, not his.
int td_far_client(const char *kubeconfig, size_t len, struct td_kube **ret, struct td_error *err);
