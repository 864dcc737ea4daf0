// The inside of a container's mount namespace. Whoever works here has the user's rights, and all
// capabilities in his own user namespace only.
#include "base/file.h"
#include "base/gpudriver.h"
#include "spank/enter_internal.h"
#include "spank/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPOOL "/var/spool/slurmd" // batch scripts and PMIx's files; slurm/conf.h sets it

int td_ct_open_in(int root, const char *path, int flags)
{
	struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

// Opens the place for a mount and makes what is missing of it: directories, and a file at the end if
// `file`.
static int place(int root, const char *path, bool file, int *ret_fd, struct td_error *err)
{
	td_auto_strv struct td_strv parts = {0};
	td_strv_split(&parts, path, '/');
	td_auto_buf struct td_buf done = {0};
	td_auto_close int at = td_ct_open_in(root, "/", O_PATH | O_DIRECTORY);
	for (size_t i = 0; i < parts.n && at >= 0; i++) {
		bool last = i + 1 == parts.n;
		td_buf_printf(&done, "/%s", parts.v[i]);
		int next = td_ct_open_in(root, td_buf_str(&done), O_PATH);
		if (next < 0 && errno == ENOENT) {
			if (last && file ? mknodat(at, parts.v[i], S_IFREG | 0644, 0) : mkdirat(at, parts.v[i], 0755))
				return td_fail_errno(err, TD_INVALID, errno, "make %s in the container",
						     td_buf_str(&done));
			next = td_ct_open_in(root, td_buf_str(&done), O_PATH);
		}
		if (next < 0)
			return td_fail_errno(err, TD_INVALID, errno, "%s in the container", td_buf_str(&done));
		close(at);
		at = next;
	}
	if (at < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "%s in the container", path);
	*ret_fd = td_steal_fd(&at);
	return 0;
}

static int attach(int what, int root, const char *to, bool file, struct td_error *err)
{
	td_auto_close int at = -1;
	int r = place(root, to, file, &at, err);
	if (r)
		return r;
	if (syscall(SYS_move_mount, what, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH))
		return td_fail_errno(err, TD_INVALID, errno, "mount at %s in the container", to);
	return 0;
}

enum { READ_ONLY = 1, OPTIONAL = 2 };

static int bind(int root, const char *from, const char *to, int how, struct td_error *err)
{
	td_auto_close int fd =
		(int)syscall(SYS_open_tree, AT_FDCWD, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	struct stat st;
	if (fd < 0 && errno == ENOENT && how & OPTIONAL)
		return 0;
	if (fd < 0 || fstat(fd, &st))
		return td_fail_errno(err, TD_INVALID, errno, "mount %s", from);
	struct mount_attr a = {.attr_set = MOUNT_ATTR_NOSUID | (how & READ_ONLY ? (uint64_t)MOUNT_ATTR_RDONLY : 0),
			       .propagation = MS_SLAVE};
	if (syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof(a)))
		return td_fail_errno(err, TD_INVALID, errno, "mount %s", from);
	return attach(fd, root, to, !S_ISDIR(st.st_mode), err);
}

static int tmpfs(int root, const char *to, const char *mode, struct td_error *err)
{
	td_auto_close int fs = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC), fd = -1;
	if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "mode", mode, 0) ||
	    syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) ||
	    (fd = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "tmpfs at %s", to);
	return attach(fd, root, to, false, err);
}

static int unmount(int root, const char *at, struct td_error *err)
{
	td_auto_close int fd = td_ct_open_in(root, at, O_PATH);
	td_auto_free char *path = td_asprintf("/proc/self/fd/%d", fd);
	char real[4096];
	ssize_t n = fd < 0 ? -1 : readlink(path, real, sizeof(real) - 1);
	if (n <= 0)
		return td_fail_errno(err, TD_INVALID, errno, "--container-mounts: umount %s", at);
	real[n] = '\0';
	close(td_steal_fd(&fd));
	if (umount2(real, MNT_DETACH))
		return td_fail_errno(err, TD_INVALID, errno, "--container-mounts: umount %s", at);
	return 0;
}

