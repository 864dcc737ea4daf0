#include "oci/unpack.h"

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <uthash.h>

enum { DEPTH_MAX = 256, CHECK_EVERY = 256, PATH_LEN = 8192 };
#define CHECK_BYTES (16u << 20)
#define KEEP_BYTES (1ull << 30) // to leave free; on a small file system a twentieth

// A path that this layer made. Whiteouts apply to the layers below only.
struct made {
	UT_hash_handle hh;
	char path[];
};

struct work {
	struct td_unpack *u;
	struct made *made;
	// The last parent directory is kept open, because neighbouring entries share it.
	char *parent_name;
	int parent;
	// Something was removed that may have been on the way to that parent.
	bool stale;
	uint64_t unchecked;
};

static int open_in(int root, const char *path, uint64_t flags)
{
	struct open_how how = {.flags = flags | O_CLOEXEC,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
	int fd, tries = 0;
	// EAGAIN: something was renamed at the same time.
	do
		fd = (int)syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof(how));
	while (fd < 0 && errno == EAGAIN && ++tries < 100);
	return fd;
}

static int failed(struct td_error *err, const char *name, const char *what)
{
	int e = errno;
	return td_fail_errno(err,
			     e == ENOSPC || e == EDQUOT                        ? TD_TRANSIENT
			     : e == ELOOP || e == ENOTDIR || e == ENAMETOOLONG ? TD_INVALID
									       : TD_INTERNAL,
			     e, "entry \"%.200s\": %s", name, what);
}

// Cleans a name: "./a//b/" becomes "a/b". Refuses "..".
static int clean_name(const char *name, const char *what, char **ret, struct td_error *err)
{
	td_auto_buf struct td_buf b = {0};
	for (const char *p = name; *p;) {
		p += strspn(p, "/");
		size_t n = strcspn(p, "/");
		if (n == 2 && p[0] == '.' && p[1] == '.')
			return td_fail(err, TD_INVALID, "entry \"%.200s\": %s leads out of its directory", name, what);
		if (n && !(n == 1 && p[0] == '.')) {
			if (b.len)
				td_buf_puts(&b, "/");
			td_buf_add(&b, p, n);
		}
		p += n;
	}

	if (b.len >= TD_TAR_NAME_MAX)
		return td_fail(err, TD_INVALID, "entry \"%.200s…\": %s is longer than %d bytes", name, what,
			       TD_TAR_NAME_MAX - 1);
	*ret = td_strdup(td_buf_str(&b));
	return 0;
}

// ---- what this layer made ----
static bool path_of(int dir, const char *name, char *ret)
{
	char link[64];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
	ssize_t n = readlink(link, ret, PATH_LEN - 300);
	if (n < 0 || n >= PATH_LEN - 300 || strlen(name) > 255)
		return false;
	ret[n] = '/';
	strcpy(ret + n + 1, name);
	return true;
}

static bool is_made(const struct work *w, int dir, const char *name)
{
	char path[PATH_LEN];
	struct made *m = NULL;
	if (path_of(dir, name, path))
		HASH_FIND_STR(w->made, path, m);
	return m;
}

static void remember(struct work *w, int dir, const char *name)
{
	char path[PATH_LEN];
	struct made *m = NULL;
	if (!w->u->whiteouts || !path_of(dir, name, path))
		return;
	HASH_FIND_STR(w->made, path, m);
	if (m)
		return;

	size_t n = strlen(path);
	m = td_malloc(sizeof(*m) + n + 1);
	memcpy(m->path, path, n + 1);
	HASH_ADD_KEYPTR(hh, w->made, m->path, n, m);
}

