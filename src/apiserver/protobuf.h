// Bodies in Kubernetes' protobuf (application/vnd.kubernetes.protobuf): kubectl ≥ 1.32 sends them
// from `create …`, `drain` and `create token`. td_protobuf_parse converts them to JSON documents;
// the rest of the server sees only JSON.
#pragma once

#include "json/json.h"

// Parses "k8s\0" and the runtime.Unknown behind it. TD_UNSUPPORTED: a kind for which there is no
// table. TD_INVALID: malformed.
int td_protobuf_parse(const char *p, size_t len, struct td_json **ret, struct td_error *err);