// ---- the root ----
static int overlay(const struct td_ct_enter *e, int tree, int *ret_root, struct td_error *err)
{
	static const char *const dirs[] = {"lower", "root", "rw", "rw/upper", "rw/work"};
	td_auto_free char *lower = td_asprintf("%s/own/lower", e->dir), *root = td_asprintf("%s/own/root", e->dir),
			  *options = td_asprintf(
				  "lowerdir=%s/own/lower,upperdir=%s/own/rw/upper,workdir=%s/own/rw/work,userxattr",
				  e->dir, e->dir, e->dir);
	for (size_t i = 0; i < TD_LEN(dirs); i++) {
		td_auto_free char *path = td_asprintf("%s/own/%s", e->dir, dirs[i]);
		if (mkdir(path, 0755) && errno != EEXIST)
			return td_fail_errno(err, TD_INTERNAL, errno, "%s", path);
	}
	if (syscall(SYS_move_mount, tree, "", AT_FDCWD, lower, MOVE_MOUNT_F_EMPTY_PATH))
		return td_fail_errno(err, TD_INTERNAL, errno, "mount the image at %s", lower);
	if (mount("container", root, "overlay", MS_NOSUID | MS_NODEV, options))
		return td_fail_errno(err, TD_UNSUPPORTED, errno, "overlay at %s (%s)", root, options);
	*ret_root = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return *ret_root < 0 ? td_fail_errno(err, TD_INTERNAL, errno, "%s", root) : 0;
}

// Programs look up who they are: the user gets a line in passwd and group, unless the image has one
// for his number.
static void name_user(const struct td_ct_enter *e, int root, const char *file, const char *line, unsigned id)
{
	td_auto_close int fd = td_ct_open_in(root, file, O_RDWR | O_APPEND);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > 1 << 20)
		return; // an image without users has no use for one
	td_auto_free char *text = td_calloc(1, (size_t)st.st_size + 1), *mark = td_asprintf(":%u:", id);
	if (pread(fd, text, (size_t)st.st_size, 0) != st.st_size)
		return;
	td_auto_strv struct td_strv lines = {0};
	td_strv_split(&lines, text, '\n');
	for (size_t i = 0; i < lines.n; i++) {
		char *password = strchr(lines.v[i], ':'), *number = password ? strchr(password + 1, ':') : NULL;
		if (number && !strncmp(number, mark, strlen(mark)))
			return;
	}
	bool ended = st.st_size == 0 || text[st.st_size - 1] == '\n';
	(void)!dprintf(fd, "%s%s", ended ? "" : "\n", line);
	(void)e;
}

// apt changes to a user of its own, and looks whether it did: tell it not to.
static void for_apt(int root)
{
	td_auto_close int dir = td_ct_open_in(root, "/etc/apt/apt.conf.d", O_RDONLY | O_DIRECTORY);
	td_auto_close int fd =
		dir < 0 ? -1 : openat(dir, "90tandem", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd >= 0)
		(void)!dprintf(fd, "APT::Sandbox::User \"root\";\n");
}

static void name_everybody(const struct td_ct_enter *e, int root)
{
	const struct td_ct_owner *o = e->owner;
	if (!*o->name || e->root)
		return;
	td_auto_free char *user = td_asprintf("%s:x:%u:%u::%s:/bin/sh\n", o->name, o->uid, o->gid, o->home),
			  *group = td_asprintf("%s:x:%u:\n", o->name, o->gid);
	name_user(e, root, "/etc/passwd", user, o->uid);
	name_user(e, root, "/etc/group", group, o->gid);
}

static int usual(const struct td_ct_enter *e, const int *given, int root, struct td_error *err)
{
	static const struct {
		const char *path;
		int how;
	} binds[] = {
		{"/proc", 0},
		{"/sys", READ_ONLY},
		{"/dev", 0},
		{"/etc/hosts", READ_ONLY | OPTIONAL},
		{"/etc/hostname", READ_ONLY | OPTIONAL},
		{"/etc/resolv.conf", READ_ONLY | OPTIONAL},
		// PMIx's files of the step, and a batch job's script.
		{SPOOL, OPTIONAL},
	};
	for (size_t i = 0; i < TD_LEN(binds); i++) {
		int r = bind(root, binds[i].path, binds[i].path, binds[i].how, err);
		if (r)
			return r;
	}
	name_everybody(e, root);
	if (e->root)
		for_apt(root);
	static const char *const own[TD_CT_N_GIVEN] = {
		[TD_CT_TMP] = "/tmp", [TD_CT_VAR_TMP] = "/var/tmp", [TD_CT_SHM] = "/dev/shm"};
	int r = 0;
	for (size_t i = TD_CT_TMP; i < TD_CT_N_GIVEN && !r; i++)
		if (given[i] >= 0)
			r = attach(given[i], root, own[i], false, err);
	if (!r && given[TD_CT_TMP] < 0 && e->read_only)
		r = tmpfs(root, "/tmp", "1777", err);
	else if (!r && given[TD_CT_TMP] < 0)
		r = place(root, "/tmp", false, &(int){-1}, err);
	const char *home = e->owner->home;
	if (!r && e->home && *home)
		r = bind(root, home, e->root ? "/root" : home, 0, err);
	return r;
}

