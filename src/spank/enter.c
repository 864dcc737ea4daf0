// The namespaces of a container: who makes them, and for whom.
#include "spank/enter.h"

#include "base/file.h"
#include "spank/as.h"
#include "spank/enter_internal.h"
#include "spank/holder.h"
#include "spank/layout.h"
#include "spank/pretend.h"
#include "spank/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int write_proc(pid_t pid, const char *file, const char *text, struct td_error *err)
{
	td_auto_free char *path = td_asprintf("/proc/%d/%s", pid, file);
	td_auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);
	if (fd < 0 || write(fd, text, n) != (ssize_t)n)
		return td_fail_errno(err, TD_INTERNAL, errno, "%s of the user namespace", file);
	return 0;
}

// ---- the tree, as the user's ----
// A user namespace that maps the keeper of the trees to the owner. It lives as long as its descriptor.
static int mapping(const struct td_ct_owner *who, int *ret_fd, struct td_error *err)
{
	int p[2];
	if (pipe2(p, O_CLOEXEC) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "pipe");
	td_auto_close int in = p[0];
	pid_t pid = fork();
	if (pid == 0) {
		char why = unshare(CLONE_NEWUSER) ? (char)errno : 0;
		_exit(write(p[1], &why, 1) == 1 && !why ? pause() : 1);
	}
	close(p[1]);
	char why = ECHILD;
	int r = 0;
	if (pid < 0 || read(in, &why, 1) != 1 || why)
		r = td_fail_errno(err, TD_UNSUPPORTED, why, "this node does not allow user namespaces");

	char line[64];
	snprintf(line, sizeof(line), "%u %u 1\n", TD_CT_UID, who->uid);
	if (!r)
		r = write_proc(pid, "uid_map", line, err);
	snprintf(line, sizeof(line), "%u %u 1\n", TD_CT_UID, who->gid);
	if (!r)
		r = write_proc(pid, "gid_map", line, err);
	snprintf(line, sizeof(line), "/proc/%d/ns/user", pid);
	int fd = r ? -1 : open(line, O_RDONLY | O_CLOEXEC);
	if (!r && fd < 0)
		r = td_fail_errno(err, TD_INTERNAL, errno, "%s", line);
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	if (!r)
		*ret_fd = fd;
	return r;
}

// A mount of the tree that is nowhere yet, in which every file is the owner's.
static int tree_for(const char *dir, const struct td_ct_owner *who, int *ret_fd, struct td_error *err)
{
	td_auto_free char *path = td_asprintf("%s/tree/rootfs", dir);
	td_auto_close int ns = -1, fd = -1;
	int r = mapping(who, &ns, err);
	if (r)
		return r;
	fd = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (fd < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "%s", path);
	struct mount_attr a = {.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
			       .userns_fd = (uint64_t)ns,
			       .propagation = MS_PRIVATE};
	if (syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &a, sizeof(a)))
		return td_fail_errno(
			err, TD_UNSUPPORTED, errno,
			"the file system of the image cache (%s) cannot map owners, as ext4, xfs and btrfs can; choose "
			"another directory for it (spec.containers.cache.path)",
			TD_CT_CACHE);
	*ret_fd = td_steal_fd(&fd);
	return 0;
}

// The job's own directories, which its user could not open by their paths. They are absent where jobs have none.
static int own_for(const char *job, int given[TD_CT_N_GIVEN], struct td_error *err)
{
	static const char *const names[TD_CT_N_GIVEN] = {
		[TD_CT_TMP] = "tmp", [TD_CT_VAR_TMP] = "var-tmp", [TD_CT_SHM] = TD_SCRATCH_SHM};
	for (size_t i = TD_CT_TMP; i < TD_CT_N_GIVEN; i++) {
		td_auto_free char *path = td_asprintf(TD_SCRATCH_JOBS "/%s/%s", job, names[i]);
		given[i] = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
		struct mount_attr a = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, .propagation = MS_PRIVATE};
		if (given[i] < 0 ? errno != ENOENT
				 : syscall(SYS_mount_setattr, given[i], "", AT_EMPTY_PATH, &a, sizeof(a)) != 0)
			return td_fail_errno(err, TD_INTERNAL, errno, "%s", path);
	}
	return 0;
}

// ---- the container's process ----
// Becomes the owner, and keeps the one capability without which some hosts (AppArmor of Ubuntu 24.04) make
// user namespaces that may do nothing. It is gone with the new namespace.
static int become(const struct td_ct_owner *who, struct td_error *err)
{
	prctl(PR_SET_KEEPCAPS, 1);
	int r = td_ct_become(who, err);
	if (r)
		return r;
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2] = {{.permitted = 1u << CAP_SYS_ADMIN, .effective = 1u << CAP_SYS_ADMIN}};
	syscall(SYS_capset, &h, d);
	return 0;
}

