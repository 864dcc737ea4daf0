// What the users' commands share: the home, a Kubernetes client, usage errors.
#pragma once

#include "kube/kube.h"
#include "local/instance.h"

// Loads the instance and connects as admin. On failure it has printed why and returns non-zero.
int td_cli_open(const char *cmd, struct td_instance *ret_i, struct td_kube **ret_k);
