// The groups of a SlurmCluster: spec.groups, and who is in them (spec.users[].groups). Pure.
#pragma once

#include "base/mem.h"
#include "json/json.h"

// Appends a line of /etc/group for sudo and for each of spec.groups, with its members. Adds the
// numbers of the latter to ret_gids: no user's own group gets such a line. Problems are added as
// td_slurm_files_make does.
void td_slurm_groups(const yyjson_val *cluster, struct td_buf *group, struct td_strv *ret_gids,
		     struct td_strv *problems);
