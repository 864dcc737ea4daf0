// What the files of this room share. Nobody outside includes this.
#pragma once

#include "base/proc.h"
#include "oci/oci.h"
#include "json/json.h"

struct td_oci {
	char *state_dir, *pods_dir, *cgroup, *init_path, *self_path, *runc;
	char *exec_dir; // console sockets and pid files of execs; beside state_dir, which holds runc's own directories
			// only
	bool v2;
	unsigned next_exec; // atomic
};

// ---- paths and time (oci.c) ----
bool oci_id_ok(const char *id);
char *oci_pod_path(const struct td_oci *r, const char *id, const char *file); // <pods_dir>/<id>[/<file>]
int64_t oci_mono_ms(void);
// Field 22 of /proc/PID/stat and the state letter; false when there is no such process.
bool oci_proc_stat(pid_t pid, uint64_t *ret_start, char *ret_state);
// The last error of a runc JSON log (or the plain text `out`) in words; never empty.
void oci_runc_words(const char *log_path, const char *out, struct td_buf *ret);
// runc with --root and a JSON log; argv without "runc". Non-zero exit: TD_INVALID with runc's words.
int oci_runc(const struct td_oci *r, const char *const *argv, int64_t timeout_ms, struct td_cancel *c,
	     struct td_error *err);
// Collects `pid` when it is a dead child of ours (we are the subreaper of containers and execs).
void oci_reap(pid_t pid);

// ---- spawn.c ----
// Runs argv (argv[0] a path) to its end with fds[i] as descriptor i, -1: /dev/null, in a session of its own, nothing
// else inherited. *ret_status: exit code or 128 + signal. Killed with its group when cancelled (TD_CANCELLED) or too
// late (TD_TRANSIENT).
int oci_spawn_wait(char *const argv[], const int *fds, int n_fds, int64_t timeout_ms, struct td_cancel *c,
		   int *ret_status, struct td_error *err);
int oci_high_fd(
	int fd); // the same at 10 or above, CLOEXEC; closes fd: what goes into `fds` must not be overwritten on the way
int oci_pipe(int *ret_r, int *ret_w, struct td_error *err); // the write end is high

// ---- config.c ----
int oci_config_write(const struct td_oci *r, const struct td_oci_spec *s, const char *path, struct td_error *err);

// ---- seccomp.c ----
void oci_seccomp(yyjson_mut_doc *d, yyjson_mut_val *linux_,
		 const struct td_oci_spec *s); // the default filter into the config

// ---- cgroup.c ----
bool cg_detect_v2(void);
bool cg_has_swap_limit(bool v2);
// <mount>/<cgroup>[/<id>] in each hierarchy (one on v2), those that exist.
void cg_paths(const struct td_oci *r, const char *id, struct td_strv *ret);
int64_t cg_oom_kills(const struct td_oci *r, const char *id); // 0 when unknown
bool cg_busy(const struct td_oci *r, const char *id, const char *sub);
// SIGKILL to every process below, until none is left. TD_TRANSIENT when some survive `timeout_ms`.
int cg_kill_all(const struct td_oci *r, const char *id, int64_t timeout_ms, struct td_error *err);
// rmdir depth-first. id NULL: everything of this runtime.
int cg_remove(const struct td_oci *r, const char *id, struct td_error *err);
void cg_list(const struct td_oci *r, struct td_strv *ret_ids);
