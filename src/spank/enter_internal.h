// The inside of a container's mount namespace.
#pragma once

#include "spank/enter.h"

// Called in the new namespaces: mounts everything and makes it the root. tree: the image, a mount that
// is nowhere yet.
int td_ct_root_make(const struct td_ct_enter *e, int tree, struct td_error *err);
