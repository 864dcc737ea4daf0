// File systems of storage groups in the mounts of a step (groupfs.h). In slurmstepd: libc only.
#include "spank/groupfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

bool td_groupfs_line(char *line, const char *user, const char **ret_name, const char **ret_path)
{
	char *rest = NULL;
	line[strcspn(line, "\n")] = '\0';
	const char *name = strtok_r(line, " ", &rest), *path = name ? strtok_r(NULL, " ", &rest) : NULL;
	if (!path || path[0] != '/' || strstr(path, "/..") || name[0] == '.' || strchr(name, '/'))
		return false;
	for (const char *who; (who = strtok_r(NULL, " ", &rest));)
		if (!strcmp(who, user)) {
			*ret_name = name;
			*ret_path = path;
			return true;
		}
	return false;
}

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

static int show_all(const char *dir, const char *list, const char *user, char *ret_why, size_t n)
{
	char *line = NULL;
	const char *name, *path;
	size_t room = 0;
	int r = 0;
	FILE *f = fopen(list, "re");
	while (f && !r && getline(&line, &room, f) > 0)
		if (td_groupfs_line(line, user, &name, &path))
			r = show(dir, name, path, ret_why, n);
	free(line);
	if (f)
		fclose(f);
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

int td_groupfs_show(const char *dir, const char *list, uid_t uid, char *ret_why, size_t n)
{
	char text[16 << 10];
	struct passwd p, *who = NULL;
	if (access(dir, F_OK))
		return errno == ENOENT ? 0 : failed(dir, ret_why, n);
	int r = 0;
	// Who cannot be found is nobody who has one.
	if (!getpwuid_r(uid, &p, text, sizeof(text), &who) && who)
		r = show_all(dir, list, who->pw_name, ret_why, n);
	return r ? r : hide(dir, ret_why, n);
}
