// Networks of their own for gangs and sessions (docs/tenants.md, "A network of its own").
//
// The pods of one carry the label tandem.dev/private-network, which the bridge writes before the
// Binding; a NetworkPolicy of the same name lets them in from each other and from nobody else. It is
// made before the first Binding, so no pod of it starts without; it belongs to those who made the
// pods, and goes with them. A Tenant's own policy (operator/templates/tenant.yaml) lets nobody out of
// such a network into its other pods.
#pragma once

#include "bridge/scheduler/run.h"

enum { TD_PRIVATE_ID = 17 };
// The id of the pod's network. gang: "<namespace>/<name>", NULL: it is in none. False: it has none of its own.
bool td_private_id(const struct td_settings *s, const struct td_object *pod, const char *gang, char ret[TD_PRIVATE_ID]);
// Where Tandem is: the namespaces of the SlurmCluster and of the bridge, whose gateways reach sessions.
struct td_private_place {
	const char *cluster, *own; // own NULL: the same
};
// The NetworkPolicy of a network, whose pods these are, for an apply. live: as it is; NULL: it is not there.
// True: live has all of it already.
bool td_private_policy(yyjson_mut_doc *d, const char *id, const struct td_object *const *pods, size_t n,
		       const struct td_private_place *place, const struct td_object *live);
// Makes the policy of the run's pod, or of all pods of its gang, unless r->net says that it is made; then fills r->net.
int td_private_make(struct td_bridge_run *r, struct td_error *err);
// Writes the label of r->net on this version of the pod, unless it is there; without a network takes away one that was
// written when it had one. *ret: the version that has it, a
// reference; NULL: nothing was written. TD_CONFLICT: there is a newer one.
int td_private_label(struct td_bridge_run *r, const struct td_object *pod, struct td_object **ret,
		     struct td_error *err);
