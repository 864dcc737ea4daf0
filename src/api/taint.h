// The taints that the bridge puts on a Node, TD_TAINT_DRAIN and TD_TAINT_DOWN, both NoSchedule
// (docs/api.md). All others are somebody else's and stay.
#pragma once

#include "json/json.h"

bool td_taint_ours(const char *key); // NULL: false
// Adds `spec.taints` to the patch (a merge patch of the Node, which replaces the whole list): the Node's list with
// exactly these of ours. False: it has them already, and the patch is as it was. The patch must name the Node's
// resourceVersion, so that no taint of somebody else is lost.
bool td_taints_set(yyjson_mut_doc *d, yyjson_mut_val *patch, const yyjson_val *node, bool drain, bool down);
// True when the two Nodes have the same taints but for ours.
bool td_taints_same_others(const yyjson_val *a, const yyjson_val *b);
