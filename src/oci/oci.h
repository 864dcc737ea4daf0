// Sandboxes of embedded mode: runc containers on overlay roots, pod networks, cgroups v1 and v2,
// and the image store. This room knows nothing of Kubernetes. docs/design/0003-sandboxes.md
// describes the mechanics and has the measurements behind them.
//
// Files
//   oci.c internal.h              the runtime object and what all files use: paths, /proc, runc as
//                                 a program
//   life.c                        the life of a container
//   sandbox.c                     the start of a container in a process of its own (`tandem
//                                 sandbox`)
//   config.c seccomp.c            config.json and its filter of system calls
//   embed_filter.c                a tool of the build: that filter, for native jobs
//   exec.c spawn.c                processes in a running container; children with chosen
//                                 descriptors
//   cgroup.c net.c                cgroups v1 and v2; the pod switch and network namespaces
//   users.c                       user namespaces: their networks, roots, mounts and device files
//   filter.c                      what a pod may send and take
//   image.[ch] image_internal.h   the image store and its names
//   recipe.c import.c             building images; importing archives
//   layout.[ch] stream.[ch]       what an image archive says; its bytes, decompressed
//   tar.[ch] unpack.[ch]          the entries of a tar; a layer laid over a directory
#pragma once

#include "base/cancel.h"
#include "base/err.h"
#include "base/mem.h"
#include "json/json.h"

#include <stdint.h>
#include <sys/types.h>

// Threads: any thread may make any call at any time. The caller serializes the calls for the same
// id (or netns).
//
// ---- one runtime per home and agent ----
// td_oci_new makes the calling process a child subreaper: containers and execs become its children
// once runc has started them. This room reaps exactly these children, so such a process must never
// wait for "any child". Nothing depends on the parenthood after a crash.
struct td_oci_opts {
	const char *state_dir; // runc --root; a tmpfs will do ("/run/tandem/<id>/runc")
	const char *pods_dir;  // holds one directory per container: "<home>/pods"
	const char *cgroup;    // "/tandem-<id>"; this runtime owns all below
	const char *init_path; // the tandem-standin binary; bind-mounted as /.init
	const char *self_path; // the tandem binary, which runs `tandem sandbox`
};
struct td_oci;
int td_oci_new(const struct td_oci_opts *o, struct td_oci **ret, struct td_error *err);
struct td_oci *td_oci_free(struct td_oci *r);
TD_DEFINE_AUTO(struct td_oci *, td_oci_free)
bool td_oci_cgroup_v2(const struct td_oci *r);

// ---- network ----
// Creates the pod switch, a Linux bridge with a fixed MAC address. Idempotent. cidr is its address
// and prefix: "10.77.0.1/16".
int td_net_switch_ensure(const char *name, const char *cidr, struct td_error *err);
int td_net_switch_delete(const char *name, struct td_error *err); // absent is fine
// Creates the network namespace /run/netns/<netns> with lo, eth0 (addr/prefix, attached to the
// switch) and a default route via gw (NULL or "": none). An existing namespace of this name is
// replaced. With users the network is of a user namespace that maps its ids 0 to 65535 to users and
// those after it on this machine; it lives as long as the network. TD_UNSUPPORTED: the machine allows
// no user namespaces.
enum { TD_OCI_IDS = 65536 };
struct td_net_pod {
	const char *switch_name, *addr, *gw;
	int prefix;
	uint32_t users; // 0: no user namespace
};
int td_net_pod_add(const char *netns, const struct td_net_pod *p, struct td_error *err);
int td_net_pod_delete(const char *netns, struct td_error *err); // absent is fine
// Opens a non-blocking TCP (IPv4) socket in that network namespace; netns NULL: in the host's. The
// caller closes it.
int td_net_pod_socket(const char *netns, int *ret_fd, struct td_error *err);
// Who may talk with a pod.
struct td_net_allow {
	uint32_t addr;       // IPv4, in network byte order
	uint8_t prefix;      // 32: this address; 0: every
	uint8_t proto;       // IPPROTO_TCP, IPPROTO_UDP or IPPROTO_SCTP; 0: every
	uint16_t port, last; // of who is talked to; port 0: every; last 0: that one
};
struct td_net_filter {
	bool in, out; // false: this direction is not filtered
	const struct td_net_allow *from, *to;
	size_t n_from, n_to;
};
// Drops every packet of the pod that begins something which the filter does not allow; replies, and
// what the pod says to itself, pass. Replaces the pod's filter in one step. Nobody inside changes it
// who has not CAP_NET_ADMIN. Whoever closes the connection to the kernel waits until the old table is
// freed, 15 ms and more, for one table as for many: with ret_fd the caller closes it, after others.
// TD_NOT_FOUND: there is no such network. TD_UNSUPPORTED: the kernel has no filters at all.
int td_net_pod_filter(const char *netns, const struct td_net_filter *f, int *ret_fd, struct td_error *err);
// Adds the names below /run/netns that start with prefix.
int td_net_list(const char *prefix, struct td_strv *ret, struct td_error *err);

