// Code that the users' commands share.
#pragma once

#include "kube/kube.h"
#include "local/instance.h"

// Loads the instance and connects to its API as admin. On failure it prints the reason and returns
// non-zero.
int td_cli_open(const char *cmd, struct td_instance *ret_i, struct td_kube **ret_k);
