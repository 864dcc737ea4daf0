// The inside of a container's mount namespace.
#pragma once

#include "spank/enter.h"

// Mounts that are nowhere yet, made by root: the image, and the job's own directories. -1: there is none.
enum { TD_CT_TREE, TD_CT_TMP, TD_CT_VAR_TMP, TD_CT_SHM, TD_CT_N_GIVEN };

// Called in the new namespaces: mounts everything and makes it the root.
int td_ct_root_make(const struct td_ct_enter *e, const int given[TD_CT_N_GIVEN], struct td_error *err);
