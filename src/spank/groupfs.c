// File systems of storage groups in the mounts of a step or a login (groupfs.h). In slurmstepd and sshd: libc only.
#include "spank/groupfs.h"

#include "base/groupfiles.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int failed(const char *what, char *ret_why, size_t n)
{
	snprintf(ret_why, n, "%s: %s", what, strerror(errno));
	return -1;
}

// The directory and those above it.
static int make_path(const char *path)
{
	char part[PATH_MAX];
	for (const char *at = path; (at = strchr(at + 1, '/'));) {
		snprintf(part, sizeof(part), "%.*s", (int)(at - path), path);
		if (mkdir(part, 0755) && errno != EEXIST)
			return -1;
	}
	return mkdir(path, 0755) && errno != EEXIST ? -1 : 0;
}

// A clone of what is mounted there, with all below it, on the path. A pod that is older than the group has no such mount.
static int show(const char *dir, const char *name, const char *path, char *ret_why, size_t n)
{
	char from[PATH_MAX];
	snprintf(from, sizeof(from), "%s/%s", dir, name);
	if (access(from, F_OK))
		return errno == ENOENT ? 0 : failed(from, ret_why, n);
	int fd = (int)syscall(SYS_open_tree, AT_FDCWD, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	struct mount_attr a = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, .propagation = MS_PRIVATE};
	int r = fd < 0 || syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof(a)) ||
				make_path(path) ||
				syscall(SYS_move_mount, fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH)
			? failed(path, ret_why, n)
			: 0;
	if (fd >= 0)
		close(fd);
	return r;
}

char *td_groupfs_read(const char *list)
{
	size_t len = 0, room = 0;
	char *text = NULL;
	FILE *f = fopen(list, "re");
	ssize_t n = f ? getdelim(&text, &room, '\0', f) : -1;
	len = n > 0 ? (size_t)n : 0;
	bool bad = !f || ferror(f);
	if (f)
		fclose(f);
	if (bad || !len) {
		free(text);
		return NULL;
	}
	return text;
}

static int show_all(const char *dir, const char *text, const char *user, char *ret_why, size_t n)
{
	struct td_groupfiles g;
	int r = 0;
	td_groupfiles_begin(&g, text, user);
	while (!r && td_groupfiles_next(&g))
		r = show(dir, g.name, g.path, ret_why, n);
	return r;
}

// What lies there is this step's no more. What is no mount is an empty directory.
static int hide(const char *dir, char *ret_why, size_t n)
{
	int r = 0;
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));) {
		char path[PATH_MAX];
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (e->d_name[0] != '.' && umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) && errno != EINVAL)
			r = failed(path, ret_why, n);
	}
	if (d)
		closedir(d);
	return r;
}

int td_groupfs_show(const char *dir, const char *list, const char *user, char *ret_why, size_t n)
{
	if (access(dir, F_OK))
		return errno == ENOENT ? 0 : failed(dir, ret_why, n);
	char *text = user ? td_groupfs_read(list) : NULL;
	int r = text ? show_all(dir, text, user, ret_why, n) : 0, h = hide(dir, ret_why, n);
	free(text);
	return r ? r : h;
}

int td_groupfs_login(const char *dir, const char *list, const char *user, char *ret_why, size_t n)
{
	struct td_groupfiles g;
	char *text = access(dir, F_OK) ? NULL : td_groupfs_read(list);
	if (!text)
		return 0;
	td_groupfiles_begin(&g, text, user);
	bool any = td_groupfiles_next(&g);
	free(text);
	if (!any)
		return 0;
	// What is mounted or unmounted in the pod later still counts here, but nothing that is done here counts there.
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL))
		return failed("mounts of the login's own", ret_why, n);
	return td_groupfs_show(dir, list, user, ret_why, n);
}
