// What programs that believe to be root ask for, and cannot have: in a user namespace with one user, nobody can become
// another or give a file away. Package managers do both, and stop when it fails.
#pragma once

#include "base/err.h"

// From now on these calls succeed in this process and all that it starts, and do nothing: setuid, setgid and
// their kin, setgroups, and chown and its kin.
int td_ct_pretend(struct td_error *err);
