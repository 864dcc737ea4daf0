// Sandboxes for embedded mode: runc containers on overlay roots, pod networks, cgroup v1 and v2, the image store.
// Knows no Kubernetes. Source of the mechanics: docs/design/0003-sandboxes.md (measured).
//
// Files
//   oci.c internal.h         the runtime object and what all files use: paths, /proc, runc as a program
//   life.c sandbox.c config.c seccomp.c   a container's life; its start in a process of its own (`tandem sandbox`), its
//   config.json exec.c spawn.c           processes inside of a running container; children with chosen descriptors
//   cgroup.c net.c           cgroups v1 and v2; the pod switch and network namespaces
//   image.[ch] image_internal.h recipe.c import.c   the image store: names; building; importing archives, with
//   layout.[ch] stream.[ch] tar.[ch] unpack.[ch]    what an archive says, its bytes unpacked, its entries, a layer laid
//   over a directory
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "base/mem.h"

#include <stdint.h>
#include <sys/types.h>

// Threads: every call may come from any thread at any time; calls for the *same* id (or netns) are put in order by the
// caller.
//
// ---- one runtime per home and agent ----
// td_oci_new makes the calling process a child subreaper: containers and execs become its children when runc has
// started them, and this room collects exactly those (never wait for "any child" in such a process). After a crash
// nothing depends on it.
struct td_oci_opts {
	const char *state_dir; // runc --root; tmpfs is fine ("/run/tandem/<id>/runc")
	const char *pods_dir;  // per-container directories: "<home>/pods"
	const char *cgroup;    // "/tandem-<id>"; everything below is ours
	const char *init_path; // the tandem-standin binary: bind-mounted as /.init
	const char *self_path; // the tandem binary: runs `tandem sandbox`
};
struct td_oci;
int td_oci_new(const struct td_oci_opts *o, struct td_oci **ret, struct td_error *err);
struct td_oci *td_oci_free(struct td_oci *r);
TD_DEFINE_AUTO(struct td_oci *, td_oci_free)
bool td_oci_cgroup_v2(const struct td_oci *r);

// ---- network ----
// The pod switch: a Linux bridge with a fixed MAC; idempotent. cidr: "10.77.0.1/16".
int td_net_switch_ensure(const char *name, const char *cidr, struct td_error *err);
int td_net_switch_delete(const char *name, struct td_error *err); // absent is fine
// A named netns (/run/netns/<netns>) with lo, eth0 = addr/prefix on the switch, default route via gw. Existing with the
// same name: replaced.
int td_net_pod_add(const char *netns, const char *switch_name, const char *addr, int prefix, const char *gw,
		   struct td_error *err);
int td_net_pod_delete(const char *netns, struct td_error *err); // absent is fine
// A TCP (IPv4) socket inside that netns, not blocking; NULL: the machine's own. Caller closes.
int td_net_pod_socket(const char *netns, int *ret_fd, struct td_error *err);
// Names below /run/netns that start with prefix.
int td_net_list(const char *prefix, struct td_strv *ret, struct td_error *err);

// ---- containers ----
struct td_oci_mount {
	const char *type; // "bind", "tmpfs", "cgroup", …
	const char *source, *destination;
	const char *options; // comma-separated ("ro,nosuid,size=64m")
};
struct td_oci_device {
	const char *path; // inside
	char type;        // 'c' or 'b'
	int major, minor;
	mode_t mode; // 0666
};
struct td_oci_spec {
	const char *id;     // unique on the machine: prefix with the home's id; [a-z0-9-], at most 80
	const char *rootfs; // lower directory (an image), shared and read-only
	const char *netns;  // name of a netns, or NULL: the host's
	const char *hostname;
	const char *const *args; // run by /.init
	const char *const *env;  // "K=V"
	const char *cwd;         // default "/"
	uint32_t uid, gid;
	const uint32_t *groups;
	size_t n_groups;         // supplementary
	const char *const *caps; // "CAP_CHOWN", …: bounding, effective, permitted (and ambient when uid != 0 is *not*
				 // set, as Kubernetes)
	bool no_new_privileges, read_only_root, privileged, tty;
	bool seccomp;         // the default filter of system calls (seccomp.c); never with privileged
	bool writable_cgroup; // its own cgroup subtree at /sys/fs/cgroup, writable (Slurm's ConstrainDevices); else a
			      // read-only view
	const struct td_oci_mount *mounts;
	size_t n_mounts;
	const struct td_oci_device *devices;
	size_t n_devices;      // exactly these, beside runc's defaults
	int64_t memory_max;    // bytes, 0: none
	int64_t cpu_milli_max; // 0: none
	int64_t cpu_milli_request;
	int64_t pids_max; // 0: 4096
	// stdout and stderr. The container's own init writes the file, so that it goes on logging while the agent is
	// away. NULL: pods_dir/<id>/log. With log_max (bytes): one stamped line each, as kubelets keep them, and when
	// the file is that large its content moves to <log_path>.1 (standin/log.c says how to read both). 0: raw bytes,
	// for ever.
	const char *log_path;
	int64_t log_max;
	bool stdin_open; // with log_max: td_oci_input writes to its standard input; else that is empty
};
// Per container pods_dir/<id>/ holds upper, work, rootfs, config.json, log, exit, pid. The container is running when
// this returns 0; its PID 1 is /.init. A leftover of the same id is removed first. TD_INVALID: runc refused (its text).
int td_oci_start(struct td_oci *r, const struct td_oci_spec *s, struct td_cancel *c, pid_t *ret_pid,
		 struct td_error *err);