// ---- containers ----
struct td_oci_mount {
	const char *type; // "bind", "tmpfs", "cgroup", …
	const char *source, *destination;
	const char *options; // comma-separated: "ro,nosuid,size=64m"
	// Of a bind mount, where the container has a user namespace: its files keep the machine's owners, so
	// that all are nobody's inside. Otherwise the ids on disk are those inside, whatever the namespace maps
	// them to (an idmapped mount), which the file system must be able to do.
	bool keep_ids;
};
// May this be a filter of system calls (seccomp_own below)? TD_INVALID: err names what is wrong.
int td_oci_seccomp_check(const yyjson_val *profile, struct td_error *err);

struct td_oci_device {
	const char *path; // in the container
	char type;        // 'c' or 'b'
	int major, minor;
	mode_t mode; // 0: 0666
};
struct td_oci_spec {
	// Unique on the machine, because it starts with the home's id.
	const char *id;     // [a-z0-9-], at most 80
	const char *rootfs; // lower directory of the overlay (an image); shared, never written
	const char *netns;  // network namespace; NULL: the host's
	// Not 0: what td_net_pod_add() had as users of netns. The container is in that user namespace: uid 0
	// is the machine's uid `users`, and so on, and capabilities count in there only.
	uint32_t users;
	const char *hostname;
	const char *const *args; // the command, which /.init runs
	const char *const *env;  // "K=V"
	const char *cwd;         // "" or NULL: "/"
	uint32_t uid, gid;
	// Supplementary groups.
	const uint32_t *groups;
	size_t n_groups;
	// Names such as "CAP_CHOWN": the bounding, effective and permitted sets. The ambient set
	// stays empty also when uid is not 0, as in Kubernetes.
	const char *const *caps;
	bool no_new_privileges, read_only_root, privileged, tty;
	// Applies the default filter of system calls (seccomp.c). Ignored when privileged.
	bool seccomp;
	// Instead of it: a filter of the site's own, which td_oci_seccomp_check() has passed; NULL: none. Ignored when
	// privileged.
	const yyjson_val *seccomp_own;
	// /sys/fs/cgroup shows the container's own cgroup subtree: writable when set (for Slurm's
	// ConstrainDevices), else read-only.
	bool writable_cgroup;
	const struct td_oci_mount *mounts;
	size_t n_mounts;
	// The container may use exactly these devices and runc's default ones.
	const struct td_oci_device *devices;
	size_t n_devices;
	int umask;             // of its processes, and of those that are run in it later; 0: the runtime's own, 022
	int64_t memory_max;    // bytes; 0: no limit
	int64_t cpu_milli_max; // 0: no limit
	int64_t cpu_milli_request;
	int64_t pids_max; // 0: 4096
	// The file that stdout and stderr go to; NULL: pods_dir/<id>/log. The container's own init
	// writes it, so that logging goes on while the agent is away. With log_max (bytes) each
	// line gets a stamp in the format of the kubelet, and when the file is that large its
	// content moves to <log_path>.1; standin/log.c says how to read both. With log_max 0 the
	// raw bytes are written without a limit.
	const char *log_path;
	int64_t log_max;
	// With log_max, td_oci_input() writes to the container's standard input. Otherwise that is
	// empty.
	bool stdin_open;
};
// Starts a container and returns 0 when it runs; its PID 1 is /.init. pods_dir/<id>/ holds upper,
// work, rootfs, config.json, log, exit and pid. A leftover of the same id is removed first.
// TD_INVALID: runc refused; the message has runc's words.
int td_oci_start(struct td_oci *r, const struct td_oci_spec *s, struct td_cancel *c, pid_t *ret_pid,
		 struct td_error *err);