// False: nobody hears it.
static bool answer(int fd, int r, struct td_error *e)
{
	e->code = r;
	return send(fd, e, sizeof(*e), MSG_NOSIGNAL) == sizeof(*e);
}

static int hear(int fd, struct td_error *err)
{
	struct td_error e;
	if (recv(fd, &e, sizeof(e), 0) != sizeof(e))
		return td_fail(err, TD_INTERNAL, "the process that makes the container ended early");
	if (e.code && err)
		*err = e;
	return e.code;
}

static void close_all(const int *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (v[i] >= 0)
			close(v[i]);
}

static bool has(const int *v, size_t n, int x)
{
	for (size_t i = 0; i < n; i++)
		if (v[i] == x)
			return true;
	return false;
}

// The holder shares no descriptor with whoever asked for the container: they would wait for it.
static void close_others(const int *kept, size_t n)
{
	int null = open("/dev/null", O_RDWR);
	for (int i = 0; i < 3; i++)
		dup2(null, i);
	for (int i = 3, max = (int)sysconf(_SC_OPEN_MAX); i < max && i < 4096; i++)
		if (!has(kept, n, i))
			close(i);
}

// The holder: makes the container, and then is what its namespaces live by. (Bound to files they would
// need no process. But Linux 6.18 refuses to bind about every second mount namespace where it has several
// CPUs, as if it were older than ours.) Never returns.
static void child(const struct td_ct_enter *e, const int given[TD_CT_N_GIVEN], int fd)
{
	struct td_error err = TD_ERROR_INIT;
	char c;
	int kept[TD_CT_N_GIVEN + 1] = {fd};
	memcpy(kept + 1, given, TD_CT_N_GIVEN * sizeof(*given));
	close_others(kept, TD_LEN(kept));
	setsid();
	int r = become(e->owner, &err);
	if (!r && unshare(CLONE_NEWUSER | CLONE_NEWNS))
		r = td_fail_errno(&err, TD_UNSUPPORTED, errno, "this node does not allow user namespaces");
	answer(fd, r, &err);
	if (r || read(fd, &c, 1) != 1)
		_exit(1);
	r = td_ct_root_make(e, given, &err);
	close_all(given, TD_CT_N_GIVEN);
	prctl(PR_SET_NAME, "tandem-holder");
	if (!r)
		r = td_ct_only_wait(&err);
	prctl(PR_SET_DUMPABLE, 1); // its user may open its namespaces
	bool heard = answer(fd, r, &err);
	close(fd);
	while (!r && heard)
		pause();
	_exit(1);
}

static int maps(const struct td_ct_enter *e, pid_t pid, struct td_error *err)
{
	td_auto_buf struct td_buf g = {0};
	char line[64];
	snprintf(line, sizeof(line), "%u %u 1\n", e->root ? 0 : e->owner->uid, e->owner->uid);
	td_buf_printf(&g, "%u %u 1\n", e->root ? 0 : e->owner->gid, e->owner->gid);
	// At most 340 lines; a group that is not mapped still counts, but has no name inside.
	for (size_t i = 0; i < e->owner->n_groups && i < 300; i++)
		if (e->owner->groups[i] != e->owner->gid && e->owner->groups[i] != 0)
			td_buf_printf(&g, "%u %u 1\n", e->owner->groups[i], e->owner->groups[i]);
	int r = write_proc(pid, "setgroups", "deny", err); // nobody may leave a group that shuts him out
	if (!r)
		r = write_proc(pid, "gid_map", td_buf_str(&g), err);
	return r ? r : write_proc(pid, "uid_map", line, err);
}

int td_ct_enter_make(const struct td_ct_enter *e, struct td_error *err)
{
	int given[TD_CT_N_GIVEN] = {-1, -1, -1, -1};
	int p[2], r = tree_for(e->dir, e->owner, &given[TD_CT_TREE], err);
	if (!r)
		r = own_for(e->job, given, err);
	if (!r && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p) < 0)
		r = td_fail_errno(err, TD_INTERNAL, errno, "socketpair");
	if (r) {
		close_all(given, TD_CT_N_GIVEN);
		return r;
	}
	td_auto_close int ours = p[0];
	pid_t pid = fork();
	if (pid == 0)
		child(e, given, p[1]);
	close(p[1]);
	close_all(given, TD_CT_N_GIVEN);
	if (pid < 0)
		return td_fail_errno(err, TD_TRANSIENT, errno, "fork");

	r = hear(ours, err);
	if (!r)
		r = maps(e, pid, err);
	if (!r && send(ours, "g", 1, MSG_NOSIGNAL) == 1)
		r = hear(ours, err);
	if (!r)
		r = td_ct_holder_note(e->dir, pid, err);
	if (r) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return r;
}
