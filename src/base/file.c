#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

int td_file_read_fd(int fd, const char *path, size_t max, struct td_buf *ret, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	for (;;) {
		td_buf_reserve(&b, 4096);
		ssize_t n = read(fd, b.s + b.len, b.cap - b.len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return td_fail_errno(err, TD_INTERNAL, errno, "read %s", path);
		if (n == 0)
			break;
		b.len += (size_t)n;
		b.s[b.len] = '\0';
		if (b.len > max)
			return td_fail(err, TD_INVALID, "%s is larger than %zu bytes", path, max);
	}

	td_buf_add(ret, b.s, b.len);
	return 0;
}

int td_file_read(const char *path, size_t max, struct td_buf *ret, struct td_error *err)
{
	td_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return td_fail_errno(err, errno == ENOENT ? TD_NOT_FOUND : TD_INTERNAL, errno, "open %s", path);
	return td_file_read_fd(fd, path, max, ret, err);
}

int td_write_all(int fd, const void *p, size_t n, struct td_error *err)
{
	const char *s = p;
	while (n) {
		ssize_t w = write(fd, s, n);
		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return td_fail_errno(err, TD_INTERNAL, errno, "write");
		s += w;
		n -= (size_t)w;
	}
	return 0;
}

static int sync_parent(const char *path, struct td_error *err)
{
	td_auto_free char *copy = td_strdup(path);
	td_auto_close int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "sync directory of %s", path);
	return 0;
}

int td_file_write(const char *path, const void *p, size_t n, mode_t mode, struct td_error *err)
{
	td_auto_free char *tmp = td_asprintf("%s.tmp-XXXXXX", path);
	td_auto_close int fd = mkostemp(tmp, O_CLOEXEC);
	if (fd < 0)
		return td_fail_errno(err, TD_INTERNAL, errno, "create %s", tmp);

	int r = td_write_all(fd, p, n, err);
	if (!r && (fchmod(fd, mode) < 0 || fsync(fd) < 0 || rename(tmp, path) < 0))
		r = td_fail_errno(err, TD_INTERNAL, errno, "write %s", path);

	if (r) {
		unlink(tmp);
		return r;
	}
	return sync_parent(path, err);
}

int td_mkdir_p(const char *path, mode_t mode, struct td_error *err)
{
	td_auto_free char *s = td_strdup(path);
	for (char *p = s + 1;; p++) {
		if (*p && *p != '/')
			continue;
		char c = *p;
		*p = '\0';
		if (mkdir(s, mode) < 0 && errno != EEXIST)
			return td_fail_errno(err, TD_INTERNAL, errno, "mkdir %s", s);
		*p = c;
		if (!c)
			break;
	}

	struct stat st;
	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return td_fail(err, TD_INTERNAL, "%s is not a directory", path);
	return 0;
}

// What lies deeper than this is moved up first: whoever fills a directory may make it deeper than there are
// descriptors and stack for.
enum { DEEPEST = 200 };
struct removal {
	int top; // the directory that is removed; -1: not open yet
	unsigned n;
	bool moved; // something was moved up
};

static int move_up(struct removal *w, int dirfd, const char *name, struct td_error *err)
{
	char to[32];
	for (int i = 0; i < 1000; i++) {
		snprintf(to, sizeof(to), ".deep-%u", w->n++);
		w->moved = true;
		if (renameat2(dirfd, name, w->top, to, RENAME_NOREPLACE) == 0 || errno == ENOENT)
			return 0;
		if (errno != EEXIST)
			break;
	}
	return td_fail_errno(err, TD_INTERNAL, errno, "remove %s", name);
}

static int rm_at(struct removal *w, int dirfd, const char *name, dev_t dev, int depth, struct td_error *err)
{
	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return td_fail_errno(err, TD_INTERNAL, errno, "remove %s", name);
	if (depth >= DEEPEST)
		return move_up(w, dirfd, name, err);

	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : td_fail_errno(err, TD_INTERNAL, errno, "remove %s", name);

	struct stat st;
	if (fstat(fd, &st) < 0 || (dev && st.st_dev != dev)) {
		close(fd);
		return td_fail(err, TD_INTERNAL, "remove %s: another file system is mounted there", name);
	}

	if ((st.st_mode & S_IRWXU) != S_IRWXU) // whoever may remove it may have closed it to himself
		fchmod(fd, (st.st_mode & 07777) | S_IRWXU);
	DIR *d = fdopendir(fd);
	if (!d) {
		close(fd);
		return td_fail_errno(err, TD_INTERNAL, errno, "remove %s", name);
	}

	int r = 0;
	if (!depth)
		w->top = fd;
	do {
		if (!depth)
			w->moved = false;
		for (struct dirent *e; !r && (e = readdir(d));)
			if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
				r = rm_at(w, fd, e->d_name, st.st_dev, depth + 1, err);
		rewinddir(d);
	} while (!r && !depth && w->moved);
	closedir(d);
	if (!r && unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = td_fail_errno(err, TD_INTERNAL, errno, "remove %s", name);

	return r;
}

int td_rm_rf(const char *path, struct td_error *err)
{
	struct stat st;
	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : td_fail_errno(err, TD_INTERNAL, errno, "stat %s", path);
	return rm_at(&(struct removal){.top = -1}, AT_FDCWD, path, st.st_dev, 0, err);
}

bool td_path_exists(const char *path)
{
	struct stat st;
	return lstat(path, &st) == 0;
}

int td_file_room(const char *dir, int64_t megabytes, const char *what, const char *fix, struct td_error *err)
{
	struct statvfs fs;
	td_auto_free char *at = td_strdup(dir);
	while (statvfs(at, &fs) < 0) {
		char *slash = strrchr(at, '/');
		if (errno != ENOENT || !slash || slash == at)
			return 0; // whoever writes there will say what is wrong
		*slash = '\0';
	}

	int64_t left = (int64_t)(fs.f_bavail * fs.f_frsize >> 20);
	if (left >= megabytes)
		return 0;
	return td_fail(err, TD_THROTTLED, "%s needs about %lld MB in %s, and %lld MB are free there: %s", what,
		       (long long)megabytes, dir, (long long)left, fix);
}
