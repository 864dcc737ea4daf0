// A site's profiles of system calls (seccomp) on a node: copied from where the kubelet mounts the site's ConfigMap to the
// kubelet's directory of profiles (docs/tenants.md). Only files that the agent has put there are ever changed or removed.
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "base/mem.h"

struct td_profiles {
	const char *from, *to; // directories
	const char *list;      // a file of the agent's own: the names of the files that it has put to `to`
};
// Copies what differs, and removes what `from` has no more. A file of another program's or the site's own, one that is
// no profile, and a name that no Tenant can say stay as they are: a line for each in *left. Nothing is removed when
// `from` cannot be read. Costs a reading of all files.
int td_profiles_sync(const struct td_profiles *p, struct td_strv *left, struct td_error *err);
// Does so every ten seconds, until c fires. Says what is left in the log once.
int td_profiles_run(const struct td_profiles *p, struct td_cancel *c, struct td_error *err);
