// What the files of this room share. No other room includes it.
#pragma once

#include "base/proc.h"
#include "oci/oci.h"
#include "json/json.h"

struct td_oci {
	char *state_dir, *pods_dir, *cgroup, *init_path, *self_path, *runc;
	// Console sockets and pid files of execs. It lies beside state_dir, which holds nothing but
	// runc's own directories.
	char *exec_dir;
	// Where sandboxes with a user namespace mount the root, each in its own mount namespace: runc opens the
	// path as the container's root, who may not pass the containers' own directories.
	char *root_dir;
	bool v2;
	unsigned next_exec; // atomic
};

// ---- paths and time (oci.c) ----
bool td_oci_id_ok(const char *id);
// Returns <pods_dir>/<id>[/<file>]; file may be NULL. The caller frees it.
char *td_oci_pod_path(const struct td_oci *r, const char *id, const char *file);
int64_t td_oci_mono_ms(void);
// Reads field 22 of /proc/PID/stat (the start time) and the state letter. False: there is no such
// process.
bool td_oci_proc_stat(pid_t pid, uint64_t *ret_start, char *ret_state);
// Appends the last error of a runc JSON log, or else the plain text `out`, as one line; never
// empty.
void td_oci_runc_words(const char *log_path, const char *out, struct td_buf *ret);
// Runs runc with --root and a JSON log; argv is without "runc". TD_INVALID: runc exited with
// another code than 0; the message has runc's words.
int td_oci_runc(const struct td_oci *r, const char *const *argv, int64_t timeout_ms, struct td_cancel *c,
		struct td_error *err);
// Reaps `pid` when it is a dead child of this process, the subreaper of containers and execs.
void td_oci_reap(pid_t pid);

// ---- spawn.c ----
// Runs argv (argv[0] is a path) to its end, in a session of its own, with fds[i] as descriptor i
// (-1: /dev/null) and no other descriptor. *ret_status is the exit code, or 128 + the signal.
// TD_CANCELLED, or TD_TRANSIENT at the deadline: the child and its process group were killed.
int td_oci_spawn_wait(char *const argv[], const int *fds, int n_fds, int64_t timeout_ms, struct td_cancel *c,
		      int *ret_status, struct td_error *err);
// Moves fd to a number of 10 or above, with CLOEXEC, and closes fd. Descriptors in `fds` must be
// that high, so that none is overwritten while they are put in place.
int td_oci_high_fd(int fd);
int td_oci_pipe(int *ret_r, int *ret_w, struct td_error *err); // the write end is high

// ---- config.c ----
int td_oci_config_write(const struct td_oci *r, const struct td_oci_spec *s, const char *path, struct td_error *err);

// ---- seccomp.c ----
// Adds the default filter of system calls to the configuration.
void td_oci_seccomp(yyjson_mut_doc *d, yyjson_mut_val *linux_, const struct td_oci_spec *s);
// Adds one of the site's own.
void td_oci_seccomp_own(yyjson_mut_doc *d, yyjson_mut_val *linux_, const yyjson_val *profile);

// ---- cgroup.c ----
bool td_oci_cgroup_detect_v2(void);
bool td_oci_cgroup_has_swap_limit(bool v2);
// Adds the existing directories <mount>/<cgroup>[/<id>] of each hierarchy (v2 has one).
void td_oci_cgroup_paths(const struct td_oci *r, const char *id, struct td_strv *ret);
int64_t td_oci_cgroup_oom_kills(const struct td_oci *r, const char *id); // 0 when unknown
int td_oci_cgroup_tell(const struct td_oci *r, const char *id, int sig);
bool td_oci_cgroup_busy(const struct td_oci *r, const char *id, const char *sub);
// Sends SIGKILL to every process below until none is left. TD_TRANSIENT: some survive `timeout_ms`.
int td_oci_cgroup_kill_all(const struct td_oci *r, const char *id, int64_t timeout_ms, struct td_error *err);
// Removes the cgroup directories, deepest first. id NULL: all of this runtime.
int td_oci_cgroup_remove(const struct td_oci *r, const char *id, struct td_error *err);
void td_oci_cgroup_list(const struct td_oci *r, struct td_strv *ret_ids);

// ---- users.c ----
// Opens a new network namespace that belongs to a new user namespace, which maps TD_OCI_IDS ids to base. Both live as
// long as something holds the network. The caller closes it. TD_UNSUPPORTED: the machine allows none.
int td_users_network(uint32_t base, int *ret_fd, struct td_error *err);
// What the sandbox finds in <pods_dir>/<id>/mounts: texts that end with a NUL, one for each file or directory that it
// puts at m/0, m/1, … before runc starts:
//   "mrsd PATH"            a bind mount of PATH with mapped ids; r: read-only, s: nosuid, d: nodev, each if it is there
//   "mrsd= PATH"           the same with the machine's ids
//   "c 240:3 666", "b …"   a device file; the mode in octal digits
// m/user is the user namespace, m/lower the image.
#define TD_USERS_LIST "mounts"
#define TD_USERS_DIR "m"
// In the sandbox, whose mount namespace is its own and whose directory is the container's: makes all of m/.
int td_users_mounts(const char *netns, uint32_t base, const char *lower, struct td_error *err);
// The uid of the machine that is root in the user namespace of this process.
uint32_t td_users_root_of(pid_t pid);

// ---- net.c ----
// Opens a socket in that network namespace; netns NULL: in the host's. The caller closes it.
int td_net_pod_open(const char *netns, int family, int type, int protocol, int *ret_fd, struct td_error *err);
