// What programs that believe to be root ask for, and cannot have: in a user namespace with one user, nobody can become
// another or give a file away. Package managers do both, and stop when it fails.
#pragma once

#include "base/err.h"

// From now on these calls succeed in this process and all that it starts, and do nothing: setuid, setgid and
// their kin, setgroups, and chown and its kin.
int td_ct_pretend(struct td_error *err);
// Leaves the calling process nothing to do but to wait, to tell so, and to end; anything else ends it, and so does
// computing for more than 10 s. For the holder of a container: its user may trace it, and it is outside of his job's
// limits and devices.
int td_ct_only_wait(struct td_error *err);