// ---- removing ----
// Removes name of dir with all below it. With `below`, what this layer made stays, and so do the
// directories above it.
static int remove_at(struct work *w, int dir, const char *name, bool below, int depth)
{
	if (below && is_made(w, dir, name)) {
		struct stat st;
		if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
			return 0; // this layer's own
	} else if (unlinkat(dir, name, 0) == 0 || errno == ENOENT) {
		return 0;
	} else if (errno != EISDIR && errno != EPERM) {
		return -1;
	}

	if (depth > DEPTH_MAX) {
		errno = ELOOP;
		return -1;
	}

	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		td_close_auto(&fd);
		return -1;
	}

	int r = 0;
	for (struct dirent *e; !r && (e = readdir(d));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = remove_at(w, fd, e->d_name, below, depth + 1);
	int why = errno;
	closedir(d);
	errno = why;

	if (r || (below && is_made(w, dir, name)))
		return r;
	return unlinkat(dir, name, AT_REMOVEDIR) < 0 && !(below && errno == ENOTEMPTY) ? -1 : 0;
}

// Removes what an entry replaces.
static int replace(struct work *w, int dir, const char *name)
{
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -1;
	if (!S_ISREG(st.st_mode))
		w->stale = true;
	return remove_at(w, dir, name, false, 0);
}

static int empty_below(struct work *w, int dir)
{
	td_auto_close int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d)
		return -1;
	int r = 0;
	for (struct dirent *e; !r && (e = readdir(d));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = remove_at(w, fd, e->d_name, true, 0);
	fd = -1; // closedir() closes it
	closedir(d);
	return r;
}

// ---- parents ----
// Makes the missing directories of a path. Links on the way are followed inside of the root.
static int make_parents(struct work *w, const char *path)
{
	td_auto_free char *part = td_strdup(path);
	for (char *p = part;; p++) {
		p += strcspn(p, "/");
		char end = *p;
		*p = 0;
		int fd = open_in(w->u->root, part, O_PATH | O_DIRECTORY);
		if (fd < 0 && errno == ENOENT) {
			char *slash = strrchr(part, '/');
			const char *last = slash ? slash + 1 : part;
			td_auto_free char *up = td_strndup(part, slash ? (size_t)(slash - part) : 0);
			td_auto_close int parent = open_in(w->u->root, up, O_PATH | O_DIRECTORY);
			if (parent < 0 || mkdirat(parent, last, 0755) < 0) {
				errno = errno == EEXIST ? ENOENT : errno; // EEXIST: a dangling link
				return -1;
			}
			remember(w, parent, last);
			fd = open_in(w->u->root, part, O_PATH | O_DIRECTORY);
		}

		if (fd < 0)
			return -1;
		close(fd);
		*p = end;
		if (!end)
			return 0;
	}
}

static int open_parent(struct work *w, const char *path, const char *entry, struct td_error *err)
{
	if (w->parent >= 0 && !w->stale && !strcmp(w->parent_name, path))
		return 0;
	int fd = open_in(w->u->root, path, O_PATH | O_DIRECTORY);
	if (fd < 0 && errno == ENOENT && make_parents(w, path) == 0)
		fd = open_in(w->u->root, path, O_PATH | O_DIRECTORY);
	if (fd < 0)
		return failed(err, entry, "its directory");

	td_close_auto(&w->parent);
	w->parent = fd;
	w->stale = false;
	free(w->parent_name);
	w->parent_name = td_strdup(path);
	return 0;
}

// ---- room ----
// Refuses to fill the file system, on which others depend, too. Looks once per CHECK_BYTES bytes or
// CHECK_EVERY entries.
static int check(struct work *w, uint64_t bytes, struct td_error *err)
{
	w->unchecked += bytes;
	if (w->unchecked < CHECK_BYTES && w->u->entries % CHECK_EVERY)
		return 0;
	w->unchecked = 0;
	if (td_cancelled(w->u->cancel))
		return td_fail(err, TD_CANCELLED, "cancelled");

	struct statvfs v;
	if (fstatvfs(w->u->root, &v) < 0)
		return 0;
	uint64_t room = (uint64_t)v.f_bavail * v.f_frsize, all = (uint64_t)v.f_blocks * v.f_frsize;
	uint64_t keep = all / 20 < KEEP_BYTES ? all / 20 : KEEP_BYTES;
	if (room < keep || (v.f_files && v.f_favail < v.f_files / 20))
		return td_fail(err, TD_TRANSIENT,
			       "the image store's file system is nearly full: %llu MB and %llu files are free, %llu MB "
			       "and %llu files of them are "
			       "left to others",
			       (unsigned long long)(room >> 20), (unsigned long long)v.f_favail,
			       (unsigned long long)(keep >> 20), (unsigned long long)(v.f_files / 20));
	return 0;
}

