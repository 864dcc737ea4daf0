// Devices that a Node's annotation tandem.dev/devices-out takes out of service: what is wrong with them does not
// count as a fault of the node, and root's jobs, those that hold them (bridge/syncer/aside.h) and those that test the
// node, are not tested on them. Of those that the operator holds (tandem.dev/devices-hold) only the last is so: what is
// wrong with them says when they may come back.
#pragma once

#include "checkup/checkup.h"
#include "kube/kube.h"

// Drops the findings about such devices. node NULL: nothing.
void td_out_findings(const struct td_object *node, struct td_checkup_findings *l);
// Those of the mask that are in service. node NULL: all of them.
uint64_t td_out_less(const struct td_object *node, uint64_t mask);
