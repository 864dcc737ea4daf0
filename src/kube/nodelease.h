// The sign of life of a Node that has no kubelet: a Lease in kube-node-lease, which the node controller reads.
#pragma once

#include "kube/kube.h"

// Renews the Lease of a Node, or makes it: it goes with the Node. label, value: one label of a Lease that is made; label
// may be NULL.
int td_kube_node_beat(struct td_kube *k, const struct td_object *node, const char *label, const char *value,
		      struct td_cancel *c, struct td_error *err);
