// Devices that a Node's annotation tandem.dev/devices-out takes out of service: what is wrong with them does not
// count as a fault of the node, and the job that holds them (bridge/syncer/aside.h) is not tested.
#pragma once

#include "checkup/checkup.h"
#include "kube/kube.h"

// Drops the findings about such devices. node NULL: nothing.
void td_out_findings(const struct td_object *node, struct td_checkup_findings *l);
// Are all devices of the mask out of service?
bool td_out_all(const struct td_object *node, uint64_t mask);
