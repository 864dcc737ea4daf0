// The embedded roles and their command lines. supervise starts, restarts and adopts them; `status`
// shows them.
#pragma once

#include "local/instance.h"

struct td_local_role {
	const char *name;
	struct td_strv argv; // argv[0] is the tandem binary
};
// The roles in start order. The caller frees them with td_roles_done().
size_t td_roles(const struct td_instance *i, const char *self, struct td_local_role **ret);
void td_roles_done(struct td_local_role *v, size_t n);
char *td_local_role_pidfile(const struct td_instance *i, const char *role);
// Starts the roles of $TANDEM_HOME from this binary and keeps them running until SIGTERM. Returns
// the exit code.
int td_supervise_keep(const char *tandem);
// The path of our own binary (/proc/self/exe). The caller frees it.
char *td_self_path(void);
