// A task's own view of /dev (devview.h). It is linked into a plug-in and needs nothing but libc.
#include "spank/devview.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { DEEP = 6, BINDS_MOST = 4096 };

struct listing {
	char *at;
	size_t n, used;
};

static bool is_device(mode_t mode)
{
	return S_ISCHR(mode) || S_ISBLK(mode);
}

// Mounted here: it is not of this file system, or bound over something of it.
static bool is_mounted(const struct statx *x)
{
	return x->stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

static int look(int dir, const char *name, struct statx *ret)
{
	return statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BASIC_STATS, ret);
}

// NULL in *ret: it cannot be opened.
static void open_in(int dir, const char *name, DIR **ret)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	*ret = fd < 0 ? NULL : fdopendir(fd);
	if (fd >= 0 && !*ret)
		close(fd);
}

static bool dots(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

// A cgroup's refusal is EPERM. Rights come first, with EACCES: a file that may only be written is tried for that.
static bool refused(int dir, const char *name)
{
	if (!faccessat(dir, name, R_OK, 0))
		return false;
	if (errno == EACCES && !faccessat(dir, name, W_OK, 0))
		return false;
	return errno == EPERM;
}

static int list_below(DIR *d, const char *prefix, int deep, struct listing *l)
{
	int r = 0;
	for (struct dirent *e; !r && (e = readdir(d));) {
		char path[PATH_MAX];
		struct statx x;
		if (dots(e->d_name))
			continue;
		if (look(dirfd(d), e->d_name, &x)) {
			if (errno != ENOENT && errno != EACCES)
				return -1; // nobody knows what else would be seen
			continue;
		}
		int k = snprintf(path, sizeof(path), "%s%s", prefix, e->d_name);
		if (k < 0 || (size_t)k + 1 >= sizeof(path))
			continue;
		if (is_device(x.stx_mode) && refused(dirfd(d), e->d_name)) {
			if (l->used + (size_t)k + 1 > l->n) {
				errno = E2BIG;
				return -1;
			}
			memcpy(l->at + l->used, path, (size_t)k + 1);
			l->used += (size_t)k + 1;
		}
		// What is mounted here (pts, shm, mqueue) has no devices of the machine.
		DIR *below = NULL;
		if (S_ISDIR(x.stx_mode) && !is_mounted(&x) && deep < DEEP)
			open_in(dirfd(d), e->d_name, &below);
		if (!below)
			continue;
		path[k] = '/', path[k + 1] = '\0';
		r = list_below(below, path, deep + 1, l);
		closedir(below);
	}
	return r;
}

ssize_t td_devview_refused(const char *dev, char *list, size_t n)
{
	struct listing l = {list, n, 0};
	DIR *d = opendir(dev);
	if (!d)
		return -1;
	int r = list_below(d, "", 0, &l);
	int e = errno;
	closedir(d);
	errno = e;
	return r ? -1 : (ssize_t)l.used;
}

// ---- the view ----
struct bound {
	int fd;
	char *path;
};
struct devview {
	const char *list;
	size_t n;
	dev_t *hidden; // the numbers of what is left out, for links to it
	size_t n_hidden;
	struct bound *binds;
	size_t n_binds;
	char *why;
};

static int failed(struct devview *v, const char *what)
{
	snprintf(v->why, TD_DEVVIEW_WHY, "%s: %s", what, strerror(errno));
	return -1;
}

static bool listed(const struct devview *v, const char *path)
{
	for (size_t at = 0; at < v->n; at += strnlen(v->list + at, v->n - at) + 1)
		if (!strncmp(v->list + at, path, v->n - at))
			return true;
	return false;
}

// A link to what is left out would still name it (/dev/char/195:3).
static bool leads_to_hidden(const struct devview *v, int dir, const char *name)
{
	struct stat st;
	if (fstatat(dir, name, &st, AT_NO_AUTOMOUNT) || !is_device(st.st_mode))
		return false;
	for (size_t i = 0; i < v->n_hidden; i++)
		if (v->hidden[i] == st.st_rdev)
			return true;
	return false;
}

// It is bound when the view is mounted: nothing can be mounted in one that is not yet. Something to mount it on is made.
static int bind_later(struct devview *v, int from, int to, const char *name, const char *path, bool dir)
{
	if (dir ? mkdirat(to, name, 0755) : mknodat(to, name, S_IFREG | 0600, 0))
		return failed(v, path);
	struct bound *more = v->n_binds < BINDS_MOST ? realloc(v->binds, (v->n_binds + 1) * sizeof(*more)) : NULL;
	if (!more) {
		errno = ENOMEM;
		return failed(v, path);
	}
	v->binds = more;
	int fd = (int)syscall(SYS_open_tree, from, name,
			      OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW |
				      AT_NO_AUTOMOUNT);
	int e = errno;
	char *copy = strdup(path);
	errno = e;
	if (fd < 0 && errno == ENOENT) { // it has gone meanwhile
		free(copy);
		return unlinkat(to, name, dir ? AT_REMOVEDIR : 0) ? failed(v, path) : 0;
	}
	if (fd < 0 || !copy) {
		free(copy);
		if (fd >= 0)
			close(fd);
		return failed(v, path);
	}
	v->binds[v->n_binds++] = (struct bound){fd, copy};
	return 0;
}

// In a user namespace the node's root may have no name (EINVAL): what is made is the user's then, as its tmpfs is.
static int same_rights(struct devview *v, int to, const char *name, const char *path, const struct statx *x)
{
	if (fchownat(to, name, x->stx_uid, x->stx_gid, AT_SYMLINK_NOFOLLOW) && errno != EINVAL)
		return failed(v, path);
	return fchmodat(to, name, x->stx_mode & 07777, 0) ? failed(v, path) : 0;
}

static int copy_link(struct devview *v, int from, int to, const char *name, const char *path)
{
	char target[PATH_MAX];
	ssize_t k = readlinkat(from, name, target, sizeof(target) - 1);
	if (k < 0)
		return errno == ENOENT ? 0 : failed(v, path);
	target[k] = '\0';
	return symlinkat(target, to, name) ? failed(v, path) : 0;
}

static int copy_below(struct devview *v, DIR *from, int to, const char *prefix, int deep);

static int copy_directory(struct devview *v, int from, int to, const char *name, const char *path, int deep)
{
	if (mkdirat(to, name, 0700))
		return failed(v, path);
	char prefix[PATH_MAX];
	DIR *d;
	open_in(from, name, &d);
	int at = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	snprintf(prefix, sizeof(prefix), "%.*s/", (int)sizeof(prefix) - 2, path);
	int r = d && at >= 0 ? copy_below(v, d, at, prefix, deep + 1) : failed(v, path);
	if (d)
		closedir(d);
	if (at >= 0)
		close(at);
	return r;
}

static int copy_one(struct devview *v, int from, int to, const char *name, const char *path, int deep)
{
	struct statx x;
	if (look(from, name, &x))
		return errno == ENOENT ? 0 : failed(v, path); // it has gone meanwhile
	if (is_device(x.stx_mode) && listed(v, path))
		return 0;
	if (S_ISLNK(x.stx_mode))
		return leads_to_hidden(v, from, name) ? 0 : copy_link(v, from, to, name, path);
	bool dir = S_ISDIR(x.stx_mode);
	if (is_mounted(&x) || (dir && deep >= DEEP))
		return bind_later(v, from, to, name, path, dir);
	if (is_device(x.stx_mode)) {
		// In a user namespace, and without the capability, nobody makes device files.
		if (mknodat(to, name, x.stx_mode, makedev(x.stx_rdev_major, x.stx_rdev_minor)))
			return errno == EPERM ? bind_later(v, from, to, name, path, false) : failed(v, path);
	} else if (!dir) {
		return bind_later(v, from, to, name, path, false); // a socket that somebody listens at
	} else if (copy_directory(v, from, to, name, path, deep)) {
		return -1;
	}
	return same_rights(v, to, name, path, &x);
}

static int copy_below(struct devview *v, DIR *from, int to, const char *prefix, int deep)
{
	int r = 0;
	for (struct dirent *e; !r && (e = readdir(from));) {
		char path[PATH_MAX];
		int k = snprintf(path, sizeof(path), "%s%s", prefix, e->d_name);
		if (!dots(e->d_name) && k > 0 && (size_t)k < sizeof(path))
			r = copy_one(v, dirfd(from), to, e->d_name, path, deep);
	}
	return r;
}

static int numbers(struct devview *v, int dev)
{
	size_t room = 0;
	for (size_t at = 0; at < v->n; at += strnlen(v->list + at, v->n - at) + 1)
		room++;
	v->hidden = calloc(room + 1, sizeof(*v->hidden));
	if (!v->hidden)
		return failed(v, "/dev");
	struct stat st;
	for (size_t at = 0; at < v->n; at += strnlen(v->list + at, v->n - at) + 1)
		if (!fstatat(dev, v->list + at, &st, AT_SYMLINK_NOFOLLOW))
			v->hidden[v->n_hidden++] = st.st_rdev;
	return 0;
}

// A tmpfs that is mounted nowhere yet, as closed as what it is for.
static int new_tmpfs(const char *dev)
{
	struct statvfs was;
	int fs = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC), fd = -1;
	if (fs >= 0 && !statvfs(dev, &was) && !syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "mode", "0755", 0) &&
	    !syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "size", "4m", 0) &&
	    !syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		fd = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC,
				  MOUNT_ATTR_NOSUID | (was.f_flag & ST_NOEXEC ? MOUNT_ATTR_NOEXEC : 0));
	int e = errno;
	if (fs >= 0)
		close(fs);
	errno = e;
	return fd;
}