// NVIDIA's driver: the machine's own files, by which whoever was granted a GPU reaches it. An image cannot bring them,
// because they belong to the kernel's module. Where there is no driver, this does nothing.
static int driver(int root, struct td_error *err)
{
	td_auto_strv struct td_strv names = {0}, files = {0}, programs = {0}, program_files = {0};
	td_auto_free char *dir = td_path_exists("/dev/nvidiactl") ? td_gpu_driver_dir("") : NULL;
	const char *place = NULL;
	for (size_t i = 0; dir && !place && td_gpu_driver_places[i]; i++) {
		td_auto_close int fd = td_ct_open_in(root, td_gpu_driver_places[i], O_PATH | O_DIRECTORY);
		place = fd >= 0 ? td_gpu_driver_places[i] : NULL;
	}
	if (!place)
		return 0; // no driver, or no loader that would look for it
	td_gpu_driver_files(dir, &names, &files);
	td_gpu_driver_programs(dir, &programs, &program_files);
	int r = 0;
	for (size_t i = 0; i < names.n + programs.n && !r; i++) {
		bool lib = i < names.n;
		size_t k = lib ? i : i - names.n;
		td_auto_free char *to =
			td_asprintf("%s/%s", lib ? place : "/usr/bin", lib ? names.v[k] : programs.v[k]);
		r = bind(root, lib ? files.v[k] : program_files.v[k], to, READ_ONLY, err);
	}
	return r ? td_wrap(err, "the GPUs' driver") : 0;
}

static int asked_for(const struct td_ct_enter *e, int root, struct td_error *err)
{
	for (size_t i = 0; i < e->mounts->n; i++) {
		const struct td_ct_mount *m = &e->mounts->v[i];
		td_auto_free char *from =
			m->from && m->from[0] != '/' ? td_asprintf("%s/%s", e->cwd, m->from) : td_strdup(m->from);
		int r = m->kind == TD_CT_TMPFS    ? tmpfs(root, m->to, "0755", err)
			: m->kind == TD_CT_UMOUNT ? unmount(root, m->to, err)
						  : bind(root, from, m->to, m->read_only ? READ_ONLY : 0, err);
		if (r)
			return td_wrap(err, "--container-mounts");
	}
	return 0;
}

// Makes the directory `root` that of this process and of all that enter its mount namespace.
static int change_root(int root, struct td_error *err)
{
	if (fchdir(root))
		return td_fail_errno(err, TD_INTERNAL, errno, "fchdir");
	if (!syscall(SYS_pivot_root, ".", "."))
		return umount2(".", MNT_DETACH) ? td_fail_errno(err, TD_INTERNAL, errno, "unmount the node's root") : 0;
	// Filters of system calls forbid pivot_root in pods. Moved over "/", the new root is what every
	// process finds that enters the namespace; whoever tried could unmount it and see the pod's files, as a
	// job without a container does.
	if (mount(".", "/", NULL, MS_MOVE, NULL))
		return td_fail_errno(err, TD_INTERNAL, errno, "move the container's root");
	return 0;
}

int td_ct_root_make(const struct td_ct_enter *e, const int given[TD_CT_N_GIVEN], struct td_error *err)
{
	td_auto_close int root = -1;
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL))
		return td_fail_errno(err, TD_INTERNAL, errno, "the new namespaces");
	umask(022);
	int r = overlay(e, given[TD_CT_TREE], &root, err);
	if (r || (r = usual(e, given, root, err)) || (r = driver(root, err)) || (r = asked_for(e, root, err)))
		return r;
	struct mount_attr a = {.attr_set = MOUNT_ATTR_RDONLY};
	if (e->read_only && syscall(SYS_mount_setattr, root, "", AT_EMPTY_PATH, &a, sizeof(a)))
		return td_fail_errno(err, TD_INTERNAL, errno, "make the container's root read-only");
	return change_root(root, err);
}