enum td_oci_state { TD_OCI_ABSENT, TD_OCI_RUNNING, TD_OCI_STOPPED };
struct td_oci_status {
	enum td_oci_state state;
	pid_t pid;
	uint64_t start_ticks;  // field 22 of /proc/PID/stat: guards against pid reuse
	int exit_code, signal; // STOPPED; signal 0 when it exited
	bool oom_killed;
	int64_t started_ms, finished_ms; // wall clock
};
int td_oci_status(struct td_oci *r, const char *id, struct td_oci_status *ret, struct td_error *err);
// A descriptor that becomes readable when the container's init is gone (pidfd); caller closes. TD_NOT_FOUND when it
// does not run.
int td_oci_pidfd(struct td_oci *r, const char *id, int *ret_fd, struct td_error *err);
// A descriptor for messages to its standard input (standin.h: input.c); not blocking; caller closes. TD_NOT_FOUND: it
// has none.
int td_oci_input(struct td_oci *r, const char *id, int *ret_fd, struct td_error *err);
int td_oci_signal(struct td_oci *r, const char *id, int sig, struct td_error *err); // TD_NOT_FOUND when not running
// Kills what is left, deletes runc state and cgroup; removes the directory when purge. Absent is fine.
int td_oci_delete(struct td_oci *r, const char *id, bool purge, struct td_error *err);
int td_oci_list(struct td_oci *r, struct td_strv *ret_ids, struct td_error *err); // every id with state or directory
// True when any process is left in the container's cgroup below `sub` ("" = anywhere; "job_17" = any directory of that
// name below).
int td_oci_busy(struct td_oci *r, const char *id, const char *sub, bool *ret, struct td_error *err);

// A process inside. With tty: *ret_io is the pty master and *ret_err -1; else io is a socketpair end (in and out) and
// err a pipe.
struct td_oci_exec {
	const char *const *args;
	const char *const *env; // added to the container's
	bool tty, stdin_open;
	int rows, cols;
};
struct td_oci_proc;
int td_oci_exec(struct td_oci *r, const char *id, const struct td_oci_exec *e, struct td_oci_proc **ret,
		struct td_error *err);
int td_oci_proc_in(const struct td_oci_proc *p);  // write end, or -1
int td_oci_proc_out(const struct td_oci_proc *p); // read end
int td_oci_proc_err(const struct td_oci_proc *p); // read end, or -1 with a tty
void td_oci_proc_close_in(struct td_oci_proc *p);
int td_oci_proc_resize(struct td_oci_proc *p, int rows, int cols);
int td_oci_proc_wait(struct td_oci_proc *p, struct td_cancel *c, int *ret_code, struct td_error *err);
struct td_oci_proc *td_oci_proc_free(struct td_oci_proc *p); // kills it when it still runs
TD_DEFINE_AUTO(struct td_oci_proc *, td_oci_proc_free)

// Removes every container, cgroup, netns (prefix) and mount of this runtime, whatever state a crash left. Idempotent.
int td_oci_purge(struct td_oci *r, const char *netns_prefix, struct td_error *err);
