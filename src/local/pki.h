// The certificates, the token key and the kubeconfigs of one home. Idempotent.
#pragma once

#include "local/instance.h"

int td_local_pki(const struct td_instance *i, struct td_error *err);
