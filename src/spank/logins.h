// Credentials for registries, from the files that users of enroot and Docker have. Pure.
#pragma once

#include "base/err.h"
#include "base/mem.h"

// What enroot calls a machine for this registry: docker.io's is auth.docker.io.
// text: enroot's .credentials ("machine HOST login USER password SECRET", as in .netrc). Returns an
// authentication file as skopeo reads it, or NULL: there is nothing for this registry. The caller frees it.
char *td_ct_logins_netrc(const char *text, const char *registry);