// ---- entries ----
static bool may_keep(const struct td_tar_xattr *a)
{
	return !strcmp(a->name, "security.capability") ||
	       (td_starts(a->name, "user.") && !td_starts(a->name, "user.overlay."));
}

// Sets owner, mode, extended attributes and times. The owner comes first: a new owner clears setuid
// bits and capabilities.
static int dress(const struct td_tar_entry *e, int fd, struct td_error *err)
{
	const struct timespec times[2] = {{.tv_sec = e->mtime}, {.tv_sec = e->mtime}};
	if (fchown(fd, e->uid, e->gid) < 0 || fchmod(fd, e->mode) < 0)
		return failed(err, e->name, "its owner and mode");

	for (size_t i = 0; i < e->n_xattrs; i++)
		if (may_keep(&e->xattrs[i]) &&
		    fsetxattr(fd, e->xattrs[i].name, e->xattrs[i].value, e->xattrs[i].len, 0) < 0 && errno != ENOTSUP)
			return failed(err, e->name, e->xattrs[i].name);

	futimens(fd, times); // a time that the file system cannot hold is no failure
	return 0;
}

static int make_dir(struct work *w, const struct td_tar_entry *e, int dir, const char *name, struct td_error *err)
{
	if (mkdirat(dir, name, 0700) < 0) {
		struct stat st;
		if (errno != EEXIST)
			return failed(err, e->name, "a directory");
		if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode)) {
			if (replace(w, dir, name) < 0 || mkdirat(dir, name, 0700) < 0)
				return failed(err, e->name, "a directory");
		}
	}

	td_auto_close int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? failed(err, e->name, "a directory") : dress(e, fd, err);
}

static int make_file(struct work *w, struct td_tar *t, const struct td_tar_entry *e, int dir, const char *name,
		     struct td_error *err)
{
	td_auto_close int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return failed(err, e->name, "a file");
	td_auto_free char *buf = td_malloc(128 << 10);
	for (;;) {
		size_t n = 0;
		struct td_error why = TD_ERROR_INIT;
		int r = td_tar_data(t, buf, 128 << 10, &n, err);
		if (!r && n)
			r = check(w, n, err);
		if (r)
			return r;
		if (!n)
			return dress(e, fd, err);
		if (td_write_all(fd, buf, n, &why) < 0)
			return td_fail(err, TD_TRANSIENT, "entry \"%.200s\": %s", e->name, why.msg);
	}
}

