// Bodies in Kubernetes' protobuf (application/vnd.kubernetes.protobuf): kubectl ≥ 1.32 sends them from `create …`,
// `drain`, `create token`. They become JSON documents at the door; nothing behind it knows the difference.
#pragma once

#include "json/json.h"

// "k8s\0", then runtime.Unknown. TD_UNSUPPORTED: a kind that has no table; TD_INVALID: malformed.
int td_protobuf_parse(const char *p, size_t len, struct td_json **ret, struct td_error *err);