enum td_oci_state { TD_OCI_ABSENT, TD_OCI_RUNNING, TD_OCI_STOPPED };
struct td_oci_status {
	enum td_oci_state state;
	pid_t pid;
	uint64_t start_ticks;  // field 22 of /proc/PID/stat; guards against pid reuse
	int exit_code, signal; // when STOPPED; signal 0: it exited
	bool oom_killed;
	int64_t started_ms, finished_ms; // wall clock
};
int td_oci_status(struct td_oci *r, const char *id, struct td_oci_status *ret, struct td_error *err);
// Waits until a start of it that a process began which was killed has ended one way or the other: before
// that, a container that is about to run is TD_OCI_ABSENT. TD_TRANSIENT: it does not end.
int td_oci_settle(struct td_oci *r, const char *id, struct td_cancel *c, struct td_error *err);
// Opens a pidfd that becomes readable when the container's init is gone. The caller closes it.
// TD_NOT_FOUND: the container does not run.
int td_oci_pidfd(struct td_oci *r, const char *id, int *ret_fd, struct td_error *err);
// Opens a non-blocking descriptor for messages to the container's standard input (format:
// standin.h, input.c). The caller closes it. TD_NOT_FOUND: the container has no open standard
// input.
int td_oci_input(struct td_oci *r, const char *id, int *ret_fd, struct td_error *err);
// TD_NOT_FOUND: the container does not run.
int td_oci_signal(struct td_oci *r, const char *id, int sig, struct td_error *err);
// Sends a signal to each process of the container that has a handler for it, and to no other: a shell
// without a trap would end by USR1. Returns how many got it.
int td_oci_tell(struct td_oci *r, const char *id, int sig);
// Kills what is left of a container and deletes its runc state and cgroup; with purge also its
// directory. A container that is absent is no error.
int td_oci_delete(struct td_oci *r, const char *id, bool purge, struct td_error *err);
// Adds every id that has a runc state, a directory or a cgroup.
int td_oci_list(struct td_oci *r, struct td_strv *ret_ids, struct td_error *err);
// CPU time that the container has used, in microseconds; -1: it is not known.
int64_t td_oci_cpu_used(struct td_oci *r, const char *id);
// Lists the container's processes, at most max. Returns how many.
size_t td_oci_pids(struct td_oci *r, const char *id, pid_t *v, size_t max);
// *ret is true when a process is left in the container's cgroup. sub "" looks at the whole subtree;
// a name such as "job_17" looks at every directory of that name and what is below it.
int td_oci_busy(struct td_oci *r, const char *id, const char *sub, bool *ret, struct td_error *err);

// A process in a running container. With tty, td_oci_proc_out() is the master of a pty,
// td_oci_proc_in() a copy of it, and td_oci_proc_err() -1. Without, each is one end of a pipe.
struct td_oci_exec {
	const char *const *args;
	const char *const *env; // added to the container's environment
	bool tty, stdin_open;
	int rows, cols;
	int program; // above 0: an open static program, which runs as args[0] though the container has no such file
};
struct td_oci_proc;
int td_oci_exec(struct td_oci *r, const char *id, const struct td_oci_exec *e, struct td_oci_proc **ret,
		struct td_error *err);
int td_oci_proc_in(const struct td_oci_proc *p);  // -1 without stdin_open
int td_oci_proc_out(const struct td_oci_proc *p); // read end
int td_oci_proc_err(const struct td_oci_proc *p); // -1 with a tty
void td_oci_proc_close_in(struct td_oci_proc *p);
int td_oci_proc_resize(struct td_oci_proc *p, int rows, int cols);
int td_oci_proc_wait(struct td_oci_proc *p, struct td_cancel *c, int *ret_code, struct td_error *err);
struct td_oci_proc *td_oci_proc_free(struct td_oci_proc *p); // kills a process that still runs
TD_DEFINE_AUTO(struct td_oci_proc *, td_oci_proc_free)

// Removes every container, cgroup and mount of this runtime and every network namespace whose name
// starts with netns_prefix, whatever state a crash left. Idempotent.
int td_oci_purge(struct td_oci *r, const char *netns_prefix, struct td_error *err);
