// What `tandem status` says of a node that is rebooted by Tandem just now. Pure.
#pragma once

#include "kube/kube.h"

// "node n0 is rebooting (NodeAction heal-n0-1): …", with Slurm's own daemons that are there and so away;
// NULL: no act has it rebooted now. The caller frees it.
char *td_cli_rebooting(const struct td_objects *actions, const struct td_objects *pods, const char *node);