static int make_link(struct work *w, const struct td_tar_entry *e, int dir, const char *name, struct td_error *err)
{
	td_auto_free char *target = NULL;
	int r = clean_name(e->link, "its hard link", &target, err);
	if (r)
		return r;

	char *slash = strrchr(target, '/');
	td_auto_free char *up = td_strndup(target, slash ? (size_t)(slash - target) : 0);
	const char *last = slash ? slash + 1 : target;
	td_auto_close int from = open_in(w->u->root, up, O_PATH | O_DIRECTORY);
	struct stat st;
	if (!*last || from < 0 || fstatat(from, last, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return td_fail(err, TD_INVALID,
			       "entry \"%.200s\": a hard link to \"%.200s\", which is not in the image", e->name,
			       e->link);

	if (S_ISDIR(st.st_mode))
		return td_fail(err, TD_INVALID, "entry \"%.200s\": a hard link to the directory \"%.200s\"", e->name,
			       e->link);

	struct stat old;
	if (fstatat(dir, name, &old, AT_SYMLINK_NOFOLLOW) == 0 && old.st_ino == st.st_ino && old.st_dev == st.st_dev)
		return 0; // a link to itself

	if (replace(w, dir, name) < 0)
		return failed(err, e->name, "what was there");
	return linkat(from, last, dir, name, 0) < 0 ? failed(err, e->name, "a hard link") : 0;
}

static int make_node(const struct td_tar_entry *e, int dir, const char *name, struct td_error *err)
{
	const struct timespec times[2] = {{.tv_sec = e->mtime}, {.tv_sec = e->mtime}};
	bool link = e->type == TD_TAR_SYMLINK;
	if ((link ? symlinkat(e->link, dir, name) : mkfifoat(dir, name, 0600)) < 0 ||
	    fchownat(dir, name, e->uid, e->gid, AT_SYMLINK_NOFOLLOW) < 0 ||
	    (!link && fchmodat(dir, name, e->mode, 0) < 0))
		return failed(err, e->name, link ? "a symbolic link" : "a pipe");
	utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW);
	return 0;
}

// True when the entry was a whiteout.
static bool whiteout(struct work *w, const char *name, int *ret, const char *entry, struct td_error *err)
{
	if (!w->u->whiteouts || !td_starts(name, ".wh."))
		return false;

	const char *gone = name + strlen(".wh.");
	*ret = 0;

	if (!strcmp(name, ".wh..wh..opq")) {
		*ret = empty_below(w, w->parent) < 0 ? failed(err, entry, "hiding what is below") : 0;
	} else if (td_starts(gone, ".wh.")) { // of aufs; without meaning in an image
	} else if (!*gone || !strcmp(gone, ".") || !strcmp(gone, "..")) {
		*ret = td_fail(err, TD_INVALID, "entry \"%.200s\" would remove \"%s\"", entry, gone);
	} else if (remove_at(w, w->parent, gone, true, 0) < 0) {
		*ret = failed(err, entry, "removing what is below");
	}

	w->stale = true;
	return true;
}

static int apply(struct work *w, struct td_tar *t, const struct td_tar_entry *e, struct td_error *err)
{
	td_auto_free char *path = NULL;
	int r = clean_name(e->name, "its name", &path, err);
	if (r)
		return r;

	if (!*path) { // the root itself
		td_auto_close int fd = openat(w->u->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		return e->type != TD_TAR_DIR
			       ? td_fail(err, TD_INVALID, "entry \"%.200s\" is in place of the root", e->name)
		       : fd < 0 ? failed(err, e->name, "the root")
				: dress(e, fd, err);
	}

	char *slash = strrchr(path, '/');
	td_auto_free char *up = td_strndup(path, slash ? (size_t)(slash - path) : 0);
	const char *name = slash ? slash + 1 : path;

	r = open_parent(w, up, e->name, err);
	if (r || whiteout(w, name, &r, e->name, err))
		return r;
	if (e->type == TD_TAR_DEVICE) {
		w->u->devices++;
		return 0;
	}

	int dir = w->parent;
	if (e->type != TD_TAR_DIR && e->type != TD_TAR_HARDLINK && replace(w, dir, name) < 0)
		return failed(err, e->name, "what was there");

	if (e->type == TD_TAR_DIR)
		r = make_dir(w, e, dir, name, err);
	else if (e->type == TD_TAR_FILE)
		r = make_file(w, t, e, dir, name, err);
	else if (e->type == TD_TAR_HARDLINK)
		r = make_link(w, e, dir, name, err);
	else
		r = make_node(e, dir, name, err);

	if (!r)
		remember(w, dir, name);
	return r;
}

int td_unpack(struct td_unpack *u, struct td_tar *t, struct td_error *err)
{
	struct work w = {.u = u, .parent = -1};
	const struct td_tar_entry *e = NULL;
	int r;
	while (!(r = td_tar_next(t, &e, err)) && e && !(r = check(&w, 0, err)) && !(r = apply(&w, t, e, err)))
		u->entries++;

	td_close_auto(&w.parent);
	free(w.parent_name);

	struct made *m, *tmp;
	HASH_ITER (hh, w.made, m, tmp) {
		HASH_DEL(w.made, m);
		free(m);
	}
	return r;
}
