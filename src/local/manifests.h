// The objects that `up` creates: deploy/embedded.yaml, embedded in the binary.
#pragma once

#include "kube/kube.h"
#include "json/json.h"

// The YAML text of deploy/embedded.yaml, which `tandem up --dry-run -o yaml` prints. Static.
const char *td_manifests_text(size_t *ret_len);
// Applies Tandem's CRDs (server-side apply, manager tandem-up) and creates each manifest object
// that does not exist. Existing objects are left as their users made them.
int td_manifests_apply(struct td_kube *k, struct td_cancel *c, struct td_error *err);
