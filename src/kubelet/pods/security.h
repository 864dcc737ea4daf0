// The user, groups and capabilities of a container: the securityContext of pod and container, over
// the image's user.
#pragma once

#include "json/json.h"

#include <stdint.h>
#include <sys/types.h>

struct td_ident {
	uint32_t uid, gid;
	uint32_t groups[64];
	size_t n_groups;
	struct td_strv caps; // "CAP_CHOWN", …
	bool seccomp;        // the profile RuntimeDefault
	char *seccomp_own;   // of a profile Localhost: its file's name; NULL
	bool privileged, no_new_privileges, read_only_root;
	int umask;      // 0: the runtime's own
	bool sys_admin; // sees its own cgroup, and may write to it
};
void td_ident_done(struct td_ident *i);
#define td_auto_ident __attribute__((cleanup(td_ident_done)))
// Fills *ret. `rootfs`: where user names are looked up, in its /etc/passwd and /etc/group.
// TD_INVALID: runAsNonRoot with uid 0, an unknown user, an unknown capability.
int td_ident_build(const yyjson_val *pod, const yyjson_val *container, const char *rootfs, const char *image_user,
		   struct td_ident *ret, struct td_error *err);
