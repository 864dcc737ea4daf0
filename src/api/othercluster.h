// spec.otherCluster of a NodeSet: its nodes are another Kubernetes cluster's (docs/other-cluster.md).
#pragma once

#include <stdbool.h>
#include <yyjson.h>

bool td_api_other_cluster(const yyjson_val *nodeset);
// What it says of a claim of that namespace here; NULL: nothing. Points into the NodeSet.
const yyjson_val *td_api_other_claim(const yyjson_val *nodeset, const char *ns, const char *claim);
