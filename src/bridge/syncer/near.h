// Where a pod at the gate (entrance.h) may go by what is there already: required affinity and anti-affinity to other pods,
// theirs to it, spread constraints with DoNotSchedule, and the zones of its volumes. What its scheduler only prefers is
// not looked at.
//
// Pods that were promised a node count as if they were there. A namespaceSelector is taken to be all namespaces.
// Of each list of terms the first 32 count, and of the claims the first 64.
// Cost: a walk over the pods of the pod's namespace, and over those anywhere that have a required anti-affinity; with a
// spread constraint over the nodes; with claims two requests for each. A pod without any of these costs the
// second walk only. Then a look-up in a table for each node and term.
#pragma once

#include "bridge/bridge.h"

struct td_near;
// volumes: its claims, too. The result is of this moment; it holds no reference to pod. Caller frees.
int td_near_read(struct td_bridge *b, const struct td_object *pod, bool volumes, struct td_cancel *c,
		 struct td_near **ret, struct td_error *err);
struct td_near *td_near_free(struct td_near *n); // NULL ok
TD_DEFINE_AUTO(struct td_near *, td_near_free)
// *ret_why: static text, when it may not; NULL ok.
bool td_near_fits(const struct td_near *n, const struct td_object *node, const char **ret_why);
// An index of pods: "anti" of those that keep others away.
void td_near_index(const struct td_object *pod, struct td_strv *ret);