static int attach(struct devview *v, const char *dev, int fd)
{
	if (syscall(SYS_move_mount, fd, "", AT_FDCWD, dev, MOVE_MOUNT_F_EMPTY_PATH))
		return failed(v, dev);
	for (size_t i = 0; i < v->n_binds; i++) {
		char path[PATH_MAX + 64];
		snprintf(path, sizeof(path), "%s/%s", dev, v->binds[i].path);
		if (syscall(SYS_move_mount, v->binds[i].fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH))
			return failed(v, path);
	}
	return 0;
}

int td_devview_make(const char *dev, const char *list, size_t n, char why[TD_DEVVIEW_WHY])
{
	struct devview v = {.list = list, .n = n, .why = why};
	mode_t mask = umask(0);
	// Each bind is a descriptor, and a machine's /dev has more files than the usual 1,024.
	struct rlimit was = {0}, more;
	getrlimit(RLIMIT_NOFILE, &was);
	more = (struct rlimit){was.rlim_max, was.rlim_max};
	setrlimit(RLIMIT_NOFILE, &more);
	DIR *d = opendir(dev);
	int fd = d ? new_tmpfs(dev) : -1;
	int r = fd < 0 ? failed(&v, dev) : numbers(&v, dirfd(d));
	if (!r)
		r = copy_below(&v, d, fd, "", 0);
	if (!r)
		r = attach(&v, dev, fd);
	for (size_t i = 0; i < v.n_binds; i++) {
		close(v.binds[i].fd);
		free(v.binds[i].path);
	}
	free(v.binds);
	free(v.hidden);
	if (fd >= 0)
		close(fd);
	if (d)
		closedir(d);
	setrlimit(RLIMIT_NOFILE, &was);
	umask(mask);
	return r;
}
